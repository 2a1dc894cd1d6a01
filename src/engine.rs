//! One shard as a state machine: events come in through `handle_*`, intent goes out through `poll_*`, and
//! `now` is always an argument.
//!
//! The engine owns the bookkeeping of phases, slots, connections and timers of one shard, and fills the
//! tallies. It has no clock, no socket and no thread; the shard's driver feeds it, tests feed it from a
//! simulated server in virtual time (`tests/sim.rs`).
//!
//! After any `handle_*` call: drain [`Engine::poll_action`] and [`Engine::poll_event`], then wait no longer
//! than to [`Engine::poll_timeout`] before calling [`Engine::handle_timeout`] again.
//!
//! Invariants, checked when a phase closes: every request sent ends exactly once; planned = sent + dropped;
//! sent = ok + failed + cancelled + abandoned. Nothing is recorded for a phase after its close, and a late
//! answer counts for the phase that sent it.

mod chain;
mod connection;
mod exchange;
mod history;
mod phase;
mod reach;
mod secure;
mod sending;
mod sessions;
mod warm_up;

pub use connection::ConnectionId;
pub use phase::{PhaseEvent, PhaseStart};
pub use reach::{PROBE_GAP, UNREACHED_MAX};

use crate::adaptive::WindowTally;
use crate::config::Reuse;
use crate::dataset::Dataset;
use crate::engine::chain::{Chain, Links};
use crate::engine::connection::{Connections, State};
use crate::engine::exchange::Fate;
use crate::engine::history::Pieces;
use crate::engine::phase::{LivePhase, PhaseState};
use crate::measure::{Judgement, Outcome, PhaseTally, RecordBatch};
use crate::plan::{Plan, Shared};
use crate::schedule::{Cursor, Share};
use crate::time::{Nanos, Stamp};
use crate::wire::tls::TlsTarget;
use crate::wire::{Known, Protocol};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// How soon a request that waits for the process to be below its cap tries again.
pub const BLOCKED_RETRY: Nanos = Nanos::from_micros(20);

/// Most arrivals issued in one [`Engine::handle_timeout`], so that replies are not kept waiting behind a
/// backlog.
pub const ISSUE_BATCH: usize = 256;

/// An arrival older than this when its phase ends is dropped as late instead of being sent after the end.
pub const LATE_AT_END_MAX: Nanos = Nanos::from_millis(1_000);

/// How the head of a request ends.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What the engine wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Close a connection; answered by [`Engine::handle_gone`].
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Establish a connection; answered by [`Engine::handle_connected`].
    Connect {
        /// The connection.
        connection: ConnectionId,
        /// Which URL to connect to.
        url: u16,
    },
    /// Send what [`Engine::write_records`] gives, part of a connection's TLS; answered by
    /// [`Engine::handle_sent`], unless the connection is told to close next.
    Flush {
        /// The connection.
        connection: ConnectionId,
    },
    /// Send a request; answered by [`Engine::handle_sent`].
    Send(Send),
}

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// The connection to send it on.
    pub connection: ConnectionId,
    /// The URL, whose head template applies.
    pub url: u16,
    /// UUID of the request.
    pub request_id: u128,
    /// UUID of its session.
    pub correlation_id: u128,
    /// What of its body is written behind the head: see [`Engine::write_head`].
    front: Pieces,
    /// Phase and slot of the session whose history the body carries.
    history: Option<(u16, u32)>,
    /// What of its body is sent from the dataset's block.
    pub body: Range<usize>,
    /// What of the block follows what [`Engine::write_head`] writes: the body, or nothing where TLS has
    /// sealed it together with the head.
    pub follows: Range<usize>,
}

/// What an engine is made from.
#[derive(Debug)]
pub struct EngineOptions {
    /// The run.
    pub plan: Arc<Plan>,
    /// The counters shared with the other shards.
    pub shared: Arc<Shared>,
    /// What is sent.
    pub dataset: Arc<Dataset>,
    /// How it is spoken.
    pub protocol: Arc<Protocol>,
    /// Which part of the run this shard drives.
    pub share: Share,
    /// Most connections at once.
    pub connections_max: usize,
    /// Exact samples kept per metric and phase.
    pub samples_max: usize,
    /// Requests per record batch.
    pub batch_records: usize,
    /// Bytes of texts per record batch, for whoever counts their tokens; 0: nobody does, and the engine makes
    /// do with what it knows.
    pub batch_text_bytes: usize,
    /// Seed of the request identifiers.
    pub identifier_seed: u64,
}

/// Counts for the progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Requests sent so far by the phases that are live.
    pub sent: u64,
    /// Of those, ended well.
    pub ok: u64,
    /// Of those, failed or cancelled.
    pub errors: u64,
    /// In flight.
    pub in_flight: u64,
}

/// One shard's state machine. See the module's page for the contract.
#[derive(Debug)]
pub struct Engine {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    dataset: Arc<Dataset>,
    share: Share,
    protocol: Arc<Protocol>,
    /// The way to each URL that speaks TLS.
    targets: Vec<Option<TlsTarget>>,
    /// Bytes of HTTP on their way into or out of TLS; empty in between.
    plain: Vec<u8>,
    samples_max: usize,
    judgement: Arc<Judgement>,
    connections: Connections,
    /// Messages that replies have in common.
    known: Known,
    /// Connections that carry an exchange, oldest exchange first.
    ages: Chain,
    age_links: Links,
    cancel_links: Links,
    live: Vec<LivePhase>,
    /// Which conversation a new session takes.
    cursor: Cursor,
    actions: VecDeque<Action>,
    /// Connections whose requests were polled and not handed to the kernel yet.
    polled: Vec<ConnectionId>,
    events: VecDeque<PhaseEvent>,
    identifiers: fastrand::Rng,
    batch: RecordBatch,
    records_lost: u64,
    /// Connections that did not come about since the last one that did.
    unreached: u32,
    now: Stamp,
    interrupted: bool,
}

impl Engine {
    /// A shard with no phase begun.
    pub fn new(options: EngineOptions) -> Self {
        Self {
            connections: Connections::new(
                options.plan.urls.len(),
                options.connections_max,
                Arc::clone(&options.protocol),
            ),
            protocol: options.protocol,
            cursor: options.plan.cursor(),
            plan: options.plan,
            shared: options.shared,
            dataset: options.dataset,
            share: options.share,
            targets: Vec::new(),
            plain: Vec::new(),
            samples_max: options.samples_max,
            judgement: Arc::default(),
            known: Known::default(),
            ages: Chain::default(),
            age_links: Links::default(),
            cancel_links: Links::default(),
            live: Vec::new(),
            actions: VecDeque::with_capacity(ISSUE_BATCH),
            polled: Vec::with_capacity(ISSUE_BATCH),
            events: VecDeque::new(),
            identifiers: fastrand::Rng::with_seed(options.identifier_seed),
            batch: RecordBatch::with_texts(options.batch_records, options.batch_text_bytes),
            records_lost: 0,
            unreached: 0,
            now: Stamp::ORIGIN,
            interrupted: false,
        }
    }

    /// Holds the good requests of phases begun from now on against `judgement`.
    #[must_use]
    pub fn judging(mut self, judgement: Arc<Judgement>) -> Self {
        self.judgement = judgement;
        self
    }

    /// Begins phase `index` of the plan, which starts at `start.at`. Phases are begun in order; the one
    /// before must have stopped sending (seamless) or closed.
    pub fn begin_phase(&mut self, index: u16, start: PhaseStart) {
        debug_assert!(self.live.iter().all(|phase| phase.state >= PhaseState::Draining));
        let tally = PhaseTally::judged(self.samples_max, Arc::clone(&self.judgement));
        let before = self.shared.sessions_before(index);
        let phase = LivePhase::new(index, &self.plan, start, self.share, before, tally);
        let Some(mut phase) = phase else { return };
        if self.interrupted {
            phase.state = PhaseState::Closed;
            phase.sending_ended = start.at;
            self.events.push_back(PhaseEvent::Closed { phase: index, at: start.at });
        }
        self.live.push(phase);
    }

    /// Time has passed: starts and ends phases, cancels, times out, sends what is due.
    pub fn handle_timeout(&mut self, now: Stamp) {
        self.now = now;
        self.cancel_due(now);
        self.time_out(now);
        self.expire_idle(now);
        for position in 0..self.live.len() {
            self.advance_phase(position, now);
        }
    }

    /// The run is to end now: nothing more is sent, what is in flight is abandoned, every phase closes.
    pub fn handle_interrupt(&mut self, now: Stamp) {
        self.now = now;
        self.interrupted = true;
        for position in 0..self.live.len() {
            if self.live[position].state < PhaseState::Draining {
                self.end_sending(position, now, true);
            }
            self.abandon_in_flight(position, now);
        }
    }

    /// The next thing to do. Call again until `None`; then, in the moment before the kernel is told,
    /// [`Engine::handle_submitted`].
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if let Some(Action::Send(send)) = &action {
            self.polled.push(send.connection);
        }
        action
    }

    /// The next edge in the life of a phase. Call again until `None`.
    pub fn poll_event(&mut self) -> Option<PhaseEvent> {
        self.events.pop_front()
    }

    /// When [`Engine::handle_timeout`] must be called at the latest; a stamp in the past means at once.
    pub fn poll_timeout(&mut self) -> Option<Stamp> {
        let mut earliest = Stamp::NEVER;
        let mut consider = |stamp: Option<Stamp>| earliest = earliest.min(stamp.unwrap_or(Stamp::NEVER));
        for phase in &self.live {
            match phase.state {
                PhaseState::Waiting => consider(Some(phase.start.at)),
                PhaseState::Sending => {
                    // What waits for a slot is past its time and must not keep the shard from waiting.
                    consider(phase.next_due().filter(|_| !phase.waits()));
                    consider(phase.sending_end());
                    consider(phase.blocked.then(|| self.now.plus(BLOCKED_RETRY)));
                    consider(phase.probes.then_some(phase.probe_at));
                }
                PhaseState::Draining => consider(phase.deadline()),
                PhaseState::Closed => {}
            }
            if let (Some(slot), Some(cancellation)) = (phase.cancels.front(), phase.plan.cancellation) {
                let written = self.connections.at(slot).record.written;
                consider(written.map(|written| written.plus(cancellation.delay)));
            }
        }
        if let (Some(slot), Some(timeout)) = (self.ages.front(), self.plan.timeout) {
            consider(Some(self.connections.at(slot).record.issued.plus(timeout)));
        }
        if let Some((_, since)) = self.connections.oldest_idle() {
            consider(Some(since.plus(self.plan.idle_lifetime)));
        }
        (earliest != Stamp::NEVER).then_some(earliest)
    }

    /// When the next request is due by plan: what the driver must be punctual for.
    pub fn poll_due(&self) -> Option<Stamp> {
        self.live
            .iter()
            .filter_map(|phase| match phase.state {
                PhaseState::Waiting => Some(phase.start.at),
                PhaseState::Sending => phase.next_due().filter(|_| !phase.waits()),
                PhaseState::Draining | PhaseState::Closed => None,
            })
            .min()
    }

    /// Takes the numbers of a phase that has closed. The engine forgets the phase.
    ///
    /// # Panics
    /// When the phase's counters contradict each other: wrong numbers are worse than none.
    pub fn take_tally(&mut self, phase: u16) -> Option<PhaseTally> {
        let position =
            self.live.iter().position(|live| live.plan.index == phase && live.state == PhaseState::Closed)?;
        let live = self.live.remove(position);
        if let Err(fault) = live.tally.check() {
            panic!("phase `{}` on shard {}: {fault}", live.plan.name, self.share.shard());
        }
        Some(live.tally)
    }

    /// Takes the oldest window of an adaptive phase that was cut off.
    pub fn take_window(&mut self, phase: u16) -> Option<WindowTally> {
        let live = self.live.iter_mut().find(|live| live.plan.index == phase)?;
        let cut = &mut live.looking.as_mut()?.cut;
        (!cut.is_empty()).then(|| cut.remove(0))
    }

    /// Whether the record batch is worth writing: at least half full.
    pub fn records_ready(&self) -> bool {
        self.batch.is_half_full()
    }

    /// Hands over the records so far and takes an empty batch for the next.
    pub fn swap_records(&mut self, empty: RecordBatch) -> RecordBatch {
        debug_assert!(empty.is_empty());
        std::mem::replace(&mut self.batch, empty)
    }

    /// Counts a batch that could not be handed over as lost.
    pub fn lose_records(&mut self, batch: &RecordBatch) {
        self.records_lost += batch.len() as u64;
    }

    /// Appends the head of a request to `out`, and what of its body does not stand in the block as it is sent:
    /// a cache-bust mark, the history of its session, and what stands before them. Where the connection speaks
    /// TLS, the whole request, sealed.
    pub fn write_head(&mut self, send: &Send, out: &mut Vec<u8>) {
        if self.connections.is_secure(send.connection) {
            self.write_sealed(send, out);
        } else {
            self.render_head(send, out);
        }
    }

    fn render_head(&self, send: &Send, out: &mut Vec<u8>) {
        if let Some(template) = self.protocol.head(send.url) {
            let history = self.history_of(send.history);
            let body_bytes = send.front.front.len() + history.len() + send.body.len();
            template.render(out, send.request_id, send.correlation_id, body_bytes);
            if self.plan.reuse == Reuse::Never && out.ends_with(HEAD_END) {
                out.truncate(out.len() - HEAD_END.len());
                out.extend_from_slice(b"\r\nConnection: close");
                out.extend_from_slice(HEAD_END);
            }
            history::write_front(out, self.dataset.block(), &send.front, send.correlation_id);
            out.extend_from_slice(history);
        }
    }

    /// The history of a session of a live phase.
    fn history_of(&self, session: Option<(u16, u32)>) -> &[u8] {
        let Some((phase, session)) = session else { return &[] };
        let live = self.live.iter().find(|live| live.plan.index == phase);
        live.map(|live| live.sessions.history_of(session)).unwrap_or_default()
    }

    /// The block that bodies are named in.
    pub fn block(&self) -> Arc<[u8]> {
        Arc::clone(self.dataset.block())
    }

    /// Whether the run is over before its phases are: too many requests of a phase failed, or another shard
    /// did. The caller then interrupts it.
    pub fn is_given_up(&self) -> bool {
        self.shared.is_over()
    }

    /// Requests in flight on this shard.
    pub fn in_flight(&self) -> u64 {
        self.live.iter().map(|phase| u64::from(phase.in_flight)).sum()
    }

    /// Records that found no room because no batch came back in time.
    pub fn records_lost(&self) -> u64 {
        self.records_lost
    }

    /// Counts over the phases that are live.
    pub fn live_counts(&self) -> LiveCounts {
        let mut counts = LiveCounts::default();
        for phase in &self.live {
            counts.sent += phase.sent;
            counts.ok += phase.tally.counts().ok;
            counts.errors += phase.tally.counts().errors();
            counts.in_flight += u64::from(phase.in_flight);
        }
        counts
    }

    /// Connections that are not gone, idle and closing ones included.
    pub fn connections_open(&self) -> usize {
        self.connections.open()
    }

    /// Closes every idle connection: the run is over.
    pub fn close_idle(&mut self) {
        while let Some((slot, _)) = self.connections.oldest_idle() {
            self.close(slot);
        }
    }

    /// Cuts every request of the phase that is in flight.
    fn abandon_in_flight(&mut self, position: usize, now: Stamp) {
        for slot in self.connections.in_flight_of(self.live[position].plan.index) {
            self.connections.at(slot).record.ended = now;
            self.finish(slot, now, Outcome::Abandoned, Fate::Close);
        }
    }

    /// Cancels the requests whose delay has passed.
    fn cancel_due(&mut self, now: Stamp) {
        for position in 0..self.live.len() {
            let Some(cancellation) = self.live[position].plan.cancellation else { continue };
            while let Some(slot) = self.live[position].cancels.front() {
                let written = self.connections.at(slot).record.written;
                if written.is_none_or(|written| now < written.plus(cancellation.delay)) {
                    break;
                }
                self.cancel(slot, now, cancellation.delay);
            }
        }
    }

    /// Fails the requests that are older than the endpoint's timeout.
    fn time_out(&mut self, now: Stamp) {
        let Some(timeout) = self.plan.timeout else { return };
        while let Some(slot) = self.ages.front() {
            if now < self.connections.at(slot).record.issued.plus(timeout) {
                return;
            }
            self.fail_timed_out(slot, now);
        }
    }

    fn expire_idle(&mut self, now: Stamp) {
        while let Some((slot, since)) = self.connections.oldest_idle() {
            if now < since.plus(self.plan.idle_lifetime) {
                return;
            }
            self.close(slot);
        }
    }

    fn close(&mut self, slot: u32) {
        let id = self.connections.id(slot);
        let connection = self.connections.at(slot);
        if connection.state == State::Replaced {
            // It was told already.
            connection.state = State::Closing;
        } else if connection.state != State::Closing {
            connection.state = State::Closing;
            if connection.says_farewell() {
                self.actions.push_back(Action::Flush { connection: id });
            }
            self.actions.push_back(Action::Close { connection: id });
        }
    }
}
