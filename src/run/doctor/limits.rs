//! What the process may use: locked memory, descriptors, memory.

use crate::run::doctor::Finding;
use crate::run::doctor::Question;
use crate::run::doctor::Status;
use crate::run::limits::descriptors_needed;
use crate::run::limits::memlock_needed_bytes;
use crate::run::machine::Tree;

/// Open files that are enough for most runs, where no config says how many there will be.
const FILES_USUAL: u64 = 16_384;

/// Memory of a process whatever its load: samples up to their budgets, prompts, code.
const MEMORY_PROCESS_BYTES: u64 = 512 << 20;

/// Memory of a shard: its receive buffers, most of all.
const MEMORY_SHARD_BYTES: u64 = 80 << 20;

/// Memory of a connection, the kernel's socket with its buffers included.
const MEMORY_CONNECTION_BYTES: u64 = 16 << 10;

/// Soft and hard limit in a line of `/proc/self/limits`.
fn limit(tree: &Tree, name: &str) -> Option<(u64, u64)> {
    let text = tree.text("proc/self/limits")?;
    let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((next()?, next()?))
}

fn amount(value: u64, unit: u64, name: &str) -> String {
    if value == u64::MAX { "unlimited".to_owned() } else { format!("{}{name}", value / unit) }
}

pub(super) fn locked_memory(question: &Question) -> Finding {
    let name = "locked memory";
    let needed = memlock_needed_bytes(question.shards());
    let wanted = format!("{} KiB for {} shard(s)", needed >> 10, question.shards());
    let Some((soft, _)) = limit(&question.tree, "Max locked memory") else {
        return Finding::unknown(name, "/proc/self/limits", wanted);
    };
    let status = if soft >= needed { Status::Ok } else { Status::Bad };
    let cure =
        format!("ulimit -l {} (for a container: docker run --ulimit memlock=-1)", needed.div_ceil(1_024));
    Finding::new(name, status, amount(soft, 1_024, " KiB"), wanted, cure)
}

pub(super) fn open_files(question: &Question) -> Finding {
    let name = "open files";
    let (needed, wanted) = match question.peak() {
        Some(peak) => {
            let needed = descriptors_needed(question.shards(), peak);
            (Some(needed), format!("{needed} for {peak} requests in flight"))
        }
        None => (None, format!("more than there will be requests in flight; {FILES_USUAL} for most runs")),
    };
    let Some((soft, hard)) = limit(&question.tree, "Max open files") else {
        return Finding::unknown(name, "/proc/self/limits", wanted);
    };
    let status = match needed {
        Some(needed) if hard < needed => Status::Bad,
        None if hard < FILES_USUAL => Status::Warn,
        Some(_) | None => Status::Ok,
    };
    let found =
        format!("soft {}, hard {} (phasor raises the soft one)", amount(soft, 1, ""), amount(hard, 1, ""));
    let cure = format!(
        "ulimit -Hn {0} as root, or `* hard nofile {0}` in /etc/security/limits.conf",
        needed.unwrap_or(FILES_USUAL)
    );
    Finding::new(name, status, found, wanted, cure)
}

fn kibibytes(tree: &Tree, key: &str) -> Option<u64> {
    tree.value("proc/meminfo", key)?.split_whitespace().next()?.parse().ok()
}

pub(super) fn memory(question: &Question) -> Finding {
    let name = "memory";
    let connections = question.peak().unwrap_or(0);
    let needed = MEMORY_PROCESS_BYTES
        .saturating_add(question.shards().saturating_mul(MEMORY_SHARD_BYTES))
        .saturating_add(connections.saturating_mul(MEMORY_CONNECTION_BYTES));
    let wanted = format!(
        "about {} MiB for {} shard(s) and {connections} connection(s)",
        needed >> 20,
        question.shards()
    );
    let Some(available) = kibibytes(&question.tree, "MemAvailable") else {
        return Finding::unknown(name, "MemAvailable in /proc/meminfo", wanted);
    };
    let available_bytes = available.saturating_mul(1_024);
    let status = if available_bytes < needed {
        Status::Bad
    } else if available_bytes / 2 < needed {
        Status::Warn
    } else {
        Status::Ok
    };
    let cure = "end other programs, lower the concurrency, or take a machine with more memory";
    Finding::new(name, status, format!("{} MiB available", available >> 10), wanted, cure)
}

pub(super) fn swap(tree: &Tree) -> Finding {
    let name = "swap";
    let wanted = "none in use: a page that comes back from disk stops its shard for milliseconds";
    let figures = kibibytes(tree, "SwapTotal").zip(kibibytes(tree, "SwapFree"));
    let Some((total, free)) = figures else {
        return Finding::unknown(name, "SwapTotal in /proc/meminfo", wanted);
    };
    let used = total.saturating_sub(free);
    let found =
        if total == 0 { "no swap".to_owned() } else { format!("{} MiB in use", used.div_ceil(1_024)) };
    let status = if used == 0 { Status::Ok } else { Status::Warn };
    Finding::new(name, status, found, wanted, "swapoff -a (swapon -a afterwards)")
}
