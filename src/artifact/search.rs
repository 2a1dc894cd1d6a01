//! `search_report.json`: the points that a search tried, and why it stopped.

use crate::adaptive::Stopped;
use crate::artifact::file::{WriteFailure, write_json};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// Name of the file.
pub const SEARCH_REPORT: &str = "search_report.json";

/// One variation that was tried.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its number, from 1.
    pub iteration: usize,
    /// Each path and its value.
    pub values: Vec<(String, Json)>,
    /// Within all limits.
    pub feasible: bool,
    /// Each objective as `metric:stat` with its mean over the trials.
    pub objectives: Vec<(String, Option<f64>)>,
    /// The limits that it breaks.
    pub broken: Vec<String>,
    /// Why it has no numbers, if it has none.
    pub error: Option<String>,
    /// Its directory below that of the search.
    pub directory: String,
}

impl Point {
    /// For people.
    pub fn line(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let objectives: Vec<String> = self
            .objectives
            .iter()
            .map(|(name, value)| {
                value.map_or_else(|| format!("{name} -"), |value| format!("{name} {value:.3}"))
            })
            .collect();
        let verdict = match (&self.error, self.feasible) {
            (Some(error), _) => format!("no numbers: {error}"),
            (None, true) => "within the limits".to_owned(),
            (None, false) => format!("breaks {}", self.broken.join(", ")),
        };
        format!("{} | {} | {} | {verdict}", self.iteration, values.join(", "), objectives.join(", "))
    }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// In order.
    pub points: Vec<Point>,
    /// Position of the best one; absent when none counts.
    pub best: Option<usize>,
    /// Of a search for the highest value within limits: the highest known to hold, the lowest known not to.
    pub bracket: Option<(Option<f64>, Option<f64>)>,
    /// The limits, each as `metric:stat:op:threshold`.
    pub limits: Vec<String>,
    /// Why there are no more points.
    pub stopped: Stopped,
}

/// Writes the report into `directory`.
///
/// # Errors
/// The file cannot be written.
pub fn write_report(directory: &Path, report: &Report) -> Result<(), WriteFailure> {
    let point = |point: &Point| {
        let mut members = Map::new();
        let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
        add("iteration", json!(point.iteration));
        add("values", point.values.iter().cloned().collect::<Map<_, _>>().into());
        add("feasible", json!(point.feasible));
        add(
            "objectives",
            point.objectives.iter().map(|(name, value)| (name.clone(), json!(value))).collect(),
        );
        add("broken_limits", json!(point.broken));
        if let Some(error) = &point.error {
            add("error", json!(error));
        }
        add("directory", json!(point.directory));
        Json::Object(members)
    };
    let best = report.best.and_then(|best| report.points.get(best)).map(point);
    let bracket =
        report.bracket.map(|(holds, fails)| json!({ "highest_holding": holds, "lowest_failing": fails }));
    let document = json!({
        "schema_version": 1,
        "limits": report.limits,
        "points": report.points.iter().map(point).collect::<Vec<_>>(),
        "best": best,
        "bracket": bracket,
        "stopped": { "reason": report.stopped.name(), "text": report.stopped.text() },
    });
    write_json(directory, SEARCH_REPORT, &document, "\n")
}
