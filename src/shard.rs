//! The machine: a pinned executor, its ring, its sockets.
//!
//! All unsafe code of phasor lives in [`sys`]. [`ring`] is a safe, completion-based socket layer over it
//! that the client's driver and the built-in server share; [`driver`] joins an engine to a ring;
//! [`barrier`] is where shards meet at the edges of phases; [`sources`] are the addresses that connections
//! come from, and a [`peer`] is where they go. No rule about requests stands here.

pub mod barrier;
pub mod driver;
pub mod meter;
pub mod peer;
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
use crate::shard::driver::ShardFault;
use crate::shard::ring::Ring;
use crate::shard::ring::RingError;
use crate::shard::ring::RingOptions;
use std::sync::mpsc;

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

/// The thread of a shard: its executor, and the ring that it keeps from one run to the next.
#[derive(Debug)]
pub struct Member {
    work: mpsc::Sender<Work>,
    join: glommio::ExecutorJoinHandle<()>,
}

/// One run of a shard.
#[derive(Debug)]
struct Work {
    shard: Box<Shard>,
    ring: RingOptions,
}

impl Member {
    /// Starts the thread of shard `number`, pinned to `cpu`; it waits for work.
    ///
    /// # Errors
    /// glommio cannot make its executor.
    pub fn start(number: u16, cpu: usize) -> Result<Self, SpawnError> {
        let (work, received) = mpsc::channel();
        glommio::LocalExecutorBuilder::new(glommio::Placement::Fixed(cpu))
            .name(&format!("phasor-shard-{number}"))
            .spawn(move || work_through(received))
            .map(|join| Self { work, join })
            .map_err(|error| SpawnError::Executor { cpu, reason: error.to_string() })
    }

    /// Gives the shard a run. Everything it has to say comes as [`Message`]s, the last one always
    /// [`Message::Ended`].
    ///
    /// # Errors
    /// The thread has failed in an earlier run and takes nothing more; the shard comes back.
    pub fn drive(&self, shard: Box<Shard>, ring: RingOptions) -> Result<(), Box<Shard>> {
        self.work.send(Work { shard, ring }).map_err(|mpsc::SendError(work)| work.shard)
    }

    /// Waits for the thread, which ends when its run does. Tells whether it ended without a panic.
    pub fn join(self) -> bool {
        drop(self.work);
        self.join.join().is_ok()
    }
}

impl Shard {
    /// Tells the conductor that this shard has no thread to run on.
    pub fn decline(&self, error: &SpawnError) {
        let fault = ShardFault::Unstarted(error.to_string());
        Ending { shard: self.shard, messages: self.messages.clone() }.tell(fault);
    }
}

/// Drives one run after the other. Between runs the thread sleeps: nothing else is on its executor.
async fn work_through(received: mpsc::Receiver<Work>) {
    let mut kept: Option<(RingOptions, Ring)> = None;
    while let Ok(Work { shard, ring: options }) = received.recv() {
        let ending = Ending { shard: shard.shard, messages: shard.messages.clone() };
        let (options, ring) = match kept.take().filter(|(had, _)| had.covers(&options)) {
            Some((had, mut ring)) => {
                ring.set_block(shard.engine.block());
                (had, Ok(ring))
            }
            None => (options, Ring::new(options, shard.engine.block())),
        };
        match ring {
            Ok(ring) => kept = Driver::new(*shard, ring).run().await.map(|ring| (options, ring)),
            Err(fault) => ending.tell(fault.into()),
        }
    }
}

/// Tells the conductor if a run ends by a panic, so that it does not wait for ever.
struct Ending {
    shard: u16,
    messages: mpsc::Sender<Message>,
}

impl Ending {
    fn tell(&self, fault: ShardFault) {
        let (shard, cost) = (self.shard, Cost::default());
        // The conductor is gone only when the process is about to end.
        let _ = self.messages.send(Message::Ended { shard, cost, records_lost: 0, fault: Some(fault) });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell(ShardFault::Panicked);
        }
    }
}
