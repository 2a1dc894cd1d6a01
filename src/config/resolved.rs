//! A loaded config as one JSON object: what `validate --json` prints.
//!
//! The shape is that of AIPerf's resolved config, with infinities as the text `inf`; the members below
//! `runtime` of a phase say what phasor does.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::config::directory;
use crate::config::expand::{Variation, python_float};
use crate::config::meant::{
    Config, DatasetSource, Distribution, Load, ModelStrategy, Phase, PhaseKind, Ramp, Shape, SweepKind,
    TimingMode,
};
use crate::config::{Loaded, trial_seed};
use crate::time::Nanos;

/// Most variations behind the first that are listed.
const OTHERS_MAX: usize = 12;

/// `loaded` as one object; result directories are shown below `working_directory`.
pub fn normalized(loaded: &Loaded, working_directory: &Path) -> Json {
    let config = &loaded.config;
    // What a sweep may vary is shown as it is in the first run.
    let run = loaded.variations.first().map_or(config, |variation| &variation.config);
    let sections: Map<String, Json> =
        ["artifacts", "gpu_telemetry", "server_metrics", "logging", "runtime", "tokenizer"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), config.input_config.get(*name)?.clone())))
            .collect();
    let shown: Vec<Json> = loaded
        .variations
        .iter()
        .take(OTHERS_MAX + 1)
        .map(|variation| self::variation(loaded, variation, working_directory))
        .collect();
    let first = shown.first().cloned().unwrap_or(Json::Null);
    let others: Vec<Json> = shown.iter().skip(1).map(|other| difference(&first, other)).collect();
    json!({
        "variations": loaded.variations.len(),
        "trials": config.multi_run.runs,
        "random_seed": config.random_seed,
        "sweep_type": config.sweep.as_ref().map(|sweep| sweep.kind.name()),
        "adaptive_search": config.sweep.as_ref().is_some_and(|sweep| matches!(sweep.kind, SweepKind::AdaptiveSearch(_))),
        "sections": sections,
        "models": {
            "strategy": match run.models.strategy {
                ModelStrategy::Random => "random",
                ModelStrategy::RoundRobin => "round_robin",
                ModelStrategy::Weighted => "weighted",
            },
            "names": run.models.items.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(),
        },
        "endpoint": endpoint(run),
        "dataset": dataset(run),
        "slos": config.slos.as_ref().map(|slos| slos.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()),
        "ui": config.runtime.ui.map(crate::config::meant::Ui::name),
        "first": first,
        "others": others,
    })
}

fn endpoint(config: &Config) -> Json {
    let endpoint = &config.endpoint;
    let written = config.input_config.pointer("/endpoint/timeout");
    let timeout = match (endpoint.timeout, written) {
        (Some(timeout), _) => seconds(timeout),
        // Both mean no limit; what was written tells which it is.
        (None, Some(Json::Null)) => json!("inf"),
        (None, _) => json!(0.0),
    };
    let headers: Map<String, Json> =
        endpoint.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "urls": endpoint.urls.iter().map(|url| url.text.as_str()).collect::<Vec<_>>(),
        "type": endpoint.kind.name(),
        "path": endpoint.path,
        "streaming": endpoint.streaming,
        "timeout": timeout,
        "connection_reuse": endpoint.reuse.name(),
        "headers": headers,
        "extra": endpoint.extra,
    })
}

fn dataset(config: &Config) -> Json {
    let dataset = &config.dataset;
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("name", json!(dataset.name));
    add("type", json!(dataset.source.name()));
    add("entries", json!(dataset.entries));
    add("sampling", json!(dataset.sampling.name()));
    let written = |name: &str| config.input_config.pointer(&format!("/datasets/0/prompts/{name}")).is_some();
    if written("isl") {
        add("isl", json!(distribution(&dataset.prompts.isl)));
    }
    if let Some(osl) = &dataset.prompts.osl {
        add("osl", json!(distribution(osl)));
    }
    if !dataset.prompts.mix.is_empty() {
        let mix = dataset.prompts.mix.iter();
        let mix: Vec<Json> =
            mix.map(|pair| json!([distribution(&pair.isl), distribution(&pair.osl), pair.percent])).collect();
        add("sequence_distribution", mix.into());
    }
    match &dataset.source {
        DatasetSource::File(file) => {
            add("format", json!(file.format.as_deref().unwrap_or("single_turn")));
            if let Some(path) = &file.path {
                add("path", json!(path));
            }
        }
        DatasetSource::Public(public) => {
            add("dataset", json!(public.dataset));
        }
        DatasetSource::Synthetic(made) => {
            if let Some(turns) = &made.turns {
                add("turns", json!(distribution(turns)));
            }
            if let Some(delay) = &made.turn_delay_ms {
                add("turn_delay", json!(distribution(delay)));
            }
        }
    }
    Json::Object(members)
}

/// A distribution as AIPerf prints it.
pub fn distribution(distribution: &Distribution) -> String {
    match &distribution.shape {
        Shape::Fixed(value) => format!("fixed({})", short(*value)),
        Shape::Normal { mean, stddev } if *stddev == 0.0 => format!("normal({})", short(*mean)),
        Shape::Normal { mean, stddev } => format!("normal(mean={}, stddev={})", short(*mean), short(*stddev)),
        Shape::LogNormal { mean, median } => {
            format!("lognormal(mean={}, median={})", short(*mean), short(*median))
        }
        Shape::Multimodal(peaks) => {
            let sum: f64 = peaks.iter().map(|peak| peak.weight).sum();
            let peaks: Vec<String> = peaks
                .iter()
                .map(|peak| {
                    format!(
                        "{} @ {}%",
                        self::distribution(&peak.distribution),
                        short(100.0 * peak.weight / sum)
                    )
                })
                .collect();
            format!("multimodal({})", peaks.join(", "))
        }
        Shape::Empirical(points) => format!("empirical({} points)", points.len()),
    }
}

/// A number without a fraction of zero.
fn short(value: f64) -> String {
    let shown = python_float(value);
    shown.strip_suffix(".0").map(str::to_owned).unwrap_or(shown)
}

fn variation(loaded: &Loaded, variation: &Variation, working_directory: &Path) -> Json {
    let first = loaded.variations.first().unwrap_or(variation);
    let searches = variation
        .config
        .sweep
        .as_ref()
        .is_some_and(|sweep| matches!(sweep.kind, SweepKind::AdaptiveSearch(_)));
    let directories: Vec<String> = directory::trials(first, variation, loaded.variations.len())
        .iter()
        .map(|directory| {
            let joined = working_directory.join(directory);
            let plain: std::path::PathBuf =
                joined.components().filter(|part| *part != std::path::Component::CurDir).collect();
            plain.display().to_string()
        })
        .collect();
    let mut profiling = 0;
    let phases: Vec<Json> = variation
        .config
        .phases
        .iter()
        .enumerate()
        .map(|(index, phase)| {
            let profiling_index = (phase.kind == PhaseKind::Profiling).then(|| {
                profiling += 1;
                profiling - 1
            });
            self::phase(phase, index, profiling_index)
        })
        .collect();
    let mut shown = json!({
        "index": variation.index,
        "label": variation.label,
        "dir_name": variation.dir_name,
        "seed": trial_seed(variation, 0),
        "phases": phases,
    });
    // A search names its directories as it goes.
    if let (Some(members), false) = (shown.as_object_mut(), searches) {
        members.insert("artifact_dirs".to_owned(), directories.into());
    }
    shown
}

/// What differs in `other`, phase by phase.
fn difference(first: &Json, other: &Json) -> Json {
    let phases =
        |variation: &Json| -> Vec<Json> { variation["phases"].as_array().cloned().unwrap_or_default() };
    let mut changes = Map::new();
    let before = phases(first);
    for phase in phases(other) {
        let name = phase["name"].as_str().unwrap_or_default().to_owned();
        let same = before.iter().find(|known| known["name"] == phase["name"]);
        let changed: Map<String, Json> = phase
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| same.and_then(|same| same.get(key.as_str())) != Some(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !changed.is_empty() {
            changes.insert(name, Json::Object(changed));
        }
    }
    json!({
        "index": other["index"],
        "label": other["label"],
        "dir_name": other["dir_name"],
        "seed": other["seed"],
        "artifact_dirs": other["artifact_dirs"],
        "phase_changes": changes,
    })
}

fn phase(phase: &Phase, index: usize, profiling_index: Option<u32>) -> Json {
    let cancellation = phase
        .cancellation
        .map(|cancellation| json!({"rate": cancellation.rate_percent, "delay": seconds(cancellation.delay)}));
    let series = !phase.rate_series.is_empty();
    let rate = if series { None } else { phase.load.rate_per_s() };
    let mut shown = json!({
        "name": phase.name,
        "kind": phase.kind.name(),
        "type": phase.load.name(),
        "concurrency": phase.load.concurrency(),
        "prefill_concurrency": phase.prefill_concurrency,
        "rate": rate,
        "duration_seconds": phase.stop.duration.map(seconds),
        "requests": phase.stop.requests,
        "sessions": phase.stop.sessions,
        "grace_seconds": phase.grace.map(seconds),
        "cancellation": cancellation,
        "seamless": phase.seamless,
        "exclude_from_results": phase.kind == PhaseKind::Warmup,
    });
    let mode = phase.timing_mode.unwrap_or_else(|| phase.natural_timing());
    let pattern = match phase.load {
        Load::Concurrency { .. } | Load::FixedSchedule { .. } => "concurrency_burst",
        Load::Constant { .. } => "constant",
        Load::Gamma { .. } => "gamma",
        Load::Poisson { .. } | Load::UserCentric { .. } => "poisson",
    };
    let grace = phase.grace.map_or_else(|| json!("inf"), seconds);
    let runtime = json!({
        "phase_index": index,
        "profiling_index": profiling_index,
        "timing_mode": TimingMode::name(mode),
        "arrival_pattern": pattern,
        "grace_seconds": grace,
        "seamless": phase.seamless,
        "cancellation": cancellation.unwrap_or_else(|| json!({"rate": null, "delay": 0.0})),
        "request_rate": phase.load.rate_per_s(),
        "concurrency": phase.load.concurrency(),
    });
    let Some(members) = shown.as_object_mut() else { return shown };
    let mut add = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    match phase.load {
        Load::UserCentric { users, .. } => add("users", Some(json!(users))),
        Load::Gamma { smoothness, .. } => add("smoothness", Some(json!(smoothness))),
        Load::FixedSchedule { auto_offset, start_offset_ms, end_offset_ms, .. } => {
            add("auto_offset", Some(json!(auto_offset)));
            add("start_offset", Some(json!(start_offset_ms)));
            add("end_offset", Some(json!(end_offset_ms)));
        }
        Load::Concurrency { .. } | Load::Constant { .. } | Load::Poisson { .. } => {}
    }
    add("concurrency_ramp", phase.concurrency_ramp.map(ramp));
    add("prefill_ramp", phase.prefill_ramp.map(ramp));
    add("rate_ramp", phase.rate_ramp.map(ramp));
    let points = phase.rate_series.iter().map(|point| json!([point.time_s, point.rate_per_s]));
    add("rate_series", series.then(|| points.collect()));
    let rules = phase.sla.iter().map(|rule| {
        json!({"metric_tag": rule.metric, "stat": rule.stat, "op": rule.op, "threshold": rule.threshold})
    });
    add("sla", (!phase.sla.is_empty()).then(|| rules.collect()));
    add("failed_request_threshold", phase.failed_request_threshold.map(|share| json!(share)));
    add(
        "adaptive",
        phase.adaptive.as_ref().map(|adaptive| {
            json!({
                "adaptive_sustain_duration": adaptive.sustain_s,
                "adaptive_assessment_period": adaptive.assessment_period_s,
                "adaptive_min_completed_requests": adaptive.min_completed_requests,
                "adaptive_control_variable": adaptive.control.name(),
                "adaptive_control_min": adaptive.control_min,
                "adaptive_control_max": adaptive.control_max,
                "adaptive_scale_strategy_type": "ramp_until_fail",
                "adaptive_scale_step_policy": adaptive.step_policy.name(),
                "adaptive_scale_base_step": adaptive.base_step,
                "adaptive_scale_max_step_multiplier": adaptive.max_step_multiplier,
                "adaptive_scale_step_percent": adaptive.step_percent,
            })
        }),
    );
    add("runtime", Some(runtime));
    shown
}

fn ramp(ramp: Ramp) -> Json {
    json!({"duration_seconds": seconds(ramp.duration), "strategy": ramp.strategy.name()})
}

fn seconds(span: Nanos) -> Json {
    if span == Nanos(u64::MAX) { json!("inf") } else { json!(span.as_secs_f64()) }
}
