//! A sweep that chooses its variations while it runs: looking for the best one, or for the highest load within
//! limits.
//!
//! [`Search::run`] asks for a point, runs its trials, tells what they came to, until there is no point left worth a
//! run; the report says which were tried and why it stopped. How points are chosen stands in
//! [`adaptive`](crate::adaptive).

use crate::adaptive::Axis;
use crate::adaptive::KneeSearch;
use crate::adaptive::PatternSearch;
use crate::adaptive::Stopped;
use crate::artifact::search::Point;
use crate::artifact::search::Report;
use crate::artifact::search::write_report;
use crate::artifact::trials::CellRuns;
use crate::artifact::trials::Parameters;
use crate::artifact::trials::Summarised;
use crate::artifact::trials::Terms;
use crate::artifact::trials::TrialRun;
use crate::artifact::trials::write_aggregate;
use crate::artifact::trials::write_summary;
use crate::config;
use crate::config::Direction;
use crate::config::MultiRun;
use crate::config::Objective;
use crate::config::SlaRule;
use crate::config::Variation;
use crate::config::expand::Expander;
use crate::run::sweep::Runner;
use crate::run::sweep::SweepError;
use crate::run::sweep::SweepOutcome;
use crate::run::sweep::check_named;
use crate::run::sweep::keeps;
use crate::run::sweep::name_of;
use crate::time::Nanos;
use serde_json::Value as Json;
use std::path::Path;
use std::path::PathBuf;

/// Seed of points that are drawn, unless written.
const SEED: u64 = 42;

/// A search, ready to run.
#[derive(Debug)]
pub struct Search<'a> {
    expander: &'a Expander,
    wanted: config::Search,
    limits: Vec<SlaRule>,
    multi_run: MultiRun,
    cooldown: Nanos,
    base: PathBuf,
    terms: Terms,
    chooser: Chooser,
}

#[derive(Debug)]
enum Chooser {
    Knee(KneeSearch),
    Pattern(PatternSearch),
}

impl Chooser {
    fn propose(&mut self) -> Result<Vec<f64>, Stopped> {
        match self {
            Self::Knee(search) => search.propose().map(|value| vec![value]),
            Self::Pattern(search) => search.propose(),
        }
    }
}

/// What a search came to, beside its runs.
#[derive(Debug)]
pub struct Found {
    /// All runs.
    pub outcome: SweepOutcome,
    /// The points tried and why there are no more.
    pub report: Report,
}

impl<'a> Search<'a> {
    /// The search that the config of `expander` wants; its files go to `base`. `None` without one.
    ///
    /// # Errors
    /// An objective or limit that names nothing there is.
    pub fn new(expander: &'a Expander, base: &Path) -> Result<Option<Self>, SweepError> {
        let config = expander.config();
        let Some((sweep, wanted)) =
            config.sweep.as_ref().and_then(|sweep| Some((sweep, sweep.search.clone()?)))
        else {
            return Ok(None);
        };
        for limit in &sweep.limits {
            check_named("sweep.sla_filters", &limit.metric, Some(&limit.stat))?;
        }
        for objective in &wanted.objectives {
            check_named("sweep.objectives", &objective.metric, Some(&objective.stat))?;
        }
        let mut limits = sweep.limits.clone();
        limits.extend(wanted.objectives.iter().filter_map(limit_of));
        let axes: Vec<Axis> = wanted
            .space
            .iter()
            .map(|dimension| Axis { low: dimension.low, high: dimension.high, whole: dimension.whole })
            .collect();
        let chooser = match axes.as_slice() {
            [axis] if !limits.is_empty() => Chooser::Knee(KneeSearch::new(*axis, wanted.iterations_max)),
            _ => {
                let seed = wanted.seed.or(config.random_seed).unwrap_or(SEED);
                let search = PatternSearch::new(axes, wanted.iterations_max, wanted.initial_points, seed);
                Chooser::Pattern(search)
            }
        };
        Ok(Some(Self {
            expander,
            limits,
            cooldown: Nanos::from_secs_f64(sweep.cooldown_s),
            base: base.to_owned(),
            terms: Terms {
                confidence_level: config.multi_run.confidence_level,
                cooldown_s: config.multi_run.cooldown.as_secs_f64(),
                sweep_mode: Some("adaptive_search"),
                model: config.model.clone(),
                trials: config.multi_run.runs,
            },
            multi_run: config.multi_run.clone(),
            wanted,
            chooser,
        }))
    }

    /// Runs variations until there is none left worth a run, and writes what they say. `finish` completes the
    /// config of each.
    pub fn run(mut self, mut runner: Runner<'_>, finish: &dyn Fn(&mut Variation)) -> Found {
        let mut points: Vec<Point> = Vec::new();
        let mut cells: Vec<(Parameters, CellRuns)> = Vec::new();
        let stopped = loop {
            if runner.interrupted() {
                break Stopped::Interrupted;
            }
            let values = match self.chooser.propose() {
                Ok(values) => values,
                Err(stopped) => break stopped,
            };
            runner.cool_down(self.cooldown);
            let row: Vec<(String, f64, bool)> = self
                .wanted
                .space
                .iter()
                .zip(&values)
                .map(|(dimension, value)| (dimension.path.clone(), *value, dimension.whole))
                .collect();
            let iteration = points.len() + 1;
            let name = format!("search_iter_{iteration:04}");
            let mut cell = CellRuns { label: String::new(), values: Vec::new(), trials: Vec::new() };
            match self.expander.at(iteration - 1, &name, &row) {
                Ok(mut variation) => {
                    finish(&mut variation);
                    cell.label.clone_from(&variation.label);
                    cell.values.clone_from(&variation.values);
                    self.run_trials(&mut runner, &variation, &name, &mut cell);
                }
                Err(faults) => {
                    let text = faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
                    cell.values =
                        row.iter().map(|(path, value, _)| (path.clone(), Json::from(*value))).collect();
                    cell.trials.push(TrialRun { label: "run_0001".to_owned(), result: Err(text) });
                }
            }
            if runner.interrupted() {
                break Stopped::Interrupted;
            }
            let point = self.judge(&cell, iteration, &name);
            let worth = self.worth(&point);
            match &mut self.chooser {
                Chooser::Knee(search) => {
                    search.take_in(values.first().copied().unwrap_or_default(), point.feasible);
                }
                Chooser::Pattern(search) => search.take_in(worth),
            }
            runner.say(&point.line());
            points.push(point);
            let parameters = cell.values.clone();
            cells.push((parameters, cell));
        };
        self.conclude(runner, points, cells, stopped)
    }

    fn run_trials(&self, runner: &mut Runner<'_>, variation: &Variation, name: &str, cell: &mut CellRuns) {
        for trial in 0..self.multi_run.runs {
            if trial > 0 {
                runner.cool_down(self.multi_run.cooldown);
            }
            if runner.interrupted() {
                return;
            }
            let label = format!("run_{:04}", trial + 1);
            let directory = self.base.join(name).join("profile_runs").join(&label);
            let finished = runner.run(variation, trial, &directory);
            cell.trials.push(TrialRun { label, result: finished.result });
        }
    }

    fn judge(&self, cell: &CellRuns, iteration: usize, name: &str) -> Point {
        let level = self.terms.confidence_level;
        let mean = |metric: &str, stat: &str| cell.spread(metric, stat, level).map(|spread| spread.mean);
        let broken: Vec<String> =
            self.limits.iter().filter(|limit| !keeps(cell, limit, level)).map(name_of).collect();
        let ran = cell.successful().next().is_some();
        Point {
            iteration,
            values: cell.values.clone(),
            feasible: ran && broken.is_empty(),
            objectives: self
                .wanted
                .objectives
                .iter()
                .map(|objective| {
                    (
                        format!("{}:{}", objective.metric, objective.stat),
                        mean(&objective.metric, &objective.stat),
                    )
                })
                .collect(),
            broken,
            error: cell.trials.iter().find_map(|trial| trial.result.as_ref().err().cloned()).filter(|_| !ran),
            directory: name.to_owned(),
        }
    }

    /// The first objective, so that more is better; absent for a point that counts for nothing.
    fn worth(&self, point: &Point) -> Option<f64> {
        let value = point.objectives.first().and_then(|(_, value)| *value).filter(|_| point.feasible)?;
        match self.wanted.objectives.first()?.direction {
            Direction::Maximize => Some(value),
            Direction::Minimize => Some(-value),
        }
    }

    fn conclude(
        self,
        mut runner: Runner<'_>,
        points: Vec<Point>,
        cells: Vec<(Parameters, CellRuns)>,
        stopped: Stopped,
    ) -> Found {
        let best = match &self.chooser {
            // The highest value within the limits is what was asked for.
            Chooser::Knee(search) => {
                let highest = search.bracket().0;
                let value = |point: &Point| point.values.first().and_then(|(_, value)| value.as_f64());
                points.iter().position(|point| point.feasible && value(point) == highest)
            }
            Chooser::Pattern(_) => {
                let worths =
                    points.iter().enumerate().filter_map(|(at, point)| Some((at, self.worth(point)?)));
                worths.max_by(|left, right| left.1.total_cmp(&right.1)).map(|(at, _)| at)
            }
        };
        let bracket = match &self.chooser {
            Chooser::Knee(search) => Some(search.bracket()),
            Chooser::Pattern(_) => None,
        };
        for ((_, cell), point) in cells.iter().zip(&points) {
            let directory = self.base.join(&point.directory).join("aggregate");
            runner.note(write_aggregate(&directory, cell, &self.terms));
        }
        let mut values: Vec<(String, Vec<Json>)> = Vec::new();
        for (name, value) in cells.iter().flat_map(|(parameters, _)| parameters) {
            match values.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value.clone()),
                None => values.push((name.clone(), vec![value.clone()])),
            }
        }
        let limits = (!self.limits.is_empty()).then(|| {
            let names = self.limits.iter().map(|limit| Json::from(name_of(limit))).collect();
            (names, points.iter().map(|point| point.feasible).collect())
        });
        let mut chosen = None;
        let mut written = vec![self.base.clone()];
        if !cells.is_empty() {
            let summarised = Summarised { parameters: &values, cells: &cells, limits };
            let directory = self.base.join("sweep_aggregate");
            runner.note(write_summary(&directory, &summarised, &self.terms));
            written.push(directory);
            chosen = Some(summarised.chosen(&self.terms));
        }
        let limits = self.limits.iter().map(name_of).collect();
        let report = Report { points, best, bracket, limits, stopped };
        runner.note(write_report(&self.base, &report));
        let outcome = runner.conclude(cells, chosen, self.terms, written);
        Found { outcome, report }
    }
}

/// A threshold of an objective is a limit.
fn limit_of(objective: &Objective) -> Option<SlaRule> {
    Some(SlaRule {
        metric: objective.metric.clone(),
        stat: objective.stat.clone(),
        op: match objective.direction {
            Direction::Maximize => "ge",
            Direction::Minimize => "le",
        },
        threshold: objective.threshold?,
    })
}
