//! What returned in one window: gathered on each shard, merged, asked.

use crate::adaptive::Rules;
use crate::measure::facts::Facts;
use crate::measure::samples::{Resolution, Samples};
use crate::measure::statistics::Ordered;
use crate::measure::{Outcome, Record};
use crate::time::{Nanos, Stamp};

/// Values that a window keeps exactly, over all shards; beyond, a histogram counts them to 0.1 %.
const EXACT_MAX: usize = 1 << 18;

/// A duration of each good request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// To the first content.
    FirstToken,
    /// Between tokens.
    InterToken,
    /// To the last content.
    Latency,
}

/// What returned on one shard.
#[derive(Debug)]
pub struct WindowTally {
    latency_ns: Samples,
    first_token_ns: Samples,
    inter_token_ns: Samples,
    good: u64,
    errors: u64,
    cancelled: u64,
    within_limits: u64,
    output_tokens: u64,
}

impl WindowTally {
    /// An empty window on one of `shards` shards.
    pub fn new(shards: u16) -> Self {
        let samples = || Samples::new(Resolution::Whole, EXACT_MAX.div_ceil(usize::from(shards.max(1))));
        Self {
            latency_ns: samples(),
            first_token_ns: samples(),
            inter_token_ns: samples(),
            good: 0,
            errors: 0,
            cancelled: 0,
            within_limits: 0,
            output_tokens: 0,
        }
    }

    /// Takes in a request that has ended. One that the plan cancelled is an error, as it is in AIPerf; one that
    /// the end of the phase cut is cancelled.
    pub fn record(&mut self, record: &Record, rules: &Rules) {
        let facts = Facts::of(record);
        let latency_ns = facts.latency_ns.filter(|_| matches!(record.outcome, Outcome::Ok));
        let Some(latency_ns) = latency_ns else {
            match record.outcome {
                Outcome::Abandoned => self.cancelled += 1,
                Outcome::Cancelled { .. } | Outcome::Failed(_) | Outcome::Ok => self.errors += 1,
            }
            return;
        };
        let timings_ns = |timing| match timing {
            Timing::FirstToken => facts.ttft_ns.map(|span_ns| span_ns as f64),
            Timing::InterToken => facts.inter_token_ns(),
            Timing::Latency => Some(latency_ns as f64),
        };
        self.good += 1;
        self.output_tokens += record.usage.and_then(|usage| usage.completion_tokens).unwrap_or(0);
        self.latency_ns.push(latency_ns as f64);
        if let Some(span_ns) = timings_ns(Timing::FirstToken) {
            self.first_token_ns.push(span_ns);
        }
        if let Some(span_ns) = timings_ns(Timing::InterToken) {
            self.inter_token_ns.push(span_ns);
        }
        let within = rules.all().iter().all(|rule| rule.admits(timings_ns).unwrap_or(true));
        self.within_limits += u64::from(within);
    }

    /// Takes in what returned on another shard.
    pub fn merge(&mut self, other: Self) {
        self.latency_ns.merge(other.latency_ns);
        self.first_token_ns.merge(other.first_token_ns);
        self.inter_token_ns.merge(other.inter_token_ns);
        self.good += other.good;
        self.errors += other.errors;
        self.cancelled += other.cancelled;
        self.within_limits += other.within_limits;
        self.output_tokens += other.output_tokens;
    }
}

/// A merged window.
#[derive(Debug)]
pub struct Window {
    /// When it began.
    pub begun: Stamp,
    /// When it was cut.
    pub ended: Stamp,
    tally: WindowTally,
    latency: Ordered,
    first_token: Ordered,
    inter_token: Ordered,
}

impl Window {
    /// What all shards together saw from `begun` to `ended`.
    pub fn new(begun: Stamp, ended: Stamp, tally: WindowTally) -> Self {
        let latency = Ordered::of(&[&tally.latency_ns]);
        let first_token = Ordered::of(&[&tally.first_token_ns]);
        let inter_token = Ordered::of(&[&tally.inter_token_ns]);
        Self { begun, ended, tally, latency, first_token, inter_token }
    }

    /// Its length.
    pub fn span(&self) -> Nanos {
        self.ended.since(self.begun)
    }

    /// Its length in seconds.
    pub fn span_s(&self) -> f64 {
        self.span().as_secs_f64()
    }

    /// Good requests.
    pub fn good(&self) -> u64 {
        self.tally.good
    }

    /// Failed requests, and those cancelled by plan.
    pub fn errors(&self) -> u64 {
        self.tally.errors
    }

    /// Requests that the end of the phase cut.
    pub fn cancelled(&self) -> u64 {
        self.tally.cancelled
    }

    /// Good requests that are within every limit on single requests.
    pub fn within_limits(&self) -> u64 {
        self.tally.within_limits
    }

    /// Tokens of replies, as the server reports them.
    pub fn output_tokens(&self) -> u64 {
        self.tally.output_tokens
    }

    /// Good requests per second.
    pub fn throughput(&self) -> f64 {
        let span_s = self.span_s();
        if span_s > 0.0 { self.good() as f64 / span_s } else { 0.0 }
    }

    /// Nanoseconds at the quantile `q`, interpolated linearly; absent when no request has the timing.
    pub fn quantile(&self, timing: Timing, q: f64) -> Option<f64> {
        self.ordered(timing).quantile(q)
    }

    /// Nanoseconds on average.
    pub fn mean(&self, timing: Timing) -> Option<f64> {
        self.ordered(timing).statistics().map(|statistics| statistics.avg)
    }

    fn ordered(&self, timing: Timing) -> &Ordered {
        match timing {
            Timing::FirstToken => &self.first_token,
            Timing::InterToken => &self.inter_token,
            Timing::Latency => &self.latency,
        }
    }
}
