//! How the conductor turns the load of a phase while its shards drive it: a few words that shards only read.
//!
//! Nobody waits for anybody. The conductor stores, shards look at every turn of their loops; what is stored lies
//! a little ahead, so that all of them change over at one stamp.

use crate::plan::PhasePlan;
use crate::time::Stamp;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

/// The load of one phase, as it is now.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Dial {
    /// Times it was turned. Written last, read first.
    turns: AtomicU32,
    /// The bits of the value.
    value: AtomicU64,
    /// From when on the value holds.
    from_ns: AtomicU64,
    /// Windows that are to be cut off so far.
    windows: AtomicU32,
    ignore_before_ns: AtomicU64,
    stopped: AtomicBool,
}

/// A value of the dial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turned {
    /// Times it was turned, this one included.
    pub turns: u32,
    /// The value.
    pub value: f64,
    /// From when on it holds.
    pub from: Stamp,
}

impl Dial {
    /// A dial that stands where the phase begins.
    pub fn new(phase: &PhasePlan) -> Self {
        let first = phase.adaptive.as_ref().map_or(0.0, |scale| scale.min);
        Self { value: AtomicU64::new(first.to_bits()), ..Self::default() }
    }

    /// Sets the value that holds from `from` on. Only the conductor turns.
    pub fn turn(&self, value: f64, from: Stamp) {
        self.value.store(value.to_bits(), Relaxed);
        self.from_ns.store(from.as_nanos(), Relaxed);
        self.turns.fetch_add(1, Release);
    }

    /// What was set last, if that was after turn `known`. The conductor lets a whole window pass between two
    /// turns, so the words belong together.
    pub fn turned(&self, known: u32) -> Option<Turned> {
        let turns = self.turns.load(Acquire);
        (turns != known).then(|| Turned {
            turns,
            value: f64::from_bits(self.value.load(Relaxed)),
            from: Stamp::from_nanos(self.from_ns.load(Relaxed)),
        })
    }

    /// Wants the window that has been gathered since the last cut from every shard.
    pub fn cut_window(&self) {
        self.windows.fetch_add(1, Release);
    }

    /// Windows that were asked for so far.
    pub fn windows(&self) -> u32 {
        self.windows.load(Acquire)
    }

    /// Requests issued before `stamp` count for no window from now on.
    pub fn ignore_before(&self, stamp: Stamp) {
        self.ignore_before_ns.store(stamp.as_nanos(), Relaxed);
    }

    /// Whether a request issued at `stamp` counts.
    pub fn counts(&self, stamp: Stamp) -> bool {
        stamp.as_nanos() >= self.ignore_before_ns.load(Relaxed)
    }

    /// Nothing more of the phase is to be sent.
    pub fn stop(&self) {
        self.stopped.store(true, Release);
    }

    /// Whether nothing more is to be sent.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Acquire)
    }
}
