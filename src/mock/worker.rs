//! One thread of the server: its ring, its connections, its timers.
//!
//! Completions are taken first and change only what is known of a connection; then every connection that
//! changed is served. So a request that came in many pieces, or a client that left meanwhile, is seen whole.

use crate::mock::answer::{Answer, Pace, Step, Wanted};
use crate::mock::body::Chat;
use crate::mock::fault::Fault;
use crate::mock::intake::{Intake, Request, Route, Taken};
use crate::mock::log::{Line, Log, LogFile, Outcome};
use crate::mock::metrics::{self, Tally};
use crate::mock::reply::{self, Extent, Identity, Model};
use crate::mock::tls::Certificate;
use crate::mock::tongue::Tongue;
use crate::mock::{Shared, TIMER_SLACK};
use crate::shard::ring::{Event, Ring, RingOptions, SocketId, Wait};
use crate::shard::sys;
use crate::time::{Nanos, Stamp};
use crate::wire::tls::TlsSession;
use socket2::Socket;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Connections of one thread, at most.
const SOCKETS_MAX: u32 = 65_536;

/// Completions taken before connections are served.
const BATCH: usize = 1_024;

/// Longest wait, so that a stop is noticed.
const WAIT_MAX: Nanos = Nanos::from_millis(10);

/// Models whose messages are kept rendered.
const MODELS_MAX: usize = 16;

/// The model that answers when the request names none.
const MODEL: &[u8] = b"mock-model";

/// What is not HTTP.
const GARBAGE: &[u8] = b"\x16\x03\x01 this is not HTTP \xff\xfe\r\n\r\n";

/// What a connection is doing.
#[derive(Debug)]
enum Stage {
    /// Being answered by a chat completion.
    Answering(Answer),
    /// Accepted, and not yet receiving.
    Fresh,
    /// There is none, or it is being closed.
    Gone,
    /// Never to be answered.
    Hanging { arrival: Stamp },
    /// Waiting for a request.
    Idle,
    /// The end of an answer is on its way.
    Replying(Then),
}

/// What becomes of a connection when its answer has been sent.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It closes, after a farewell where TLS is spoken.
    Close,
    Continue,
    /// It ends without a farewell.
    Cut,
    Reset,
}

impl Connection {
    /// Takes received bytes in. What is no TLS ends the connection, with an alert that says so.
    fn take(&mut self, bytes: &[u8], plain: &mut Vec<u8>) {
        let Some(tls) = &mut self.tls else { return self.intake.push(bytes) };
        let received = tls.receive(bytes, plain);
        self.intake.push(plain);
        plain.clear();
        match (received, &self.stage) {
            (Ok(()), _) => {}
            (Err(_), Stage::Idle) if !self.sending => self.stage = Stage::Replying(Then::Close),
            (Err(_), _) => self.ended = true,
        }
        self.ended |= tls.is_peer_closed();
    }

    /// Sends what `write` appends, sealed where TLS is spoken, with whatever TLS has to say itself.
    fn send(&mut self, ring: &mut Ring, plain: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.sending = true;
        let Some(tls) = &mut self.tls else { return ring.send(self.socket, write, 0..0) };
        write(plain);
        tls.seal(plain);
        plain.clear();
        ring.send(self.socket, |out| tls.take_records(out), 0..0);
    }
}

impl Then {
    fn close_if(close: bool) -> Self {
        if close { Self::Close } else { Self::Continue }
    }
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that change independently of each other")]
struct Connection {
    socket: SocketId,
    /// What stands between the socket and HTTP, where TLS is spoken.
    tls: Option<Box<TlsSession>>,
    stage: Stage,
    intake: Intake,
    /// Counted over all threads.
    number: u64,
    /// Chat completion requests so far.
    requests: u64,
    /// When the latest bytes came.
    received: Stamp,
    sending: bool,
    /// The client has gone.
    ended: bool,
    /// In the list of those to be served.
    dirty: bool,
    /// Tells timers of this answer from earlier ones.
    serial: u64,
    /// A timer for this answer is set.
    armed: bool,
}

/// One thread's server.
pub(super) struct Worker {
    ring: Ring,
    shared: Arc<Shared>,
    number: usize,
    log: Option<Log>,
    connections: Vec<Connection>,
    dirty: Vec<u32>,
    timers: BinaryHeap<Reverse<(Stamp, u32, u64)>>,
    models: Vec<Model>,
    models_made: usize,
    faults: fastrand::Rng,
    delays: fastrand::Rng,
    identifiers: fastrand::Rng,
    scratch: Vec<u8>,
    /// Bytes of HTTP on their way into or out of TLS; empty in between.
    plain: Vec<u8>,
}

impl Worker {
    /// Makes the ring of the calling thread and starts accepting.
    pub(super) fn new(
        shared: Arc<Shared>,
        number: usize,
        listeners: Vec<Socket>,
        log: Option<LogFile>,
    ) -> io::Result<Self> {
        sys::set_timer_slack(TIMER_SLACK)?;
        let options =
            RingOptions { sockets_max: SOCKETS_MAX, entries: 1_024, buffers: 1_024, buffer_bytes: 8_192 };
        let mut ring = Ring::new(options, Arc::from([])).map_err(io::Error::other)?;
        for listener in listeners {
            let listener =
                ring.open(listener).map_err(|_| io::Error::other("the ring cannot take the listener"))?;
            ring.accept(listener);
        }
        ring.enter(Wait::No)?;
        let random = |purpose: u64| {
            let thread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            fastrand::Rng::with_seed(shared.options.seed.wrapping_add(thread) ^ (purpose << 56))
        };
        Ok(Self {
            ring,
            number,
            log: log.map(Log::new),
            connections: Vec::new(),
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            models: Vec::new(),
            models_made: 0,
            faults: random(1),
            delays: random(2),
            identifiers: random(3),
            scratch: Vec::new(),
            plain: Vec::new(),
            shared,
        })
    }

    /// Serves until the server stops.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = self.shared.clock.now();
            let wait = match self.timers.peek() {
                _ if self.ring.ready() => Wait::No,
                Some(Reverse((due, _, _))) if *due <= now => Wait::No,
                Some(Reverse((due, _, _))) => Wait::AtMost(due.since(now).min(WAIT_MAX)),
                None => Wait::AtMost(WAIT_MAX),
            };
            self.ring.enter(wait)?;
            self.take_completions();
            self.take_timers();
            // In the order in which they changed. Serving changes none but the served.
            let mut dirty = std::mem::take(&mut self.dirty);
            for index in dirty.drain(..) {
                self.connections[index as usize].dirty = false;
                self.serve(index as usize);
            }
            self.dirty = dirty;
        }
        for index in 0..self.connections.len() {
            self.end(index, Outcome::Stopped);
        }
        self.log.map_or(Ok(()), Log::finish)
    }

    fn tally(&self) -> &Tally {
        &self.shared.tallies[self.number]
    }

    fn take_completions(&mut self) {
        let Self { ring, shared, connections, dirty, plain, .. } = self;
        ring.reap(&shared.clock, BATCH, |now, event| {
            let (socket, change): (SocketId, &dyn Fn(&mut Connection)) = match event {
                Event::Accepted { socket, .. } => {
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                    let tls = shared.certificate.as_ref().and_then(Certificate::begin);
                    adopt(connections, socket, number, tls);
                    (socket, &|_| {})
                }
                Event::Received { socket, bytes, .. } => {
                    if let Some(connection) = connections.get_mut(socket.index as usize) {
                        connection.take(bytes, plain);
                        connection.received = now;
                    }
                    (socket, &|_| {})
                }
                Event::Ended { socket, .. } => (socket, &|connection| connection.ended = true),
                Event::Sent { socket, result: Ok(_) } => (socket, &|connection| connection.sending = false),
                Event::Sent { socket, result: Err(_) } => (socket, &|connection| connection.ended = true),
                Event::Closed { .. } | Event::Connected { .. } => return,
            };
            let Some(connection) = connections.get_mut(socket.index as usize) else { return };
            // The listener has a slot, too, and no connection.
            if connection.socket != socket {
                return;
            }
            change(connection);
            if !connection.dirty {
                connection.dirty = true;
                dirty.push(socket.index);
            }
        });
    }

    fn take_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.shared.clock.now();
        while let Some(Reverse((due, index, serial))) = self.timers.peek().copied() {
            if due > now {
                return;
            }
            self.timers.pop();
            let connection = &mut self.connections[index as usize];
            if connection.serial == serial {
                connection.armed = false;
                if !connection.dirty {
                    connection.dirty = true;
                    self.dirty.push(index);
                }
            }
        }
    }

    /// Does whatever can be done for a connection now.
    fn serve(&mut self, index: usize) {
        loop {
            let connection = &mut self.connections[index];
            if connection.ended {
                // A request that came whole before its client left has arrived, whoever is answered.
                if matches!(connection.stage, Stage::Idle) {
                    self.take_request(index);
                }
                self.leave(index);
                return;
            }
            if connection.sending {
                return;
            }
            if connection.tls.as_ref().is_some_and(|tls| tls.has_records()) {
                connection.send(&mut self.ring, &mut self.plain, |_| {});
                return;
            }
            match connection.stage {
                Stage::Answering(answer) => match answer.step(self.shared.clock.now()) {
                    Step::Write => self.write(index, answer),
                    Step::WaitUntil(due) => {
                        self.arm(index, due);
                        return;
                    }
                },
                Stage::Fresh => {
                    connection.stage = Stage::Idle;
                    self.ring.receive(connection.socket);
                }
                Stage::Gone => return,
                Stage::Hanging { .. } => {
                    if connection.intake.flooded() {
                        self.hang_up(index, Ring::close);
                    }
                    return;
                }
                Stage::Idle => {
                    if !self.take_request(index) {
                        return;
                    }
                }
                Stage::Replying(Then::Close) => {
                    let farewell = connection.tls.as_mut().is_some_and(|tls| {
                        tls.close();
                        tls.has_records()
                    });
                    if !farewell {
                        self.hang_up(index, Ring::close);
                    }
                }
                Stage::Replying(Then::Cut) => self.hang_up(index, Ring::close),
                Stage::Replying(Then::Continue) => connection.stage = Stage::Idle,
                Stage::Replying(Then::Reset) => self.hang_up(index, Ring::reset),
            }
        }
    }

    /// Takes the next request, if it is whole, and begins its answer.
    fn take_request(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        match connection.intake.take() {
            Taken::Continue => {
                self.reply(index, false, |out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
            }
            Taken::More => return false,
            Taken::Refused(refusal) => self.refuse(index, refusal.status, refusal.message, "", true),
            Taken::Request(request) => self.begin(index, request),
        }
        true
    }

    fn begin(&mut self, index: usize, request: Request) {
        let Request { route, head_only, close } = request;
        match route {
            Route::Chat(Ok(chat)) => self.begin_answer(index, chat, Tongue::Chat, close),
            Route::Other(tongue, Ok(asked)) => self.begin_answer(index, asked, tongue, close),
            Route::Chat(Err(why)) | Route::Other(_, Err(why)) => {
                self.connections[index].requests += 1;
                let arrival = self.connections[index].received;
                self.refuse(index, 400, why, "", close);
                self.count_short(index, arrival, Outcome::Invalid);
            }
            Route::Health => self.document(index, "application/json", "{}", head_only, close),
            Route::Gpus => {
                let since_start = self.shared.clock.now().since(self.shared.started);
                let text = metrics::render_gpu(&self.shared.tallies, since_start);
                self.document(index, "text/plain; version=0.0.4; charset=utf-8", &text, head_only, close);
            }
            Route::Metrics => {
                let text = metrics::render(&self.shared.tallies);
                self.document(index, "text/plain; version=0.0.4; charset=utf-8", &text, head_only, close);
            }
            Route::Models => {
                let text = "{\"object\":\"list\",\"data\":[{\"id\":\"mock-model\",\"object\":\"model\",\"created\":0,\"owned_by\":\"phasor\"}]}";
                self.document(index, "application/json", text, head_only, close);
            }
            Route::OtherMethod(allowed) => {
                let allow = format!("allow: {allowed}\r\n");
                self.refuse(index, 405, "the path is served for other methods only", &allow, close);
            }
            Route::Unknown => self.refuse(index, 404, "there is nothing at this path", "", close),
        }
    }

    fn begin_answer(&mut self, index: usize, chat: Chat, tongue: Tongue, close: bool) {
        let options = &self.shared.options;
        let arrival = self.connections[index].received;
        self.connections[index].requests += 1;
        let fault = options.faults.draw(&mut self.faults);
        match fault {
            Some(Fault::Garbage) => {
                self.reply(index, true, |out| out.extend_from_slice(GARBAGE));
                self.count_short(index, arrival, Outcome::Garbage);
            }
            Some(Fault::Hang) => {
                self.connections[index].stage = Stage::Hanging { arrival };
                self.tally().waiting.add(1);
            }
            Some(Fault::Refuse) => {
                self.count(index, arrival, None, None, Outcome::Refused);
                self.hang_up(index, Ring::close);
            }
            Some(Fault::Status(status)) => {
                self.refuse(index, status, "this failure was asked for", "", close);
                self.count_short(index, arrival, Outcome::Status);
            }
            None | Some(Fault::Reset | Fault::SlowHeaders | Fault::Truncate) => {
                let extent = Extent {
                    tokens: chat.tokens.unwrap_or(options.default_tokens),
                    prompt_tokens: chat.prompt_words,
                    limited: chat.tokens.is_some(),
                    usage: chat.include_usage && options.usage,
                };
                let created_s = self.shared.clock.unix_ns(arrival) / 1_000_000_000;
                let identity = Identity { id: self.identifiers.u64(..), created_s };
                let (writes, ttft, itl) = (options.writes, options.ttft, options.itl);
                let model = self.model(index, tongue);
                let mut pace = Pace { ttft, itl, random: &mut self.delays };
                let model = (model, &self.models[model]);
                let (queued, stream) = (self.shared.queued(arrival), chat.stream);
                let wanted = Wanted { arrival, queued, stream, close, extent, identity, writes, fault };
                let answer = Answer::new(wanted, model, &mut pace);
                self.tally().running.add(1);
                self.tally().prompt_tokens.add(chat.prompt_words);
                let connection = &mut self.connections[index];
                connection.serial += 1;
                connection.armed = false;
                connection.stage = Stage::Answering(answer);
            }
        }
    }

    /// The rendered model that a request names.
    fn model(&mut self, index: usize, tongue: Tongue) -> usize {
        let name: &[u8] = match &*self.connections[index].intake.model {
            b"" => MODEL,
            name => name,
        };
        if let Some(found) = self.models.iter().position(|model| model.is(name, tongue)) {
            return found;
        }
        let model = Model::new(name, self.shared.options.tokens_per_chunk, tongue);
        let place = self.models_made % MODELS_MAX;
        self.models_made += 1;
        if place == self.models.len() {
            self.models.push(model);
        } else {
            // Answers under way go on under the new name: sixteen models at once are enough for a test.
            self.models[place] = model;
        }
        place
    }

    /// Sends the next write of an answer and sets the timer for the one after it.
    fn write(&mut self, index: usize, mut answer: Answer) {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let tally = &shared.tallies[self.number];
        let connection = &mut self.connections[index];
        if answer.starts_content() {
            tally.record_ttft(now.since(answer.arrival));
        }
        answer.first_byte = answer.first_byte.or(Some(now));
        answer.last_byte = Some(now);
        let Self { ring, models, delays, scratch, plain, .. } = self;
        let mut pace = Pace { ttft: shared.options.ttft, itl: shared.options.itl, random: delays };
        let model = &models[answer.model];
        connection.send(ring, plain, |out| answer.write(out, scratch, model, &mut pace));
        connection.stage = Stage::Answering(answer);
        if answer.done() {
            // Counted before the kernel has it, so that whoever has read an answer finds it counted.
            let outcome = answer.outcome();
            self.end(index, outcome);
            self.connections[index].stage = Stage::Replying(match outcome {
                Outcome::Reset => Then::Reset,
                Outcome::Truncated => Then::Cut,
                Outcome::Cancelled
                | Outcome::Garbage
                | Outcome::Hang
                | Outcome::Invalid
                | Outcome::Ok
                | Outcome::Refused
                | Outcome::SlowHeaders
                | Outcome::Status
                | Outcome::Stopped => Then::close_if(answer.close),
            });
        } else if let Step::WaitUntil(due) = answer.step(now) {
            self.arm(index, due);
        }
    }

    fn arm(&mut self, index: usize, due: Stamp) {
        let connection = &mut self.connections[index];
        if !connection.armed {
            connection.armed = true;
            self.timers.push(Reverse((due, connection.socket.index, connection.serial)));
        }
    }

    /// Sends a short answer.
    fn reply(&mut self, index: usize, close: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let connection = &mut self.connections[index];
        connection.stage = Stage::Replying(Then::close_if(close));
        connection.send(&mut self.ring, &mut self.plain, write);
    }

    fn refuse(&mut self, index: usize, status: u16, message: &str, more: &str, close: bool) {
        let body = reply::error_body(status, message);
        self.reply(index, close, |out| {
            reply::write_head(out, status, "application/json", body.len(), close, more);
            out.extend_from_slice(body.as_bytes());
        });
    }

    fn document(&mut self, index: usize, content_type: &str, text: &str, head_only: bool, close: bool) {
        self.reply(index, close, |out| {
            reply::write_head(out, 200, content_type, text.len(), close, "");
            if !head_only {
                out.extend_from_slice(text.as_bytes());
            }
        });
    }

    fn hang_up(&mut self, index: usize, how: fn(&mut Ring, SocketId)) {
        let connection = &mut self.connections[index];
        connection.stage = Stage::Gone;
        connection.serial += 1;
        how(&mut self.ring, connection.socket);
    }

    /// The client has gone.
    fn leave(&mut self, index: usize) {
        let outcome = match self.connections[index].stage {
            Stage::Hanging { .. } => Outcome::Hang,
            Stage::Answering(_) | Stage::Fresh | Stage::Gone | Stage::Idle | Stage::Replying(_) => {
                Outcome::Cancelled
            }
        };
        self.end(index, outcome);
        if !matches!(self.connections[index].stage, Stage::Gone) {
            self.hang_up(index, Ring::close);
        }
    }

    /// Counts and logs the chat completion that a connection is busy with, if any.
    fn end(&mut self, index: usize, outcome: Outcome) {
        match self.connections[index].stage {
            Stage::Answering(answer) => {
                let tally = self.tally();
                tally.running.subtract(1);
                if matches!(outcome, Outcome::Ok | Outcome::SlowHeaders) {
                    tally.generation_tokens.add(answer.extent.tokens.into());
                    let finished =
                        if answer.extent.limited { &tally.finished_length } else { &tally.finished_stop };
                    finished.add(1);
                    if let Some(last_byte) = answer.last_byte {
                        tally.record_e2e(last_byte.since(answer.arrival));
                    }
                } else {
                    tally.generation_tokens.add(answer.tokens_written());
                }
                self.count(index, answer.arrival, answer.first_byte, answer.last_byte, outcome);
            }
            Stage::Hanging { arrival } => {
                self.tally().waiting.subtract(1);
                self.count(index, arrival, None, None, outcome);
            }
            Stage::Fresh | Stage::Gone | Stage::Idle | Stage::Replying(_) => {}
        }
    }

    /// Counts and logs a request whose answer has just been handed over in one write.
    fn count_short(&mut self, index: usize, arrival: Stamp, outcome: Outcome) {
        let now = self.shared.clock.now();
        self.count(index, arrival, Some(now), Some(now), outcome);
    }

    fn count(
        &mut self,
        index: usize,
        arrival: Stamp,
        first_byte: Option<Stamp>,
        last_byte: Option<Stamp>,
        outcome: Outcome,
    ) {
        let tally = self.tally();
        match outcome {
            Outcome::Cancelled => tally.cancelled.add(1),
            Outcome::Stopped => {}
            Outcome::Garbage
            | Outcome::Hang
            | Outcome::Invalid
            | Outcome::Ok
            | Outcome::Refused
            | Outcome::Reset
            | Outcome::SlowHeaders
            | Outcome::Status
            | Outcome::Truncated => tally.requests.add(1),
        }
        let clock = self.shared.clock;
        let connection = &self.connections[index];
        if let Some(log) = &mut self.log {
            log.add(&Line {
                arrival_ns: clock.unix_ns(arrival),
                first_byte_ns: first_byte.map(|stamp| clock.unix_ns(stamp)),
                last_byte_ns: last_byte.map(|stamp| clock.unix_ns(stamp)),
                connection: connection.number,
                request: connection.requests - 1,
                request_id: &connection.intake.request_id,
                outcome,
            });
        }
    }
}

/// Makes `socket`'s slot a fresh connection, reusing its memory.
fn adopt(connections: &mut Vec<Connection>, socket: SocketId, number: u64, tls: Option<Box<TlsSession>>) {
    while connections.len() <= socket.index as usize {
        connections.push(Connection {
            socket: SocketId { index: u32::MAX, generation: 0 },
            tls: None,
            stage: Stage::Gone,
            intake: Intake::default(),
            number: 0,
            requests: 0,
            received: Stamp::ORIGIN,
            sending: false,
            ended: false,
            dirty: false,
            serial: 0,
            armed: false,
        });
    }
    let connection = &mut connections[socket.index as usize];
    connection.socket = socket;
    connection.tls = tls;
    connection.stage = Stage::Fresh;
    connection.intake.clear();
    connection.number = number;
    connection.requests = 0;
    connection.sending = false;
    connection.ended = false;
    connection.serial += 1;
    connection.armed = false;
}
