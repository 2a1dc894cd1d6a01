//! Many runs of one command: the variations of a sweep, the trials of each, one after the other.
//!
//! [`Sweep::run`] is the story: for each run in order, wait, take its dataset, let the fleet run it, keep what it
//! came to; at the end write what the runs say together. A run that fails is recorded and the next one
//! starts; an interrupt ends the whole with what is done. How one run goes stands in
//! [`fleet`](crate::run::fleet).

mod datasets;
mod order;
mod steady;

pub use datasets::Build;

use crate::artifact::Cell;
use crate::artifact::WriteFailure;
use crate::artifact::log::Level;
use crate::artifact::log::Log;
use crate::artifact::run_config::finished_before;
use crate::artifact::run_config::write_run_config;
use crate::artifact::trials::CellRuns;
use crate::artifact::trials::Chosen;
use crate::artifact::trials::Parameters;
use crate::artifact::trials::RunMetrics;
use crate::artifact::trials::STATISTICS;
use crate::artifact::trials::Summarised;
use crate::artifact::trials::Terms;
use crate::artifact::trials::TrialRun;
use crate::artifact::trials::write_aggregate;
use crate::artifact::trials::write_summary;
use crate::config::Config;
use crate::config::IterationOrder;
use crate::config::PhaseKind;
use crate::config::SlaRule;
use crate::config::Variation;
use crate::config::directory;
use crate::config::trial_seed;
use crate::measure::catalogue;
use crate::run;
use crate::run::RunError;
use crate::run::RunOptions;
use crate::run::RunOutcome;
use crate::run::fleet::Assignment;
use crate::run::fleet::Fleet;
use crate::run::sweep::datasets::Datasets;
use crate::run::sweep::order::Parametrised;
use crate::run::sweep::steady::Steadiness;
use crate::time::Nanos;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

/// Longest wait between two looks at the interrupt.
const COOLDOWN_SLICE: Nanos = Nanos::from_millis(50);

/// Whether runs that an earlier command finished are taken from their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Every run is done, whatever lies there.
    Afresh,
    /// A run whose directory holds it already, finished and made from the same fields, is not done again.
    Finished,
}

/// Why a sweep cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A limit or criterion names no metric.
    #[error("`{place}` names the metric `{metric}`, which does not exist{}", nearest(metric))]
    Metric {
        /// Where it is named.
        place: &'static str,
        /// The name.
        metric: String,
    },
    /// A limit names no statistic.
    #[error("`{place}` names the statistic `{statistic}` of `{metric}`: write one of {}", STATISTICS.join(", "))]
    Statistic {
        /// Where it is named.
        place: &'static str,
        /// The metric.
        metric: String,
        /// The name.
        statistic: String,
    },
    /// Distributions are compared by values of requests.
    #[error(
        "`multi_run.convergence`: `mode: distribution` compares the values of requests, and `{metric}` has one \
         value for a whole run: name a metric such as `request_latency`, or write `mode: ci_width`"
    )]
    NoDistribution {
        /// The metric.
        metric: String,
    },
    /// No shards, or no directory.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Names that may have been meant.
fn nearest(name: &str) -> String {
    let mut close: Vec<(f64, &str)> = catalogue::all()
        .map(|metric| (strsim::jaro_winkler(metric.tag, name), metric.tag))
        .filter(|(likeness, _)| *likeness > 0.75)
        .collect();
    close.sort_by(|left, right| right.0.total_cmp(&left.0));
    let names: Vec<String> = close.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    if names.is_empty() {
        "; docs/artifacts.md lists them".to_owned()
    } else {
        format!("; did you mean {}?", names.join(" or "))
    }
}

/// What a run came to, beside its files.
#[derive(Debug)]
pub struct Finished {
    /// Its numbers, or why it counts for nothing.
    pub result: Result<RunMetrics, String>,
    /// All that was seen of it; absent for one that did not start or was taken from its files.
    pub outcome: Option<RunOutcome>,
    /// It was taken from its files.
    pub resumed: bool,
}

/// What all runs came to.
#[derive(Debug)]
pub struct SweepOutcome {
    /// Each variation that has run, in order.
    pub cells: Vec<(Parameters, CellRuns)>,
    /// The best of them; absent without a sweep.
    pub chosen: Option<Chosen>,
    /// What the numbers are to be read with.
    pub terms: Terms,
    /// Ended by a signal.
    pub interrupted: bool,
    /// What went wrong, runs that failed among it.
    pub faults: Vec<String>,
    /// Directories of the files about all runs.
    pub written: Vec<PathBuf>,
    /// Runs that were done.
    pub runs: usize,
    /// Runs that were taken from their files.
    pub resumed: usize,
    /// From the first start of a phase to the end of all.
    pub whole: Nanos,
    /// Of that, while phases ran.
    pub running: Nanos,
    /// Of that, waits that were asked for.
    pub cooldown: Nanos,
}

/// What is told while runs come and go.
pub trait Narrator {
    /// A line for the person who watches.
    fn say(&mut self, text: &str);

    /// A run has ended.
    fn finished(&mut self, cell: &Cell, finished: &Finished);
}

/// Runs one after the other through a fleet.
pub struct Runner<'a> {
    fleet: Fleet<'a>,
    options: &'a RunOptions,
    datasets: Datasets<'a>,
    resume: Resume,
    sweep_id: String,
    log: Option<Log>,
    narrator: &'a mut dyn Narrator,
    clock_edges: Edges,
    faults: Vec<String>,
    runs: usize,
    resumed: usize,
}

#[derive(Debug, Default)]
struct Edges {
    first: Option<crate::time::Stamp>,
    running: Nanos,
    cooldown: Nanos,
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Runner").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl<'a> Runner<'a> {
    /// Starts the shards. `base` is where the directories of the runs go.
    ///
    /// # Errors
    /// The shards cannot be started, or the directory cannot be made.
    pub fn start(
        options: &'a RunOptions,
        base: &Path,
        build: &'a mut Build<'a>,
        resume: Resume,
        narrator: &'a mut dyn Narrator,
    ) -> Result<Self, RunError> {
        let fleet = Fleet::start(options)?;
        run::make_directory(base)?;
        let log = Log::create(base, options.clock).map_err(RunError::from_write)?;
        Ok(Self {
            fleet,
            options,
            datasets: Datasets::new(build),
            resume,
            sweep_id: uuid(),
            log: Some(log),
            narrator,
            clock_edges: Edges::default(),
            faults: Vec::new(),
            runs: 0,
            resumed: 0,
        })
    }

    /// A line for the person who watches, and for the log.
    pub fn say(&mut self, text: &str) {
        self.narrator.say(text);
        if let Some(log) = &mut self.log {
            log.line(Level::Notice, text);
        }
    }

    /// Ended by a signal.
    pub fn interrupted(&self) -> bool {
        self.options.interrupt.load(Relaxed)
    }

    /// Waits, if something has run before, unless a signal comes.
    pub fn cool_down(&mut self, span: Nanos) {
        if self.runs == 0 || span == Nanos::ZERO {
            return;
        }
        let clock = self.options.clock;
        let begun = clock.now();
        let until = begun.plus(span);
        while !self.interrupted() && clock.now() < until {
            std::thread::park_timeout(until.since(clock.now()).min(COOLDOWN_SLICE).into());
        }
        self.clock_edges.cooldown.0 += clock.now().since(begun).0;
    }

    /// Runs trial `trial` of a variation in `directory`, or takes it from there.
    pub fn run(&mut self, variation: &Variation, trial: u32, directory: &Path) -> Finished {
        let config = trial_config(variation, trial);
        let cell = Cell {
            benchmark_id: format!("{:032x}", fastrand::u128(..)),
            sweep_id: self.sweep_id.clone(),
            variation_index: variation.index,
            variation_label: variation.label.clone(),
            variation_values: variation.values.clone(),
            trial,
        };
        let finished = match self.taken_from_files(directory, &config, &cell) {
            Some(metrics) => {
                self.resumed += 1;
                Finished { result: Ok(metrics), outcome: None, resumed: true }
            }
            None => self.do_run(&config, &cell, directory),
        };
        if let Err(error) = &finished.result {
            let fault = format!("{} of {} failed: {error}", cell.label(), cell.variation_label);
            if let Some(log) = &mut self.log {
                log.line(Level::Error, &fault);
            }
            self.faults.push(fault);
        }
        self.narrator.finished(&cell, &finished);
        finished
    }

    fn taken_from_files(&self, directory: &Path, config: &Config, cell: &Cell) -> Option<RunMetrics> {
        match self.resume {
            Resume::Afresh => None,
            Resume::Finished => {
                // The built-in server listens on another port each time.
                let beside: &[&str] = if self.options.server_inside { &["/endpoint/urls"] } else { &[] };
                finished_before(directory, config, cell, beside)
            }
        }
    }

    fn do_run(&mut self, config: &Config, cell: &Cell, directory: &Path) -> Finished {
        self.runs += 1;
        let outcome = match self.conduct(config, cell, directory) {
            Ok(outcome) => outcome,
            Err(error) => return Finished { result: Err(error), outcome: None, resumed: false },
        };
        let begun = outcome.phases.iter().map(|phase| phase.started).min();
        let ended = outcome.phases.iter().map(|phase| phase.ended).max();
        if let Some((begun, ended)) = begun.zip(ended) {
            self.clock_edges.first.get_or_insert(begun);
            self.clock_edges.running.0 += ended.since(begun).0;
        }
        let result = if outcome.interrupted {
            Err(outcome.faults.first().cloned().unwrap_or_else(|| "it was interrupted".to_owned()))
        } else if outcome.ok == 0 {
            Err("no request of a profiling phase succeeded".to_owned())
        } else {
            for fault in &outcome.faults {
                self.faults.push(format!("{} of {}: {fault}", cell.label(), cell.variation_label));
            }
            Ok(RunMetrics::of(&outcome.results.root.summary))
        };
        Finished { result, outcome: Some(outcome), resumed: false }
    }

    fn conduct(&mut self, config: &Config, cell: &Cell, directory: &Path) -> Result<RunOutcome, String> {
        let text = |error: RunError| error.to_string();
        run::make_directory(directory).map_err(text)?;
        write_run_config(directory, config, cell, &self.options.cli_command)
            .map_err(|failure| failure.to_string())?;
        let traffic = self.datasets.of(config)?;
        let assignment = Assignment { config, traffic: &traffic, directory, cell: Some(cell) };
        run::run_with_companions(&mut self.fleet, &assignment).map_err(text)
    }

    /// Keeps in mind what could not be written.
    pub fn note(&mut self, written: Result<(), WriteFailure>) {
        self.faults.extend(written.err().map(|failure| failure.to_string()));
    }
}

/// The config of a trial: its seed, and no warmups after the first if so wanted.
fn trial_config(variation: &Variation, trial: u32) -> Config {
    let mut config = variation.config.clone();
    config.random_seed = trial_seed(variation, trial);
    if trial > 0 && config.multi_run.disable_warmup_after_first {
        config.phases.retain(|phase| phase.kind == PhaseKind::Profiling);
        if let Some(first) = config.phases.first_mut() {
            // There is nothing left that it could follow without a gap.
            first.seamless = false;
        }
    }
    config
}

fn uuid() -> String {
    let bits = fastrand::u128(..);
    let (low, version) = (bits & 0xffff_ffff_ffff, 0x4000 | (bits >> 64 & 0xfff));
    let variant = 0x8000 | (bits >> 48 & 0x3fff);
    format!("{:08x}-{:04x}-{version:04x}-{variant:04x}-{low:012x}", bits >> 96, bits >> 80 & 0xffff)
}

/// What is run in which order, and where the files about all of it go.
#[derive(Debug)]
pub struct Sweep<'a> {
    variations: &'a [Variation],
    base: PathBuf,
    parametrised: Parametrised,
    terms: Terms,
    order: IterationOrder,
    steadiness: Option<Steadiness>,
    limits: Vec<SlaRule>,
}

impl<'a> Sweep<'a> {
    /// The runs of `variations`, at least one.
    ///
    /// # Errors
    /// A limit or criterion that names nothing there is.
    pub fn new(variations: &'a [Variation], base: &Path) -> Result<Self, SweepError> {
        let first = variations.first().map(|variation| &variation.config);
        let multi_run = first.map(|config| config.multi_run.clone()).unwrap_or_default();
        let sweep = first.and_then(|config| config.sweep.clone()).filter(|_| variations.len() > 1);
        let limits = sweep.as_ref().map(|sweep| sweep.limits.clone()).unwrap_or_default();
        for limit in &limits {
            check_named("sweep.sla_filters", &limit.metric, Some(&limit.stat))?;
        }
        let steadiness = multi_run.convergence.as_ref().map(Steadiness::new).transpose()?;
        let order = sweep.as_ref().map_or(IterationOrder::Independent, |sweep| sweep.order);
        Ok(Self {
            variations,
            base: base.to_owned(),
            parametrised: Parametrised::of(variations),
            terms: Terms {
                confidence_level: multi_run.confidence_level,
                cooldown_s: multi_run.cooldown.as_secs_f64(),
                sweep_mode: sweep.as_ref().map(|_| match order {
                    IterationOrder::Independent => "independent",
                    IterationOrder::Repeated => "repeated",
                }),
                model: first.map(|config| config.model.clone()).unwrap_or_default(),
                trials: multi_run.runs,
            },
            order,
            steadiness,
            limits,
        })
    }

    /// Runs everything, and writes what the runs say together.
    pub fn run(mut self, mut runner: Runner<'_>) -> SweepOutcome {
        let mut cells: Vec<CellRuns> = self.variations.iter().map(cell_runs).collect();
        let order = order::runs(self.variations.len(), self.terms.trials, self.order);
        let total = order.len();
        let mut before: Option<(usize, u32)> = None;
        for (number, (position, trial)) in order.into_iter().enumerate() {
            let Some(variation) = self.variations.get(position) else { continue };
            if self.steadiness.as_ref().is_some_and(|steadiness| steadiness.is_steady(position)) {
                continue;
            }
            runner.cool_down(self.wait(before, (position, trial)));
            if runner.interrupted() {
                break;
            }
            before = Some((position, trial));
            let what = if self.terms.sweep_mode.is_some() { variation.dir_name.as_str() } else { "trial" };
            runner.say(&format!("Run {}/{total}: {what} {}", number + 1, trial + 1));
            let directories = directory_of(self.variations, variation, &self.base);
            let Some(directory) = usize::try_from(trial).ok().and_then(|trial| directories.get(trial)) else {
                continue;
            };
            let finished = runner.run(variation, trial, directory);
            if let Some(cell) = cells.get_mut(position) {
                let label = format!("run_{:04}", trial + 1);
                if let Some(steadiness) = &mut self.steadiness
                    && let Some(text) = steadiness.take_in(position, &finished, self.terms.confidence_level)
                {
                    runner.say(&text);
                }
                cell.trials.push(TrialRun { label, result: finished.result });
            }
            if runner.interrupted() {
                break;
            }
        }
        self.conclude(runner, cells)
    }

    /// The wait between two runs.
    fn wait(&self, before: Option<(usize, u32)>, next: (usize, u32)) -> Nanos {
        let Some(before) = before else { return Nanos::ZERO };
        let config = self.variations.first().map(|variation| &variation.config);
        let between_trials = config.map_or(Nanos::ZERO, |config| config.multi_run.cooldown);
        let between_variations = config
            .and_then(|config| config.sweep.as_ref())
            .map_or(Nanos::ZERO, |sweep| Nanos::from_secs_f64(sweep.cooldown_s));
        let varied = if before.0 == next.0 { Nanos::ZERO } else { between_variations };
        let tried = if before.1 == next.1 { Nanos::ZERO } else { between_trials };
        varied.max(tried)
    }

    fn conclude(self, mut runner: Runner<'_>, cells: Vec<CellRuns>) -> SweepOutcome {
        let terms = self.terms;
        let mut written = Vec::new();
        let sweeps = terms.sweep_mode.is_some();
        let aggregate = |dir_name: &str| match (sweeps, self.order) {
            (false, _) => self.base.join("aggregate"),
            (true, IterationOrder::Independent) if terms.trials > 1 => {
                self.base.join(dir_name).join("aggregate")
            }
            (true, IterationOrder::Independent | IterationOrder::Repeated) => {
                self.base.join("aggregate").join(dir_name)
            }
        };
        for (variation, cell) in self.variations.iter().zip(&cells) {
            if cell.trials.is_empty() {
                continue;
            }
            let directory = aggregate(&variation.dir_name);
            runner.note(write_aggregate(&directory, cell, &terms));
            if !sweeps {
                written.push(directory);
            }
        }
        let parameters = self.parametrised;
        let cells: Vec<(Parameters, CellRuns)> =
            parameters.of_each.into_iter().zip(cells).filter(|(_, cell)| !cell.trials.is_empty()).collect();
        let mut chosen = None;
        if sweeps && !cells.is_empty() {
            let kept = |(_, cell): &(Parameters, CellRuns)| {
                self.limits.iter().all(|limit| keeps(cell, limit, terms.confidence_level))
            };
            let names = self.limits.iter().map(|limit| serde_json::json!(name_of(limit))).collect();
            let limits = (!self.limits.is_empty()).then(|| (names, cells.iter().map(kept).collect()));
            let summarised = Summarised { parameters: &parameters.values, cells: &cells, limits };
            let directory = match self.order {
                IterationOrder::Repeated if terms.trials > 1 => {
                    self.base.join("aggregate").join("sweep_aggregate")
                }
                IterationOrder::Independent | IterationOrder::Repeated => self.base.join("sweep_aggregate"),
            };
            runner.note(write_summary(&directory, &summarised, &terms));
            written.push(directory);
            chosen = Some(summarised.chosen(&terms));
        }
        runner.conclude(cells, chosen, terms, written)
    }
}

impl Runner<'_> {
    /// Ends the log and says what all runs came to.
    pub fn conclude(
        mut self,
        cells: Vec<(Parameters, CellRuns)>,
        chosen: Option<Chosen>,
        terms: Terms,
        written: Vec<PathBuf>,
    ) -> SweepOutcome {
        let interrupted = self.interrupted();
        if let Some(log) = self.log.take() {
            let closed = log.close();
            self.note(closed);
        }
        let Edges { first, running, cooldown } = self.clock_edges;
        let whole = first.map_or(Nanos::ZERO, |first| self.options.clock.now().since(first));
        SweepOutcome {
            cells,
            chosen,
            terms,
            interrupted,
            faults: self.faults,
            written,
            runs: self.runs,
            resumed: self.resumed,
            whole,
            running,
            cooldown,
        }
    }
}

fn cell_runs(variation: &Variation) -> CellRuns {
    CellRuns { label: variation.label.clone(), values: variation.values.clone(), trials: Vec::new() }
}

/// Where the trials of a variation go. The base was computed once, from the first variation.
fn directory_of(variations: &[Variation], variation: &Variation, base: &Path) -> Vec<PathBuf> {
    let Some(first) = variations.first() else { return Vec::new() };
    directory::trials_below(base, &first.config, variation, variations.len())
}

/// A metric that exists, and a statistic that may be asked of it.
pub(super) fn check_named(
    place: &'static str,
    metric: &str,
    statistic: Option<&str>,
) -> Result<(), SweepError> {
    if !catalogue::all().any(|known| known.tag == metric) {
        return Err(SweepError::Metric { place, metric: metric.to_owned() });
    }
    match statistic {
        Some(statistic) if !STATISTICS.contains(&statistic) => {
            Err(SweepError::Statistic { place, metric: metric.to_owned(), statistic: statistic.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

/// `request_latency:p99:le:500`.
pub fn name_of(limit: &SlaRule) -> String {
    format!("{}:{}:{}:{}", limit.metric, limit.stat, limit.op, limit.threshold)
}

/// Whether the mean over the trials keeps a limit; a number that is not there does not.
pub fn keeps(cell: &CellRuns, limit: &SlaRule, level: f64) -> bool {
    let mean = cell.spread(&limit.metric, &limit.stat, level).map(|spread| spread.mean);
    mean.is_some_and(|mean| match limit.op {
        "ge" => mean >= limit.threshold,
        "gt" => mean > limit.threshold,
        "le" => mean <= limit.threshold,
        _ => mean < limit.threshold,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_metric_is_refused_with_the_nearest_names() {
        let refused = check_named("sweep.sla_filters", "request_latncy", None);
        let text = refused.map_err(|error| error.to_string()).err().unwrap_or_default();
        assert!(
            text.contains("`sweep.sla_filters`") && text.contains("did you mean `request_latency`"),
            "{text}"
        );
        let text = check_named("sweep.sla_filters", "request_latency", Some("p42"));
        assert!(text.is_err_and(|error| error.to_string().contains("`p42` of `request_latency`")));
        assert!(check_named("sweep.sla_filters", "request_latency", Some("p99")).is_ok());
    }

    #[test]
    fn identifiers_have_the_form_of_a_uuid() {
        let uuid = uuid();
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!(uuid.as_bytes().get(14), Some(&b'4'), "{uuid}");
    }
}
