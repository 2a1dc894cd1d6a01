//! The thread of one source: a fetch when a phase begins, when it has drained, and at every interval between.
//!
//! The thread watches the shards' barrier for the beginnings; that a phase is over the conductor tells it.
//! Nothing here is waited for by a shard.

use crate::run::telemetry::probe::{Errand, Probe, ProbeError};
use crate::shard::barrier::Barrier;
use crate::telemetry::{Occasion, PhaseKey};
use crate::time::{Clock, Nanos, Stamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often a thread looks whether a phase that nobody announces has begun.
const WATCH: Nanos = Nanos::from_millis(2);

/// A fetch for the end of a phase that comes this late, when the next phase runs already, says nothing.
const LATE_MAX: Nanos = Nanos::from_millis(250);

/// Longest extension of the pause between two phases: what answers slower is not waited for.
pub(super) const HOLD_MAX: Nanos = Nanos::from_millis(5);

/// Time for waking up the conductor and this thread, beside the fetch itself.
const WAKE: Nanos = Nanos::from_micros(500);

/// Fetches whose latency counts for how long the next one may take.
const RECENT: usize = 8;

/// What the conductor says.
pub(super) enum Command {
    /// The shards are there.
    Begin(Arc<Barrier>),
    /// The last request of a phase has ended.
    Closed(u16, Stamp),
    /// The run is over.
    Finish,
}

/// What the thread says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The first fetch is done; whether it brought something.
    Ready(usize, bool),
    /// The thread has nothing more to do.
    Done(usize),
}

/// Time limits of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) interval: Nanos,
    pub(super) first: Nanos,
    pub(super) fetch: Nanos,
}

/// One source and its thread's state.
pub(super) struct Source {
    pub(super) number: usize,
    pub(super) probe: Box<dyn Probe>,
    pub(super) limits: Limits,
    pub(super) phases: Arc<[PhaseKey]>,
    pub(super) clock: Clock,
    pub(super) commands: Receiver<Command>,
    pub(super) reports: Sender<Report>,
    /// How long phases pause for this source, in nanoseconds; absent for sources that are never waited for.
    pub(super) holds: Option<Arc<[AtomicU64]>>,
    pub(super) longest_hold_ns: Arc<AtomicU64>,
}

impl Source {
    /// Fetches until the run is over.
    pub(super) fn run(mut self) {
        let ready = self.baseline();
        // The conductor may be gone already; then nobody wants to know.
        let _ = self.reports.send(Report::Ready(self.number, ready));
        if ready {
            self.turns();
        }
        let cpu_time_ns = cpu_time_ns();
        self.probe.note(&mut |account| account.cpu_time_ns = cpu_time_ns);
        let _ = self.reports.send(Report::Done(self.number));
    }

    /// The first fetch, wherever the source may be.
    fn baseline(&mut self) -> bool {
        loop {
            let errand = Errand { phase: None, occasion: Occasion::Baseline, limit: self.limits.first };
            self.probe.note(&mut |account| account.fetches += 1);
            match self.probe.fetch(errand) {
                Ok(latency) => {
                    self.probe.note(&mut |account| account.slowest_ns = Some(latency.0));
                    return true;
                }
                Err(error) => {
                    let message = error.to_string();
                    self.probe.note(&mut |account| account.fail(&message));
                    if !self.probe.try_elsewhere(&error) {
                        self.probe.note(&mut |account| account.given_up = Some(message.clone()));
                        return false;
                    }
                }
            }
        }
    }

    fn turns(&mut self) {
        let barrier = loop {
            match self.commands.recv() {
                Ok(Command::Begin(barrier)) => break barrier,
                Ok(Command::Closed(..)) => {}
                Ok(Command::Finish) | Err(_) => return,
            }
        };
        let mut turn = Turn {
            barrier,
            next: 0,
            current: None,
            due: Stamp::NEVER,
            recent: VecDeque::with_capacity(RECENT),
        };
        loop {
            let now = self.clock.now();
            turn.pass_over(now);
            if let Some(start) = turn.start_of_next()
                && now >= start
            {
                let begun = turn.next;
                turn.current = Some(begun);
                turn.next += 1;
                self.fetch(&mut turn, Some(begun), Occasion::PhaseStart);
                turn.due = now.plus(self.limits.interval);
                continue;
            }
            if now >= turn.due {
                let current = turn.current;
                self.fetch(&mut turn, current, Occasion::Cadence);
                turn.advance(self.clock.now(), self.limits.interval, &*self.probe);
                continue;
            }
            let until = turn.wakes_at(now, &self.phases);
            let command = if until == Stamp::NEVER {
                self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.commands.recv_timeout(Duration::from(until.since(now)))
            };
            match command {
                Ok(Command::Closed(phase, at)) => self.close(&mut turn, phase, at),
                Ok(Command::Finish) | Err(RecvTimeoutError::Disconnected) => {
                    // A phase that was cut short.
                    if let Some(current) = turn.current {
                        self.fetch(&mut turn, Some(current), Occasion::PhaseEnd);
                    }
                    return;
                }
                Ok(Command::Begin(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn close(&mut self, turn: &mut Turn, phase: u16, at: Stamp) {
        if turn.current == Some(phase) {
            turn.current = None;
            turn.due = Stamp::NEVER;
        }
        let now = self.clock.now();
        let overtaken = turn.barrier.start_of(phase + 1).is_some_and(|start| now > start.at);
        if overtaken && now.since(at) > LATE_MAX {
            self.probe.note(&mut |account| {
                account.fail("the end of a phase passed while a fetch was going on");
            });
            return;
        }
        self.fetch(turn, Some(phase), Occasion::PhaseEnd);
        // Waking up is part of what the page of an edge takes.
        let took = self.clock.now().since(at);
        if let Some(last) = turn.recent.back_mut() {
            *last = took.max(*last);
        }
        self.hold(turn);
    }

    fn fetch(&mut self, turn: &mut Turn, phase: Option<u16>, occasion: Occasion) {
        let phase = phase.and_then(|index| self.phases.get(usize::from(index)));
        self.probe.note(&mut |account| account.fetches += 1);
        let fetched = self.probe.fetch(Errand { phase, occasion, limit: self.limits.fetch });
        match fetched {
            Ok(latency) => {
                self.probe.note(&mut |account| {
                    account.slowest_ns = Some(account.slowest_ns.unwrap_or(0).max(latency.0));
                });
                if turn.recent.len() == RECENT {
                    turn.recent.pop_front();
                }
                turn.recent.push_back(latency);
            }
            Err(error) => {
                let (message, is_final) = (error.to_string(), ProbeError::is_final(&error));
                self.probe.note(&mut |account| {
                    account.fail(&message);
                    if is_final {
                        account.given_up = Some(message.clone());
                    }
                });
                turn.recent.clear();
            }
        }
        self.hold(turn);
    }

    /// Tells the barrier how long phases pause, so that a page can be made between them.
    fn hold(&self, turn: &Turn) {
        let Some(holds) = &self.holds else { return };
        let slowest = turn.recent.iter().max().map(|latency| Nanos(latency.0.saturating_mul(3) / 2 + WAKE.0));
        let own = slowest.filter(|hold| *hold <= HOLD_MAX).unwrap_or(Nanos::ZERO);
        if let Some(place) = holds.get(self.number) {
            place.store(own.0, Relaxed);
        }
        let longest = holds.iter().map(|hold| hold.load(Relaxed)).max().unwrap_or(0);
        turn.barrier.pause_for(Nanos(longest));
        self.longest_hold_ns.fetch_max(longest, Relaxed);
    }
}

/// Where the thread is in the plan.
struct Turn {
    barrier: Arc<Barrier>,
    /// The phase that has not been seen to begin.
    next: u16,
    /// The phase that began last, while it is not closed.
    current: Option<u16>,
    /// Of the next fetch in turn.
    due: Stamp,
    recent: VecDeque<Nanos>,
}

impl Turn {
    /// Phases that were over before this source had answered once: no page can be read at their beginning.
    fn pass_over(&mut self, now: Stamp) {
        while self.barrier.start_of(self.next + 1).is_some_and(|start| now >= start.at) {
            self.next += 1;
        }
    }

    fn start_of_next(&self) -> Option<Stamp> {
        self.barrier.start_of(self.next).map(|start| start.at)
    }

    /// When to look again: at the next fetch, at a beginning that is known, and now and then for one that is
    /// not announced.
    fn wakes_at(&self, now: Stamp, phases: &[PhaseKey]) -> Stamp {
        let watched = match (self.start_of_next(), phases.get(usize::from(self.next))) {
            (Some(start), _) => start,
            (None, Some(key)) if key.seamless || self.current.is_none() => now.plus(WATCH),
            (None, _) => Stamp::NEVER,
        };
        self.due.min(watched)
    }

    /// The next turn that lies ahead; those that a slow fetch has covered are counted.
    fn advance(&mut self, now: Stamp, interval: Nanos, probe: &dyn Probe) {
        self.due = self.due.plus(interval);
        let mut missed = 0;
        while self.due <= now {
            self.due = self.due.plus(interval);
            missed += 1;
        }
        if missed > 0 {
            probe.note(&mut |account| account.turns_missed += missed);
        }
    }
}

/// CPU time of this thread.
fn cpu_time_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
