//! One engine fed from recorded replies in virtual time: no socket, no thread, and no allocation of its own
//! once it runs, so that what is counted and measured is the engine's.

use crate::recorded::Reply;
use phasor::config;
use phasor::engine::{Action, ConnectionId, Engine, EngineOptions, PhaseEvent, PhaseStart};
use phasor::measure::{PhaseTally, RecordBatch};
use phasor::plan::{Plan, Shared};
use phasor::schedule::Share;
use phasor::time::{Nanos, Stamp};
use phasor::wire::{KeepTexts, Protocol};
use std::sync::Arc;

/// Records per batch.
const BATCH_RECORDS: usize = 1_024;

/// From one look at the world to the next: every request in flight gets a read in it.
const TURN: Nanos = Nanos::from_micros(20);

/// A reply on its way.
#[derive(Clone, Copy, Debug)]
struct Answer {
    connection: ConnectionId,
    reply: usize,
    reads: usize,
}

/// An engine, the network and the server around it.
pub(crate) struct Feeder<'a> {
    engine: Engine,
    replies: &'a [Reply],
    answers: Vec<Answer>,
    head: Vec<u8>,
    spare: RecordBatch,
    sent: usize,
    now: Stamp,
    digest: Digest,
}

impl<'a> Feeder<'a> {
    /// An engine in the one phase that `phase` describes, as a YAML flow mapping without its name. It keeps
    /// `samples_max` exact values per metric.
    pub(crate) fn new(phase: &str, replies: &'a [Reply], samples_max: usize) -> Self {
        Self::keeping(phase, replies, samples_max, KeepTexts::No)
    }

    /// As [`Feeder::new`]; the texts of replies are kept and handed over to be counted, or are not.
    pub(crate) fn keeping(phase: &str, replies: &'a [Reply], samples_max: usize, keeps: KeepTexts) -> Self {
        let yaml = format!(
            "randomSeed: 42\nbenchmark:\n  model: m\n  \
             endpoint: {{url: 'http://127.0.0.1:8000', type: chat, streaming: true}}\n  \
             dataset: {{type: synthetic, entries: 16, prompts: {{isl: 64, osl: 32}}}}\n  \
             phases:\n    - {{name: profiling, {phase}}}\n"
        );
        let config = config::parse("feeder.yaml", &yaml).unwrap().config;
        let traffic = phasor::run::traffic::Traffic::in_words(&config).unwrap();
        let dataset = Arc::clone(&traffic.dataset);
        let protocol = Protocol::new(&config.endpoint.urls, &traffic.settings, keeps).unwrap();
        let text_bytes = if keeps == KeepTexts::No { 0 } else { 1 << 20 };
        let plan = Arc::new(Plan::new(&config, dataset.rows().len(), 1));
        let mut engine = Engine::new(EngineOptions {
            shared: Arc::new(Shared::new(&plan)),
            plan,
            dataset,
            protocol: Arc::new(protocol.counted_by_client()),
            share: Share::new(0, 1),
            connections_max: 4_096,
            samples_max,
            batch_records: BATCH_RECORDS,
            batch_text_bytes: text_bytes,
            identifier_seed: 7,
        });
        engine.begin_phase(0, PhaseStart { at: Stamp::from_nanos(1), first_row: 0 });
        Self {
            engine,
            replies,
            answers: Vec::with_capacity(4_096),
            head: Vec::with_capacity(4_096),
            spare: RecordBatch::with_texts(BATCH_RECORDS, text_bytes),
            sent: 0,
            now: Stamp::from_nanos(1),
            digest: Digest::default(),
        }
    }

    /// Lets requests go until `count` of them wait for their replies, so that as many connections are made.
    pub(crate) fn hold_to(&mut self, count: usize) {
        while self.answers.len() < count {
            self.now = self.now.plus(TURN);
            self.engine.handle_timeout(self.now);
            self.act();
        }
    }

    /// Goes on until `ok` requests of the phase have ended well, and a few more that end with them. Gives
    /// their number.
    pub(crate) fn run_to(&mut self, ok: u64) -> u64 {
        loop {
            let done = self.engine.live_counts().ok;
            if done >= ok {
                return done;
            }
            self.turn();
        }
    }

    /// Interrupts the run and gives what it came to, with a hash of all that was recorded.
    pub(crate) fn finish(mut self) -> (PhaseTally, u64) {
        self.engine.handle_interrupt(self.now);
        let mut tally = None;
        while let Some(event) = self.engine.poll_event() {
            if let PhaseEvent::Closed { phase, .. } = event {
                tally = self.engine.take_tally(phase);
            }
        }
        self.collect();
        assert_eq!(self.engine.records_lost(), 0);
        (tally.unwrap(), self.digest.0)
    }

    /// One look at the schedule, and one read for each reply on its way.
    fn turn(&mut self) {
        self.now = self.now.plus(TURN);
        self.engine.handle_timeout(self.now);
        self.act();
        let mut position = 0;
        while let Some(answer) = self.answers.get_mut(position) {
            let Answer { connection, reply, reads } = *answer;
            answer.reads += 1;
            let reply = &self.replies[reply];
            if reads == 0 {
                self.engine.handle_sent(connection, self.now, Ok(self.head.len()));
            }
            if reads + 1 == reply.reads() {
                self.answers.swap_remove(position);
            } else {
                position += 1;
            }
            self.engine.handle_bytes(connection, self.now, reply.read(reads));
        }
        self.act();
        if self.engine.records_ready() {
            self.collect();
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Close { connection } => self.engine.handle_gone(connection),
                Action::Connect { connection, .. } => {
                    self.engine.handle_connected(connection, self.now, Ok(()));
                }
                Action::Flush { .. } => {}
                Action::Send(send) => {
                    self.head.clear();
                    self.engine.write_head(&send, &mut self.head);
                    let reply = self.sent % self.replies.len();
                    self.sent += 1;
                    self.answers.push(Answer { connection: send.connection, reply, reads: 0 });
                }
            }
        }
        self.engine.handle_submitted(self.now);
    }

    /// Empties the batch and gives it back, as the record writer does.
    fn collect(&mut self) {
        let empty = std::mem::take(&mut self.spare);
        let mut full = self.engine.swap_records(empty);
        for (record, gaps_ns) in full.iter() {
            self.digest.take(record.number);
            self.digest.take(u64::from(record.contents));
            self.digest.take(record.body_bytes);
            self.digest.take(record.ended.as_nanos());
            self.digest.take(gaps_ns.iter().sum());
        }
        full.clear();
        self.spare = full;
    }
}

/// A hash of numbers in order (FNV-1a over 64-bit words).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(pub(crate) u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in the next number.
    pub(crate) fn take(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x0100_0000_01b3);
    }
}
