//! One request from its issue to its end.

use crate::config::Reuse;
use crate::engine::Action;
use crate::engine::ConnectionId;
use crate::engine::Engine;
use crate::engine::Send;
use crate::engine::connection::Connection;
use crate::engine::connection::Holds;
use crate::engine::connection::State;
use crate::engine::history;
use crate::engine::phase::LivePhase;
use crate::engine::phase::PhaseState;
use crate::engine::phase::Source;
use crate::engine::sessions::NO_SESSION;
use crate::measure::Failure;
use crate::measure::Outcome;
use crate::measure::Record;
use crate::measure::Said;
use crate::time::Nanos;
use crate::time::Stamp;
use crate::wire::Fault;
use crate::wire::Fed;
use crate::wire::Progress;
use crate::wire::TokenSource;
use crate::wire::uuid_v4;

/// What becomes of the connection when its exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is closed and never used again.
    Close,
    /// There never was a socket.
    Gone,
    /// It may carry the next exchange.
    Keep,
    /// It is closed, and the client's own limit is to blame: the next request would fail at once, too.
    Starved,
}

/// Where the values of an ended request are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// By whoever counts its tokens, who has the record already.
    Elsewhere,
    /// Here and now.
    Here,
}

/// A request about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) row: u32,
    pub(crate) planned: Stamp,
    /// From when on nothing but the client kept it from being sent.
    pub(crate) due: Stamp,
    pub(crate) session: u32,
    pub(crate) correlation_id: u128,
    pub(crate) url: u16,
    /// It holds a slot of those without content.
    pub(crate) prefill: bool,
}

/// A connection that ends later than this after a request was sent on it was not stale: the server has had
/// the request, and may have worked on it.
const STALE_WITHIN: Nanos = Nanos::from_millis(1_000);

/// Error number for "too many open files", used when the engine's own table of connections is full.
const EMFILE: i32 = 24;
/// Error number for a peer that reads no more.
pub(super) const EPIPE: i32 = 32;
/// Error number for a peer that reset the connection.
pub(super) const ECONNRESET: i32 = 104;

impl Engine {
    /// Connecting ended: established, or an error number.
    pub fn handle_connected(&mut self, id: ConnectionId, now: Stamp, result: Result<(), i32>) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.state != State::Connecting {
            return;
        }
        let url = connection.url;
        match result {
            Ok(()) if self.speaks_tls(url) => {
                self.reached();
                self.begin_handshake(id.index, now);
            }
            Ok(()) => {
                self.reached();
                let connection = self.connections.at(id.index);
                connection.state = State::Busy;
                connection.record.connect = Some((connection.connect_begun, now));
                self.send(id.index);
            }
            Err(errno) if Failure::is_client_limit(errno) => self.fail_starved(id.index, now, errno),
            Err(errno) => self.fail_connect(id.index, now, errno),
        }
    }

    /// No socket could be made for a connection: the client's own limit, not the server's fault. The
    /// connection is gone; [`Engine::handle_gone`] must not be called for it.
    pub fn handle_unconnectable(&mut self, id: ConnectionId, now: Stamp, errno: i32) {
        let Some(connection) = self.connections.get(id) else { return };
        connection.record.ended = now;
        self.not_reached();
        let outcome = Outcome::Failed(Box::new(Failure::client_socket(errno)));
        self.finish(id.index, now, outcome, Fate::Gone);
    }

    /// The sends polled since the last call are handed to the kernel now: it takes their first bytes in the
    /// call that follows. From here on the client has no part in what a request takes.
    pub fn handle_submitted(&mut self, now: Stamp) {
        let mut polled = std::mem::take(&mut self.polled);
        for id in polled.drain(..) {
            let Some(connection) = self.connections.get(id) else { continue };
            if connection.state != State::Busy || connection.record.first_byte_written.is_some() {
                continue;
            }
            connection.record.first_byte_written = Some(now);
            let (phase, late) = (connection.record.phase, now.since(connection.due));
            if let Some(position) = self.position(phase) {
                let live = &mut self.live[position];
                live.tally.lateness(late);
                live.tally.handed_to_kernel(now.since(live.start.at));
                if matches!(live.source, Source::Open { .. }) {
                    live.tally.arrival(now.since(live.start.at));
                }
            }
        }
        self.polled = polled;
    }

    /// The kernel took the whole request, or an error number.
    pub fn handle_sent(&mut self, id: ConnectionId, now: Stamp, result: Result<usize, i32>) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.is_flushing() {
            return self.handle_flushed(id, now, result.err());
        }
        connection.sending = false;
        if connection.state != State::Busy {
            return;
        }
        match result {
            Ok(_) => {
                connection.record.written = Some(now);
                let (phase, cancel) = (connection.record.phase, connection.cancel);
                let Some(position) = self.position(phase) else { return };
                let live = &mut self.live[position];
                let Some(cancellation) = live.plan.cancellation.filter(|_| cancel) else { return };
                if cancellation.delay == Nanos::ZERO {
                    self.cancel(id.index, now, cancellation.delay);
                } else {
                    self.cancel_links.push_back(&mut live.cancels, id.index);
                }
            }
            // The peer has gone. It may have answered before it went, and then the answer comes first: the
            // end of the stream, which follows, decides. What is begun again has been tried all the same.
            Err(EPIPE | ECONNRESET) if connection.is_stale(now) => {}
            Err(EPIPE | ECONNRESET) => connection.record.first_byte_written = None,
            Err(errno) if Failure::is_client_limit(errno) => {
                connection.record.first_byte_written = None;
                self.fail_starved(id.index, now, errno);
            }
            Err(errno) => {
                connection.record.first_byte_written = None;
                let started = connection.record.headers.is_some();
                self.fail(id.index, now, Failure::reset(errno, started));
            }
        }
    }

    /// Bytes arrived: of a reply, or records of TLS.
    pub fn handle_bytes(&mut self, id: ConnectionId, now: Stamp, bytes: &[u8]) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.secure.is_some() {
            self.receive_records(id, now, bytes);
        } else {
            self.take_reply(id, now, bytes);
        }
    }

    /// Bytes of a reply arrived.
    pub(super) fn take_reply(&mut self, id: ConnectionId, now: Stamp, bytes: &[u8]) {
        let Some(connection) = self.connections.get(id) else { return };
        match connection.state {
            State::Busy => {
                connection.may_be_stale = false;
                let fed = connection.decoder.feed_knowing(bytes, &mut self.known);
                connection.take_in(now, &fed);
                if connection.holds.prefill {
                    self.release_prefill(id.index, now);
                }
                self.progress_exchange(id.index, now, fed.progress);
            }
            // Bytes that nobody asked for: this connection cannot be trusted with the next request.
            State::Held | State::Idle => self.close(id.index),
            State::Closing | State::Connecting | State::Free | State::Replaced => {}
        }
    }

    /// The peer sends no more: end of stream (`None`) or an error number.
    pub fn handle_ended(&mut self, id: ConnectionId, now: Stamp, errno: Option<i32>) {
        let Some(connection) = self.connections.get(id) else { return };
        match (connection.state, errno) {
            (State::Connecting, _) if connection.secure.is_some() => {
                self.fail_handshake(id.index, now, errno);
            }
            (State::Busy, None | Some(EPIPE | ECONNRESET)) if connection.is_stale(now) => {
                self.repeat(id.index, now);
            }
            (State::Busy, None) if connection.is_truncated() => self.fail_truncated(id.index, now),
            (State::Busy, None) => {
                let fed = connection.decoder.close();
                connection.take_in(now, &fed);
                let progress = match fed.progress {
                    Progress::Complete { .. } => Progress::Complete { reusable: false },
                    Progress::Failed { fault, .. } => Progress::Failed { fault, reusable: false },
                    Progress::Pending => {
                        Progress::Failed { fault: Box::new(Fault::Truncated), reusable: false }
                    }
                };
                self.progress_exchange(id.index, now, progress);
            }
            (State::Busy, Some(errno)) => {
                let started = connection.record.headers.is_some();
                self.fail(id.index, now, Failure::reset(errno, started));
            }
            (State::Held | State::Idle, _) => self.close(id.index),
            (State::Closing | State::Connecting | State::Free | State::Replaced, _) => {}
        }
    }

    /// A connection that was told to close is gone; its slot can be used again.
    pub fn handle_gone(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        match connection.state {
            State::Closing => self.connections.free(id.index),
            State::Replaced => {
                let url = connection.url;
                self.connections.renew(id.index);
                let connection = self.connections.id(id.index);
                self.actions.push_back(Action::Connect { connection, url });
            }
            State::Busy | State::Connecting | State::Free | State::Held | State::Idle => {}
        }
    }

    /// The server had closed the connection when the request came, and said nothing to it: the request
    /// begins again on a fresh connection. All its stamps but that of the last byte written stay: its latencies
    /// count from the first try.
    fn repeat(&mut self, slot: u32, now: Stamp) {
        self.replace(slot);
        let connection = self.connections.at(slot);
        connection.may_be_stale = false;
        connection.connect_begun = now;
        connection.record.written = None;
        connection.decoder.reset();
        let phase = connection.record.phase;
        if let Some(position) = self.position(phase) {
            let live = &mut self.live[position];
            self.cancel_links.remove(&mut live.cancels, slot);
            live.tally.repeated();
        }
    }

    /// Tells a connection to close. Once it is gone, a fresh one is made in its slot for the exchange there.
    fn replace(&mut self, slot: u32) {
        self.close(slot);
        self.connections.at(slot).state = State::Replaced;
    }

    /// Sends a request of the live phase at `position`, whose slots are taken.
    pub(crate) fn issue(&mut self, position: usize, now: Stamp, job: Job) {
        let phase = &mut self.live[position];
        phase.tally.sent();
        phase.sent += 1;
        phase.last_issued = now;
        phase.in_flight += 1;
        let cancel = phase.draws.as_mut().is_some_and(|draws| draws.decide(job.number));
        let kept = match job.session {
            NO_SESSION => None,
            session => phase.sessions.at(session).connection.take(),
        };

        let mut record = Record::blank();
        record.phase = phase.plan.index;
        record.shard = self.share.shard();
        record.number = job.number;
        record.row = job.row;
        record.request_id = uuid_v4(self.identifiers.u128(..));
        record.correlation_id = job.correlation_id;
        record.planned = job.planned;
        record.issued = now;
        record.token_source = self.protocol.tokens();
        let history_bytes = match job.session {
            NO_SESSION => 0,
            session if history::carries(&self.dataset, job.row) => phase.sessions.history_of(session).len(),
            _ => 0,
        };
        let holds = Holds { session: job.session, prefill: job.prefill, history: history_bytes > 0 };
        if let Some(row) = self.dataset.rows().get(job.row as usize) {
            record.request_body_bytes = (row.body.len() + history_bytes) as u64;
            // A prompt with a history is not as long as its turn.
            record.isl_tokens = row.isl_tokens.filter(|_| !holds.history);
            record.osl_tokens = row.osl_tokens;
        }

        let idle = match self.plan.reuse {
            Reuse::Never => None,
            Reuse::Pooled => self.connections.take_idle(job.url),
            Reuse::Sticky => kept.filter(|kept| self.connections.is_held(*kept)).map(|kept| kept.index),
        };
        // Where the table is full, a connection to another URL makes room.
        let fresh = if idle.is_some() { None } else { self.connections.take_free() };
        let other = if idle.or(fresh).is_some() { None } else { self.connections.take_any_idle() };
        let Some(slot) = idle.or(fresh).or(other) else {
            record.ended = now;
            record.outcome = Outcome::Failed(Box::new(Failure::client_socket(EMFILE)));
            let live = &mut self.live[position];
            if live.goes_on(job.session, &record.outcome) {
                let history = live.sessions.history(job.session);
                history::append(history, &self.dataset, job.row, job.correlation_id, None);
            }
            self.settle(position, now, &record, &[], holds, Measured::Here);
            return;
        };
        self.age_links.grow(self.connections.len());
        self.cancel_links.grow(self.connections.len());
        let connection = self.connections.at(slot);
        connection.record = record;
        connection.due = job.due;
        connection.holds = holds;
        connection.cancel = cancel;
        connection.gaps_ns.clear();
        connection.decoder.reset();
        connection.url = job.url;
        connection.may_be_stale = idle.is_some();
        connection.connect_begun = now;
        self.age_links.push_back(&mut self.ages, slot);
        if other.is_some() {
            self.replace(slot);
        } else if idle.is_some() {
            connection.state = State::Busy;
            self.send(slot);
        } else {
            connection.state = State::Connecting;
            let connection = self.connections.id(slot);
            self.actions.push_back(Action::Connect { connection, url: job.url });
        }
    }

    pub(super) fn send(&mut self, slot: u32) {
        let id = self.connections.id(slot);
        let connection = self.connections.at(slot);
        connection.sending = true;
        if connection.is_kept_waiting() {
            return;
        }
        let record = &connection.record;
        let has_history = connection.holds.history;
        let front = history::pieces(&self.dataset, record.row, has_history);
        let body = front.rest.clone();
        let follows = if connection.secure.is_some() { 0..0 } else { body.clone() };
        self.actions.push_back(Action::Send(Send {
            connection: id,
            url: connection.url,
            request_id: record.request_id,
            correlation_id: record.correlation_id,
            history: has_history.then_some((record.phase, connection.holds.session)),
            front,
            body,
            follows,
        }));
    }

    fn progress_exchange(&mut self, slot: u32, now: Stamp, progress: Progress) {
        let connection = self.connections.at(slot);
        match progress {
            Progress::Pending => {}
            Progress::Complete { reusable } => {
                // A reply that came before the request was whole leaves bytes of the request behind.
                let keep = reusable && !connection.sending && !connection.is_peer_closed();
                connection.record.usage = connection.decoder.usage();
                connection.record.first_content_tokens = connection.decoder.first_content_tokens();
                let fate = if keep { Fate::Keep } else { Fate::Close };
                self.finish(slot, now, Outcome::Ok, fate);
            }
            Progress::Failed { fault, reusable } => {
                let keep = reusable && !connection.sending && !connection.is_peer_closed();
                connection.record.usage = connection.decoder.usage();
                if connection.record.messages == 0 {
                    connection.record.ended = now;
                }
                let fate = if keep { Fate::Keep } else { Fate::Close };
                self.finish(slot, now, Outcome::Failed(Box::new(Failure::from(*fault))), fate);
            }
        }
    }

    pub(crate) fn cancel(&mut self, slot: u32, now: Stamp, delay: Nanos) {
        self.connections.at(slot).record.ended = now;
        self.finish(slot, now, Outcome::Cancelled { delay }, Fate::Close);
    }

    pub(crate) fn fail_timed_out(&mut self, slot: u32, now: Stamp) {
        self.fail(slot, now, Failure::timeout());
    }

    /// No connection came about.
    pub(super) fn fail_connect(&mut self, slot: u32, now: Stamp, errno: i32) {
        let url = self.plan.urls.get(usize::from(self.connections.at(slot).url));
        let failure = match url {
            Some(crate::config::Url { socket: Some(path), .. }) => Failure::connect_unix(path, errno),
            Some(url) if url.tls => Failure::connect_tls(&url.host, url.port, errno),
            Some(url) => Failure::connect(&url.host, url.port, errno),
            None => Failure::connect("", 0, errno),
        };
        self.not_reached();
        self.fail(slot, now, failure);
    }

    pub(super) fn fail(&mut self, slot: u32, now: Stamp, failure: Failure) {
        self.connections.at(slot).record.ended = now;
        self.finish(slot, now, Outcome::Failed(Box::new(failure)), Fate::Close);
    }

    /// The client ran out of ports, descriptors or memory: not the server's fault.
    pub(super) fn fail_starved(&mut self, slot: u32, now: Stamp, errno: i32) {
        self.connections.at(slot).record.ended = now;
        self.not_reached();
        let outcome = Outcome::Failed(Box::new(Failure::client_socket(errno)));
        self.finish(slot, now, outcome, Fate::Starved);
    }

    /// Ends the exchange of `slot`: counts it, keeps or closes its connection, and uses what falls free.
    pub(crate) fn finish(&mut self, slot: u32, now: Stamp, outcome: Outcome, fate: Fate) {
        self.age_links.remove(&mut self.ages, slot);
        let connection = self.connections.at(slot);
        let mut record = std::mem::replace(&mut connection.record, Record::blank());
        let gaps_ns = std::mem::take(&mut connection.gaps_ns);
        let holds = std::mem::take(&mut connection.holds);
        record.outcome = outcome;
        let Some(position) = self.position(record.phase) else { return };
        let measured = self.hand_over(position, slot, &mut record, &gaps_ns, holds);
        let live = &mut self.live[position];
        self.cancel_links.remove(&mut live.cancels, slot);
        let goes_on = live.goes_on(holds.session, &record.outcome);
        if goes_on {
            let history = live.sessions.history(holds.session);
            let ended_well = matches!(record.outcome, Outcome::Ok);
            let answer = self.connections.at(slot).decoder.answer().filter(|_| ended_well);
            history::append(history, &self.dataset, record.row, record.correlation_id, answer.as_deref());
        }
        let fate = match (fate, self.plan.reuse) {
            (Fate::Keep, Reuse::Never) => Fate::Close,
            (Fate::Keep, Reuse::Sticky) if !goes_on => Fate::Close,
            (fate, Reuse::Never | Reuse::Pooled | Reuse::Sticky) => fate,
        };
        match fate {
            Fate::Close | Fate::Starved => self.close(slot),
            Fate::Gone => self.connections.free(slot),
            Fate::Keep if self.plan.reuse == Reuse::Sticky => {
                self.connections.at(slot).state = State::Held;
                live.sessions.at(holds.session).connection = Some(self.connections.id(slot));
            }
            Fate::Keep => self.connections.put_idle(slot, now),
        }
        self.settle(position, now, &record, &gaps_ns, holds, measured);
        // The buffer goes back to its slot, which may carry the next exchange by now (but has no gap yet).
        let gaps = &mut self.connections.at(slot).gaps_ns;
        if gaps.is_empty() {
            *gaps = gaps_ns;
            gaps.clear();
        }
        match fate {
            // Without a socket the next request would fail at once, and so on: it waits for the next turn.
            Fate::Gone | Fate::Starved => self.live[position].blocked = true,
            Fate::Close | Fate::Keep => self.refill(position, now),
        }
    }

    /// Hands a request whose tokens are to be counted over to whoever does it, if there is room.
    fn hand_over(
        &mut self,
        position: usize,
        slot: u32,
        record: &mut Record,
        gaps_ns: &[u64],
        holds: Holds,
    ) -> Measured {
        let is_good = matches!(record.outcome, Outcome::Ok);
        let connection = self.connections.at(slot);
        let texts = connection.decoder.texts().filter(|_| is_good);
        let raw = connection.decoder.raw().filter(|_| is_good);
        let has_more = texts.is_some() || raw.is_some() || holds.history;
        if matches!(record.outcome, Outcome::Abandoned) || !has_more {
            return Measured::Here;
        }
        let live = &mut self.live[position];
        let said = Said {
            history: holds.history.then(|| live.sessions.history_of(holds.session)),
            output: texts.filter(|texts| texts.has_output).map(|texts| texts.output.as_bytes()),
            reasoning: texts.filter(|texts| texts.has_reasoning).map(|texts| texts.reasoning.as_bytes()),
            raw,
            reads: raw.map(|_| connection.reads.packed()),
        };
        if self.batch.push_uncounted(record, gaps_ns, &said) {
            return Measured::Elsewhere;
        }
        if is_good && record.token_source == TokenSource::Client {
            record.token_source = TokenSource::Estimate;
            live.tally.not_counted();
        }
        Measured::Here
    }

    /// Counts an ended request and frees what it held.
    fn settle(
        &mut self,
        position: usize,
        now: Stamp,
        record: &Record,
        gaps_ns: &[u64],
        holds: Holds,
        measured: Measured,
    ) {
        let phase = &mut self.live[position];
        debug_assert!(phase.state < PhaseState::Closed, "a request ended after its phase closed");
        phase.in_flight -= 1;
        match measured {
            Measured::Elsewhere => phase.tally.hand_over(record),
            Measured::Here => phase.tally.record(record, gaps_ns),
        }
        if let Some((looking, scale)) = phase.looking.as_mut().zip(phase.plan.adaptive.as_ref())
            && self.shared.dial(phase.plan.index).counts(record.issued)
        {
            looking.window.record(record, &scale.rules);
        }
        if matches!(phase.source, Source::Closed { .. }) {
            phase.tally.occupy(now.min(phase.sending_ended).since(record.planned));
        }
        if holds.prefill {
            self.shared.prefills.leave();
        }
        if phase.goes_on(holds.session, &record.outcome) {
            let session = *phase.sessions.at(holds.session);
            let due = phase.due_of_turn(&self.plan.script, session.next_row, session.planned, now);
            phase.sessions.think(holds.session, now, due);
        } else if holds.session == NO_SESSION {
            self.free_slot(position);
        } else {
            let session = phase.sessions.end(holds.session);
            self.leave_session(position, &session);
        }
        match record.outcome {
            Outcome::Abandoned => {}
            Outcome::Cancelled { .. } | Outcome::Failed(_) | Outcome::Ok => {
                let failed = !matches!(record.outcome, Outcome::Ok);
                self.shared.ended(&self.live[position].plan, failed);
                if measured == Measured::Here && !self.batch.push(record, gaps_ns) {
                    self.records_lost += 1;
                }
            }
        }
        self.close_if_drained(position, now);
    }

    /// The first content of a request has come: it makes room for the next one to wait for its own.
    fn release_prefill(&mut self, slot: u32, now: Stamp) {
        let connection = self.connections.at(slot);
        if !connection.holds.prefill || connection.record.first_content.is_none() {
            return;
        }
        connection.holds.prefill = false;
        self.shared.prefills.leave();
        let phase = connection.record.phase;
        if let Some(position) = self.position(phase)
            && self.live[position].blocked
        {
            self.refill(position, now);
        }
    }

    /// Where the live phase with this index stands in the list.
    pub(super) fn position(&self, phase: u16) -> Option<usize> {
        self.live.iter().position(|live| live.plan.index == phase)
    }
}

impl LivePhase {
    /// Whether another turn of the session will follow one that ended so.
    fn goes_on(&self, session: u32, outcome: &Outcome) -> bool {
        self.state == PhaseState::Sending
            && !matches!(outcome, Outcome::Abandoned)
            && self.sessions.has_more(session)
    }
}

impl Connection {
    /// Whether an end of the connection now means that the server had closed it before the request came, so
    /// that the request may begin again elsewhere.
    fn is_stale(&self, now: Stamp) -> bool {
        self.may_be_stale && now.since(self.record.issued) <= STALE_WITHIN
    }

    /// Notes what a feed brought; everything it completed arrived together, at `now`.
    fn take_in(&mut self, now: Stamp, fed: &Fed) {
        let record = &mut self.record;
        if let Some(status) = fed.status {
            record.status = Some(status);
            record.headers = Some(now);
        }
        if fed.body_bytes > 0
            && let Some(raw) = self.decoder.raw()
        {
            if record.first_body.is_none() {
                self.reads.begin(self.decoder.is_stream(), self.decoder.media_type());
            }
            self.reads.push(now, raw.len());
        }
        if fed.body_bytes > 0 {
            record.first_body.get_or_insert(now);
            record.last_body = Some(now);
            record.body_bytes += fed.body_bytes as u64;
            record.body_reads += 1;
        }
        if fed.messages > 0 {
            record.messages += fed.messages;
            record.ended = now;
        }
        if let Some(more) = fed.contents.checked_sub(1) {
            match record.last_content {
                None => record.first_content = Some(now),
                Some(last) => {
                    record.second_content.get_or_insert(now);
                    self.gaps_ns.push(now.since(last).0);
                }
            }
            record.last_content = Some(now);
            if more > 0 {
                record.second_content.get_or_insert(now);
                self.gaps_ns.resize(self.gaps_ns.len() + more as usize, 0);
            }
        }
        record.contents += fed.contents;
        if fed.outputs > 0 {
            record.first_output.get_or_insert(now);
        }
    }
}
