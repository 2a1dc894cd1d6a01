//! What one phase came to, on one shard or merged over all.

use crate::measure::arrivals::Arrivals;
use crate::measure::catalogue::{Read, SAMPLED, Sampled, Source};
use crate::measure::facts::{Facts, SequenceBy};
use crate::measure::handshakes::Handshakes;
use crate::measure::intervals::{Findings, Intervals};
use crate::measure::late::LatenessCounts;
use crate::measure::latency::Latencies;
use crate::measure::samples::{Samples, new_histogram};
use crate::measure::{Failure, Judgement, Outcome, Record};
use crate::time::{Nanos, Stamp};
use crate::wire::tls::Handshake;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Distinct errors that are kept apart; what comes after them is counted in one bucket.
pub const ERROR_GROUPS_MAX: usize = 256;

/// How each sampled metric that has one value per request reads it off good requests, and off all others.
static READERS_OF_GOOD: [Option<Read>; Sampled::COUNT] = readers(true);
static READERS_OF_OTHERS: [Option<Read>; Sampled::COUNT] = readers(false);

const fn readers(good: bool) -> [Option<Read>; Sampled::COUNT] {
    let mut readers = [None; Sampled::COUNT];
    let mut row = 0;
    while row < readers.len() {
        if let Source::Record(feed, read) = SAMPLED[row].source
            && feed.takes(good)
        {
            readers[row] = Some(read);
        }
        row += 1;
    }
    readers
}

/// Counters, samples and errors of one phase. A shard fills its own; at the phase's close it moves (is not
/// copied) to the conductor and is merged there.
///
/// Invariants at close: `planned == sent + dropped`, `sent == ok + failed + cancelled + abandoned`.
#[derive(Debug)]
pub struct PhaseTally {
    counts: Counts,
    samples: Vec<Samples>,
    latencies: Latencies,
    intervals: Intervals,
    judgement: Arc<Judgement>,
    arrivals: Arrivals,
    occupied: Nanos,
    lateness: LatenessCounts,
    handshakes: Handshakes,
    errors: Vec<ErrorGroup>,
    /// Failures whose text came after [`ERROR_GROUPS_MAX`] others.
    errors_beyond: u64,
    first_start: Option<Stamp>,
    last_content: Option<Stamp>,
    last_end: Option<Stamp>,
    /// Requests that are measured elsewhere.
    handed_over: u64,
}

/// The counters of a tally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests let go.
    pub sent: u64,
    /// Arrivals that found the process at its cap.
    pub dropped_at_capacity: u64,
    /// Arrivals that still waited for a late client when the phase ended.
    pub dropped_late: u64,
    /// Good replies.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Cancelled by the plan.
    pub cancelled: u64,
    /// Cut without having been asked to; they count nowhere else.
    pub abandoned: u64,
    /// Bytes of request bodies, of all requests that left a record.
    pub request_body_bytes: u64,
    /// Decoded bytes of reply bodies, of all requests that left a record.
    pub reply_body_bytes: u64,
    /// Messages of any kind, of all requests that left a record.
    pub messages: u64,
    /// Reads that brought bytes of a body, of all requests that left a record.
    pub body_reads: u64,
    /// Good requests whose prompt the server counted.
    pub isl_by_usage: u64,
    /// Good requests whose prompt was counted by the dataset's rule.
    pub isl_by_rule: u64,
    /// Good requests whose reply the server counted.
    pub osl_by_usage: u64,
    /// Good requests whose reply was counted by messages with content.
    pub osl_by_chunks: u64,
    /// Good requests whose reply the client's tokenizer counted.
    pub osl_by_tokenizer: u64,
    /// Good requests that the client was to count and could not, for want of room.
    pub not_counted: u64,
    /// Good requests that met every objective; zero without objectives.
    pub held: u64,
    /// Good requests whose reply's length is further from the one asked for than allowed.
    pub osl_mismatched: u64,
    /// Good requests whose tokens the server counts otherwise than the client.
    pub usage_discrepant: u64,
    /// Failed requests that the server found too long for its model.
    pub context_overflows: u64,
}

impl Counts {
    /// Requests that the plan wanted: sent and dropped ones.
    pub const fn planned(&self) -> u64 {
        self.sent + self.dropped()
    }

    /// Planned ones that were not sent.
    pub const fn dropped(&self) -> u64 {
        self.dropped_at_capacity + self.dropped_late
    }

    /// Failed and cancelled ones: AIPerf's error count.
    pub const fn errors(&self) -> u64 {
        self.failed + self.cancelled
    }

    /// Good and erroneous ones: lines in the record file.
    pub const fn completed(&self) -> u64 {
        self.ok + self.errors()
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            sent,
            dropped_at_capacity,
            dropped_late,
            ok,
            failed,
            cancelled,
            abandoned,
            request_body_bytes,
            reply_body_bytes,
            messages,
            body_reads,
            isl_by_usage,
            isl_by_rule,
            osl_by_usage,
            osl_by_chunks,
            osl_by_tokenizer,
            not_counted,
            usage_discrepant,
            held,
            osl_mismatched,
            context_overflows,
        } = other;
        self.sent += sent;
        self.dropped_at_capacity += dropped_at_capacity;
        self.dropped_late += dropped_late;
        self.ok += ok;
        self.failed += failed;
        self.cancelled += cancelled;
        self.abandoned += abandoned;
        self.request_body_bytes += request_body_bytes;
        self.reply_body_bytes += reply_body_bytes;
        self.messages += messages;
        self.body_reads += body_reads;
        self.isl_by_usage += isl_by_usage;
        self.isl_by_rule += isl_by_rule;
        self.osl_by_usage += osl_by_usage;
        self.osl_by_chunks += osl_by_chunks;
        self.osl_by_tokenizer += osl_by_tokenizer;
        self.not_counted += not_counted;
        self.usage_discrepant += usage_discrepant;
        self.held += held;
        self.osl_mismatched += osl_mismatched;
        self.context_overflows += context_overflows;
    }

    /// The sum over several tallies.
    pub fn sum<'a>(counts: impl Iterator<Item = &'a Self>) -> Self {
        counts.fold(Self::default(), |mut sum, counts| {
            sum.merge(counts);
            sum
        })
    }
}

/// Failures with the same code, kind and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGroup {
    /// What they say.
    pub failure: Failure,
    /// How many there were.
    pub count: u64,
    /// When the first of them ended.
    pub first: Stamp,
    hash: u64,
    /// The delay of requests cancelled by the plan, which needs no text to be recognised by.
    delay: Option<Nanos>,
}

impl ErrorGroup {
    fn is(&self, hash: u64, failure: &Failure) -> bool {
        self.hash == hash
            && self.failure.code == failure.code
            && self.failure.kind == failure.kind
            && self.failure.message == failure.message
    }
}

impl ErrorGroup {
    /// By first occurrence, and by text where that is the same.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |group: &Self| (group.first, group.failure.code);
        key(self)
            .cmp(&key(other))
            .then_with(|| self.failure.kind.cmp(&other.failure.kind))
            .then_with(|| self.failure.message.cmp(&other.failure.message))
    }
}

fn hash_of(failure: &Failure) -> u64 {
    let mut hasher = DefaultHasher::new();
    failure.code.hash(&mut hasher);
    failure.kind.hash(&mut hasher);
    failure.message.hash(&mut hasher);
    hasher.finish()
}

/// How late requests were sent, from their planned time to their first byte, in nanoseconds. At most 0.1 %
/// off, the maximum exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Half were no later.
    pub p50: Nanos,
    /// 90 % were no later.
    pub p90: Nanos,
    /// 99 % were no later.
    pub p99: Nanos,
    /// 99.9 % were no later.
    pub p99_9: Nanos,
    /// None was later.
    pub max: Nanos,
    /// Requests measured, at least 1.
    pub count: u64,
}

/// A set of tallies whose counters contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tally does not balance: {sent} requests were sent, but {ended} ended (ok, failed, cancelled or \
     abandoned); this is a fault of phasor, please report it"
)]
pub struct Unbalanced {
    /// Requests let go.
    pub sent: u64,
    /// Requests that ended.
    pub ended: u64,
}

/// Why an arrival was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The process was at its concurrency cap.
    AtCapacity,
    /// The phase ended while the arrival was still waiting for a client that was late.
    Late,
}

impl PhaseTally {
    /// An empty tally that keeps at most `samples_max` exact values per metric. Reserves what it needs, so
    /// that recording does not allocate.
    ///
    /// Only address space is taken for the samples; memory follows as values come. A metric that nears
    /// `samples_max` makes its histogram once, each metric in a request of its own.
    pub fn new(samples_max: usize) -> Self {
        Self::judged(samples_max, Arc::default())
    }

    /// As [`Self::new`]; good requests are held against `judgement`.
    pub fn judged(samples_max: usize, judgement: Arc<Judgement>) -> Self {
        let samples = SAMPLED
            .iter()
            .enumerate()
            .map(|(row, metric)| Samples::staggered(metric.unit.resolution(), samples_max, row))
            .collect();
        Self {
            counts: Counts::default(),
            samples,
            latencies: Latencies::new(samples_max),
            intervals: Intervals::new(samples_max),
            judgement,
            arrivals: Arrivals::new(samples_max),
            occupied: Nanos::ZERO,
            lateness: LatenessCounts::new(),
            handshakes: Handshakes::default(),
            errors: Vec::new(),
            errors_beyond: 0,
            first_start: None,
            last_content: None,
            last_end: None,
            handed_over: 0,
        }
    }

    /// An arrival or a free slot was turned into a request, `late` after its planned time.
    /// `late` is known when the first byte is written; see [`Self::record`].
    pub fn sent(&mut self) {
        self.counts.sent += 1;
    }

    /// A planned arrival was not sent.
    pub fn dropped(&mut self, why: Drop) {
        match why {
            Drop::AtCapacity => self.counts.dropped_at_capacity += 1,
            Drop::Late => self.counts.dropped_late += 1,
        }
    }

    /// The first byte of a request was accepted by the kernel this long after its planned time.
    pub fn lateness(&mut self, late: Nanos) {
        self.lateness.record(late);
    }

    /// A connection was made for a request of the phase, and TLS took this long of it.
    pub fn handshake(&mut self, handshake: Handshake, span: Nanos) {
        self.handshakes.record(handshake, span);
    }

    /// The handshakes that requests of the phase waited for.
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// A request of an open loop was handed to the kernel, so long after the phase's start.
    pub fn arrival(&mut self, offset: Nanos) {
        self.arrivals.push(offset);
    }

    /// A request of a closed loop held its slot for this long of the time in which the phase was sending.
    pub fn occupy(&mut self, span: Nanos) {
        self.occupied.0 += span.0;
    }

    /// How long slots of a closed loop carried requests while the phase was sending.
    pub fn occupied(&self) -> Nanos {
        self.occupied
    }

    /// When requests of an open loop were handed to the kernel.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// A request ended. `gaps_ns` are the spans between its content messages, in order.
    pub fn record(&mut self, record: &Record, gaps_ns: &[u64]) {
        self.count(record);
        self.measure(record, gaps_ns);
    }

    /// A request ended whose tokens somebody else counts: it is counted here and measured there, by
    /// [`PhaseTally::measure`] of a tally that is merged with this one.
    pub fn hand_over(&mut self, record: &Record) {
        self.count(record);
        self.handed_over += 1;
    }

    /// Requests that ended here and are measured elsewhere.
    pub const fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// A good request was to be counted by the client and could not be.
    pub fn not_counted(&mut self) {
        self.counts.not_counted += 1;
    }

    /// What a request's end says whatever its tokens are.
    fn count(&mut self, record: &Record) {
        self.last_end = self.last_end.max(Some(record.ended));
        match &record.outcome {
            Outcome::Abandoned => {
                self.counts.abandoned += 1;
                return;
            }
            Outcome::Cancelled { delay } => {
                self.counts.cancelled += 1;
                self.cancelled(*delay, record.ended);
            }
            Outcome::Failed(failure) => {
                self.counts.failed += 1;
                self.failed(failure, record.ended);
            }
            Outcome::Ok => {
                self.counts.ok += 1;
                self.first_start = earlier(self.first_start, Some(record.issued));
                self.last_content = self.last_content.max(record.last_content);
            }
        }
        self.counts.request_body_bytes += record.request_body_bytes;
        self.counts.reply_body_bytes += record.body_bytes;
        self.counts.messages += u64::from(record.messages);
        self.counts.body_reads += u64::from(record.body_reads);
        self.latencies.record(record);
    }

    /// Takes the values of a request that was counted, here or elsewhere. Abandoned ones have none.
    pub fn measure(&mut self, record: &Record, gaps_ns: &[u64]) {
        if matches!(record.outcome, Outcome::Abandoned) {
            return;
        }
        let good = matches!(record.outcome, Outcome::Ok);
        let facts = Facts::of(record);
        let mut findings = self.find(&facts, good);
        let readers = if good { &READERS_OF_GOOD } else { &READERS_OF_OTHERS };
        for (row, (read, samples)) in readers.iter().zip(&mut self.samples).enumerate() {
            if let Some(value) = read.and_then(|read| read(&facts)) {
                findings.metrics |= 1 << row;
                samples.push(value);
            }
        }
        if good && let Some(samples) = self.samples.get_mut(Sampled::InterChunkLatency as usize) {
            samples.push_all(gaps_ns.iter().map(|gap| *gap as f64));
        }
        self.intervals.record(&facts, gaps_ns, findings);
    }

    /// Counts what a request is held against.
    fn find(&mut self, facts: &Facts<'_>, good: bool) -> Findings {
        let mut findings = Findings::default();
        if good {
            let tokens = &facts.tokens;
            self.counts.isl_by_usage += u64::from(tokens.input_by_usage);
            self.counts.isl_by_rule += u64::from(tokens.input.is_some() && !tokens.input_by_usage);
            match tokens.sequence_by {
                SequenceBy::Chunks => self.counts.osl_by_chunks += 1,
                SequenceBy::Nothing => {}
                SequenceBy::Tokenizer => self.counts.osl_by_tokenizer += 1,
                SequenceBy::Usage => self.counts.osl_by_usage += 1,
            }
            findings.held = self.judgement.has_objectives() && self.judgement.holds(facts);
            findings.mismatched = self.judgement.mismatched(facts) == Some(true);
            findings.discrepant = self.judgement.discrepant(facts) == Some(true);
        } else if let Outcome::Failed(failure) = &facts.record.outcome {
            findings.overflowed = failure.is_context_overflow();
        }
        self.counts.held += u64::from(findings.held);
        self.counts.osl_mismatched += u64::from(findings.mismatched);
        self.counts.usage_discrepant += u64::from(findings.discrepant);
        self.counts.context_overflows += u64::from(findings.overflowed);
        findings
    }

    fn cancelled(&mut self, delay: Nanos, ended: Stamp) {
        if let Some(group) = self.errors.iter_mut().find(|group| group.delay == Some(delay)) {
            group.count += 1;
            group.first = group.first.min(ended);
            return;
        }
        let failure = Failure::cancelled(delay);
        let hash = hash_of(&failure);
        self.add(ErrorGroup { failure, count: 1, first: ended, hash, delay: Some(delay) });
    }

    fn failed(&mut self, failure: &Failure, ended: Stamp) {
        let hash = hash_of(failure);
        if let Some(group) = self.errors.iter_mut().find(|group| group.is(hash, failure)) {
            group.count += 1;
            group.first = group.first.min(ended);
        } else if self.errors.len() < ERROR_GROUPS_MAX {
            self.errors.push(ErrorGroup {
                failure: failure.clone(),
                count: 1,
                first: ended,
                hash,
                delay: None,
            });
        } else {
            self.errors_beyond += 1;
        }
    }

    fn add(&mut self, group: ErrorGroup) {
        if let Some(known) = self.errors.iter_mut().find(|known| known.is(group.hash, &group.failure)) {
            known.count += group.count;
            known.first = known.first.min(group.first);
        } else if self.errors.len() < ERROR_GROUPS_MAX {
            self.errors.push(group);
        } else {
            self.errors_beyond += group.count;
        }
    }

    /// Takes in another shard's tally of the same phase, or another phase's for pooled results.
    ///
    /// Exact budgets add up. The order of merging shows in nothing but which error texts are kept apart
    /// when there are more than [`ERROR_GROUPS_MAX`].
    pub fn merge(&mut self, other: Self) {
        self.counts.merge(&other.counts);
        for (mine, theirs) in self.samples.iter_mut().zip(other.samples) {
            mine.merge(theirs);
        }
        self.latencies.merge(other.latencies);
        self.intervals.merge(other.intervals);
        self.arrivals.merge(other.arrivals);
        self.occupied.0 += other.occupied.0;
        self.lateness.merge(&other.lateness);
        self.handshakes.merge(&other.handshakes);
        for group in other.errors {
            self.add(group);
        }
        self.errors_beyond += other.errors_beyond;
        self.first_start = earlier(self.first_start, other.first_start);
        self.last_content = self.last_content.max(other.last_content);
        self.last_end = self.last_end.max(other.last_end);
        self.handed_over += other.handed_over;
    }

    /// The phase is over and every part of it merged: gives back the memory that was reserved for values
    /// that did not come, so that a finished phase costs what its values do. Nothing that is known is lost.
    pub fn settle(&mut self) {
        self.samples.iter_mut().for_each(Samples::settle);
        self.latencies.settle();
        self.intervals.settle();
        self.arrivals.settle();
        self.lateness.settle();
        self.handshakes.settle();
    }

    /// The latest end of any request recorded, abandoned ones included.
    pub fn last_end(&self) -> Option<Stamp> {
        self.last_end
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The values of one metric.
    pub fn samples(&self, sampled: Sampled) -> &Samples {
        &self.samples[sampled as usize]
    }

    /// Whether every value of every metric is known exactly.
    pub fn is_exact(&self) -> bool {
        self.samples.iter().all(Samples::is_exact) && self.latencies.is_exact()
    }

    /// Where the requests lay on the time line.
    pub fn intervals(&self) -> &Intervals {
        &self.intervals
    }

    /// What good requests were held against.
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The service and response latencies of good requests.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The start of the first good request.
    pub fn first_start(&self) -> Option<Stamp> {
        self.first_start
    }

    /// The last content of any good request.
    pub fn last_content(&self) -> Option<Stamp> {
        self.last_content
    }

    /// The errors, in the order in which each first occurred.
    pub fn error_groups(&self) -> Vec<&ErrorGroup> {
        let mut groups: Vec<&ErrorGroup> = self.errors.iter().collect();
        groups.sort_by(|left, right| left.order(right));
        groups
    }

    /// The errors of several tallies, those with one text counted together, in the order in which each first
    /// occurred; what was not told apart comes last, as one group of the kind `OtherErrors`.
    pub fn pooled_errors<'a>(tallies: impl Iterator<Item = &'a Self>) -> Vec<ErrorGroup> {
        let mut pooled: Vec<ErrorGroup> = Vec::new();
        let mut beyond = 0;
        for tally in tallies {
            beyond += tally.errors_beyond;
            for group in &tally.errors {
                match pooled.iter_mut().find(|known| known.is(group.hash, &group.failure)) {
                    Some(known) => {
                        known.count += group.count;
                        known.first = known.first.min(group.first);
                    }
                    None => pooled.push(group.clone()),
                }
            }
        }
        pooled.sort_by(ErrorGroup::order);
        if beyond > 0 {
            let failure = Failure {
                code: None,
                kind: "OtherErrors".to_owned(),
                message: format!("errors with other texts than the first {ERROR_GROUPS_MAX} kept apart"),
                cause: None,
                cause_chain: Vec::new(),
            };
            let hash = hash_of(&failure);
            pooled.push(ErrorGroup { failure, count: beyond, first: Stamp::NEVER, hash, delay: None });
        }
        pooled
    }

    /// Failures whose texts came after [`ERROR_GROUPS_MAX`] others and are not told apart.
    pub fn errors_beyond(&self) -> u64 {
        self.errors_beyond
    }

    /// How late requests were sent; absent when none was.
    pub fn lateness_summary(&self) -> Option<Lateness> {
        Self::pooled_lateness(std::iter::once(self))
    }

    /// How late the requests of several tallies were sent; absent when none was.
    pub fn pooled_lateness<'a>(tallies: impl Iterator<Item = &'a Self>) -> Option<Lateness> {
        let mut all = new_histogram();
        let mut max = None;
        for tally in tallies {
            tally.lateness.add_to(&mut all);
            max = max.max(tally.lateness.max());
        }
        let max = max?;
        let at = |quantile| Nanos(all.value_at_quantile(quantile)).min(max);
        Some(Lateness { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max, count: all.len() })
    }

    /// Whether the books balance: every request sent has ended exactly once. (`planned` is derived from
    /// sent and dropped, so it always does.) To be asked at a phase's close.
    ///
    /// # Errors
    /// The two sides, when they differ.
    pub fn check(&self) -> Result<(), Unbalanced> {
        let ended = self.counts.completed() + self.counts.abandoned;
        if self.counts.sent == ended { Ok(()) } else { Err(Unbalanced { sent: self.counts.sent, ended }) }
    }
}

fn earlier(left: Option<Stamp>, right: Option<Stamp>) -> Option<Stamp> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, None) | (None, one) => one,
    }
}
