//! Memory of this process.

/// Memory of this process that is resident, in KiB: kernel memory for sockets and rings is not in it,
/// receive buffers are.
pub(crate) fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
