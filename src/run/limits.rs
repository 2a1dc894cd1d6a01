//! What the operating system must allow before a run starts.

use rlimit::Resource;

/// Descriptors that the process uses besides connections of shards: files, rings, executors.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Descriptors of an executor and a ring.
const DESCRIPTORS_PER_SHARD: u64 = 24;

/// Locked memory that glommio asks for per executor.
const MEMLOCK_PER_SHARD_BYTES: u64 = 512 * 1_024;

/// A limit that is too low and cannot be raised from here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too little memory may be locked.
    #[error(
        "the limit of locked memory is {limit_kib} KiB, and {shards} shard(s) need {needed_kib} KiB: raise it \
         with `ulimit -l {needed_kib}` (or `--ulimit memlock=-1` for a container)"
    )]
    Memlock {
        /// The limit.
        limit_kib: u64,
        /// What the shards need.
        needed_kib: u64,
        /// How many shards.
        shards: u64,
    },
    /// Too few files may be open.
    #[error(
        "the limit of open files is {hard}, and this run needs {needed} (connections in flight and some \
         more): raise it with `ulimit -Hn {needed}` as root or in /etc/security/limits.conf"
    )]
    Nofile {
        /// The hard limit.
        hard: u64,
        /// What the run needs.
        needed: u64,
    },
}

/// Checks locked memory and raises the soft limit of open files as far as it goes. `connections` is the
/// most that the plan can have in flight; absent: no cap. Returns how many connections fit.
pub fn prepare(shards: u64, connections: Option<u64>) -> Result<u64, LimitError> {
    if let Ok((soft, _)) = rlimit::getrlimit(Resource::MEMLOCK) {
        check_memlock(soft, shards)?;
    }
    let Ok((soft, hard)) = rlimit::getrlimit(Resource::NOFILE) else { return Ok(u64::MAX) };
    let besides = descriptors_needed(shards, 0);
    let needed = connections.map(|connections| descriptors_needed(shards, connections));
    if let Some(needed) = needed
        && needed > hard
    {
        return Err(LimitError::Nofile { hard, needed });
    }
    let granted =
        if soft < hard && rlimit::setrlimit(Resource::NOFILE, hard, hard).is_ok() { hard } else { soft };
    match needed {
        Some(needed) if needed > granted => Err(LimitError::Nofile { hard: granted, needed }),
        Some(_) | None => Ok(granted.saturating_sub(besides)),
    }
}

/// The hard limit of open files; absent where the system does not tell.
pub fn open_files_hard() -> Option<u64> {
    rlimit::getrlimit(Resource::NOFILE).ok().map(|(_, hard)| hard)
}

/// Descriptors that a run needs: those of its connections with a quarter on top (some are closing while
/// others open), and what else the process has open.
pub fn descriptors_needed(shards: u64, connections: u64) -> u64 {
    let besides = DESCRIPTORS_BESIDES + DESCRIPTORS_PER_SHARD * shards;
    connections.saturating_add(connections / 4).saturating_add(besides)
}

/// Locked memory that `shards` need.
pub fn memlock_needed_bytes(shards: u64) -> u64 {
    MEMLOCK_PER_SHARD_BYTES.saturating_mul(shards)
}

fn check_memlock(limit_bytes: u64, shards: u64) -> Result<(), LimitError> {
    let needed_bytes = memlock_needed_bytes(shards);
    if limit_bytes >= needed_bytes {
        return Ok(());
    }
    Err(LimitError::Memlock { limit_kib: limit_bytes / 1_024, needed_kib: needed_bytes / 1_024, shards })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_locked_memory_names_the_number_needed() {
        let refused = check_memlock(64 * 1_024, 4);
        assert_eq!(refused, Err(LimitError::Memlock { limit_kib: 64, needed_kib: 2_048, shards: 4 }));
        assert_eq!(check_memlock(u64::MAX, 64), Ok(()));
    }

    #[test]
    fn more_connections_than_any_limit_are_refused_with_both_numbers() {
        match prepare(1, Some(u64::MAX / 2)) {
            Err(LimitError::Nofile { hard, needed }) => assert!(needed > hard),
            other => panic!("{other:?}"),
        }
    }
}
