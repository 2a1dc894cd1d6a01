//! Every metric of a scope: a phase, or phases pooled.

use crate::measure::PhaseTally;
use crate::measure::catalogue::{Derived, Metric, SAMPLED, SINGLES, Sampled, Source};
use crate::measure::statistics::{Adjusted, Ordered, Statistics};
use crate::measure::tally::Counts;
use crate::time::Nanos;

/// What is said about one metric, in the unit of the files.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Statistics with an infinite value for every failed request.
    Adjusted(Adjusted),
    /// The fifteen statistics.
    Full(Statistics),
    /// One finite number.
    Single(f64),
}

/// What `benchmark_duration` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationRule {
    /// From the first start of a good request to the last content of one.
    FirstToLast,
    /// The window itself: the rule for two or more phases pooled.
    Window,
}

/// The metrics of a scope that have a value.
#[derive(Clone, Debug)]
pub struct Summary {
    counts: Counts,
    values: Vec<(&'static Metric, Value)>,
}

impl Summary {
    /// Computes every metric of the tallies together. `window` is what rates divide by; rates over no time
    /// are absent. Metrics of streaming endpoints are left out unless `streaming`.
    pub fn of(tallies: &[&PhaseTally], window: Nanos, rule: DurationRule, streaming: bool) -> Self {
        let counts = Counts::sum(tallies.iter().map(|tally| tally.counts()));
        let mut statistics: Vec<Option<Statistics>> = Vec::with_capacity(Sampled::COUNT);
        let mut adjusted: Vec<Option<Adjusted>> = Vec::with_capacity(Sampled::COUNT);
        for sampled in Sampled::ALL {
            let sets: Vec<_> = tallies.iter().map(|tally| tally.samples(sampled)).collect();
            let ordered = Ordered::of(&sets);
            statistics.push(ordered.statistics());
            adjusted.push(ordered.adjusted(counts.errors()));
        }
        let scope = Scope { tallies, counts, window_s: window.as_secs_f64(), rule, statistics: &statistics };
        let mut values = Vec::with_capacity(SAMPLED.len() + SINGLES.len());
        let shown = |metric: &&Metric| streaming || !metric.streaming;
        for (metric, statistics) in SAMPLED.iter().zip(&statistics).filter(|(metric, _)| shown(metric)) {
            if let Some(statistics) = statistics {
                values.push((metric, Value::Full(statistics.divided_by(metric.unit.divisor()))));
            }
        }
        for metric in SINGLES.iter().filter(shown) {
            let value = match metric.source {
                Source::Adjusted(sampled) => adjusted
                    .get(sampled as usize)
                    .and_then(Option::as_ref)
                    .map(|value| Value::Adjusted(value.divided_by(metric.unit.divisor()))),
                Source::Derived(derived) => {
                    scope.derived(derived).filter(|value| value.is_finite()).map(Value::Single)
                }
                Source::Gaps | Source::Record(..) => None,
            };
            if let Some(value) = value {
                values.push((metric, value));
            }
        }
        Self { counts, values }
    }

    /// The metrics with their values, in the order of the catalogue.
    pub fn values(&self) -> impl Iterator<Item = (&'static Metric, &Value)> {
        self.values.iter().map(|(metric, value)| (*metric, value))
    }

    /// The value of one metric.
    pub fn value(&self, tag: &str) -> Option<&Value> {
        self.values.iter().find(|(metric, _)| metric.tag == tag).map(|(_, value)| value)
    }

    /// The single value of one metric; absent for any other kind.
    pub fn single(&self, tag: &str) -> Option<f64> {
        match self.value(tag)? {
            Value::Single(value) => Some(*value),
            Value::Adjusted(_) | Value::Full(_) => None,
        }
    }

    /// The counters of the scope.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

struct Scope<'a> {
    tallies: &'a [&'a PhaseTally],
    counts: Counts,
    window_s: f64,
    rule: DurationRule,
    statistics: &'a [Option<Statistics>],
}

impl Scope<'_> {
    fn sum(&self, sampled: Sampled) -> Option<f64> {
        self.statistics.get(sampled as usize)?.as_ref().map(|statistics| statistics.sum)
    }

    fn per_s(&self, amount: f64) -> Option<f64> {
        (self.window_s > 0.0).then(|| amount / self.window_s)
    }

    fn derived(&self, derived: Derived) -> Option<f64> {
        let Counts { ok, .. } = self.counts;
        let (errors, completed) = (self.counts.errors(), self.counts.completed());
        let some = |count: u64| (count > 0).then_some(count as f64);
        match derived {
            Derived::BenchmarkDuration => match self.rule {
                DurationRule::FirstToLast => {
                    let first = self.tallies.iter().filter_map(|tally| tally.first_start()).min()?;
                    let last = self.tallies.iter().filter_map(|tally| tally.last_content()).max()?;
                    Some(last.since(first).as_secs_f64())
                }
                DurationRule::Window => some(ok).map(|_| self.window_s),
            },
            Derived::CompletedRequestCount => some(completed),
            Derived::ErrorRequestCount => some(errors),
            Derived::InputTokenThroughput => self.per_s(self.sum(Sampled::InputSequenceLength)?),
            Derived::OutputTokenThroughput => self.per_s(self.sum(Sampled::OutputSequenceLength)?),
            Derived::OverallCacheReadPercent => {
                let prompt = self.sum(Sampled::UsagePromptTokens).filter(|prompt| *prompt > 0.0)?;
                Some(100.0 * self.sum(Sampled::UsagePromptCacheReadTokens)? / prompt)
            }
            Derived::RequestCount => some(ok),
            Derived::RequestErrorRate => some(completed).map(|completed| 100.0 * errors as f64 / completed),
            Derived::RequestThroughput => self.per_s(some(ok)?),
            Derived::Total(sampled) => self.sum(sampled),
            Derived::TotalTokenThroughput => {
                self.per_s(self.sum(Sampled::InputSequenceLength)? + self.sum(Sampled::OutputSequenceLength)?)
            }
        }
    }
}
