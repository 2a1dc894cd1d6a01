//! `profile_export_aiperf_sweep`: all variations side by side, the best of them, and those that no other beats
//! in both throughput and latency.

use crate::artifact::csv::bytes;
use crate::artifact::file::{WriteFailure, write_json};
use crate::artifact::trials::{CellRuns, STATISTICS, Terms, number, python};
use crate::artifact::write_csv;
use crate::measure::trials::Spread;
use serde_json::{Map, Value as Json, json};
use std::cmp::Ordering;
use std::path::Path;

/// Names of parameters and their values.
pub type Parameters = Vec<(String, Json)>;

/// A sweep as it is to be summarised.
#[derive(Debug)]
pub struct Summarised<'a> {
    /// Each parameter with the values it takes, in order.
    pub parameters: &'a [(String, Vec<Json>)],
    /// Each variation that has run, with its parameters.
    pub cells: &'a [(Parameters, CellRuns)],
    /// Limits that a variation must keep to be chosen, each as `metric:stat:op:threshold`, and whether a
    /// variation keeps all of them; absent without limits.
    pub limits: Option<(Vec<Json>, Vec<bool>)>,
}

/// One variation that was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Position among the cells.
    pub cell: usize,
    /// The value it was chosen for.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// The best variations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Best {
    /// Most requests per second.
    pub throughput: Option<Choice>,
    /// Least 99th percentile of the time to the first token, or of the latency where there are no tokens.
    pub latency_p99: Option<Choice>,
}

/// The best variations and the Pareto set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// The best; among all where none keeps the limits.
    pub best: Best,
    /// Positions of those that no other beats in both; only such that keep the limits.
    pub pareto: Vec<usize>,
}

impl Summarised<'_> {
    /// What is chosen among the variations.
    pub fn chosen(&self, terms: &Terms) -> Chosen {
        let level = terms.confidence_level;
        let mean = |cell: &CellRuns, tag: &str, statistic: &str| {
            cell.spread(tag, statistic, level).map(|spread| spread.mean)
        };
        let with_runs = || self.cells.iter().filter(|(_, cell)| cell.successful().next().is_some());
        let streams = with_runs().all(|(_, cell)| mean(cell, "time_to_first_token", "p99").is_some());
        let latency_tag = if streams { "time_to_first_token" } else { "request_latency" };
        let point = |(position, (_, cell)): (usize, &(Parameters, CellRuns))| {
            let throughput = mean(cell, "request_throughput", "avg")?;
            Some((position, throughput, mean(cell, latency_tag, "p99")?))
        };
        let points: Vec<(usize, f64, f64)> = self.cells.iter().enumerate().filter_map(point).collect();
        let keeps = |position: usize| match &self.limits {
            None => true,
            Some((_, kept)) => kept.get(position).copied().unwrap_or(false),
        };
        let feasible: Vec<_> = points.iter().copied().filter(|(position, ..)| keeps(*position)).collect();
        let candidates = if feasible.is_empty() { &points } else { &feasible };
        let unit = |position: usize, tag: &str| {
            let metrics = self.cells.get(position).and_then(|(_, cell)| cell.successful().next());
            metrics.and_then(|metrics| metrics.unit(tag)).unwrap_or_default().to_owned()
        };
        let fastest =
            candidates.iter().max_by(|left, right| left.1.total_cmp(&right.1).then(Ordering::Greater));
        let quickest =
            candidates.iter().min_by(|left, right| left.2.total_cmp(&right.2).then(Ordering::Less));
        let best = Best {
            throughput: fastest.map(|(cell, value, _)| Choice {
                cell: *cell,
                value: *value,
                unit: unit(*cell, "request_throughput"),
            }),
            latency_p99: quickest.map(|(cell, _, value)| Choice {
                cell: *cell,
                value: *value,
                unit: unit(*cell, latency_tag),
            }),
        };
        let beaten = |(_, throughput, latency): &(usize, f64, f64)| {
            feasible.iter().any(|(_, other_throughput, other_latency)| {
                other_throughput >= throughput
                    && other_latency <= latency
                    && (other_throughput > throughput || other_latency < latency)
            })
        };
        let mut pareto: Vec<usize> =
            feasible.iter().filter(|point| !beaten(point)).map(|(position, ..)| *position).collect();
        pareto.sort_by(|left, right| self.compare(*left, *right));
        Chosen { best, pareto }
    }

    fn compare(&self, left: usize, right: usize) -> Ordering {
        let values = |position: usize| self.cells.get(position).map(|(parameters, _)| parameters);
        let (Some(left), Some(right)) = (values(left), values(right)) else { return Ordering::Equal };
        let pairs = left.iter().zip(right);
        pairs.fold(Ordering::Equal, |order, ((_, left), (_, right))| {
            order.then_with(|| match (left.as_f64(), right.as_f64()) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => python::plain(left).cmp(&python::plain(right)),
            })
        })
    }

    fn map(&self, position: usize) -> Json {
        let parameters = self.cells.get(position).map(|(parameters, _)| parameters.clone());
        parameters.unwrap_or_default().into_iter().collect::<Map<_, _>>().into()
    }

    fn runs(&self) -> (usize, usize) {
        let runs = self.cells.iter().map(|(_, cell)| cell.trials.len()).sum();
        let successful = self.cells.iter().map(|(_, cell)| cell.successful().count()).sum();
        (runs, successful)
    }

    fn combinations(&self) -> usize {
        self.parameters.iter().map(|(_, values)| values.len()).product()
    }

    fn document(&self, terms: &Terms) -> Json {
        let (runs, successful) = self.runs();
        let failed: Vec<Json> = self.cells.iter().flat_map(|(_, cell)| cell.failed()).collect();
        let parameters: Vec<Json> =
            self.parameters.iter().map(|(name, values)| json!({ "name": name, "values": values })).collect();
        let mut metadata = json!({
            "sweep_parameters": parameters,
            "num_combinations": self.combinations(),
            "sweep_mode": terms.sweep_mode,
            "confidence_level": terms.confidence_level,
            "num_trials_per_value": terms.trials,
            "aggregation_type": "sweep",
        });
        if let (Some((active, kept)), Some(members)) = (&self.limits, metadata.as_object_mut()) {
            let feasible = kept.iter().filter(|kept| **kept).count();
            let constraints = json!({
                "active_filters": active,
                "feasible_count": feasible,
                "infeasible_count": kept.len() - feasible,
            });
            members.insert("sla_constraints".to_owned(), constraints);
        }
        let combinations: Vec<Json> = (0..self.cells.len())
            .filter_map(|position| {
                let (_, cell) = self.cells.get(position)?;
                let metrics: Map<String, Json> =
                    columns(cell, terms).into_iter().map(Column::member).collect();
                Some(json!({ "parameters": self.map(position), "metrics": metrics }))
            })
            .collect();
        let chosen = self.chosen(terms);
        let mut best = Map::new();
        let choices =
            [("best_throughput", chosen.best.throughput), ("best_latency_p99", chosen.best.latency_p99)];
        for (name, choice) in choices {
            if let Some(Choice { cell, value, unit }) = choice {
                let entry =
                    json!({ "parameters": self.map(cell), "metric": number(Some(value)), "unit": unit });
                best.insert(name.to_owned(), entry);
            }
        }
        let pareto: Vec<Json> = chosen.pareto.into_iter().map(|position| self.map(position)).collect();
        json!({
            "aggregation_type": "sweep",
            "num_profile_runs": runs,
            "num_successful_runs": successful,
            "failed_runs": failed,
            "metadata": metadata,
            "per_combination_metrics": combinations,
            "best_configurations": best,
            "pareto_optimal": pareto,
        })
    }

    fn table(&self, terms: &Terms) -> Result<Vec<u8>, csv::Error> {
        let names: Vec<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
        let values = |position: usize| -> Vec<String> {
            let parameters = self.cells.get(position).map(|(parameters, _)| parameters.as_slice());
            parameters.unwrap_or_default().iter().map(|(_, value)| python::plain(value)).collect()
        };
        let cells: Vec<Vec<Column>> = self.cells.iter().map(|(_, cell)| columns(cell, terms)).collect();
        let mut keys: Vec<&str> = cells.iter().flatten().map(|column| column.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut rows = flexible();
        let parts = ["mean", "std", "min", "max", "cv"];
        let header = keys.iter().flat_map(|key| parts.map(|part| format!("{key}_{part}")));
        rows.write_record(names.iter().map(|name| (*name).to_owned()).chain(header))?;
        for (position, columns) in cells.iter().enumerate() {
            let mut row = values(position);
            for key in &keys {
                let column = columns.iter().find(|column| column.key == *key);
                row.extend(column.map_or_else(|| parts.map(|_| String::new()), Column::cells));
            }
            rows.write_record(row)?;
        }
        let chosen = self.chosen(terms);
        let mut file = bytes(rows)?;
        let mut section = |section: csv::Writer<Vec<u8>>| -> Result<(), csv::Error> {
            file.extend_from_slice(b"\r\n");
            file.extend_from_slice(&bytes(section)?);
            Ok(())
        };
        let mut best = flexible();
        best.write_record(["Best Configurations"])?;
        let choices =
            [("Best Throughput", &chosen.best.throughput), ("Best Latency P99", &chosen.best.latency_p99)];
        if choices.iter().any(|(_, choice)| choice.is_some()) {
            best.write_record(
                ["Configuration"].into_iter().chain(names.iter().copied()).chain(["Metric", "Unit"]),
            )?;
        }
        for (name, choice) in choices {
            if let Some(Choice { cell, value, unit }) = choice {
                let row = [name.to_owned()].into_iter().chain(values(*cell));
                best.write_record(row.chain([format!("{value:.2}"), unit.clone()]))?;
            }
        }
        section(best)?;
        let mut pareto = flexible();
        pareto.write_record(["Pareto Optimal Points"])?;
        if chosen.pareto.is_empty() {
            pareto.write_record(["None"])?;
        } else {
            pareto.write_record(&names)?;
        }
        for position in &chosen.pareto {
            pareto.write_record(values(*position))?;
        }
        section(pareto)?;
        let (runs, successful) = self.runs();
        let mut metadata = flexible();
        metadata.write_record(["Metadata"])?;
        metadata.write_record(["Field", "Value"])?;
        metadata.write_record(["Aggregation Type", "sweep"])?;
        metadata.write_record(["Sweep Parameters", &names.join(", ")])?;
        metadata.write_record(["Number of Combinations", &self.combinations().to_string()])?;
        metadata.write_record(["Number of Profile Runs", &runs.to_string()])?;
        metadata.write_record(["Number of Successful Runs", &successful.to_string()])?;
        section(metadata)?;
        Ok(file)
    }
}

/// Rows of different lengths follow each other.
fn flexible() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).flexible(true).from_writer(Vec::new())
}

/// Both files into `directory`.
///
/// # Errors
/// The first file that could not be written.
pub fn write_summary(directory: &Path, sweep: &Summarised<'_>, terms: &Terms) -> Result<(), WriteFailure> {
    write_json(directory, "profile_export_aiperf_sweep.json", &sweep.document(terms), "")?;
    write_csv(directory, "profile_export_aiperf_sweep.csv", sweep.table(terms))
}

/// One metric of a variation.
struct Column {
    key: String,
    unit: String,
    /// Over the trials; of one trial the metric's own least and greatest value. Absent for a metric without a
    /// mean.
    spread: Option<Spread>,
    /// Of one trial: the other statistics by name, and the number of values.
    besides: Vec<(&'static str, f64)>,
    count: Option<u64>,
    single: bool,
}

impl Column {
    fn member(self) -> (String, Json) {
        let mut members = Map::new();
        let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
        if let Some(spread) = &self.spread {
            add("mean", number(Some(spread.mean)));
            if self.single {
                add("avg", number(Some(spread.mean)));
            }
            add("std", number(Some(spread.std)));
            add("min", number(Some(spread.min)));
            add("max", number(Some(spread.max)));
            add("cv", number(spread.cv));
            add("ci_low", number(Some(spread.ci_low)));
            add("ci_high", number(Some(spread.ci_high)));
        }
        add("unit", json!(self.unit));
        for (name, value) in self.besides {
            add(name, number(Some(value)));
        }
        if let Some(count) = self.count {
            add("count", json!(count));
        }
        (self.key, Json::Object(members))
    }

    fn cells(&self) -> [String; 5] {
        let Some(Spread { mean, std, min, max, cv, .. }) = self.spread else {
            return std::array::from_fn(|_| String::new());
        };
        let two = |value: f64| format!("{value:.2}");
        [two(mean), two(std), two(min), two(max), cv.map(|cv| format!("{cv:.4}")).unwrap_or_default()]
    }
}

/// The metrics of a variation: keys are tags with statistics for several trials, bare tags for one.
fn columns(cell: &CellRuns, terms: &Terms) -> Vec<Column> {
    if terms.trials > 1 {
        let names = cell.names().into_iter();
        return names
            .filter_map(|(tag, statistic, unit)| {
                let spread = cell.spread(tag, statistic, terms.confidence_level)?;
                let key = format!("{tag}_{statistic}");
                let (unit, besides) = (unit.to_owned(), Vec::new());
                Some(Column { key, unit, spread: Some(spread), besides, count: None, single: false })
            })
            .collect();
    }
    let Some(metrics) = cell.successful().next() else { return Vec::new() };
    let column = |metric: &super::RunMetric| {
        let point = metric.value("avg").and_then(|avg| Spread::of(&[avg], terms.confidence_level));
        let spread = point.map(|point| Spread {
            min: metric.value("min").unwrap_or(point.mean),
            max: metric.value("max").unwrap_or(point.mean),
            ..point
        });
        let within = spread.is_some();
        let besides = STATISTICS.into_iter().zip(metric.values).filter_map(|(name, value)| {
            let told = name.starts_with('p') || name == "sum" || (!within && name == "min");
            value.filter(|_| told).map(|value| (name, value))
        });
        Column {
            key: metric.tag.to_string(),
            unit: metric.unit.to_string(),
            spread,
            besides: besides.collect(),
            count: metric.count,
            single: true,
        }
    };
    metrics.0.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::trials::{RunMetrics, TrialRun};

    fn cell(concurrency: u64, throughput: f64, latency: f64) -> (Parameters, CellRuns) {
        let results = json!({
            "request_throughput": {"unit": "requests/sec", "avg": throughput},
            "request_latency": {"unit": "ms", "avg": latency / 2.0, "p99": latency, "count": 5},
        });
        let result = RunMetrics::read(&results).ok_or_else(|| "no metrics".to_owned());
        let trials = vec![TrialRun { label: "run_0001".to_owned(), result }];
        let values = vec![("phases.a.concurrency".to_owned(), json!(concurrency))];
        let parameters = vec![("concurrency".to_owned(), json!(concurrency))];
        (parameters, CellRuns { label: String::new(), values, trials })
    }

    fn terms() -> Terms {
        Terms {
            confidence_level: 0.95,
            cooldown_s: 0.0,
            sweep_mode: Some("repeated"),
            model: "m".to_owned(),
            trials: 1,
        }
    }

    #[test]
    fn the_best_and_the_pareto_set_are_found_with_one_trial() {
        let cells = [cell(1, 10.0, 5.0), cell(2, 18.0, 9.0), cell(4, 17.0, 12.0), cell(8, 20.0, 30.0)];
        let parameters = [("concurrency".to_owned(), vec![json!(1), json!(2), json!(4), json!(8)])];
        let sweep = Summarised { parameters: &parameters, cells: &cells, limits: None };
        let chosen = sweep.chosen(&terms());
        assert_eq!(chosen.best.throughput.map(|choice| (choice.cell, choice.value)), Some((3, 20.0)));
        assert_eq!(chosen.best.latency_p99.map(|choice| (choice.cell, choice.value)), Some((0, 5.0)));
        assert_eq!(chosen.pareto, [0, 1, 3], "the third is slower and later than the second");
    }

    #[test]
    fn limits_take_variations_out_of_the_choice_unless_none_keeps_them() {
        let cells = [cell(1, 10.0, 5.0), cell(2, 18.0, 9.0), cell(8, 20.0, 30.0)];
        let with = |kept: Vec<bool>| {
            let limits = Some((vec![json!("request_latency:p99:le:10")], kept));
            Summarised { parameters: &[], cells: &cells, limits }.chosen(&terms())
        };
        let some = with(vec![true, true, false]);
        assert_eq!((some.best.throughput.map(|choice| choice.cell), some.pareto), (Some(1), vec![0, 1]));
        let none = with(vec![false; 3]);
        assert_eq!((none.best.throughput.map(|choice| choice.cell), none.pareto), (Some(2), vec![]));
    }

    #[test]
    fn a_failed_run_is_listed_and_counts_for_nothing() {
        let mut failed = cell(2, 1.0, 1.0);
        failed.1.trials[0].result = Err("it broke".to_owned());
        let cells = [cell(1, 10.0, 5.0), failed];
        let sweep = Summarised { parameters: &[], cells: &cells, limits: None };
        let document = sweep.document(&terms());
        assert_eq!(document["num_profile_runs"], 2);
        assert_eq!(document["num_successful_runs"], 1);
        assert_eq!(document["failed_runs"][0]["error"], "it broke");
        assert_eq!(document["per_combination_metrics"][1]["metrics"], json!({}));
        assert!(sweep.table(&terms()).is_ok());
    }
}
