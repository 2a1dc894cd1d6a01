//! What needs no load: the cost of a stamp, and how late the kernel ends a wait in the ring.

use crate::run::calibrate::client_profile::WakeUp;
use crate::shard::ring::Ring;
use crate::shard::ring::RingError;
use crate::shard::ring::RingOptions;
use crate::shard::ring::Wait;
use crate::shard::spin_window_after;
use crate::shard::sys::set_timer_slack;
use crate::time::Clock;
use crate::time::Nanos;
use std::hint::black_box;
use std::sync::Arc;

/// Stamps taken in a row; the fastest of some rounds is the one that nothing interrupted.
const STAMPS: u32 = 100_000;

/// Rounds of stamps.
const ROUNDS: u32 = 7;

/// The shortest wait, and by how much the longest is longer: due times lie anywhere.
const WAIT_MIN: u64 = 100_000;
const WAIT_SPREAD: u64 = 400_000;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleFigures {
    pub(super) wake_up: WakeUp,
    /// Cost of one stamp in nanoseconds.
    pub(super) clock_ns: f64,
}

/// Why it could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum IdleError {
    /// The thread cannot have the core.
    #[error("core {cpu} cannot be used: choose another with --cpus")]
    Pin {
        /// The core.
        cpu: usize,
    },
    /// There is no ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The thread failed, or the ring did.
    #[error("waiting in the ring failed: {0}")]
    Wait(#[from] std::io::Error),
}

/// Measures on a thread of its own on core `cpu`, with `waits` waits.
pub(super) fn measure(cpu: usize, waits: u32, clock: Clock) -> Result<IdleFigures, IdleError> {
    let thread = std::thread::Builder::new().name("phasor-calibrate".to_owned()).spawn(move || {
        // Asked first, because the crate panics on a core beyond the largest set.
        let known =
            core_affinity::get_core_ids().is_some_and(|cores| cores.iter().any(|core| core.id == cpu));
        if !known || !core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
            return Err(IdleError::Pin { cpu });
        }
        let clock_ns = clock_cost(clock);
        Ok(IdleFigures { wake_up: wake_up(waits, clock)?, clock_ns })
    })?;
    thread.join().map_err(|_| std::io::Error::other("the thread ended early"))?
}

fn clock_cost(clock: Clock) -> f64 {
    let round = || {
        let begun = clock.now();
        for _ in 0..STAMPS {
            black_box(clock.now());
        }
        clock.now().since(begun).0 as f64 / f64::from(STAMPS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn wake_up(waits: u32, clock: Clock) -> Result<WakeUp, IdleError> {
    // As on a shard's thread; a refusal shows in the figures.
    let _ = set_timer_slack(Nanos(1));
    let options = RingOptions { sockets_max: 1, entries: 8, buffers: 8, buffer_bytes: 4_096 };
    let mut ring = Ring::new(options, Arc::from([0_u8]))?;
    let mut spans = fastrand::Rng::with_seed(42);
    let mut errors = Vec::with_capacity(waits as usize);
    for _ in 0..waits.max(1) {
        let span = Nanos(WAIT_MIN + spans.u64(0..WAIT_SPREAD));
        let until = clock.now().plus(span);
        ring.enter(Wait::AtMost(span))?;
        errors.push(clock.now().since(until));
    }
    let spin_window = spin_window_after(&errors);
    errors.sort_unstable();
    let at = |percent: usize| errors.get((errors.len() - 1) * percent / 100).map_or(0, |error| error.0);
    Ok(WakeUp {
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: at(100),
        count: errors.len() as u64,
        spin_window: spin_window.0,
    })
}
