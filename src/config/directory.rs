//! Names of result directories: of a run, of its trials, of a sweep's variations (AIPerf's layout).

use std::path::{Path, PathBuf};

use crate::config::expand::{Variation, python_float};
use crate::config::meant::{Config, IterationOrder, Load, PhaseKind, SweepKind};

/// Where a config's files go: the directory as configured, else one named after model and load.
pub fn base(config: &Config) -> PathBuf {
    if let Some(directory) = &config.artifacts.dir {
        return directory.clone();
    }
    let first = config.model.replace('/', "_");
    let model = if config.models.items.len() > 1 { format!("{first}_multi") } else { first };
    let counted = config.phases.iter().find(|phase| phase.kind == PhaseKind::Profiling);
    let stimulus = match counted.map(|phase| phase.load) {
        Some(Load::Concurrency { concurrency }) => format!("-concurrency{concurrency}"),
        Some(
            Load::Constant { rate_per_s, concurrency }
            | Load::Gamma { rate_per_s, concurrency, .. }
            | Load::Poisson { rate_per_s, concurrency },
        ) => {
            let cap = concurrency.map(|cap| format!("-concurrency{cap}")).unwrap_or_default();
            format!("{cap}-request_rate{}", python_float(rate_per_s))
        }
        Some(Load::UserCentric { rate_per_s, users, .. }) => {
            format!("-user_centric-users{users}-qps{}", python_float(rate_per_s))
        }
        Some(Load::FixedSchedule { .. }) => "-fixed_schedule".to_owned(),
        None => String::new(),
    };
    Path::new("artifacts").join(format!("{model}-openai-{}{stimulus}", config.endpoint.kind.name()))
}

/// Where the trials of `variation` go, `first` being the first of `count` variations.
pub fn trials(first: &Variation, variation: &Variation, count: usize) -> Vec<PathBuf> {
    trials_below(&base(&first.config), &first.config, variation, count)
}

/// Where the trials of `variation`, one of `count`, go below `base`; `config` is that of the first one.
pub fn trials_below(base: &Path, config: &Config, variation: &Variation, count: usize) -> Vec<PathBuf> {
    let base = base.to_owned();
    let runs = config.multi_run.runs;
    let trial = |name: &str, number: u32| format!("{name}_{number:04}");
    let numbers = 1..=runs;
    let Some(sweep) = config.sweep.as_ref().filter(|_| count > 1) else {
        if runs == 1 {
            return vec![base];
        }
        return numbers.map(|number| base.join("profile_runs").join(trial("run", number))).collect();
    };
    let dir = &variation.dir_name;
    match (&sweep.kind, sweep.order) {
        (SweepKind::AdaptiveSearch(_), _) => vec![base],
        _ if runs == 1 => vec![base.join(dir)],
        (_, IterationOrder::Repeated) => {
            numbers.map(|number| base.join("profile_runs").join(trial("trial", number)).join(dir)).collect()
        }
        (_, IterationOrder::Independent) => {
            numbers.map(|number| base.join(dir).join("profile_runs").join(trial("trial", number))).collect()
        }
    }
}
