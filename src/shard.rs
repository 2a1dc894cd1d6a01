//! The machine: a pinned executor, its ring, its sockets.
//!
//! All unsafe code of phasor lives in [`sys`]. [`ring`] is a safe, completion-based socket layer over it
//! that the client's driver and the built-in server share; [`driver`] joins an engine to a ring;
//! [`barrier`] is where shards meet at the edges of phases; [`sources`] are the addresses that connections
//! come from. No rule about requests stands here.

pub mod barrier;
pub mod driver;
pub mod meter;
pub mod ring;
pub mod socket;
pub mod sources;
#[expect(unsafe_code, reason = "the one place that talks to the kernel's shared memory")]
pub mod sys;

pub use self::meter::{spin_window_after, thread_cpu_time};

use crate::measure::Cost;
use crate::shard::driver::Driver;
use crate::shard::driver::Message;
use crate::shard::driver::Shard;
use crate::shard::ring::Ring;
use crate::shard::ring::RingError;
use crate::shard::ring::RingOptions;

/// A shard that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// glommio could not make its executor.
    #[error(
        "no executor could be started on core {cpu}: {reason}. phasor needs io_uring (Linux 6.1 or newer, \
         sysctl kernel.io_uring_disabled = 0, not forbidden by a container's seccomp profile) and at least \
         512 KiB of locked memory for each shard (see `ulimit -l`)"
    )]
    Executor {
        /// The core.
        cpu: usize,
        /// What glommio says.
        reason: String,
    },
}

/// Makes a small ring on a thread of its own and drops it: whether the system lets this process use
/// io_uring, told before anything has been started or written.
pub fn probe() -> Result<(), RingError> {
    let options = RingOptions { sockets_max: 1, entries: 8, buffers: 2, buffer_bytes: 4_096 };
    let made = std::thread::spawn(move || Ring::new(options, std::sync::Arc::from([])).map(drop));
    made.join().unwrap_or(Err(RingError::Missing))
}

/// A running shard.
#[derive(Debug)]
pub struct Running {
    join: glommio::ExecutorJoinHandle<()>,
}

impl Running {
    /// Waits for the shard's thread. Tells whether it ended without a panic.
    pub fn join(self) -> bool {
        self.join.join().is_ok()
    }
}

/// Starts a shard on a thread of its own, pinned to its core. Everything it has to say comes as
/// [`Message`]s, the last one always [`Message::Ended`] (unless the thread panics).
pub fn spawn(shard: Shard, ring: RingOptions) -> Result<Running, SpawnError> {
    let cpu = shard.cpu;
    let name = format!("phasor-shard-{}", shard.shard);
    glommio::LocalExecutorBuilder::new(glommio::Placement::Fixed(cpu))
        .name(&name)
        .spawn(move || async move {
            match Ring::new(ring, shard.engine.block()) {
                Ok(ring) => Driver::new(shard, ring).run().await,
                Err(fault) => {
                    let ended = Message::Ended {
                        shard: shard.shard,
                        cost: Cost::default(),
                        records_lost: 0,
                        fault: Some(fault.into()),
                    };
                    // The conductor is gone only when the process is about to end.
                    let _ = shard.messages.send(ended);
                }
            }
        })
        .map(|join| Running { join })
        .map_err(|error| SpawnError::Executor { cpu, reason: error.to_string() })
}
