//! The threads that count tokens while shards run.
//!
//! Batches of finished requests pass through here on their way to the record file: what replies said is
//! encoded with the client's tokenizer, prompts with a history are counted as they were sent, and the values
//! of those requests go into a tally per phase, which is merged with the shards' when the phase is over. The
//! queue is bounded by the batches that go round; what finds no room in one is counted by the shard itself
//! from what it knows, and the report says how often that was.

use crate::artifact::CountingReport;
use crate::dataset::Dataset;
use crate::measure::{Counted, Judgement, Outcome, PhaseTally, Record, RecordBatch, Said};
use crate::run::histories::Histories;
use crate::run::recording::{BATCH_RECORDS, BATCHES_PER_SHARD};
use crate::shard::driver::RecordPort;
use crate::shard::thread_cpu_time;
use crate::time::Nanos;
use crate::tokenizer::Tokenizers;
use crate::wire::TokenSource;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of texts in one batch. A reply or a history that is longer is not counted.
pub const BATCH_TEXT_BYTES: usize = 1 << 20;

/// Most threads that count.
const THREADS_MAX: usize = 64;

/// How often a phase that waits to be counted looks whether anybody still counts.
const LOOK: Duration = Duration::from_millis(100);

/// What is counted, and with what.
#[derive(Clone, Debug)]
pub struct Work {
    /// Count texts, by model.
    pub tokenizers: Tokenizers,
    /// What was sent.
    pub dataset: Arc<Dataset>,
    /// What good requests are held against.
    pub judgement: Arc<Judgement>,
    /// Exact samples kept per metric and phase.
    pub samples_max: usize,
}

/// The running threads.
#[derive(Debug)]
pub struct Counter {
    threads: Vec<JoinHandle<(u64, Option<Nanos>)>>,
    board: Arc<Board>,
    tokenizer: String,
}

/// What has been counted so far, by phase.
#[derive(Debug)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    phases: BTreeMap<u16, Part>,
    /// Threads that still count.
    counting: usize,
}

#[derive(Debug)]
struct Part {
    tally: PhaseTally,
    measured: u64,
}

/// Where a counted batch goes.
#[derive(Clone, Debug)]
enum Onward {
    /// Back to its shard, emptied.
    Back(SyncSender<RecordBatch>),
    /// To the record writer, as from its shard.
    Writer(SyncSender<(usize, RecordBatch)>),
}

impl Counter {
    /// Starts `threads` threads, on the cores named by `cpus` in turn if there are any, and puts them between
    /// the shards and the record writer, whose `ports` these are; a shard without one gets batches of its own.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        ports: Vec<Option<RecordPort>>,
        work: &Work,
        threads: usize,
        cpus: &[usize],
    ) -> Result<(Self, Vec<Option<RecordPort>>), std::io::Error> {
        let threads = threads.clamp(1, THREADS_MAX);
        let (full, input) = mpsc::sync_channel(BATCHES_PER_SHARD * ports.len().max(1));
        let (mut onwards, mut outer) = (Vec::new(), Vec::new());
        for (shard, port) in ports.into_iter().enumerate() {
            let (onward, empty) = if let Some(port) = port {
                (Onward::Writer(port.full), port.empty)
            } else {
                let (back, empty) = mpsc::sync_channel(BATCHES_PER_SHARD);
                for _ in 1..BATCHES_PER_SHARD {
                    // The channel has room for all of them: it was made for this many.
                    let _ = back.try_send(RecordBatch::with_texts(BATCH_RECORDS, BATCH_TEXT_BYTES));
                }
                (Onward::Back(back), empty)
            };
            onwards.push(onward);
            outer.push(Some(RecordPort { shard, full: full.clone(), empty }));
        }
        let input = Arc::new(Mutex::new(input));
        let board = Arc::new(Board {
            state: Mutex::new(State { phases: BTreeMap::new(), counting: threads }),
            changed: Condvar::new(),
        });
        let mut counter =
            Self { threads: Vec::new(), board: Arc::clone(&board), tokenizer: work.tokenizers.name() };
        let histories = Arc::new(Histories::default());
        for number in 0..threads {
            let worker = Worker {
                input: Arc::clone(&input),
                board: Arc::clone(&board),
                onwards: onwards.clone(),
                work: work.clone(),
                histories: Arc::clone(&histories),
            };
            let cpu = cpus.get(number % cpus.len().max(1)).copied();
            let run = move || worker.run(cpu);
            let thread = std::thread::Builder::new().name(format!("phasor-count-{number}")).spawn(run)?;
            counter.threads.push(thread);
        }
        Ok((counter, outer))
    }

    /// Waits until `expected` requests of `phase` have been measured and gives their tally. Absent when nothing
    /// was handed over. Ends early, with what there is, when nobody counts any more.
    pub fn complete(&self, phase: u16, expected: u64) -> Option<PhaseTally> {
        let mut state = self.board.lock();
        loop {
            let measured = state.phases.get(&phase).map_or(0, |part| part.measured);
            if measured >= expected || state.counting == 0 {
                return state.phases.remove(&phase).map(|part| part.tally);
            }
            state = match self.board.changed.wait_timeout(state, LOOK) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Waits until everything is counted. The shards' ports must be gone.
    pub fn finish(self) -> CountingReport {
        let threads = self.threads.len();
        let ended: Vec<_> = self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        let requests = ended.iter().map(|(requests, _)| requests).sum();
        let cpu_time = ended.iter().map(|(_, cpu)| cpu.map(|cpu| cpu.0)).sum::<Option<u64>>().map(Nanos);
        CountingReport { tokenizer: self.tokenizer, threads, requests, cpu_time }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that failed while it held the lock has left counters that are short, not wrong.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    input: Arc<Mutex<Receiver<(usize, RecordBatch)>>>,
    board: Arc<Board>,
    onwards: Vec<Onward>,
    work: Work,
    histories: Arc<Histories>,
}

/// Says that a thread counts no more, however it ends.
struct Leaving(Arc<Board>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.lock().counting -= 1;
        self.0.changed.notify_all();
    }
}

impl Worker {
    /// Counts until every shard has dropped its port; the requests counted and the processor time taken.
    fn run(self, cpu: Option<usize>) -> (u64, Option<Nanos>) {
        let _leaving = Leaving(Arc::clone(&self.board));
        if let Some(id) = cpu {
            // A core that cannot be had is no reason not to count.
            let _ = core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        let begun = thread_cpu_time();
        let mut requests = 0;
        loop {
            let next = self.input.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((shard, mut batch)) = next else { break };
            batch.count(|record, said| {
                requests += 1;
                self.work.count(record, said, &self.histories);
            });
            self.measure(&batch);
            match self.onwards.get(shard) {
                Some(Onward::Back(back)) => {
                    batch.clear();
                    // A shard that has ended takes nothing back.
                    let _ = back.try_send(batch);
                }
                // The writer's channel has room for every batch that goes round.
                Some(Onward::Writer(full)) => drop(full.send((shard, batch))),
                None => {}
            }
        }
        let spent = thread_cpu_time().zip(begun).map(|(now, begun)| Nanos(now.0.saturating_sub(begun.0)));
        (requests, spent)
    }

    fn measure(&self, batch: &RecordBatch) {
        let mut state = self.board.lock();
        let mut any = false;
        for (record, gaps_ns) in batch.handed_over() {
            let part = state.phases.entry(record.phase).or_insert_with(|| Part {
                tally: PhaseTally::judged(self.work.samples_max, Arc::clone(&self.work.judgement)),
                measured: 0,
            });
            part.tally.measure(record, gaps_ns);
            part.measured += 1;
            any = true;
        }
        drop(state);
        if any {
            self.board.changed.notify_all();
        }
    }
}

impl Work {
    /// Completes a record by what its texts count.
    fn count(&self, record: &mut Record, said: &Said<'_>, histories: &Histories) {
        let details = self.dataset.details().get(record.row as usize);
        let tokenizer = self.tokenizers.numbered(details.map_or(0, |details| details.tokenizer));
        if let Some(history) = said.history {
            let id = record.correlation_id;
            record.isl_tokens = histories.count(&self.dataset, record.row, id, history, tokenizer);
        }
        if record.token_source == TokenSource::Client && matches!(record.outcome, Outcome::Ok) {
            let tokens = |text: Option<&[u8]>| {
                let text = String::from_utf8_lossy(text?);
                u32::try_from(tokenizer.count(&text)).ok()
            };
            record.counted = Counted { output: tokens(said.output), reasoning: tokens(said.reasoning) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Row;
    use crate::measure::catalogue::Sampled;
    use crate::measure::record::tests::record;
    use crate::tokenizer::Tokenizer;

    fn work() -> Work {
        let row = Row { conversation_id: String::new(), body: 0..0, isl_tokens: Some(3), osl_tokens: None };
        Work {
            tokenizers: Tokenizer::Words.into(),
            dataset: Arc::new(Dataset::new(vec![row], Arc::from([]))),
            judgement: Arc::default(),
            samples_max: 1_000,
        }
    }

    fn good(number: u64) -> Record {
        let token_source = TokenSource::Client;
        Record {
            token_source,
            isl_tokens: Some(3),
            last_content: Some(crate::time::Stamp::ORIGIN),
            ..record(number)
        }
    }

    #[test]
    fn what_is_handed_over_is_counted_once_and_comes_back_empty() -> std::io::Result<()> {
        let (counter, ports) = Counter::start(vec![None, None], &work(), 3, &[])?;
        let mut expected = 0;
        for (shard, port) in ports.iter().flatten().enumerate() {
            for number in 0..40_usize {
                let Ok(mut batch) = port.empty.recv() else { panic!("no batch came back") };
                assert!(batch.is_empty());
                let output = "word ".repeat(1 + number % 7);
                let said = Said { output: Some(output.as_bytes()), ..Said::default() };
                assert!(batch.push_uncounted(&good(number as u64), &[], &said));
                // One that was measured elsewhere is passed on and not counted.
                assert!(batch.push(&record(1_000), &[]));
                expected += 1;
                let sent = port.full.send((shard, batch));
                assert!(sent.is_ok());
            }
        }
        let Some(tally) = counter.complete(0, expected) else { panic!("nothing was counted") };
        assert_eq!(tally.counts().osl_by_tokenizer, expected);
        let lengths = tally.samples(Sampled::OutputSequenceLength);
        let statistics = crate::measure::statistics::Ordered::of(&[lengths]).statistics();
        let sum: u64 = (0..40).map(|number| 1 + number % 7).sum::<u64>() * 2;
        assert_eq!(statistics.map(|statistics| statistics.sum), Some(sum as f64));
        drop(ports);
        let spent = counter.finish();
        assert_eq!((spent.requests, spent.threads, spent.tokenizer.as_str()), (expected, 3, "words"));
        Ok(())
    }

    #[test]
    fn a_phase_is_not_waited_for_when_nobody_counts() -> std::io::Result<()> {
        let (counter, ports) = Counter::start(vec![None], &work(), 1, &[])?;
        drop(ports);
        assert!(counter.complete(0, 5).is_none());
        Ok(())
    }
}
