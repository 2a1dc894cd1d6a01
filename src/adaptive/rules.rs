//! The limits of an adaptive phase, and what a window says about each.

use crate::adaptive::window::{Timing, Window};
use crate::config::SlaRule;

/// Why a limit cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No such metric.
    #[error("`{metric}` is no metric of an adaptive phase: write one of {}", SlaRule::METRICS.join(", "))]
    Metric {
        /// What is written.
        metric: String,
    },
    /// No such statistic of the metric.
    #[error("`{metric}` has no statistic `{statistic}`: write one of {}", SlaRule::statistics(metric).join(", "))]
    Statistic {
        /// The metric.
        metric: String,
        /// What is written.
        statistic: String,
    },
}

/// What a limit looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Looks {
    CancellationRate,
    ErrorPercent,
    Goodput,
    GoodputRatio,
    OutputTokenThroughput,
    SuccessRate,
    Throughput,
    Timing(Timing, Statistic),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Avg,
    Max,
    Min,
    Quantile(f64),
}

/// How a value is held against the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Ge,
    Gt,
    Le,
    Lt,
}

/// One limit.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As written.
    pub written: SlaRule,
    looks: Looks,
    op: Op,
}

impl Rule {
    fn new(written: &SlaRule) -> Result<Self, RuleError> {
        let SlaRule { metric, stat, .. } = written;
        let statistic = |timing: Timing| -> Option<Looks> {
            let statistic = match stat.as_str() {
                "avg" => Statistic::Avg,
                "max" => Statistic::Max,
                "min" => Statistic::Min,
                _ => Statistic::Quantile(stat.strip_prefix('p')?.parse::<u8>().ok().map(f64::from)? / 100.0),
            };
            Some(Looks::Timing(timing, statistic))
        };
        if SlaRule::METRICS.contains(&metric.as_str())
            && !SlaRule::statistics(metric).contains(&stat.as_str())
        {
            return Err(RuleError::Statistic { metric: metric.clone(), statistic: stat.clone() });
        }
        let looks = match metric.as_str() {
            "cancellation_rate" => Some(Looks::CancellationRate),
            "error_rate" | "request_error_rate" => Some(Looks::ErrorPercent),
            "goodput" => Some(Looks::Goodput),
            "goodput_ratio" => Some(Looks::GoodputRatio),
            "output_token_throughput" => Some(Looks::OutputTokenThroughput),
            "request_success_rate" | "success_rate" => Some(Looks::SuccessRate),
            "completed_request_throughput" | "request_throughput" | "throughput" => Some(Looks::Throughput),
            "request_latency" => statistic(Timing::Latency),
            "time_to_first_token" | "ttft" => statistic(Timing::FirstToken),
            "inter_token_latency" | "itl" | "tpot" => statistic(Timing::InterToken),
            _ => None,
        };
        let op = match written.op {
            "ge" => Op::Ge,
            "gt" => Op::Gt,
            "le" => Op::Le,
            _ => Op::Lt,
        };
        let looks = looks.ok_or_else(|| RuleError::Metric { metric: metric.clone() })?;
        Ok(Self { written: written.clone(), looks, op })
    }

    /// `request_latency:p95:lt:130`.
    pub fn name(&self) -> String {
        let SlaRule { metric, stat, op, threshold } = &self.written;
        format!("{metric}:{stat}:{op}:{threshold}")
    }

    /// The value in a window, in the unit of the bound. A latency that no request has is infinite.
    pub fn value(&self, window: &Window) -> f64 {
        let span_s = window.span_s();
        let per_s = |count: u64| if span_s > 0.0 { count as f64 / span_s } else { 0.0 };
        let ended = window.good() + window.errors();
        let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        match self.looks {
            Looks::CancellationRate => share(window.cancelled(), ended + window.cancelled()),
            Looks::ErrorPercent => 100.0 * share(window.errors(), ended),
            Looks::Goodput => per_s(window.within_limits()),
            Looks::GoodputRatio => share(window.within_limits(), window.good()),
            Looks::OutputTokenThroughput => per_s(window.output_tokens()),
            Looks::SuccessRate => share(window.good(), ended),
            Looks::Throughput => per_s(window.good()),
            Looks::Timing(timing, statistic) => {
                let value_ns = match statistic {
                    Statistic::Avg => window.mean(timing),
                    Statistic::Max => window.quantile(timing, 1.0),
                    Statistic::Min => window.quantile(timing, 0.0),
                    Statistic::Quantile(q) => window.quantile(timing, q),
                };
                value_ns.map_or(f64::INFINITY, |value_ns| value_ns / 1e6)
            }
        }
    }

    /// Whether a value is within the limit.
    pub fn holds(&self, value: f64) -> bool {
        let bound = self.written.threshold;
        match self.op {
            Op::Ge => value >= bound,
            Op::Gt => value > bound,
            Op::Le => value <= bound,
            Op::Lt => value < bound,
        }
    }

    /// How far a value is within the limit, as a share of the bound; absent for a bound of 0.
    pub fn margin(&self, value: f64) -> Option<f64> {
        let bound = self.written.threshold;
        if bound == 0.0 {
            return None;
        }
        Some(match self.op {
            Op::Le | Op::Lt => (bound - value) / bound.abs(),
            Op::Ge | Op::Gt => (value - bound) / bound.abs(),
        })
    }

    /// Whether one request of so many nanoseconds is within the limit; absent for a limit that says nothing about
    /// single requests.
    pub(super) fn admits(&self, timings_ns: impl Fn(Timing) -> Option<f64>) -> Option<bool> {
        match self.looks {
            Looks::Timing(timing, _) => {
                Some(timings_ns(timing).is_some_and(|value_ns| self.holds(value_ns / 1e6)))
            }
            Looks::CancellationRate
            | Looks::ErrorPercent
            | Looks::Goodput
            | Looks::GoodputRatio
            | Looks::OutputTokenThroughput
            | Looks::SuccessRate
            | Looks::Throughput => None,
        }
    }

    fn counts_failures(&self) -> bool {
        matches!(self.looks, Looks::CancellationRate | Looks::ErrorPercent)
    }
}

/// The limits of a phase.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads the limits.
    ///
    /// # Errors
    /// The first one that windows say nothing about.
    pub fn new(written: &[SlaRule]) -> Result<Self, RuleError> {
        Ok(Self(written.iter().map(Rule::new).collect::<Result<_, _>>()?))
    }

    /// All of them, as written.
    pub fn all(&self) -> &[Rule] {
        &self.0
    }

    /// Whether nothing but failures and cancellations is limited, so that a window without a good request is
    /// still judged by its numbers.
    pub fn only_failures(&self) -> bool {
        self.0.iter().all(Rule::counts_failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(metric: &str, stat: &str) -> Result<Rules, RuleError> {
        Rules::new(&[SlaRule { metric: metric.to_owned(), stat: stat.to_owned(), op: "lt", threshold: 5.0 }])
    }

    #[test]
    fn every_metric_that_configs_may_name_is_known_here_with_its_statistics() {
        for metric in SlaRule::METRICS {
            for statistic in SlaRule::statistics(metric) {
                assert!(rule(metric, statistic).is_ok(), "{metric} {statistic}");
            }
        }
    }

    #[test]
    fn other_metrics_and_statistics_are_refused() {
        assert!(matches!(rule("latency", "p95"), Err(RuleError::Metric { .. })));
        assert!(matches!(rule("request_latency", "p42"), Err(RuleError::Statistic { .. })));
        assert!(matches!(rule("goodput", "p95"), Err(RuleError::Statistic { .. })));
    }

    #[test]
    fn margins_are_shares_of_the_bound_in_the_direction_of_the_limit() {
        let of = |op: &'static str| {
            let written = SlaRule { metric: "ttft".to_owned(), stat: "p95".to_owned(), op, threshold: 100.0 };
            Rule::new(&written).ok().and_then(|rule| rule.margin(80.0))
        };
        assert_eq!((of("lt"), of("ge")), (Some(0.2), Some(-0.2)));
    }
}
