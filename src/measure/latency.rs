//! The two latencies of a good request: the server's and the user's.
//!
//! *Service* runs from the first byte the kernel took, *response* from the time at which the plan wanted the
//! request sent, so that a client or a server that falls behind cannot hide it. AIPerf's own latency, from
//! the issue on, lies between them and stands in the catalogue.

use crate::measure::samples::{Resolution, Samples};
use crate::measure::statistics::Ordered;
use crate::measure::{Outcome, Record};
use crate::time::{Nanos, Stamp};

/// One of the four sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Latency {
    /// From the planned time to the last content.
    Response,
    /// From the planned time to the first content.
    ResponseFirstToken,
    /// From the first byte written to the last content.
    Service,
    /// From the first byte written to the first content.
    ServiceFirstToken,
}

impl Latency {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Response, Self::ResponseFirstToken, Self::Service, Self::ServiceFirstToken];

    fn of(self, record: &Record) -> Option<u64> {
        let (from, to) = match self {
            Self::Response => (Some(record.planned), record.last_content),
            Self::ResponseFirstToken => (Some(record.planned), record.first_content),
            Self::Service => (record.first_byte_written, record.last_content),
            Self::ServiceFirstToken => (record.first_byte_written, record.first_content),
        };
        let since = |(from, to): (Stamp, Stamp)| to.since(from).0;
        from.zip(to).map(since)
    }
}

/// The values of all four, of one phase.
#[derive(Debug)]
pub struct Latencies {
    sets: [Samples; 4],
}

impl Latencies {
    /// Empty sets of at most `budget` exact values each.
    pub(crate) fn new(budget: usize) -> Self {
        let sets = Latency::ALL.map(|latency| {
            Samples::staggered(
                Resolution::Whole,
                budget,
                crate::measure::catalogue::Sampled::COUNT + latency as usize,
            )
        });
        Self { sets }
    }

    /// Takes in a request; only good ones have latencies.
    pub(crate) fn record(&mut self, record: &Record) {
        if !matches!(record.outcome, Outcome::Ok) {
            return;
        }
        for (latency, set) in Latency::ALL.into_iter().zip(&mut self.sets) {
            if let Some(value) = latency.of(record) {
                set.push(value as f64);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.sets.iter_mut().zip(other.sets) {
            mine.merge(theirs);
        }
    }

    pub(crate) fn settle(&mut self) {
        self.sets.iter_mut().for_each(Samples::settle);
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.sets.iter().all(Samples::is_exact)
    }

    /// The values of one of them.
    pub fn samples(&self, latency: Latency) -> &Samples {
        &self.sets[latency as usize]
    }

    /// What one of them came to over any number of phases; absent when no request had it.
    pub fn spread<'a>(sets: impl Iterator<Item = &'a Self>, latency: Latency) -> Option<Spread> {
        let sets: Vec<&Samples> = sets.map(|set| set.samples(latency)).collect();
        Spread::of(&Ordered::of(&sets))
    }
}

/// The shape of a set of latencies, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Half were no longer.
    pub p50: f64,
    /// 90 % were no longer.
    pub p90: f64,
    /// 99 % were no longer.
    pub p99: f64,
    /// 99.9 % were no longer.
    pub p99_9: f64,
    /// None was longer.
    pub max: Nanos,
    /// Values, at least 1.
    pub count: u64,
    /// Where the true 99th percentile lies with 95 % confidence; absent for fewer than 368 values.
    pub p99_interval: Option<(f64, f64)>,
}

impl Spread {
    /// Of sorted nanoseconds; absent when there are none.
    pub fn of(ordered: &Ordered) -> Option<Self> {
        let max = ordered.statistics()?.max;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds of a run are whole, not negative and below 2^53"
        )]
        let max = Nanos(max as u64);
        Some(Self {
            p50: ordered.quantile(0.5)?,
            p90: ordered.quantile(0.9)?,
            p99: ordered.quantile(0.99)?,
            p99_9: ordered.quantile(0.999)?,
            max,
            count: ordered.count(),
            p99_interval: ordered.confidence(0.99),
        })
    }
}
