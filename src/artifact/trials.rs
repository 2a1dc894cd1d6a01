//! What several runs came to, and the files about them: `profile_export_aiperf_aggregate` of the trials of
//! one variation, `profile_export_aiperf_sweep` of all variations (spec/artifacts 12).
//!
//! It compares runs that have ended; the files of each run are written elsewhere.

mod aggregate;
mod python;
mod summary;

pub use aggregate::write_aggregate;
pub use summary::{Best, Choice, Chosen, Parameters, Summarised, write_summary};

use crate::artifact::json::object;
use crate::measure::statistics::PERCENTILES;
use crate::measure::summary::Summary;
use crate::measure::trials::Spread;
use serde_json::Value as Json;

/// The statistics of a metric in the order of the files; the number of values is not among them.
pub const STATISTICS: [&str; 14] =
    ["avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"];

/// Every name above but the first four and the last is a percentile.
const _: () = assert!(STATISTICS.len() == PERCENTILES.len() + 5);

/// The root metrics of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMetrics(Vec<RunMetric>);

/// One metric of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunMetric {
    tag: Box<str>,
    unit: Box<str>,
    /// By [`STATISTICS`].
    values: [Option<f64>; STATISTICS.len()],
    count: Option<u64>,
}

impl RunMetric {
    fn value(&self, statistic: &str) -> Option<f64> {
        let place = STATISTICS.iter().position(|name| *name == statistic)?;
        self.values.get(place).copied().flatten()
    }

    fn read(tag: &str, object: &Json) -> Option<Self> {
        let unit = object.get("unit")?.as_str()?.into();
        let values = STATISTICS.map(|name| object.get(name).and_then(Json::as_f64));
        Some(Self { tag: tag.into(), unit, values, count: object.get("count").and_then(Json::as_u64) })
    }
}

impl RunMetrics {
    /// The metrics of a run that has just ended.
    pub fn of(summary: &Summary) -> Self {
        let read = summary
            .values()
            .filter_map(|(metric, value)| RunMetric::read(metric.tag, &object(metric.unit.name(), value)));
        Self(read.collect())
    }

    /// The metrics in the results of an earlier run, `profile_export_aiperf.json`; absent without any.
    pub fn read(results: &Json) -> Option<Self> {
        let members = results.as_object()?.iter();
        let metrics: Vec<RunMetric> =
            members.filter_map(|(tag, object)| RunMetric::read(tag, object)).collect();
        (!metrics.is_empty()).then_some(Self(metrics))
    }

    /// One number of the run, such as `request_latency`, `p99`.
    pub fn value(&self, tag: &str, statistic: &str) -> Option<f64> {
        self.0.iter().find(|metric| *metric.tag == *tag)?.value(statistic)
    }

    /// The unit of a metric.
    pub fn unit(&self, tag: &str) -> Option<&str> {
        self.0.iter().find(|metric| *metric.tag == *tag).map(|metric| &*metric.unit)
    }
}

/// One run of a variation.
#[derive(Clone, Debug)]
pub struct TrialRun {
    /// `run_0001`.
    pub label: String,
    /// What it came to, or why it counts for nothing.
    pub result: Result<RunMetrics, String>,
}

/// The runs of one variation.
#[derive(Clone, Debug)]
pub struct CellRuns {
    /// For people.
    pub label: String,
    /// Each path and its value.
    pub values: Vec<(String, Json)>,
    /// In order.
    pub trials: Vec<TrialRun>,
}

impl CellRuns {
    /// What the runs that ended well came to.
    pub fn successful(&self) -> impl Iterator<Item = &RunMetrics> {
        self.trials.iter().filter_map(|trial| trial.result.as_ref().ok())
    }

    /// One number over the trials; absent where no trial has it.
    pub fn spread(&self, tag: &str, statistic: &str, level: f64) -> Option<Spread> {
        let values: Vec<f64> =
            self.successful().filter_map(|metrics| metrics.value(tag, statistic)).collect();
        Spread::of(&values, level)
    }

    /// Every metric and statistic that a trial has, each once.
    fn names(&self) -> Vec<(&str, &'static str, &str)> {
        let mut names: Vec<(&str, &'static str, &str)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for metrics in self.successful() {
            for metric in &metrics.0 {
                for (statistic, value) in STATISTICS.into_iter().zip(metric.values) {
                    if value.is_some() && seen.insert((&*metric.tag, statistic)) {
                        names.push((&metric.tag, statistic, &metric.unit));
                    }
                }
            }
        }
        names
    }

    fn failed(&self) -> Vec<Json> {
        let failed = self.trials.iter().filter_map(|trial| Some((trial, trial.result.as_ref().err()?)));
        failed.map(|(trial, error)| serde_json::json!({ "label": trial.label, "error": error })).collect()
    }
}

/// What all runs of a command have in common.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Level of confidence intervals.
    pub confidence_level: f64,
    /// Seconds between trials.
    pub cooldown_s: f64,
    /// `repeated` or `independent`; absent without a sweep.
    pub sweep_mode: Option<&'static str>,
    /// The model.
    pub model: String,
    /// Trials of each variation by plan.
    pub trials: u32,
}

/// A member that is null where a number is not finite or not there.
fn number(value: Option<f64>) -> Json {
    value.filter(|value| value.is_finite()).map_or(Json::Null, Json::from)
}
