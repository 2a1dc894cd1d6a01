//! Every metric of a scope: a phase, or phases pooled, or a slice of time.

use crate::measure::PhaseTally;
use crate::measure::catalogue::{Derived, LagAt, Metric, SAMPLED, SINGLES, Sampled, Source, WEIGHTED};
use crate::measure::statistics::{Adjusted, Ordered, Statistics};
use crate::measure::tally::Counts;
use crate::measure::weighted::{Series, TimeWeighted, Window, time_weighted};
use crate::time::{Nanos, Stamp};

/// What is said about one metric, in the unit of the files.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Statistics with an infinite value for every failed request.
    Adjusted(Adjusted),
    /// The fifteen statistics.
    Full(Statistics),
    /// One finite number.
    Single(f64),
    /// Statistics over time.
    Weighted(TimeWeighted),
}

/// What `benchmark_duration` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationRule {
    /// From the first start of a good request to the last content of one.
    FirstToLast,
    /// The window itself: the rule for two or more phases pooled.
    Window,
}

/// Where the times of a scope's requests came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// From a law or from free slots.
    Made,
    /// From a schedule that was recorded, in all of its phases.
    Replayed,
}

/// A replayed schedule is degraded when a hundredth of its requests lag behind by more than this.
const DEGRADED_MS: f64 = 500.0;

/// How the numbers of a scope are to be computed.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What rates divide by; rates over no time are absent.
    pub window: Nanos,
    /// What the duration says.
    pub rule: DurationRule,
    /// Whether metrics of streaming endpoints exist.
    pub streaming: bool,
    /// Where the time-weighted metrics look; absent: there are none.
    pub span: Option<Window>,
    /// Whether a schedule was replayed.
    pub timing: Timing,
}

/// The metrics of a scope that have a value.
#[derive(Clone, Debug)]
pub struct Summary {
    counts: Counts,
    values: Vec<(&'static Metric, Value)>,
}

/// What a scope consists of, whatever it was gathered from.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) counts: Counts,
    /// The values of each sampled metric, in their order.
    pub(crate) ordered: Vec<Ordered>,
    pub(crate) first_start: Option<Stamp>,
    pub(crate) last_content: Option<Stamp>,
    pub(crate) weighted: Option<[TimeWeighted; Series::ALL.len()]>,
    /// Requests were held against objectives.
    pub(crate) judged: bool,
}

impl Summary {
    /// Computes every metric of the tallies together.
    pub fn of(tallies: &[&PhaseTally], terms: &Terms) -> Self {
        let intervals: Vec<_> = tallies.iter().map(|tally| tally.intervals()).collect();
        let pool = Pool {
            counts: Counts::sum(tallies.iter().map(|tally| tally.counts())),
            ordered: Sampled::ALL
                .iter()
                .map(|sampled| {
                    let sets: Vec<_> = tallies.iter().map(|tally| tally.samples(*sampled)).collect();
                    Ordered::of(&sets)
                })
                .collect(),
            first_start: tallies.iter().filter_map(|tally| tally.first_start()).min(),
            last_content: tallies.iter().filter_map(|tally| tally.last_content()).max(),
            weighted: terms.span.and_then(|window| time_weighted(&intervals, window)),
            judged: tallies.iter().any(|tally| tally.judgement().has_objectives()),
        };
        Self::of_pool(&pool, terms)
    }

    pub(crate) fn of_pool(pool: &Pool, terms: &Terms) -> Self {
        let statistics: Vec<Option<Statistics>> = pool.ordered.iter().map(Ordered::statistics).collect();
        let scope = Scope {
            pool,
            window_s: terms.window.as_secs_f64(),
            rule: terms.rule,
            timing: terms.timing,
            statistics: &statistics,
        };
        let shown = |metric: &&Metric| terms.streaming || !metric.streaming;
        let mut values = Vec::with_capacity(SAMPLED.len() + SINGLES.len() + WEIGHTED.len());
        for (metric, statistics) in SAMPLED.iter().zip(&statistics).filter(|(metric, _)| shown(metric)) {
            if let Some(statistics) = statistics {
                values.push((metric, Value::Full(statistics.divided_by(metric.unit.divisor()))));
            }
        }
        for metric in SINGLES.iter().chain(&WEIGHTED).filter(shown) {
            let value = match metric.source {
                Source::Adjusted(sampled) => scope.adjusted(sampled).map(Value::Adjusted),
                Source::Curve(series) => pool
                    .weighted
                    .as_ref()
                    .filter(|_| pool.counts.completed() > 0)
                    .and_then(|curves| curves.get(series as usize))
                    .map(|curve| Value::Weighted(*curve)),
                Source::Derived(derived) => {
                    scope.derived(derived).filter(|value| value.is_finite()).map(Value::Single)
                }
                Source::Elsewhere | Source::Gaps | Source::Record(..) => None,
            };
            values.extend(value.map(|value| (metric, value)));
        }
        Self { counts: pool.counts, values }
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
            Value::Adjusted(_) | Value::Full(_) | Value::Weighted(_) => None,
        }
    }

    /// Adds a single value that was not computed from requests alone; one that is not finite is left out.
    pub fn add(&mut self, metric: &'static Metric, value: f64) {
        if value.is_finite() {
            self.values.push((metric, Value::Single(value)));
        }
    }

    /// The counters of the scope.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

struct Scope<'a> {
    pool: &'a Pool,
    window_s: f64,
    rule: DurationRule,
    timing: Timing,
    statistics: &'a [Option<Statistics>],
}

impl Scope<'_> {
    fn adjusted(&self, sampled: Sampled) -> Option<Adjusted> {
        let adjusted = self.pool.ordered.get(sampled as usize)?.adjusted(self.pool.counts.errors())?;
        Some(adjusted.divided_by(sampled.metric().unit.divisor()))
    }

    fn sum(&self, sampled: Sampled) -> Option<f64> {
        self.statistics.get(sampled as usize)?.as_ref().map(|statistics| statistics.sum)
    }

    fn per_s(&self, amount: f64) -> Option<f64> {
        (self.window_s > 0.0).then(|| amount / self.window_s)
    }

    /// How much later than the least late request the others were let go.
    fn lag_ms(&self, at: LagAt) -> Option<f64> {
        match self.timing {
            Timing::Made => return None,
            Timing::Replayed => {}
        }
        let sampled = Sampled::CreditToStartLatency;
        let late = self.statistics.get(sampled as usize)?.as_ref()?;
        let [.., p50, _, p90, _, p99] = late.percentiles;
        let percentile = match at {
            LagAt::P50 => p50,
            LagAt::P90 => p90,
            LagAt::P99 => p99,
        };
        Some((percentile - late.min) / sampled.metric().unit.divisor())
    }

    fn derived(&self, derived: Derived) -> Option<f64> {
        let counts = &self.pool.counts;
        let Counts { ok, .. } = *counts;
        let (errors, completed) = (counts.errors(), counts.completed());
        let some = |count: u64| (count > 0).then_some(count as f64);
        // Only good requests are judged: without one there is nothing to say.
        let held = (self.pool.judged && ok > 0).then_some(counts.held as f64);
        match derived {
            Derived::BenchmarkDuration => match self.rule {
                DurationRule::FirstToLast => {
                    Some(self.pool.last_content?.since(self.pool.first_start?).as_secs_f64())
                }
                DurationRule::Window => some(ok).map(|_| self.window_s),
            },
            Derived::CompletedRequestCount => some(completed),
            Derived::ContextOverflowCount => some(errors).map(|_| counts.context_overflows as f64),
            Derived::ErrorRequestCount => some(errors),
            Derived::GoodRequestCount => held,
            Derived::GoodRequestFraction => held.map(|held| held / completed as f64),
            Derived::Goodput => self.per_s(held?),
            Derived::InputTokenThroughput => self.per_s(self.sum(Sampled::InputSequenceLength)?),
            Derived::OslMismatchCount => {
                self.sum(Sampled::OslMismatchDiffPct).map(|_| counts.osl_mismatched as f64)
            }
            Derived::OutputTokenThroughput => self.per_s(self.sum(Sampled::OutputSequenceLength)?),
            Derived::OverallCacheReadPercent => {
                let prompt = self.sum(Sampled::UsagePromptTokens).filter(|prompt| *prompt > 0.0)?;
                Some(100.0 * self.sum(Sampled::UsagePromptCacheReadTokens)? / prompt)
            }
            Derived::ReplaySchedDegraded => {
                self.lag_ms(LagAt::P99).map(|lag| f64::from(u8::from(lag > DEGRADED_MS)))
            }
            Derived::ReplaySchedLag(at) => self.lag_ms(at),
            Derived::RequestCount => some(ok),
            Derived::RequestErrorRate => some(completed).map(|completed| 100.0 * errors as f64 / completed),
            Derived::RequestThroughput => self.per_s(some(ok)?),
            Derived::Total(sampled) => self.sum(sampled),
            Derived::UsageDiscrepancyCount => {
                let compared = [
                    Sampled::UsagePromptTokensDiffPct,
                    Sampled::UsageCompletionTokensDiffPct,
                    Sampled::UsageReasoningTokensDiffPct,
                ];
                let any = compared.into_iter().any(|sampled| self.sum(sampled).is_some());
                any.then_some(counts.usage_discrepant as f64)
            }
            Derived::TotalTokenThroughput => {
                self.per_s(self.sum(Sampled::InputSequenceLength)? + self.sum(Sampled::OutputSequenceLength)?)
            }
        }
    }
}
