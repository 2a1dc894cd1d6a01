//! A simulated server and network around one engine per shard, in virtual time.
//!
//! Every run is a function of its seed: the order of events, the split of the bytes and the faults come
//! from one generator. A run that does not end is cut and fails.

use crate::servers::Servers;
use phasor::adaptive::{Controller, Window, WindowTally};
use phasor::config::{
    Cancellation, Config, Dataset as DatasetConfig, Endpoint, Load, Phase, PhaseKind, Ramp, RampStrategy,
    Reuse, Sampling, Url,
};
use phasor::dataset::{Dataset, Row};
use phasor::endpoint::{Dialect, EndpointSettings};
use phasor::engine::{Action, ConnectionId, Engine, EngineOptions, PhaseEvent};
use phasor::measure::{Outcome, PhaseTally, Record, RecordBatch};
use phasor::plan::{Plan, Shared, Tuning};
use phasor::schedule::{Intensity, Rates, Script, Share, Turn};
use phasor::shard::barrier::Barrier;
use phasor::time::{Nanos, Stamp};
use phasor::wire::{KeepTexts, Protocol};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

pub(crate) const ROWS: usize = 7;

/// A phase for a simulation, in the words of a config.
pub(crate) fn phase(name: &str, load: Load) -> Phase {
    Phase::new(name, PhaseKind::Profiling, load)
}

pub(crate) fn concurrency(name: &str, concurrency: u32) -> Phase {
    phase(name, Load::Concurrency { concurrency })
}

pub(crate) fn poisson(name: &str, rate_per_s: f64, concurrency: Option<u32>) -> Phase {
    phase(name, Load::Poisson { rate_per_s, concurrency })
}

pub(crate) fn constant(name: &str, rate_per_s: f64, concurrency: Option<u32>) -> Phase {
    phase(name, Load::Constant { rate_per_s, concurrency })
}

pub(crate) fn gamma(name: &str, rate_per_s: f64, smoothness: f64, concurrency: Option<u32>) -> Phase {
    phase(name, Load::Gamma { rate_per_s, smoothness, concurrency })
}

pub(crate) fn users(name: &str, users: u32, rate_per_s: f64, concurrency: Option<u32>) -> Phase {
    phase(name, Load::UserCentric { rate_per_s, users, concurrency })
}

pub(crate) fn schedule(name: &str, concurrency: Option<u32>) -> Phase {
    let load =
        Load::FixedSchedule { auto_offset: true, start_offset_ms: None, end_offset_ms: None, concurrency };
    phase(name, load)
}

pub(crate) fn ramp(millis: u64, strategy: RampStrategy) -> Ramp {
    Ramp { duration: Nanos::from_millis(millis), strategy }
}

/// How many arrivals an open loop without a cap intends by its duration.
pub(crate) fn arrivals_of(phase: &Phase) -> f64 {
    let rates = Rates {
        target_per_s: phase.load.rate_per_s().unwrap(),
        ramp: phase.rate_ramp,
        ramp_step: Tuning::default().ramp_step,
        series: &phase.rate_series,
        seed: 42,
    };
    Intensity::new(&rates).unwrap().count(phase.stop.duration.unwrap().as_secs_f64())
}

/// A turn that follows so many milliseconds after the one before.
pub(crate) fn after(millis: u64) -> Turn {
    Turn { at: None, delay: Some(Nanos::from_millis(millis)) }
}

/// A turn at its own time in the trace.
pub(crate) fn at(millis: u64) -> Turn {
    Turn { at: Some(Nanos::from_millis(millis)), delay: None }
}

pub(crate) trait PhaseWords: Sized {
    fn sessions(self, sessions: u64) -> Self;
    fn prefill(self, concurrency: u32) -> Self;
    fn change(self, change: impl FnOnce(&mut Self)) -> Self;
    fn requests(self, requests: u64) -> Self;
    fn millis(self, millis: u64) -> Self;
    fn grace_millis(self, millis: u64) -> Self;
    fn cancel(self, rate_percent: f64, delay_millis: u64) -> Self;
    fn seamless(self) -> Self;
    fn warmup(self) -> Self;
}

impl PhaseWords for Phase {
    fn sessions(mut self, sessions: u64) -> Self {
        self.stop.sessions = Some(sessions);
        self
    }
    fn prefill(mut self, concurrency: u32) -> Self {
        self.prefill_concurrency = Some(concurrency);
        self
    }
    fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
    fn requests(mut self, requests: u64) -> Self {
        self.stop.requests = Some(requests);
        self
    }
    fn millis(mut self, millis: u64) -> Self {
        self.stop.duration = Some(Nanos::from_millis(millis));
        self
    }
    fn grace_millis(mut self, millis: u64) -> Self {
        self.grace = Some(Nanos::from_millis(millis));
        self
    }
    fn cancel(mut self, rate_percent: f64, delay_millis: u64) -> Self {
        self.cancellation = Some(Cancellation { rate_percent, delay: Nanos::from_millis(delay_millis) });
        self
    }
    fn seamless(mut self) -> Self {
        self.seamless = true;
        self
    }
    fn warmup(mut self) -> Self {
        self.kind = PhaseKind::Warmup;
        self
    }
}

/// Shares of requests, in percent, that go wrong in each way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) refuse: u32,
    pub(crate) reset_early: u32,
    pub(crate) reset_late: u32,
    pub(crate) close_early: u32,
    pub(crate) truncate: u32,
    pub(crate) hang: u32,
    pub(crate) status: u32,
    /// The client's machine has no port for the connection.
    pub(crate) starve: u32,
    /// The server closes the connection a moment after a good reply, without having said so.
    pub(crate) stale: u32,
}

/// What the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// HTTP alone.
    No,
    /// TLS, with a certificate that the client trusts.
    Trusted,
    /// TLS, with a certificate that it does not trust.
    Foreign,
    /// Nothing: it accepts, and is silent.
    Silent,
}

/// A run to be simulated.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) phases: Vec<Phase>,
    pub(crate) shards: u16,
    pub(crate) seed: u64,
    pub(crate) random_seed: Option<u64>,
    pub(crate) tokens: u32,
    pub(crate) ttft: Nanos,
    pub(crate) gap: Nanos,
    pub(crate) faults: Faults,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) streaming: bool,
    pub(crate) connections_max: usize,
    pub(crate) urls: usize,
    /// The driver does not run between these two times.
    pub(crate) stall: Option<(Nanos, Nanos)>,
    /// The run is interrupted at this time.
    pub(crate) interrupt_at: Option<Nanos>,
    /// Replies are cut into pieces at random.
    pub(crate) split: bool,
    /// The turns of each conversation; empty: [`ROWS`] conversations of one turn.
    pub(crate) script: Vec<Vec<Turn>>,
    pub(crate) tuning: Tuning,
    pub(crate) reuse: Reuse,
    pub(crate) sampling: Sampling,
    /// The server works on one request after the other, each taking this long: a queue with a rate.
    pub(crate) service: Option<Nanos>,
    pub(crate) tls: Tls,
    /// Until then every connection is refused.
    pub(crate) down_until: Option<Nanos>,
}

pub(crate) fn run(phases: Vec<Phase>) -> Simulation {
    Simulation {
        phases,
        shards: 1,
        seed: 1,
        random_seed: Some(42),
        tokens: 4,
        ttft: Nanos::from_millis(5),
        gap: Nanos::from_millis(1),
        faults: Faults::default(),
        timeout: None,
        streaming: true,
        connections_max: 100_000,
        urls: 1,
        stall: None,
        interrupt_at: None,
        split: false,
        script: Vec::new(),
        tuning: Tuning::default(),
        reuse: Reuse::Pooled,
        sampling: Sampling::Sequential,
        service: None,
        tls: Tls::No,
        down_until: None,
    }
}

impl Simulation {
    pub(crate) fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    pub(crate) fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// One phase as it came out.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) started: Stamp,
    pub(crate) sending_ended: Stamp,
    pub(crate) closed: Stamp,
    pub(crate) tally: PhaseTally,
    /// In the order of request numbers.
    pub(crate) records: Vec<Record>,
}

/// A run as it came out.
#[derive(Debug)]
pub(crate) struct Outcomes {
    pub(crate) phases: Vec<Option<Finished>>,
    /// Most requests between issue and end, over all shards, by phase index of the sender's view.
    pub(crate) in_flight_max: u64,
    /// Requests in flight at the start of each phase.
    pub(crate) in_flight_at_start: Vec<u64>,
    /// Most requests in flight from the start of each phase to the start of the next.
    pub(crate) in_flight_max_since_start: Vec<u64>,
    pub(crate) connections_made: u64,
    pub(crate) connections_left: usize,
    pub(crate) records_lost: u64,
    /// Requests as the server saw them.
    pub(crate) server_requests: u64,
    /// Lives of connections on which more than one request was sent after a close was asked for.
    pub(crate) sends_after_close: u64,
    pub(crate) gaps: Vec<Vec<u64>>,
    /// The run was given up because too many requests failed.
    pub(crate) given_up: bool,
    /// Requests by session, with the connection that each was sent on: shard, slot and life.
    pub(crate) sent_on: Vec<(u128, (u16, u32, u32))>,
    /// Requests by session, with the URL that each went to.
    pub(crate) urls: Vec<(u128, u16)>,
    /// Most requests without content at once.
    pub(crate) prefill_max: u64,
    /// The search of the first adaptive phase, as it ended.
    pub(crate) search: Option<Controller>,
}

impl Outcomes {
    pub(crate) fn phase(&self, index: usize) -> &Finished {
        self.phases[index].as_ref().unwrap_or_else(|| panic!("phase {index} never closed"))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Bytes(Vec<u8>),
    Connected(Result<(), i32>),
    Ended(Option<i32>),
    Gone,
    Sent,
    Unsent(i32),
}

type Event = Reverse<(u64, u64, u16, u32, u32, Happening)>;

struct World {
    sim: Simulation,
    engines: Vec<Engine>,
    /// Present where TLS is spoken.
    servers: Option<Servers>,
    barrier: Barrier,
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    heap: BinaryHeap<Event>,
    sequence: u64,
    rng: fastrand::Rng,
    now: Stamp,
    next_phase: Vec<u16>,
    closed: Vec<usize>,
    parts: Vec<Vec<(Stamp, Stamp, PhaseTally)>>,
    ends: Vec<Vec<Stamp>>,
    starts: Vec<Option<Stamp>>,
    records: HashMap<u16, Vec<Record>>,
    /// Lives that the server has closed, whether or not the client knows.
    stale: HashSet<(u16, u32, u32)>,
    /// Lives that were told to close.
    closing: HashMap<(u16, u32, u32), u64>,
    outcomes: Outcomes,
    /// Windows handed over since the last one was looked at.
    windows: Vec<WindowTally>,
    /// The search of the first adaptive phase, and when its window began.
    search: Option<(u16, Controller, Stamp)>,
    /// When the server will have done what waits for it.
    server_free: Stamp,
}

const URL_PORT: u16 = 8_000;

fn config(sim: &Simulation) -> Config {
    let url = Url {
        text: "http://127.0.0.1:8000".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: URL_PORT,
        target: "/v1/chat/completions".to_owned(),
        tls: sim.tls != Tls::No,
        ..Url::default()
    };
    let endpoint = Endpoint {
        streaming: sim.streaming,
        timeout: sim.timeout,
        reuse: sim.reuse,
        ..Endpoint::new(vec![url; sim.urls])
    };
    let mut config = Config::new("m", endpoint, DatasetConfig::synthetic(7, 1, None), sim.phases.clone());
    config.random_seed = sim.random_seed;
    config.dataset.sampling = sim.sampling;
    config
}

fn dataset(rows: usize) -> Dataset {
    let rows: Vec<Row> = (0..rows)
        .map(|row| Row {
            conversation_id: format!("row-{row}"),
            body: row..row + 1,
            isl_tokens: Some(1),
            osl_tokens: None,
        })
        .collect();
    let block = Arc::from(vec![b'x'; rows.len()]);
    Dataset::new(rows, block)
}

fn protocol(config: &Config) -> Protocol {
    let settings = EndpointSettings {
        streaming: config.endpoint.streaming,
        ..EndpointSettings::new(Dialect::chat(), "m")
    };
    Protocol::new(&config.endpoint.urls, &settings, KeepTexts::No).unwrap()
}

/// An engine that has begun nothing.
pub(crate) fn idle_engine() -> Engine {
    let sim = run(vec![concurrency("load", 1).requests(1)]);
    let plan = Arc::new(Plan::new(&config(&sim), ROWS, 1));
    Engine::new(EngineOptions {
        shared: Arc::new(Shared::new(&plan)),
        plan,
        dataset: Arc::new(dataset(ROWS)),
        protocol: Arc::new(protocol(&config(&sim))),
        share: Share::new(0, 1),
        connections_max: 8,
        samples_max: 8,
        batch_records: 8,
        batch_text_bytes: 0,
        identifier_seed: 1,
    })
}

impl Simulation {
    /// Runs to the end.
    pub(crate) fn run(self) -> Outcomes {
        let seed = self.seed;
        let script = Arc::new(match self.script.as_slice() {
            [] => Script::single(ROWS),
            conversations => Script::new(conversations.iter().map(Vec::as_slice)),
        });
        let plan = Arc::new(Plan::for_script(&config(&self), &script, seed, &self.tuning).unwrap());
        let shared = Arc::new(Shared::new(&plan));
        let data = Arc::new(dataset(usize::try_from(script.turns_total()).unwrap()));
        let protocol = Arc::new(protocol(&config(&self)));
        let servers = (self.tls != Tls::No).then(|| Servers::new(self.tls != Tls::Foreign));
        let client = servers.as_ref().map(|servers| &servers.client);
        let engines = (0..self.shards)
            .map(|shard| {
                Engine::new(EngineOptions {
                    plan: Arc::clone(&plan),
                    shared: Arc::clone(&shared),
                    dataset: Arc::clone(&data),
                    protocol: Arc::clone(&protocol),
                    share: Share::new(shard, self.shards),
                    connections_max: self.connections_max,
                    samples_max: 10_000,
                    batch_records: 256,
                    batch_text_bytes: 0,
                    identifier_seed: seed + u64::from(shard),
                })
                .speaking_tls(client)
            })
            .collect();
        let phases = plan.phases.len();
        let mut world = World {
            barrier: Barrier::new(&plan, self.shards),
            engines,
            servers,
            heap: BinaryHeap::new(),
            sequence: 0,
            rng: fastrand::Rng::with_seed(seed),
            now: Stamp::from_nanos(1),
            next_phase: vec![0; usize::from(self.shards)],
            closed: vec![0; phases],
            parts: (0..phases).map(|_| Vec::new()).collect(),
            ends: vec![Vec::new(); phases],
            starts: vec![None; phases],
            records: HashMap::new(),
            stale: HashSet::new(),
            closing: HashMap::new(),
            outcomes: Outcomes {
                phases: Vec::new(),
                in_flight_max: 0,
                in_flight_at_start: Vec::new(),
                in_flight_max_since_start: Vec::new(),
                connections_made: 0,
                connections_left: 0,
                records_lost: 0,
                server_requests: 0,
                sends_after_close: 0,
                gaps: Vec::new(),
                given_up: false,
                sent_on: Vec::new(),
                urls: Vec::new(),
                prefill_max: 0,
                search: None,
            },
            windows: Vec::new(),
            search: None,
            server_free: Stamp::ORIGIN,
            shared: Arc::clone(&shared),
            plan,
            sim: self,
        };
        world.run_to_the_end();
        world.finish()
    }
}

impl World {
    fn run_to_the_end(&mut self) {
        for _ in 0..self.sim.shards {
            self.barrier.arrive_ready(self.now);
        }
        let mut interrupted = false;
        for _ in 0..20_000_000_u64 {
            for shard in 0..self.engines.len() {
                self.begin(shard);
                self.settle(shard);
            }
            let all_closed = self.closed.iter().all(|closed| *closed == self.engines.len());
            let begun_closed = interrupted
                && self.parts.iter().enumerate().all(|(phase, parts)| {
                    parts.len() == self.next_phase.iter().filter(|next| usize::from(**next) > phase).count()
                });
            if all_closed || begun_closed {
                return;
            }
            let Some(next) = self.next_time() else {
                panic!("seed {}: nothing will ever happen again", self.sim.seed)
            };
            self.now = self.now.max(next);
            if let Some((from, to)) = self.sim.stall
                && self.now >= Stamp::ORIGIN.plus(from)
                && self.now < Stamp::ORIGIN.plus(to)
            {
                self.now = Stamp::ORIGIN.plus(to);
            }
            if let Some(at) = self.sim.interrupt_at
                && !interrupted
                && self.now >= Stamp::ORIGIN.plus(at)
            {
                interrupted = true;
                for engine in &mut self.engines {
                    engine.handle_interrupt(self.now);
                }
                continue;
            }
            self.deliver_due();
            self.conduct_search();
            if self.engines.iter().any(Engine::is_given_up) && !interrupted {
                interrupted = true;
                self.outcomes.given_up = true;
                for engine in &mut self.engines {
                    engine.handle_interrupt(self.now);
                }
                continue;
            }
            for shard in 0..self.engines.len() {
                self.engines[shard].handle_timeout(self.now);
                self.settle(shard);
            }
        }
        panic!("seed {}: the run does not end", self.sim.seed);
    }

    fn next_time(&mut self) -> Option<Stamp> {
        let event = self.heap.peek().map(|Reverse((at, ..))| Stamp::from_nanos(*at));
        let timers = self.engines.iter_mut().filter_map(Engine::poll_timeout).min();
        let window = self.search.as_ref().filter(|(_, controller, _)| controller.ending().is_none()).map(
            |(_, controller, begun)| {
                begun.plus(controller.scale().period).max(self.now.plus(Nanos::from_micros(500)))
            },
        );
        let interrupt = self.sim.interrupt_at.map(|at| Stamp::ORIGIN.plus(at)).filter(|at| *at > self.now);
        [event, timers, interrupt, window].into_iter().flatten().min()
    }

    fn begin(&mut self, shard: usize) {
        let next = self.next_phase[shard];
        if let Some(start) = self.barrier.start_of(next) {
            self.engines[shard].begin_phase(next, start);
            self.next_phase[shard] += 1;
            if self.starts[usize::from(next)].is_none() {
                self.starts[usize::from(next)] = Some(start.at);
                let flying = self.in_flight();
                self.outcomes.in_flight_at_start.push(flying);
                self.outcomes.in_flight_max_since_start.push(flying);
            }
        }
    }

    /// What the conductor does for an adaptive phase: cuts windows, looks at them, turns the dial.
    fn conduct_search(&mut self) {
        if self.search.is_none() {
            let adaptive =
                self.plan.phases.iter().find_map(|phase| Some((phase.index, phase.adaptive.clone()?)));
            let Some((index, scale)) = adaptive else { return };
            let Some(start) = self.starts[usize::from(index)] else { return };
            self.search = Some((index, Controller::new(scale), start));
        }
        let Some((index, controller, begun)) = &mut self.search else { return };
        if controller.ending().is_some() || self.closed[usize::from(*index)] > 0 {
            return;
        }
        let dial = self.shared.dial(*index);
        let period = controller.scale().period;
        if self.now >= begun.plus(period) && self.windows.is_empty() {
            dial.cut_window();
        }
        if self.windows.len() == self.engines.len() {
            let mut windows = std::mem::take(&mut self.windows).into_iter();
            let mut tally = windows.next().unwrap();
            windows.for_each(|window| tally.merge(window));
            let decision = controller.handle_window(&Window::new(*begun, self.now, tally));
            *begun = self.now;
            if let Some(stamp) = decision.ignore_before {
                dial.ignore_before(stamp);
            }
            dial.turn(decision.value, self.now.plus(Nanos::from_millis(5)));
            if decision.ends.is_some() {
                dial.stop();
            }
        }
    }

    fn in_flight(&self) -> u64 {
        self.engines.iter().map(Engine::in_flight).sum()
    }

    fn schedule(&mut self, delay: Nanos, shard: usize, id: ConnectionId, happening: Happening) {
        self.sequence += 1;
        let at = self.now.plus(delay).as_nanos();
        let shard = u16::try_from(shard).unwrap();
        self.heap.push(Reverse((at, self.sequence, shard, id.index, id.generation, happening)));
    }

    /// Carries out the engine's actions and passes on its events, until it wants nothing more.
    fn settle(&mut self, shard: usize) {
        while let Some(action) = self.engines[shard].poll_action() {
            match action {
                Action::Connect { connection, .. } => {
                    self.outcomes.connections_made += 1;
                    let down = self.sim.down_until.is_some_and(|until| self.now < Stamp::ORIGIN.plus(until));
                    let refused = down || self.chance(self.sim.faults.refuse);
                    let starved = self.chance(self.sim.faults.starve);
                    let result = match (starved, refused) {
                        (true, _) => Err(99),
                        (false, true) => Err(111),
                        (false, false) => Ok(()),
                    };
                    self.schedule(Nanos::from_micros(50), shard, connection, Happening::Connected(result));
                }
                Action::Flush { connection } => {
                    assert!(self.servers.is_some(), "seed {}: nobody speaks TLS here", self.sim.seed);
                    let mut records = Vec::new();
                    self.engines[shard].write_records(connection, &mut records);
                    assert!(!records.is_empty(), "seed {}: nothing to flush", self.sim.seed);
                    self.schedule(Nanos::from_micros(5), shard, connection, Happening::Sent);
                    let heard = self.hear(shard, connection, &records);
                    assert!(heard.is_empty(), "seed {}: a request in a flush", self.sim.seed);
                }
                Action::Send(send) => {
                    let mut head = Vec::new();
                    self.engines[shard].write_head(&send, &mut head);
                    if self.servers.is_some() {
                        assert!(send.follows.is_empty());
                        head = self.hear(shard, send.connection, &head);
                        assert_eq!(head.pop(), Some(b'x'), "the body is sealed behind the head");
                    } else {
                        assert_eq!(send.follows, send.body);
                    }
                    assert!(head.starts_with(b"POST /v1/chat/completions HTTP/1.1\r\n"));
                    let text = String::from_utf8_lossy(&head);
                    let closes = text.contains("\r\nConnection: close\r\n");
                    assert_eq!(closes, self.sim.reuse == Reuse::Never, "{text}");
                    assert!(text.ends_with("\r\n\r\n") && text.matches("\r\n\r\n").count() == 1);
                    if self.closing.contains_key(&key(shard, send.connection)) {
                        self.outcomes.sends_after_close += 1;
                    }
                    self.outcomes.server_requests += 1;
                    self.outcomes.urls.push((send.correlation_id, send.url));
                    self.outcomes.sent_on.push((send.correlation_id, key(shard, send.connection)));
                    let stale = self.stale.contains(&key(shard, send.connection));
                    // Some writes are refused, others go into the void.
                    let sent = if stale && self.chance(30) { Happening::Unsent(32) } else { Happening::Sent };
                    self.schedule(Nanos::from_micros(5), shard, send.connection, sent);
                    if !stale {
                        self.answer(shard, send.connection);
                    }
                }
                Action::Close { connection } => {
                    let before = self.closing.insert(key(shard, connection), self.now.as_nanos());
                    assert!(before.is_none(), "seed {}: closed twice", self.sim.seed);
                    self.schedule(Nanos::from_micros(20), shard, connection, Happening::Gone);
                }
            }
        }
        self.engines[shard].handle_submitted(self.now);
        while let Some(event) = self.engines[shard].poll_event() {
            match event {
                PhaseEvent::WindowCut { phase } => {
                    let tally = self.engines[shard].take_window(phase).unwrap();
                    self.windows.push(tally);
                }
                PhaseEvent::SendingEnded { phase, at, sessions, drawn_ahead, sent, in_flight } => {
                    assert!(
                        u64::from(in_flight) <= sent && sessions <= sent,
                        "{sessions} {in_flight} {sent}"
                    );
                    self.ends[usize::from(phase)].push(at);
                    self.barrier.arrive_ended(phase, sessions, drawn_ahead, self.now);
                }
                PhaseEvent::Closed { phase, at } => {
                    let tally = self.engines[shard].take_tally(phase).unwrap();
                    let started = self.starts[usize::from(phase)].unwrap();
                    self.parts[usize::from(phase)].push((started, at, tally));
                    self.closed[usize::from(phase)] += 1;
                    self.barrier.arrive_closed(phase, self.now);
                }
            }
        }
        if self.engines[shard].records_ready() {
            self.collect(shard);
        }
        self.outcomes.prefill_max = self.outcomes.prefill_max.max(self.shared.prefills.count());
        let flying = self.in_flight();
        self.outcomes.in_flight_max = self.outcomes.in_flight_max.max(flying);
        if let Some(most) = self.outcomes.in_flight_max_since_start.last_mut() {
            *most = (*most).max(flying);
        }
    }

    fn collect(&mut self, shard: usize) {
        let batch = self.engines[shard].swap_records(RecordBatch::with_capacity(256));
        for (record, gaps) in batch.iter() {
            self.records.entry(record.phase).or_default().push(record.clone());
            self.outcomes.gaps.push(gaps.to_vec());
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        percent > 0 && self.rng.u32(0..100) < percent
    }

    /// What the server does with a request.
    fn answer(&mut self, shard: usize, id: ConnectionId) {
        let faults = self.sim.faults;
        let jitter = Nanos::from_micros(self.rng.u64(0..300));
        let mut ttft = Nanos(self.sim.ttft.0 + jitter.0);
        if let Some(service) = self.sim.service {
            // Half to one and a half times the mean.
            let takes = Nanos(service.0 / 2 + self.rng.u64(0..=service.0));
            self.server_free = self.server_free.max(self.now).plus(takes);
            ttft.0 += self.server_free.since(self.now).0;
        }
        if self.chance(faults.hang) {
            return;
        }
        if self.chance(faults.close_early) {
            if let Some(servers) = &mut self.servers {
                let farewell = servers.farewell(key(shard, id));
                self.carry(shard, id, ttft, &farewell);
            }
            self.schedule(ttft, shard, id, Happening::Ended(None));
            return;
        }
        if self.chance(faults.reset_early) {
            self.schedule(ttft, shard, id, Happening::Ended(Some(104)));
            return;
        }
        if self.chance(faults.status) {
            let reply = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy".to_vec();
            self.deliver(shard, id, ttft, &reply);
            return;
        }
        if !self.sim.streaming {
            let body = br#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
            let mut reply = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes();
            reply.extend_from_slice(body);
            self.deliver(shard, id, ttft, &reply);
            self.grow_stale(shard, id, ttft);
            return;
        }
        let breaks_off = self.chance(faults.truncate);
        let resets = !breaks_off && self.chance(faults.reset_late);
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        self.deliver(shard, id, ttft, head);
        let mut at = ttft;
        for token in 0..self.sim.tokens {
            let event = format!(
                "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"delta\":{{\"content\":\" t{token}\"}}}}]}}\n\n"
            );
            self.deliver(shard, id, at, &chunk(event.as_bytes()));
            at.0 += self.sim.gap.0;
            if token == 1 && breaks_off {
                self.schedule(at, shard, id, Happening::Ended(None));
                return;
            }
            if token == 1 && resets {
                self.schedule(at, shard, id, Happening::Ended(Some(104)));
                return;
            }
        }
        let mut tail = chunk(b"data: [DONE]\n\n");
        tail.extend_from_slice(b"0\r\n\r\n");
        self.deliver(shard, id, at, &tail);
        self.grow_stale(shard, id, at);
    }

    /// The server may close the connection soon after the reply that ends at `at`. What it sent comes first.
    fn grow_stale(&mut self, shard: usize, id: ConnectionId, at: Nanos) {
        if self.chance(self.sim.faults.stale) {
            self.stale.insert(key(shard, id));
            let after = Nanos(at.0 + self.rng.u64(0..600_000));
            let errno = self.rng.bool().then_some(104);
            self.schedule(after, shard, id, Happening::Ended(errno));
        }
    }

    /// What the client's records say to the server, whose own answer goes on its way.
    fn hear(&mut self, shard: usize, id: ConnectionId, records: &[u8]) -> Vec<u8> {
        let Some(servers) = self.servers.as_mut().filter(|_| self.sim.tls != Tls::Silent) else {
            return Vec::new();
        };
        let (heard, answer) = servers.hear(key(shard, id), records);
        self.carry(shard, id, Nanos::from_micros(50), &answer);
        heard
    }

    /// A part of a reply on its way.
    fn deliver(&mut self, shard: usize, id: ConnectionId, delay: Nanos, bytes: &[u8]) {
        match &mut self.servers {
            None => self.carry(shard, id, delay, bytes),
            Some(servers) => {
                let records = servers.seal(key(shard, id), bytes);
                self.carry(shard, id, delay, &records);
            }
        }
    }

    /// Bytes on their way, cut at random if asked.
    fn carry(&mut self, shard: usize, id: ConnectionId, delay: Nanos, bytes: &[u8]) {
        let mut rest = bytes;
        let mut delay = delay;
        while !rest.is_empty() {
            let length = if self.sim.split { self.rng.usize(1..=rest.len()) } else { rest.len() };
            let (piece, after) = rest.split_at(length);
            self.schedule(delay, shard, id, Happening::Bytes(piece.to_vec()));
            rest = after;
            // Pieces stay in order: the sequence decides among equal times.
            delay.0 += 0;
        }
    }

    fn deliver_due(&mut self) {
        while let Some(Reverse((at, ..))) = self.heap.peek() {
            if Stamp::from_nanos(*at) > self.now {
                return;
            }
            let Some(Reverse((_, _, shard, index, generation, happening))) = self.heap.pop() else { return };
            let id = ConnectionId { index, generation };
            let shard = usize::from(shard);
            let closing = self.closing.contains_key(&key(shard, id));
            let engine = &mut self.engines[shard];
            match happening {
                Happening::Gone => engine.handle_gone(id),
                // As on the ring: nothing but the end is heard of a connection that was told to close.
                _ if closing => {}
                Happening::Bytes(bytes) => engine.handle_bytes(id, self.now, &bytes),
                Happening::Connected(result) => engine.handle_connected(id, self.now, result),
                Happening::Ended(errno) => engine.handle_ended(id, self.now, errno),
                Happening::Sent => engine.handle_sent(id, self.now, Ok(1)),
                Happening::Unsent(errno) => engine.handle_sent(id, self.now, Err(errno)),
            }
            self.settle(shard);
        }
    }

    fn finish(mut self) -> Outcomes {
        for shard in 0..self.engines.len() {
            self.collect(shard);
            self.outcomes.records_lost += self.engines[shard].records_lost();
            self.engines[shard].close_idle();
            self.settle(shard);
        }
        while let Some(Reverse((at, ..))) = self.heap.peek() {
            self.now = self.now.max(Stamp::from_nanos(*at));
            self.deliver_due();
        }
        self.outcomes.connections_left = self.engines.iter().map(Engine::connections_open).sum();
        assert_eq!(self.in_flight(), 0, "seed {}: requests in flight after the end", self.sim.seed);
        assert_eq!(self.shared.in_flight.count(), 0, "seed {}: slots of sessions leak", self.sim.seed);
        assert_eq!(self.shared.prefills.count(), 0, "seed {}: slots of prefills leak", self.sim.seed);
        for (index, parts) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            let mut records = self.records.remove(&u16::try_from(index).unwrap()).unwrap_or_default();
            records.sort_by_key(|record| record.number);
            let mut parts = parts.into_iter();
            let finished = parts.next().map(|(started, closed, tally)| {
                let mut finished = Finished {
                    started,
                    sending_ended: self.ends[index].iter().copied().max().unwrap_or(closed),
                    closed,
                    tally,
                    records,
                };
                for (_, closed, tally) in parts {
                    finished.closed = finished.closed.max(closed);
                    finished.tally.merge(tally);
                }
                finished
            });
            self.outcomes.phases.push(finished);
        }
        assert_eq!(self.plan.phases.len(), self.outcomes.phases.len());
        self.outcomes.search = self.search.map(|(_, controller, _)| controller);
        self.outcomes
    }
}

fn key(shard: usize, id: ConnectionId) -> (u16, u32, u32) {
    (u16::try_from(shard).unwrap(), id.index, id.generation)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Checks what must hold of any run.
pub(crate) fn check_totals(outcomes: &Outcomes, seed: u64) {
    let mut identifiers = std::collections::HashSet::new();
    for finished in outcomes.phases.iter().flatten() {
        let counts = finished.tally.counts();
        assert_eq!(
            counts.sent,
            counts.ok + counts.failed + counts.cancelled + counts.abandoned,
            "seed {seed}: {counts:?}"
        );
        let lines = finished.records.len() as u64;
        assert_eq!(lines + outcomes.records_lost, counts.completed(), "seed {seed}: {counts:?}");
        for record in &finished.records {
            assert!(identifiers.insert(record.request_id), "seed {seed}: a request is recorded twice");
            assert!(record.issued >= finished.started, "seed {seed}: sent before its phase");
            assert!(record.issued <= finished.sending_ended, "seed {seed}: sent after sending ended");
            assert!(record.ended <= finished.closed, "seed {seed}: recorded after its phase closed");
            assert!(record.planned <= record.issued, "seed {seed}: sent before it was due");
            if matches!(record.outcome, Outcome::Ok) {
                assert!(record.first_content.is_some() && record.written.is_some(), "seed {seed}");
            }
        }
        let numbers: std::collections::HashSet<u64> =
            finished.records.iter().map(|record| record.number).collect();
        assert_eq!(numbers.len(), finished.records.len(), "seed {seed}: a number is used twice");
    }
    assert_eq!(outcomes.sends_after_close, 0, "seed {seed}: a closed connection was used again");
    assert_eq!(outcomes.connections_left, 0, "seed {seed}: connections leak");
    assert_eq!(outcomes.records_lost, 0, "seed {seed}");
}
