//! Memory of this process.

/// Memory of this process that is resident, in KiB: kernel memory for sockets and rings is not in it,
/// receive buffers are.
#[allow(dead_code, reason = "each bench uses its own part")]
pub(crate) fn resident_kib() -> u64 {
    status("VmRSS:")
}

/// The most that was ever resident, in KiB.
#[allow(dead_code, reason = "each bench uses its own part")]
pub(crate) fn peak_kib() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
