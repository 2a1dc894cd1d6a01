//! The loop that joins one engine to one ring, as one task of a pinned executor.
//!
//! One turn: let the engine act on the time, carry out its actions, pass on the edges of phases, wait in
//! the ring no longer than to the next due time, reap what has completed, and let the executor run once.

use crate::adaptive::WindowTally;
use crate::engine::Action;
use crate::engine::ConnectionId;
use crate::engine::Engine;
use crate::engine::PhaseEvent;
use crate::measure::Cost;
use crate::measure::PhaseTally;
use crate::measure::RecordBatch;
use crate::shard::barrier::Barrier;
use crate::shard::barrier::WATCH;
use crate::shard::barrier::Warmth;
use crate::shard::meter::Mark;
use crate::shard::meter::Meter;
use crate::shard::peer::Peer;
use crate::shard::ring::Event;
use crate::shard::ring::Ring;
use crate::shard::ring::RingError;
use crate::shard::ring::SocketId;
use crate::shard::ring::Wait;
use crate::shard::socket::SocketOptions;
use crate::shard::sources::Sources;
use crate::shard::sys::set_bind_address_no_port;
use crate::shard::sys::set_timer_slack;
use crate::time::Clock;
use crate::time::Nanos;
use crate::time::Stamp;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;

/// Longest wait in the ring, so that the barrier, the interrupt flag and the executor are served.
pub const WAIT_MAX: Nanos = Nanos::from_micros(500);

/// Most completions taken between two looks at the schedule.
pub const REAP_BATCH: usize = 128;

/// One of so many connections asks the kernel when it received what it hands over.
const STAMPED_EVERY: u32 = 64;

/// Completions taken between two looks at the clock.
const REAP_SLICE: usize = 16;

/// Rounds over the socket pair before the first phase.
const WARM_UP_ROUNDS: u32 = 32;

/// Longest time spent on them.
const WARM_UP_MAX: Nanos = Nanos::from_millis(100);

/// What a shard does while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Waits in the kernel, and spins only for the last stretch before a due time.
    Sleep,
    /// Never waits in the kernel while requests are in flight or due: its core is its own.
    Spin,
    /// Waits in the kernel always: more threads want to run than there are cores.
    Yield,
}

/// What a shard tells the conductor.
#[derive(Debug)]
pub enum Message {
    /// The shard has ended, well or not.
    Ended {
        /// The shard.
        shard: u16,
        /// What it cost.
        cost: Cost,
        /// Records that were lost on the way to the writer.
        records_lost: u64,
        /// Why it ended before its phases did.
        fault: Option<ShardFault>,
    },
    /// A phase has closed on the shard.
    Phase(Box<ClosedPhase>),
    /// A window of an adaptive phase that was asked for.
    Window {
        /// The phase.
        phase: u16,
        /// What returned in it on this shard.
        tally: Box<WindowTally>,
    },
    /// The shard sends no more of a phase.
    Stopped {
        /// The phase.
        phase: u16,
        /// How it stood then.
        stopped: Stopped,
    },
}

/// A phase when sending had ended: of one shard, or of all, each at its own last moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Requests sent.
    pub sent: u64,
    /// Of those, still in flight.
    pub in_flight: u64,
    /// Sessions begun.
    pub sessions: u64,
}

/// Why a shard ended before its phases did.
#[derive(Debug, thiserror::Error)]
pub enum ShardFault {
    /// The ring failed while it was in use.
    #[error("io_uring failed: {0}")]
    Enter(#[from] std::io::Error),
    /// Its thread panicked.
    #[error("its thread failed; this is a fault of phasor, please report it")]
    Panicked,
    /// There is no ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// It has no thread.
    #[error("{0}")]
    Unstarted(String),
}

/// One shard's part of a closed phase.
#[derive(Debug)]
pub struct ClosedPhase {
    /// The shard.
    pub shard: u16,
    /// Its core.
    pub cpu: usize,
    /// The phase.
    pub phase: u16,
    /// The common start.
    pub started: Stamp,
    /// Nothing was sent from here on.
    pub sending_ended: Stamp,
    /// The last request had ended.
    pub closed: Stamp,
    /// Cut short by an interrupt.
    pub interrupted: bool,
    /// What driving the shard cost meanwhile.
    pub cost: Cost,
    /// The numbers, moved out of the shard.
    pub tally: PhaseTally,
}

/// Live counts that anybody may read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauges {
    /// The phase that was begun last, plus 1.
    pub phase: AtomicU64,
    /// Requests sent.
    pub sent: AtomicU64,
    /// Requests that ended well.
    pub ok: AtomicU64,
    /// Requests that failed or were cancelled.
    pub errors: AtomicU64,
    /// Requests in flight.
    pub in_flight: AtomicU64,
}

/// Where a shard's records go: full batches one way, empty ones back.
#[derive(Debug)]
pub struct RecordPort {
    /// Which of the writer's ports this is.
    pub shard: usize,
    /// To the writer; bounded, never waited for.
    pub full: mpsc::SyncSender<(usize, RecordBatch)>,
    /// From the writer.
    pub empty: mpsc::Receiver<RecordBatch>,
}

/// Everything one shard is driven with.
#[derive(Debug)]
pub struct Shard {
    /// The state machine.
    pub engine: Engine,
    /// Number of phases in the plan.
    pub phases: u16,
    /// This shard's number.
    pub shard: u16,
    /// The core it is pinned to.
    pub cpu: usize,
    /// Address behind each URL of the plan.
    pub addresses: Vec<Peer>,
    /// Addresses of this machine that sockets bind to in turn; empty: the kernel chooses.
    pub sources: Sources,
    /// Options of its sockets.
    pub sockets: SocketOptions,
    /// Where phases meet.
    pub barrier: Arc<Barrier>,
    /// Set: end now.
    pub interrupt: Arc<AtomicBool>,
    /// Live counts.
    pub gauges: Arc<Gauges>,
    /// To the conductor.
    pub messages: mpsc::Sender<Message>,
    /// To the record writer, if records are kept.
    pub records: Option<RecordPort>,
    /// The process's clock.
    pub clock: Clock,
    /// What to do while there is nothing to do.
    pub idle: Idle,
    /// Whether the thread has driven a run before.
    pub warmth: Warmth,
}

/// A phase begun and not closed yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    phase: u16,
    started: Stamp,
    sending_ended: Stamp,
    mark: Mark,
}

/// The loop's state.
#[derive(Debug)]
pub(super) struct Driver {
    shard: Shard,
    ring: Ring,
    /// Socket of each connection slot.
    sockets: Vec<Option<SocketId>>,
    /// Connection of each socket slot.
    connections: Vec<Option<ConnectionId>>,
    begun: Vec<Begun>,
    /// The phase that is begun next.
    next_phase: u16,
    closed_phases: u16,
    interrupted: bool,
    /// A phase has closed whose last records are still here.
    owes_records: bool,
    meter: Meter,
    /// Since the shard was ready.
    whole: Mark,
}

impl Driver {
    pub(super) fn new(shard: Shard, ring: Ring) -> Self {
        let now = shard.clock.now();
        let meter = Meter::new(shard.cpu, now);
        Self {
            whole: meter.mark(now),
            meter,
            shard,
            ring,
            sockets: Vec::new(),
            connections: Vec::new(),
            begun: Vec::new(),
            next_phase: 0,
            closed_phases: 0,
            interrupted: false,
            owes_records: false,
        }
    }

    /// Drives the shard through all phases and reports the end. Gives the ring back if it can be used again.
    pub(super) async fn run(mut self) -> Option<Ring> {
        let fault = self.turn_until_done().await.err();
        let failed = fault.is_some();
        self.close_down();
        let cost = self.meter.cost(&self.whole, self.shard.clock.now());
        let records_lost = self.shard.engine.records_lost();
        let shard = self.shard.shard;
        // The conductor is gone only when the process is about to end.
        let _ = self.shard.messages.send(Message::Ended { shard, cost, records_lost, fault });
        (!failed && self.ring.is_idle()).then_some(self.ring)
    }

    async fn turn_until_done(&mut self) -> Result<(), ShardFault> {
        // Without it the kernel may end a timed wait 50 us late; a refusal costs only that.
        let _ = set_timer_slack(Nanos(1));
        match self.shard.warmth {
            Warmth::Cold => self.warm_up()?,
            Warmth::Warm => {}
        }
        let ready = self.shard.clock.now();
        self.meter = Meter::new(self.shard.cpu, ready);
        self.whole = self.meter.mark(ready);
        self.shard.barrier.arrive_ready(self.shard.clock.now());
        let mut turns: u32 = 0;
        loop {
            let now = self.shard.clock.now();
            let ends = self.shard.interrupt.load(Relaxed) || self.shard.engine.is_given_up();
            if ends && !self.interrupted {
                self.interrupted = true;
                self.shard.engine.handle_interrupt(now);
            }
            self.begin_next_phase();
            self.shard.engine.handle_timeout(now);
            self.act();
            self.relay_events();
            self.hand_over_records(false);
            if self.done() {
                return Ok(());
            }
            let waited = self.wait()?;
            self.reap();
            self.act();
            self.relay_events();
            turns = turns.wrapping_add(1);
            if waited || turns.is_multiple_of(64) {
                self.publish_gauges();
                glommio::executor().yield_task_queue_now().await;
            }
        }
    }

    /// Runs the whole path once - ring, buffers, engine - against a socket pair of this thread, so that the
    /// first requests do not pay for what is cold.
    fn warm_up(&mut self) -> Result<(), ShardFault> {
        self.shard.engine.warm_up();
        let (left, right) = socket2::Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        let opened = self.ring.open(left).ok().zip(self.ring.open(right).ok());
        let Some((left, right)) = opened else { return Ok(()) };
        self.ring.receive(right);
        let clock = self.shard.clock;
        let deadline = clock.now().plus(WARM_UP_MAX);
        'rounds: for _ in 0..WARM_UP_ROUNDS {
            self.ring.send(left, |head| head.extend_from_slice(&[b'x'; 512]), 0..0);
            // What was sent can be there before it is known to be sent, and a socket has one send at a time.
            let (mut is_sent, mut is_received) = (false, false);
            while !(is_sent && is_received) {
                if clock.now() >= deadline {
                    break 'rounds;
                }
                self.ring.enter(Wait::AtMost(WAIT_MAX))?;
                self.ring.reap(&clock, REAP_BATCH, |_, event| {
                    is_sent |= matches!(event, Event::Sent { .. });
                    is_received |= matches!(event, Event::Received { .. });
                });
            }
        }
        self.ring.close(left);
        self.ring.close(right);
        let deadline = clock.now().plus(WARM_UP_MAX);
        while self.ring.sockets() > 0 && clock.now() < deadline {
            self.ring.enter(Wait::AtMost(WAIT_MAX))?;
            self.ring.reap(&clock, REAP_BATCH, |_, _| {});
        }
        Ok(())
    }

    fn done(&self) -> bool {
        self.closed_phases == self.shard.phases || (self.interrupted && self.begun.is_empty())
    }

    fn begin_next_phase(&mut self) {
        if self.interrupted || self.next_phase == self.shard.phases {
            return;
        }
        if let Some(start) = self.shard.barrier.start_of(self.next_phase) {
            self.begun.push(Begun {
                phase: self.next_phase,
                started: start.at,
                sending_ended: start.at,
                mark: self.meter.mark(self.shard.clock.now()),
            });
            self.shard.engine.begin_phase(self.next_phase, start);
            self.next_phase += 1;
            self.shard.gauges.phase.store(u64::from(self.next_phase), Relaxed);
        }
    }

    /// Carries out what the engine wants.
    fn act(&mut self) {
        while let Some(action) = self.shard.engine.poll_action() {
            match action {
                Action::Close { connection } => match self.socket_of(connection) {
                    Some(socket) => self.ring.close(socket),
                    None => self.shard.engine.handle_gone(connection),
                },
                Action::Connect { connection, url } => self.connect(connection, url),
                Action::Flush { connection } => {
                    if let Some(socket) = self.socket_of(connection) {
                        let engine = &mut self.shard.engine;
                        self.ring.send(socket, |out| engine.write_records(connection, out), 0..0);
                    }
                }
                Action::Send(send) => {
                    if let Some(socket) = self.socket_of(send.connection) {
                        let engine = &mut self.shard.engine;
                        self.ring.send(socket, |head| engine.write_head(&send, head), send.follows.clone());
                    }
                }
            }
        }
    }

    fn connect(&mut self, connection: ConnectionId, url: u16) {
        let Shard { addresses, sources, sockets, .. } = &mut self.shard;
        let Some(peer) = addresses.get(usize::from(url)) else { return };
        let opened = client_socket(peer, sources, sockets)
            .and_then(|socket| self.ring.open(socket).map_err(|_| std::io::Error::from_raw_os_error(EMFILE)));
        match opened {
            Ok(socket) => {
                put(&mut self.sockets, connection.index, Some(socket));
                put(&mut self.connections, socket.index, Some(connection));
                self.ring.connect(socket, peer.address());
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(EMFILE);
                let now = self.shard.clock.now();
                self.shard.engine.handle_unconnectable(connection, now, errno);
            }
        }
    }

    fn socket_of(&self, connection: ConnectionId) -> Option<SocketId> {
        self.sockets.get(connection.index as usize).copied().flatten()
    }

    /// Waits for a completion, no longer than to what is due: in the kernel as long as that is safe, then
    /// spinning. Tells whether it waited in the kernel.
    fn wait(&mut self) -> Result<bool, ShardFault> {
        let clock = self.shard.clock;
        let now = clock.now();
        let gap = self.meter.look(now);
        self.whole.gap(gap);
        self.begun.iter_mut().for_each(|begun| begun.mark.gap(gap));
        self.shard.engine.handle_submitted(now);
        let limit = if self.watches_for_start() { WATCH } else { WAIT_MAX };
        let latest = now.plus(limit).min(self.shard.engine.poll_timeout().unwrap_or(Stamp::NEVER));
        let window = match self.shard.idle {
            Idle::Sleep | Idle::Spin => self.meter.spin_window(),
            Idle::Yield => Nanos::ZERO,
        };
        let sleep_until = if self.shard.idle == Idle::Spin && self.shard.engine.in_flight() > 0 {
            now
        } else {
            let due = self.shard.engine.poll_due().unwrap_or(Stamp::NEVER);
            latest.min(due.minus(window))
        };
        let sleeps = sleep_until > now && !self.ring.ready();
        if sleeps {
            self.ring.enter(Wait::AtMost(sleep_until.since(now)))?;
            let woken = clock.now();
            self.meter.learn_wake_error(woken, sleep_until);
            self.meter.waited(now, woken);
        } else {
            self.ring.enter(Wait::No)?;
            let begun = clock.now();
            let mut at = begun;
            while at < latest && !self.ring.ready() {
                std::hint::spin_loop();
                at = clock.now();
            }
            self.meter.waited(begun, at);
            self.ring.enter(Wait::No)?;
        }
        Ok(sleeps)
    }

    /// Another shard may start the next phase at any moment.
    fn watches_for_start(&self) -> bool {
        self.next_phase < self.shard.phases
            && self.begun.iter().all(|begun| begun.sending_ended > begun.started)
    }

    /// Takes completions until there are none, the batch is full, or a request is due.
    fn reap(&mut self) {
        let due = self.shard.engine.poll_due();
        for _ in 0..REAP_BATCH / REAP_SLICE {
            let taken = self.reap_slice();
            if taken < REAP_SLICE || due.is_some_and(|due| due <= self.shard.clock.now()) {
                return;
            }
        }
    }

    fn reap_slice(&mut self) -> usize {
        let Self { shard, ring, sockets, connections, meter, .. } = self;
        let engine = &mut shard.engine;
        let mut established = ReapNotes::default();
        let taken = ring.reap(&shard.clock, REAP_SLICE, |now, event| {
            let of = |socket: SocketId| connections.get(socket.index as usize).copied().flatten();
            match event {
                Event::Accepted { .. } => {}
                Event::Closed { socket } => {
                    if let Some(connection) = of(socket) {
                        put(connections, socket.index, None);
                        put(sockets, connection.index, None);
                        engine.handle_gone(connection);
                    }
                }
                Event::Connected { socket, result } => {
                    if let Some(connection) = of(socket) {
                        if result.is_ok() {
                            established.sockets.push(socket);
                        }
                        engine.handle_connected(connection, now, result);
                    }
                }
                Event::Ended { socket, errno } => {
                    if let Some(connection) = of(socket) {
                        engine.handle_ended(connection, now, errno);
                    }
                }
                Event::Received { socket, bytes, arrived_unix_ns } => {
                    if let Some(arrived) = arrived_unix_ns {
                        meter.received(shard.clock.unix_ns(now).saturating_sub(arrived));
                    }
                    if let Some(connection) = of(socket) {
                        engine.handle_bytes(connection, now, bytes);
                    }
                }
                Event::Sent { socket, result } => {
                    if let Some(connection) = of(socket) {
                        engine.handle_sent(connection, now, result);
                    }
                }
            }
        });
        for socket in established.sockets {
            if socket.index.is_multiple_of(STAMPED_EVERY) {
                self.ring.stamp_arrivals(socket);
            }
            self.ring.receive(socket);
        }
        taken
    }

    /// Passes edges of phases to the barrier and tallies to the conductor.
    fn relay_events(&mut self) {
        while let Some(event) = self.shard.engine.poll_event() {
            let now = self.shard.clock.now();
            match event {
                PhaseEvent::SendingEnded { phase, at, sessions, sent, in_flight, drawn_ahead } => {
                    let stopped = Stopped { sent, in_flight: in_flight.into(), sessions };
                    let _ = self.shard.messages.send(Message::Stopped { phase, stopped });
                    if let Some(begun) = self.begun.iter_mut().find(|begun| begun.phase == phase) {
                        begun.sending_ended = at;
                    }
                    self.shard.barrier.arrive_ended(phase, sessions, drawn_ahead, now);
                }
                PhaseEvent::Closed { phase, at } => self.hand_over_phase(phase, at, now),
                PhaseEvent::WindowCut { phase } => {
                    if let Some(tally) = self.shard.engine.take_window(phase) {
                        let _ = self.shard.messages.send(Message::Window { phase, tally: Box::new(tally) });
                    }
                }
            }
        }
    }

    fn hand_over_phase(&mut self, phase: u16, closed: Stamp, now: Stamp) {
        let Some(position) = self.begun.iter().position(|begun| begun.phase == phase) else { return };
        let begun = self.begun.remove(position);
        let Some(tally) = self.shard.engine.take_tally(phase) else { return };
        self.closed_phases += 1;
        self.shard.barrier.arrive_closed(phase, now);
        self.hand_over_records(true);
        let _ = self.shard.messages.send(Message::Phase(Box::new(ClosedPhase {
            shard: self.shard.shard,
            cpu: self.shard.cpu,
            phase,
            started: begun.started,
            sending_ended: begun.sending_ended,
            closed: closed.max(begun.sending_ended),
            interrupted: self.interrupted,
            cost: self.meter.cost(&begun.mark, now),
            tally,
        })));
    }

    /// Gives the writer what has gathered: half a batch, or everything when a phase has closed.
    fn hand_over_records(&mut self, all: bool) {
        let engine = &mut self.shard.engine;
        let Some(port) = &self.shard.records else { return };
        self.owes_records |= all;
        if !engine.records_ready() && !self.owes_records {
            return;
        }
        // Without an empty batch the engine fills up the one it has, then counts what is lost.
        if let Ok(empty) = port.empty.try_recv() {
            self.owes_records = false;
            let full = engine.swap_records(empty);
            let sent = port.full.try_send((port.shard, full));
            if let Err(mpsc::TrySendError::Full((_, lost)) | mpsc::TrySendError::Disconnected((_, lost))) =
                sent
            {
                engine.lose_records(&lost);
            }
        }
    }

    /// At the end there is time to wait for the writer, bounded, so that a slow disk loses nothing now.
    fn hand_over_last_records(&mut self) {
        let engine = &mut self.shard.engine;
        let Some(port) = self.shard.records.take() else { return };
        let empty = port.empty.recv_timeout(LAST_RECORDS_MAX.into());
        let in_time = empty.is_ok();
        let last = engine.swap_records(empty.unwrap_or_default());
        if !in_time {
            engine.lose_records(&last);
        } else if let Err(mpsc::SendError((_, lost))) = port.full.send((port.shard, last)) {
            engine.lose_records(&lost);
        }
    }

    fn publish_gauges(&self) {
        let counts = self.shard.engine.live_counts();
        let gauges = &self.shard.gauges;
        gauges.sent.store(counts.sent, Relaxed);
        gauges.ok.store(counts.ok, Relaxed);
        gauges.errors.store(counts.errors, Relaxed);
        gauges.in_flight.store(counts.in_flight, Relaxed);
    }

    /// Closes every connection and waits, bounded, until they are gone.
    fn close_down(&mut self) {
        self.hand_over_last_records();
        self.shard.engine.close_idle();
        self.act();
        let deadline = self.shard.clock.now().plus(CLOSE_DOWN_MAX);
        while self.ring.sockets() > 0 && self.shard.clock.now() < deadline {
            if self.ring.enter(Wait::AtMost(WAIT_MAX)).is_err() {
                return;
            }
            self.reap();
            self.act();
        }
    }
}

/// Sockets that were established while completions were reaped.
#[derive(Debug, Default)]
struct ReapNotes {
    sockets: Vec<SocketId>,
}

/// Longest wait for room for the last records: whoever counts their tokens may be behind.
const LAST_RECORDS_MAX: Nanos = Nanos::from_millis(60_000);

/// Longest wait for connections to be gone at the end.
const CLOSE_DOWN_MAX: Nanos = Nanos::from_millis(2_000);

/// "Too many open files".
const EMFILE: i32 = 24;

fn client_socket(
    peer: &Peer,
    sources: &mut Sources,
    options: &SocketOptions,
) -> Result<socket2::Socket, std::io::Error> {
    let Some(address) = peer.internet() else {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        options.apply_sizes(&socket)?;
        return Ok(socket);
    };
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    options.apply(&socket)?;
    if let Some(source) = sources.next_for(address) {
        set_bind_address_no_port(socket.as_fd())?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}

/// Puts `value` at `index`, growing the table as needed.
fn put<T: Clone>(table: &mut Vec<Option<T>>, index: u32, value: Option<T>) {
    let index = index as usize;
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    if let Some(place) = table.get_mut(index) {
        *place = value;
    }
}
