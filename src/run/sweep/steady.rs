//! When the trials of a variation end early, because more of them would say nothing new.

use crate::config::meant::Convergence;
use crate::config::meant::ConvergenceMode;
use crate::config::meant::TrialStat;
use crate::measure::catalogue::Sampled;
use crate::measure::trials::Spread;
use crate::measure::trials::same_law;
use crate::run::RunOutcome;
use crate::run::sweep::Finished;
use crate::run::sweep::SweepError;
use crate::run::sweep::check_named;
use std::collections::HashMap;

/// Half the width of the confidence interval over the mean that is narrow enough.
const CI_WIDTH_MAX: f64 = 0.10;

/// Deviation over mean that is small enough.
const CV_MAX: f64 = 0.05;

/// Probability of the last trial being of one law with those before that is high enough.
const SAME_LAW_MIN: f64 = 0.05;

/// Watches the trials of every variation.
#[derive(Debug)]
pub(super) struct Steadiness {
    criterion: Convergence,
    sampled: Option<Sampled>,
    seen: HashMap<usize, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    values: Vec<f64>,
    /// The values of the requests of all trials but the last, sorted.
    requests: Vec<f64>,
    same_law: Option<f64>,
    steady: bool,
}

impl Steadiness {
    pub(super) fn new(criterion: &Convergence) -> Result<Self, SweepError> {
        check_named("multi_run.convergence", &criterion.metric, None)?;
        let sampled = Sampled::ALL.into_iter().find(|sampled| sampled.metric().tag == criterion.metric);
        if criterion.mode == ConvergenceMode::Distribution && sampled.is_none() {
            return Err(SweepError::NoDistribution { metric: criterion.metric.clone() });
        }
        Ok(Self { criterion: criterion.clone(), sampled, seen: HashMap::new() })
    }

    /// Whether a variation needs no more trials.
    pub(super) fn is_steady(&self, variation: usize) -> bool {
        self.seen.get(&variation).is_some_and(|seen| seen.steady)
    }

    /// Takes in what a trial came to. Says so if it was the last one needed.
    pub(super) fn take_in(&mut self, variation: usize, finished: &Finished, level: f64) -> Option<String> {
        let Convergence { metric, stat, mode, threshold, min_runs } = &self.criterion;
        let metrics = finished.result.as_ref().ok()?;
        let seen = self.seen.entry(variation).or_default();
        seen.values.extend(metrics.value(metric, &name_of(*stat)));
        if *mode == ConvergenceMode::Distribution
            && let Some((outcome, sampled)) = finished.outcome.as_ref().zip(self.sampled)
        {
            let mut requests = requests(outcome, sampled);
            requests.sort_by(f64::total_cmp);
            seen.same_law = same_law(&seen.requests, &requests);
            seen.requests.append(&mut requests);
            seen.requests.sort_by(f64::total_cmp);
        }
        if u32::try_from(seen.values.len()).unwrap_or(u32::MAX) < *min_runs {
            return None;
        }
        let spread = Spread::of(&seen.values, level)?;
        let (what, value, limit, steady) = match mode {
            ConvergenceMode::CiWidth => {
                let (width, limit) = (spread.relative_half_width()?, threshold.unwrap_or(CI_WIDTH_MAX));
                ("half the confidence interval over the mean", width, limit, width <= limit)
            }
            ConvergenceMode::Cv => {
                let (cv, limit) = (spread.cv?, threshold.unwrap_or(CV_MAX));
                ("deviation over mean", cv, limit, cv <= limit)
            }
            ConvergenceMode::Distribution => {
                let (p, limit) = (seen.same_law?, threshold.unwrap_or(SAME_LAW_MIN));
                ("probability of one law", p, limit, p >= limit)
            }
        };
        seen.steady = steady;
        let runs = seen.values.len();
        steady.then(|| format!("{metric} is steady after {runs} trials: {what} {value:.4}, limit {limit}"))
    }
}

fn requests(outcome: &RunOutcome, sampled: Sampled) -> Vec<f64> {
    let profiling = outcome.phases.iter().filter(|phase| phase.profiling_index.is_some());
    profiling.flat_map(|phase| phase.tally.samples(sampled).exact_values()).collect()
}

fn name_of(statistic: TrialStat) -> String {
    match statistic {
        TrialStat::Avg => "avg".to_owned(),
        TrialStat::Max => "max".to_owned(),
        TrialStat::Min => "min".to_owned(),
        TrialStat::Percentile(percent) => format!("p{percent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::trials::RunMetrics;
    use serde_json::json;

    fn criterion(mode: ConvergenceMode, metric: &str) -> Convergence {
        Convergence { metric: metric.to_owned(), stat: TrialStat::Avg, mode, threshold: None, min_runs: 2 }
    }

    fn trial(latency: f64) -> Finished {
        let results = json!({"request_latency": {"unit": "ms", "avg": latency}});
        let result = RunMetrics::read(&results).ok_or_else(String::new);
        Finished { result, outcome: None, resumed: false }
    }

    #[test]
    fn equal_trials_end_at_the_least_number_and_scattered_ones_go_on() {
        for mode in [ConvergenceMode::CiWidth, ConvergenceMode::Cv] {
            let mut steadiness = Steadiness::new(&criterion(mode, "request_latency")).ok();
            let steadiness = steadiness.as_mut();
            let Some(steadiness) = steadiness else { panic!("the metric exists") };
            assert_eq!(steadiness.take_in(0, &trial(10.0), 0.95), None);
            assert!(steadiness.take_in(0, &trial(10.001), 0.95).is_some());
            assert!(steadiness.is_steady(0) && !steadiness.is_steady(1));
            for latency in [10.0, 20.0, 5.0, 40.0] {
                assert_eq!(steadiness.take_in(1, &trial(latency), 0.95), None);
            }
        }
    }

    #[test]
    fn distributions_need_values_of_requests() {
        let refused = Steadiness::new(&criterion(ConvergenceMode::Distribution, "request_throughput"));
        assert!(matches!(refused, Err(SweepError::NoDistribution { .. })));
        let refused = Steadiness::new(&criterion(ConvergenceMode::Cv, "no_such_metric"));
        assert!(matches!(refused, Err(SweepError::Metric { .. })));
    }
}
