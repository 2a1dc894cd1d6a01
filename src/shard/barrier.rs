//! The lock-free meeting of all shards at the edges of phases.
//!
//! A shard arrives at an edge by adding to an atomic count; the last one to arrive publishes when the next
//! phase starts, a little in the future. Shards look for that stamp from their driver loops, so nobody
//! waits for a lock and nobody is woken: the stamp lies as far ahead as a loop may take to look again.

use crate::engine::PhaseStart;
use crate::plan::Plan;
use crate::time::Nanos;
use crate::time::Stamp;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

/// From the meeting of all shards to the start of the first phase.
pub const FIRST_LEAD: Nanos = Nanos::from_millis(20);

/// From the meeting of all shards to the start of a later phase: longer than a shard that watches for a
/// start may look away ([`WATCH`]).
pub const LEAD: Nanos = Nanos::from_micros(150);

/// Longest wait of a shard that watches for a start.
pub const WATCH: Nanos = Nanos::from_micros(50);

/// From the meeting of all shards to the start of the first phase, where they have driven a run before.
pub const FIRST_LEAD_WARM: Nanos = Nanos::from_millis(2);

/// Whether the shards have driven a run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// Their code and pages have yet to come into the caches.
    Cold,
    /// They have.
    Warm,
}

/// The meeting point of one run.
#[derive(Debug)]
pub struct Barrier {
    shards: u32,
    first_lead: Nanos,
    ready: AtomicU32,
    gates: Vec<Gate>,
    /// Whether a phase starts when the one before it stops sending.
    seamless: Vec<bool>,
    /// Conversations that a phase takes from the order of the dataset at least; absent: none at all.
    conversations_min: Vec<Option<u64>>,
    /// How much longer than [`LEAD`] the pause before a phase is that waits for the one before it.
    pause_ns: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Gate {
    /// Shards that have stopped sending this phase.
    ended: AtomicU32,
    /// Shards that have closed this phase.
    closed: AtomicU32,
    /// Sessions begun by the shards that have stopped.
    sessions: AtomicU64,
    drawn_ahead: AtomicBool,
    first_row: AtomicU64,
    /// Start in nanoseconds; 0: not known yet. Written last, read first.
    start_ns: AtomicU64,
}

impl Barrier {
    /// A meeting point for `shards` shards and the phases of `plan`.
    pub fn new(plan: &Plan, shards: u16) -> Self {
        Self {
            shards: u32::from(shards),
            first_lead: FIRST_LEAD,
            ready: AtomicU32::new(0),
            gates: plan.phases.iter().map(|_| Gate::default()).collect(),
            seamless: plan.phases.iter().map(|phase| phase.seamless).collect(),
            conversations_min: plan.phases.iter().map(|phase| phase.conversations_min).collect(),
            pause_ns: AtomicU64::new(0),
        }
    }

    /// For shards of this warmth.
    #[must_use]
    pub fn after(mut self, warmth: Warmth) -> Self {
        self.first_lead = match warmth {
            Warmth::Cold => FIRST_LEAD,
            Warmth::Warm => FIRST_LEAD_WARM,
        };
        self
    }

    /// From now on, phases that wait for the one before them start this much later, so that what the server
    /// counted can be read between them.
    pub fn pause_for(&self, pause: Nanos) {
        self.pause_ns.store(pause.0, Relaxed);
    }

    /// A shard is ready for the first phase; the last one starts it.
    pub fn arrive_ready(&self, now: Stamp) {
        if self.ready.fetch_add(1, AcqRel) + 1 == self.shards {
            self.publish(0, PhaseStart { at: now.plus(self.first_lead), first_row: 0 });
        }
    }

    /// A shard has stopped sending `phase` after it began `sessions`; `drawn_ahead` tells that the phase had
    /// drawn a conversation that it did not begin.
    pub fn arrive_ended(&self, phase: u16, sessions: u64, drawn_ahead: bool, now: Stamp) {
        let Some(gate) = self.gates.get(usize::from(phase)) else { return };
        gate.sessions.fetch_add(sessions, Relaxed);
        gate.drawn_ahead.fetch_or(drawn_ahead, Relaxed);
        let last = gate.ended.fetch_add(1, AcqRel) + 1 == self.shards;
        if last && self.next_is_seamless(phase) {
            self.publish_next(phase, now.plus(LEAD));
        }
    }

    /// Every request of `phase` that a shard sent has ended.
    pub fn arrive_closed(&self, phase: u16, now: Stamp) {
        let Some(gate) = self.gates.get(usize::from(phase)) else { return };
        let last = gate.closed.fetch_add(1, AcqRel) + 1 == self.shards;
        if last && !self.next_is_seamless(phase) {
            self.publish_next(phase, now.plus(LEAD).plus(Nanos(self.pause_ns.load(Relaxed))));
        }
    }

    /// When `phase` starts, if that is known.
    pub fn start_of(&self, phase: u16) -> Option<PhaseStart> {
        let gate = self.gates.get(usize::from(phase))?;
        let at = gate.start_ns.load(Acquire);
        (at != 0).then(|| PhaseStart { at: Stamp::from_nanos(at), first_row: gate.first_row.load(Relaxed) })
    }

    fn next_is_seamless(&self, phase: u16) -> bool {
        self.seamless.get(usize::from(phase) + 1).copied().unwrap_or(false)
    }

    fn publish_next(&self, phase: u16, at: Stamp) {
        let Some(gate) = self.gates.get(usize::from(phase)) else { return };
        // The dataset goes on where the phase stopped. A phase that its duration ended has drawn one
        // conversation that it never sent, as in AIPerf.
        let taken = gate.sessions.load(Relaxed) + u64::from(gate.drawn_ahead.load(Relaxed));
        let first_row = gate.first_row.load(Relaxed)
            + match self.conversations_min.get(usize::from(phase)).copied().flatten() {
                None => 0,
                Some(0) => taken,
                // A population is drawn before it sends, and nobody is drawn ahead of it.
                Some(least) => gate.sessions.load(Relaxed).max(least),
            };
        self.publish(phase + 1, PhaseStart { at, first_row });
    }

    fn publish(&self, phase: u16, start: PhaseStart) {
        if let Some(gate) = self.gates.get(usize::from(phase)) {
            gate.first_row.store(start.first_row, Relaxed);
            gate.start_ns.store(start.at.as_nanos(), Release);
        }
    }
}
