//! `sweep` and `multi_run`.

use std::collections::HashMap;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, mismatch, value_place};
use crate::config::meant::{
    Convergence, ConvergenceMode, Dimension, Direction, IterationOrder, MultiRun, Objective, ScenarioRun,
    Search, Sweep, SweepKind, TrialStat,
};
use crate::config::scalar::Scalar;
use crate::config::sections::adaptive::sla;
use crate::config::sections::{NOT_NEGATIVE, require};
use crate::config::source::{Node, Value, shown};
use crate::time::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AdaptiveSearch,
    Grid,
    LatinHypercube,
    Scenarios,
    Sobol,
    Zip,
}

const KINDS: Words<Kind> = Words {
    known: &[
        ("grid", Kind::Grid),
        ("zip", Kind::Zip),
        ("scenarios", Kind::Scenarios),
        ("sobol", Kind::Sobol),
        ("latin_hypercube", Kind::LatinHypercube),
        ("adaptive_search", Kind::AdaptiveSearch),
    ],
    spelling: Spelling::Exact,
};
const ORDERS: Words<IterationOrder> = Words {
    known: &[("repeated", IterationOrder::Repeated), ("independent", IterationOrder::Independent)],
    spelling: Spelling::Lenient,
};

/// Fields of a search that chooses its variations while running.
const SEARCH_FIELDS: &[&str] = &[
    "planner",
    "optuna_sampler",
    "optuna_acquisition",
    "optuna_terminator",
    "percentile_pooling",
    "constraint_mode",
    "search_style",
    "convergence",
    "patience",
    "seed",
];

pub(super) fn sweep(mut keys: Keys<'_>) -> Option<Sweep> {
    let kind = keys.key("type").word(KINDS);
    if kind.is_absent() {
        require(&mut keys, &kind, "type");
    }
    let Some(kind) = kind.optional() else {
        keys.forgive();
        keys.finish();
        return None;
    };
    let cooldown_s = keys.key("cooldown_seconds").seconds(NOT_NEGATIVE).or(0.0);
    let limits = sla(&mut keys, "sla_filters");
    for name in ["post_process", "recipe_name"] {
        keys.key(name).or_null().any();
    }
    let mut search = None;
    let (mut order, mut same_seed) = (IterationOrder::Repeated, false);
    if kind != Kind::AdaptiveSearch {
        order = keys.key("iteration_order").word(ORDERS).or(IterationOrder::Repeated);
        same_seed = keys.key("same_seed").switch().or(false);
    }
    let kind = match kind {
        Kind::Grid => SweepKind::Grid(parameters(&mut keys)),
        Kind::Zip => {
            let parameters = parameters(&mut keys);
            let lengths: Vec<usize> = parameters.iter().map(|(_, values)| values.len()).collect();
            if lengths.iter().any(|length| Some(length) != lengths.first()) {
                let message = format!("`{}.parameters`: a zip needs lists of one length", keys.path());
                let absent = Written::<()>::Absent;
                keys.fault_at(
                    &absent,
                    message,
                    "lengths differ",
                    "make the lists equally long, or write `type: grid`",
                );
            }
            SweepKind::Zip(parameters)
        }
        Kind::Scenarios => SweepKind::Scenarios(scenarios(&mut keys)),
        Kind::Sobol => {
            keys.key("scramble").switch();
            SweepKind::Sobol(dimensions(&mut keys))
        }
        Kind::LatinHypercube => {
            keys.key("optimization").or_null().any();
            SweepKind::LatinHypercube(dimensions(&mut keys))
        }
        Kind::AdaptiveSearch => {
            let (samples, found) = self::search(&mut keys);
            search = found;
            SweepKind::AdaptiveSearch(samples)
        }
    };
    keys.finish();
    Some(Sweep { kind, cooldown_s, order, same_seed, limits, search })
}

fn parameters(keys: &mut Keys<'_>) -> Vec<(String, Vec<Node>)> {
    let key = keys.key("parameters");
    let Some(entry) = key.entry() else {
        require(keys, &Written::<()>::Absent, "parameters");
        return Vec::new();
    };
    let place = value_place(entry);
    let Value::Mapping(entries) = &entry.node.value else {
        key.refuse("a mapping from paths to lists of values");
        return Vec::new();
    };
    let at = format!("{}.parameters", keys.path());
    if entries.is_empty() {
        keys.fault(
            Diagnostic::error(format!("`{at}` must have at least one path"))
                .at(place, "nothing to vary")
                .with_help("write for example `phases.profiling.concurrency: [4, 8]`"),
        );
    }
    let mut parameters = Vec::new();
    let mut seen: HashMap<String, Span> = HashMap::new();
    for entry in entries {
        let at = format!("{at}.{}", shown(&entry.key));
        let Some(path) = long_path(&entry.key, &entry.key_span, keys) else { continue };
        if let Some(first) = seen.insert(path.clone(), entry.key_span.clone()) {
            keys.fault(
                Diagnostic::error(format!("`{at}` is already a parameter, by its other spelling"))
                    .at(entry.key_span.clone(), "again")
                    .with_context(first, "first here")
                    .with_help("keep one of the two"),
            );
            continue;
        }
        let Value::Sequence(values) = &entry.node.value else {
            keys.fault(mismatch(&at, "a list of values", &entry.node, &entry.key_span));
            continue;
        };
        if values.is_empty() {
            keys.fault(
                Diagnostic::error(format!("`{at}` has no values"))
                    .at(value_place(entry), "nothing to try")
                    .with_help("write at least one value"),
            );
            continue;
        }
        let infinite =
            |node: &&Node| matches!(&node.value, Value::Scalar(Scalar::Float(value)) if !value.is_finite());
        if let Some(bad) = values.iter().find(infinite) {
            keys.fault(
                Diagnostic::error(format!("`{at}`: values must be finite, found {}", bad.described()))
                    .at(bad.span.clone(), "not finite")
                    .with_help("take it out"),
            );
            continue;
        }
        parameters.push((path, values.clone()));
    }
    parameters
}

/// Fields of the profiling phase that may be named alone.
const SHORT_PATHS: &[&str] = &[
    "concurrency",
    "prefill_concurrency",
    "rate",
    "requests",
    "duration",
    "sessions",
    "users",
    "smoothness",
    "grace_period",
    "concurrency_ramp",
    "prefill_ramp",
    "rate_ramp",
    "rate_series",
];

/// The long spelling of a sweep path; absent, with a fault, for one that cannot be.
fn long_path(path: &str, place: &Span, keys: &mut Keys<'_>) -> Option<String> {
    let first = path.split('.').next().unwrap_or_default();
    let why = if path.is_empty() {
        Some("it is empty")
    } else if path.split('.').any(str::is_empty) {
        Some("a part between dots is empty")
    } else if first == "benchmark" {
        Some("paths start below `benchmark`")
    } else if matches!(first, "sweep" | "multi_run" | "multiRun" | "random_seed" | "randomSeed") {
        Some("this cannot be varied")
    } else {
        None
    };
    if let Some(why) = why {
        keys.fault(
            Diagnostic::error(format!("the sweep path `{}` cannot be used: {why}", shown(path)))
                .at(place.clone(), "not a path")
                .with_help("write for example `phases.profiling.concurrency`"),
        );
        return None;
    }
    let short = SHORT_PATHS.contains(&path);
    Some(if short { format!("phases.profiling.{path}") } else { path.to_owned() })
}

fn scenarios(keys: &mut Keys<'_>) -> Vec<ScenarioRun> {
    let runs = keys.items("runs", "a list of at least one run", |mut keys| {
        let name = keys.key("name").or_null().text();
        if let Some(bad) = name.value().filter(|name| {
            name.contains(['/', '\\']) || name.contains("..") || name.chars().all(|letter| letter == '.')
        }) {
            let message = format!("`{}.name` cannot be a directory: `{}`", keys.path(), shown(bad));
            keys.fault_at(&name, message, "no directory name", "leave out `/`, `\\` and `..`");
        }
        let tree = |keys: &mut Keys<'_>, key: &'static str| {
            let written = keys.key(key).or_null().node();
            let Written::Present(Spanned { span, value: (node, path), .. }) = written else { return None };
            if !matches!(node.value, Value::Mapping(_)) {
                keys.fault(mismatch(&path, "a mapping", node, &span));
            }
            Some(node.clone())
        };
        let benchmark = tree(&mut keys, "benchmark");
        let variables = tree(&mut keys, "variables");
        let values = match tree(&mut keys, "values").map(|node| node.value) {
            Some(Value::Mapping(entries)) => {
                entries.into_iter().map(|entry| (entry.key, entry.node)).collect()
            }
            Some(Value::Scalar(_) | Value::Sequence(_)) | None => Vec::new(),
        };
        let place = keys.place();
        keys.finish();
        (ScenarioRun { name: name.value().cloned(), benchmark, variables, values }, place)
    });
    require(keys, &runs, "runs");
    let mut seen: HashMap<String, Span> = HashMap::new();
    let runs = runs.or(Vec::new());
    for (run, place) in &runs {
        let Some(name) = &run.name else { continue };
        if let Some(first) = seen.insert(name.clone(), place.clone()) {
            keys.fault(
                Diagnostic::error(format!("two runs of the sweep are named `{}`", shown(name)))
                    .at(place.clone(), "named again")
                    .with_context(first, "first here")
                    .with_help("give this run another name"),
            );
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

const SCALES: Words<bool> = Words { known: &[("linear", false), ("log", true)], spelling: Spelling::Exact };
/// Whether only whole values are meant.
const NUMBERS: Words<bool> = Words { known: &[("int", true), ("real", false)], spelling: Spelling::Exact };
const DIRECTIONS: Words<Direction> = Words {
    known: &[
        ("maximize", Direction::Maximize),
        ("max", Direction::Maximize),
        ("minimize", Direction::Minimize),
        ("min", Direction::Minimize),
    ],
    spelling: Spelling::Lenient,
};
const LABELS: Words<()> = Words { known: &[("index", ()), ("kv", ())], spelling: Spelling::Exact };
/// Most samples of a drawn sweep.
const SAMPLES_MAX: u32 = 1 << 20;

fn dimensions(keys: &mut Keys<'_>) -> Vec<(String, Node)> {
    let samples = keys.key("samples").whole(2..=SAMPLES_MAX);
    require(keys, &samples, "samples");
    keys.key("seed").or_null().whole(0..=u64::MAX);
    keys.key("label_format").word(LABELS);
    let dimensions = keys.items("dimensions", "a list of dimensions", |mut keys| {
        let path = keys.key("path").text();
        require(&mut keys, &path, "path");
        let lo = keys.key("lo").or_null().number(Bound::Finite);
        let hi = keys.key("hi").or_null().number(Bound::Finite);
        let choices = keys.key("choices").or_null().any();
        let log = keys.key("scale").word(SCALES).or(false);
        keys.key("kind").word(NUMBERS);
        let sample = sample(&mut keys);
        if let (Some(low), Some(high)) = (lo.value(), hi.value()) {
            if low >= high {
                let message = format!("`{}`: `lo` ({low}) is not below `hi` ({high})", keys.path());
                keys.fault_at(&lo, message, "not below `hi`", "exchange the two");
            } else if log && *low <= 0.0 {
                let message = format!("`{}.lo` must be above 0 on a log scale", keys.path());
                keys.fault_at(&lo, message, "no logarithm", "raise it, or write `scale: linear`");
            }
        } else if choices.is_absent() {
            let message = format!("`{}` has neither `lo` and `hi` nor `choices`", keys.path());
            keys.fault_at(&choices, message, "no values", "add `lo` and `hi`");
        }
        keys.finish();
        path.optional().zip(sample)
    });
    require(keys, &dimensions, "dimensions");
    let dimensions = dimensions.present().map(|present| (present.key.clone(), present.value.clone()));
    let Some((place, dimensions)) = dimensions else { return Vec::new() };
    long_paths(keys, &place, dimensions)
}

/// A value of a dimension's range.
fn sample(keys: &mut Keys<'_>) -> Option<Node> {
    if let Some(present) = keys.key("lo").or_null().node().present() {
        return Some(present.value.0.clone());
    }
    let choices = keys.key("choices").or_null().node();
    match &choices.present()?.value.0.value {
        Value::Sequence(items) => items.first().cloned(),
        Value::Scalar(_) | Value::Mapping(_) => None,
    }
}

fn long_paths(
    keys: &mut Keys<'_>,
    place: &Span,
    dimensions: Vec<Option<(String, Node)>>,
) -> Vec<(String, Node)> {
    let known = dimensions.into_iter().flatten();
    known.filter_map(|(path, node)| Some((long_path(&path, place, keys)?, node))).collect()
}

/// Iterations of a search.
const ITERATIONS_MAX: u32 = 200;
/// Iterations of a search unless written.
const ITERATIONS: u32 = 30;
/// First points of a search unless written.
const INITIAL_POINTS: u32 = 5;

fn search(keys: &mut Keys<'_>) -> (Vec<(String, Node)>, Option<Search>) {
    let planner = keys.key("planner").or_null().text();
    let space = keys.items("search_space", "a list of dimensions", |mut keys| {
        let path = keys.key("path").text();
        require(&mut keys, &path, "path");
        let lo = keys.key("lo").number(Bound::Finite);
        let hi = keys.key("hi").number(Bound::Finite);
        require(&mut keys, &lo, "lo");
        require(&mut keys, &hi, "hi");
        if let (Some(low), Some(high)) = (lo.value(), hi.value())
            && low >= high
        {
            let message = format!("`{}`: `lo` ({low}) is not below `hi` ({high})", keys.path());
            keys.fault_at(&lo, message, "not below `hi`", "exchange the two");
        }
        let kind = keys.key("kind").word(NUMBERS);
        keys.key("prior").or_null().any();
        let sample = sample(&mut keys);
        keys.finish();
        // Values that are whole at both ends are so in between, unless written otherwise.
        let ends = lo.value().copied().zip(hi.value().copied());
        let whole = kind.or(ends.is_some_and(|(low, high)| low.fract() == 0.0 && high.fract() == 0.0));
        let dimension =
            path.value().cloned().zip(ends).map(|(path, (low, high))| Dimension { path, low, high, whole });
        (path.optional().zip(sample), dimension)
    });
    require(keys, &space, "search_space");
    let objectives = keys.items("objectives", "a list of objectives", |mut keys| {
        let metric = keys.key("metric").text();
        require(&mut keys, &metric, "metric");
        let stat = keys.key("stat").or_null().text();
        let direction = keys.key("direction").or_null().word(DIRECTIONS);
        let threshold = keys.key("threshold").or_null().number(Bound::Finite);
        keys.finish();
        let metric = metric.optional()?;
        // Durations are to be short, all else large.
        let short =
            metric.contains("latency") || metric.starts_with("time_to") || metric.contains("duration");
        let natural = if short { Direction::Minimize } else { Direction::Maximize };
        Some(Objective {
            metric,
            stat: stat.or("avg".to_owned()),
            direction: direction.or(natural),
            threshold: threshold.optional(),
        })
    });
    require(keys, &objectives, "objectives");
    let iterations = keys.key("max_iterations").whole(2..=ITERATIONS_MAX);
    let points = keys.key("n_initial_points").whole(1..=ITERATIONS_MAX);
    let drawn = planner.value().is_none_or(|planner| matches!(planner.as_str(), "bayesian" | "optuna"));
    if let Some(most) = iterations.value()
        && drawn
        && points.value().copied().unwrap_or(INITIAL_POINTS) >= *most
    {
        let message = format!(
            "`{}.max_iterations` ({most}) must be more than the first points ({})",
            keys.path(),
            points.value().copied().unwrap_or(INITIAL_POINTS)
        );
        keys.fault_at(&iterations, message, "nothing left to search", "raise it, or lower `nInitialPoints`");
    }
    let seed = keys.key("random_seed").or_null().whole(0..=u64::MAX);
    for name in SEARCH_FIELDS {
        keys.key(name).or_null().any();
    }
    let space = space.present().map(|present| (present.key.clone(), present.value.clone()));
    let Some((place, space)) = space else { return (Vec::new(), None) };
    let (samples, dimensions): (Vec<_>, Vec<Option<Dimension>>) = space.into_iter().unzip();
    let samples = long_paths(keys, &place, samples);
    let dimensions: Vec<Dimension> = dimensions
        .into_iter()
        .flatten()
        .zip(&samples)
        .map(|(dimension, (path, _))| Dimension { path: path.clone(), ..dimension })
        .collect();
    let search = Search {
        space: dimensions,
        objectives: objectives.or(Vec::new()).into_iter().flatten().collect(),
        iterations_max: iterations.or(ITERATIONS),
        initial_points: points.or(INITIAL_POINTS),
        seed: seed.optional(),
    };
    (samples, Some(search))
}

const STATS: Words<TrialStat> = Words {
    known: &[
        ("avg", TrialStat::Avg),
        ("p50", TrialStat::Percentile(50)),
        ("p90", TrialStat::Percentile(90)),
        ("p95", TrialStat::Percentile(95)),
        ("p99", TrialStat::Percentile(99)),
        ("min", TrialStat::Min),
        ("max", TrialStat::Max),
    ],
    spelling: Spelling::Lenient,
};
const MODES: Words<ConvergenceMode> = Words {
    known: &[
        ("ci_width", ConvergenceMode::CiWidth),
        ("cv", ConvergenceMode::Cv),
        ("distribution", ConvergenceMode::Distribution),
    ],
    spelling: Spelling::Lenient,
};

/// The repetitions, and where their early end is written.
pub(super) fn multi_run(mut keys: Keys<'_>) -> (MultiRun, Option<Span>) {
    let defaults = MultiRun::default();
    let runs = keys.key("num_runs").whole(1..=10_u32);
    let cooldown_s = keys.key("cooldown_seconds").seconds(Bound::Within(0.0, 86_400.0)).or(0.0);
    let confidence_level = keys.key("confidence_level").number(Bound::Between(0.0, 1.0));
    let set_consistent_seed = keys.key("set_consistent_seed").switch();
    let vary_seed_per_trial = keys.key("vary_seed_per_trial").switch();
    let disable_warmup_after_first = keys.key("disable_warmup_after_first").switch();
    let convergence = keys.key("convergence").or_null().section(|mut keys| {
        let metric = keys.key("metric").text();
        require(&mut keys, &metric, "metric");
        let stat = keys.key("stat").word(STATS).or(TrialStat::Avg);
        let mode = keys.key("mode").word(MODES).or(ConvergenceMode::CiWidth);
        let threshold = keys.key("threshold").or_null().number(Bound::Between(0.0, 1.0)).optional();
        let min_runs = keys.key("min_runs").whole(2..=u32::MAX).or(2);
        keys.finish();
        Convergence { metric: metric.or(String::new()), stat, mode, threshold, min_runs }
    });
    let trials = runs.value().copied().unwrap_or(defaults.runs);
    if let Some(present) = convergence.present().filter(|present| present.value.min_runs > trials) {
        let message = format!(
            "`{}.convergence` needs {} runs at least, more than `num_runs` ({trials})",
            keys.path(),
            present.value.min_runs
        );
        keys.fault_at(&convergence, message, "never reached", "raise `numRuns`, or lower `minRuns`");
    }
    keys.finish();
    let place = convergence.present().map(|present| present.key.clone());
    let meant = MultiRun {
        runs: trials,
        cooldown: Nanos::from_secs_f64(cooldown_s),
        confidence_level: confidence_level.or(defaults.confidence_level),
        set_consistent_seed: set_consistent_seed.or(defaults.set_consistent_seed),
        vary_seed_per_trial: vary_seed_per_trial.or(defaults.vary_seed_per_trial),
        disable_warmup_after_first: disable_warmup_after_first.or(defaults.disable_warmup_after_first),
        convergence: convergence.optional(),
    };
    (meant, place)
}
