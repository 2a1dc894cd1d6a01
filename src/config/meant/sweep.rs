//! What is varied from run to run, and how often a run is repeated.

use crate::config::meant::SlaRule;
use crate::config::source::Node;
use crate::time::Nanos;

/// What is varied from run to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// How variations come about.
    pub kind: SweepKind,
    /// Seconds between variations, at least 0.
    pub cooldown_s: f64,
    /// Whether all variations run once before any runs again.
    pub order: IterationOrder,
    /// Whether all variations have the same seed.
    pub same_seed: bool,
    /// Limits that a variation must keep to be chosen as the best.
    pub limits: Vec<SlaRule>,
    /// What is searched, of a sweep that chooses its variations while running.
    pub search: Option<Search>,
}

/// A search for the best variation.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// What may be changed, at least one.
    pub space: Vec<Dimension>,
    /// What is wanted, most important first, at least one.
    pub objectives: Vec<Objective>,
    /// Most variations that are run, 2 to 200.
    pub iterations_max: u32,
    /// Variations that are spread over the space first, where there is more than one dimension.
    pub initial_points: u32,
    /// Seed of the points that are drawn.
    pub seed: Option<u64>,
}

/// One thing that a search may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Where it stands, as in grids.
    pub path: String,
    /// Its least value.
    pub low: f64,
    /// Its greatest value, above the least.
    pub high: f64,
    /// Whether only whole values are tried.
    pub whole: bool,
}

/// What a search wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The metric's tag.
    pub metric: String,
    /// The statistic, such as `avg` or `p99`.
    pub stat: String,
    /// Whether it is to be large or small.
    pub direction: Direction,
    /// The value beyond which a variation does not count; absent: any will do.
    pub threshold: Option<f64>,
}

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Large ones.
    Maximize,
    /// Small ones.
    Minimize,
}

/// How variations come about.
#[derive(Clone, Debug, PartialEq)]
pub enum SweepKind {
    /// Chosen while running, within these paths; each with a value of its range.
    AdaptiveSearch(Vec<(String, Node)>),
    /// All combinations of the values, the last path changing fastest.
    Grid(Vec<(String, Vec<Node>)>),
    /// Drawn in latin hypercubes over these paths; each with a value of its range.
    LatinHypercube(Vec<(String, Node)>),
    /// Written out one by one.
    Scenarios(Vec<ScenarioRun>),
    /// Drawn from Sobol's sequence over these paths; each with a value of its range.
    Sobol(Vec<(String, Node)>),
    /// The first values of all paths, the second ones, and so on.
    Zip(Vec<(String, Vec<Node>)>),
}

impl SweepKind {
    /// As written in configs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AdaptiveSearch(_) => "adaptive_search",
            Self::Grid(_) => "grid",
            Self::LatinHypercube(_) => "latin_hypercube",
            Self::Scenarios(_) => "scenarios",
            Self::Sobol(_) => "sobol",
            Self::Zip(_) => "zip",
        }
    }
}

/// One variation written out.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioRun {
    /// Its name; absent: `scenario_<position>`.
    pub name: Option<String>,
    /// What it changes in `benchmark`.
    pub benchmark: Option<Node>,
    /// What it changes in `variables`.
    pub variables: Option<Node>,
    /// Values that name it.
    pub values: Vec<(String, Node)>,
}

/// Which comes first, trials or variations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationOrder {
    /// All trials of a variation, then the next one.
    Independent,
    /// All variations, then the next trial.
    Repeated,
}

/// How often each run is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiRun {
    /// Trials, 1 to 10.
    pub runs: u32,
    /// Time between trials.
    pub cooldown: Nanos,
    /// Level of confidence intervals, above 0 and below 1.
    pub confidence_level: f64,
    /// Whether trials without a seed get one in common.
    pub set_consistent_seed: bool,
    /// Whether each trial has a seed of its own.
    pub vary_seed_per_trial: bool,
    /// Whether only the first trial has the warmup phases.
    pub disable_warmup_after_first: bool,
    /// When trials end early.
    pub convergence: Option<Convergence>,
}

impl Default for MultiRun {
    fn default() -> Self {
        Self {
            runs: 1,
            cooldown: Nanos(0),
            confidence_level: 0.95,
            set_consistent_seed: true,
            vary_seed_per_trial: false,
            disable_warmup_after_first: true,
            convergence: None,
        }
    }
}

/// When trials end early.
#[derive(Clone, Debug, PartialEq)]
pub struct Convergence {
    /// The metric's tag.
    pub metric: String,
    /// The statistic compared.
    pub stat: TrialStat,
    /// How it is compared.
    pub mode: ConvergenceMode,
    /// Above 0 and below 1; absent: the default of the mode.
    pub threshold: Option<f64>,
    /// Trials there must be, 2 at least.
    pub min_runs: u32,
}

/// A statistic compared between trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialStat {
    /// The mean.
    Avg,
    /// The greatest value.
    Max,
    /// The least value.
    Min,
    /// A percentile.
    Percentile(u8),
}

/// How trials are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceMode {
    /// Width of the confidence interval.
    CiWidth,
    /// Deviation over mean.
    Cv,
    /// The whole distributions.
    Distribution,
}
