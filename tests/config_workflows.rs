//! The multi-phase workflows that users write: the documented snippets, the examples that come with phasor,
//! and the normal form that goes into the result files.

use std::fs;
use std::path::Path;

use phasor::config::{self, Config, Load, Loaded, PhaseKind};
use phasor::time::Nanos;
use serde_json::json;

/// A file around a snippet that starts at `benchmark`'s level.
fn completed(snippet: &str) -> String {
    let snippet = match snippet.strip_prefix("benchmark:\n") {
        Some(sections) => sections.to_owned(),
        None => snippet.split_inclusive('\n').flat_map(|line| ["  ", line]).collect(),
    };
    format!(
        "schemaVersion: \"2.0\"\nbenchmark:\n  model: demo\n  endpoint: {{url: \"http://127.0.0.1:8000\", type: chat, \
         streaming: true}}\n  dataset: {{type: synthetic, entries: 10, prompts: {{isl: 8, osl: 4}}}}\n{snippet}"
    )
}

fn parsed(text: &str) -> Loaded {
    config::parse("workflow.yaml", text).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

fn shapes(config: &Config) -> Vec<(&str, PhaseKind, u32)> {
    config
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.kind, phase.load.concurrency().unwrap_or(0)))
        .collect()
}

const FOUR_PHASES: &str = r#"schemaVersion: "2.0"

benchmark:
  model: meta-llama/Llama-3.1-8B-Instruct
  endpoint:
    url: http://localhost:8000/v1/chat/completions
    type: chat
    streaming: true
  dataset:
    type: synthetic
    entries: 1000
    prompts: {isl: 512, osl: 128}
  phases:
    - name: warmup
      type: concurrency
      concurrency: 8
      duration: 5m

    - name: baseline_traffic
      kind: profiling
      type: concurrency
      concurrency: 32
      duration: 30m
      cancellation: {rate: 5, delay: 0}

    - name: cancellation_stress
      kind: profiling
      type: concurrency
      concurrency: 64
      duration: 5m
      cancellation: {rate: 50, delay: 0}

    - name: recovery_traffic
      kind: profiling
      type: concurrency
      concurrency: 32
      duration: 30m
      cancellation: {rate: 0, delay: 0}
  artifacts:
    dir: ./artifacts/multi-phase
"#;

#[test]
fn the_four_phase_workflow_means_what_it_says() {
    let Loaded { config, warnings, .. } = parsed(FOUR_PHASES);
    assert_eq!(
        shapes(&config),
        [
            ("warmup", PhaseKind::Warmup, 8),
            ("baseline_traffic", PhaseKind::Profiling, 32),
            ("cancellation_stress", PhaseKind::Profiling, 64),
            ("recovery_traffic", PhaseKind::Profiling, 32),
        ]
    );
    let minutes: Vec<_> = config.phases.iter().map(|phase| phase.stop.duration).collect();
    let minutes_expected = [5, 30, 5, 30].map(|minutes| Some(Nanos::from_millis(minutes * 60_000)));
    assert_eq!(minutes, minutes_expected);
    let shares: Vec<_> =
        config.phases.iter().map(|phase| phase.cancellation.map(|block| block.rate_percent)).collect();
    assert_eq!(shares, [None, Some(5.0), Some(50.0), None]);
    assert_eq!(config.endpoint.urls[0].target, "/v1/chat/completions");
    assert_eq!(config.dataset.entries, Some(1_000));
    assert_eq!(config.dataset.prompts.isl.fixed_tokens(), Some(512));
    assert_eq!(config.dataset.prompts.osl.and_then(|osl| osl.fixed_tokens()), Some(128));
    // One doubt: AIPerf would cut the requests in flight at the end of the three profiling phases.
    let doubts: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(doubts.len() == 1 && doubts[0].contains("`recovery_traffic`"), "{doubts:?}");
}

#[test]
fn several_warmups_may_stand_in_one_workflow() {
    let loaded = parsed(&completed(
        "benchmark:
  phases:
    - name: warmup
      type: concurrency
      concurrency: 4
      requests: 50

    - name: cache_prime
      kind: warmup
      type: poisson
      rate: 20
      duration: 2m

    - name: profiling
      type: concurrency
      concurrency: 16
      duration: 10m
",
    ));
    let kinds: Vec<PhaseKind> = loaded.config.phases.iter().map(|phase| phase.kind).collect();
    assert_eq!(kinds, [PhaseKind::Warmup, PhaseKind::Warmup, PhaseKind::Profiling]);
    assert_eq!(loaded.config.phases[1].load, Load::Poisson { rate_per_s: 20.0, concurrency: None });
    assert_eq!(loaded.config.phases[0].stop.requests, Some(50));
}

#[test]
fn repeated_phases_have_names_of_their_own_and_one_request_in_flight_unless_told() {
    let loaded = parsed(&completed(
        "phases:
  - {name: settle_before_stress, kind: warmup, type: concurrency, duration: 5m}
  - {name: cancellation_stress, kind: profiling, type: concurrency, duration: 5m}
  - {name: settle_after_stress, kind: warmup, type: concurrency, duration: 5m}
  - {name: final_profile, kind: profiling, type: concurrency, duration: 10m}
",
    ));
    assert!(shapes(&loaded.config).iter().all(|(_, _, concurrency)| *concurrency == 1));
    assert_eq!(loaded.config.phases.len(), 4);
}

#[test]
fn a_later_phase_may_be_seamless() {
    let loaded = parsed(&completed(
        "phases:
  - name: baseline_traffic
    kind: profiling
    type: concurrency
    duration: 30m

  - name: cancellation_stress
    kind: profiling
    type: concurrency
    duration: 5m
    seamless: true
",
    ));
    let seamless: Vec<bool> = loaded.config.phases.iter().map(|phase| phase.seamless).collect();
    assert_eq!(seamless, [false, true]);
}

#[test]
fn a_warmup_may_be_seamless_too() {
    let loaded = parsed(&completed(
        "phases:
  - {name: warmup, type: concurrency, requests: 5}
  - {name: prime, kind: warmup, type: concurrency, requests: 5, seamless: true}
  - {name: profiling, type: concurrency, requests: 5}
",
    ));
    assert!(loaded.config.phases[1].seamless);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}

#[test]
fn a_sweep_is_expanded_and_can_be_run() {
    let text = format!(
        "{FOUR_PHASES}sweep:
  type: grid
  parameters:
    phases.baseline_traffic.concurrency: [16, 32]
    phases.cancellation_stress.cancellation.rate: [25, 50]
"
    );
    let loaded = parsed(&text);
    let names: Vec<&str> = loaded.variations.iter().map(|variation| variation.dir_name.as_str()).collect();
    assert_eq!(
        names,
        [
            "concurrency_16__rate_25",
            "concurrency_16__rate_50",
            "concurrency_32__rate_25",
            "concurrency_32__rate_50"
        ]
    );
    assert!(!config::support::unsupported(&loaded.config).has_errors(), "it can be run");
}

#[test]
fn cancellation_is_not_inherited_and_the_user_is_told() {
    let loaded = parsed(&completed(
        "phases:
  - {name: first, kind: profiling, type: concurrency, requests: 2}
  - {name: second, kind: profiling, type: concurrency, requests: 2, cancellation: {rate: 30, delay: 1}}
  - {name: third, kind: profiling, type: concurrency, requests: 2}
  - {name: fourth, kind: profiling, type: concurrency, requests: 2, cancellation: {rate: 0}}
",
    ));
    let cancelling: Vec<bool> =
        loaded.config.phases.iter().map(|phase| phase.cancellation.is_some()).collect();
    assert_eq!(cancelling, [false, true, false, false]);
    let doubts: Vec<&str> = loaded.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        doubts,
        [
            "each of the phases `first`, `third` without `cancellation` cancels nothing; AIPerf would have used the \
          block of phase `second` (30 %)"
        ]
    );
}

#[test]
fn the_normal_form_is_aiperfs_own() {
    let loaded = parsed(
        "schemaVersion: \"2.0\"
random_seed: 7
benchmark:
  model: mock-model
  endpoint: {url: \"http://127.0.0.1:18001\", type: chat, streaming: true}
  tokenizer: {name: ./tokenizer-local}
  dataset: {type: synthetic, entries: 20, prompts: {isl: 32, osl: 16}}
  phases:
    - {name: warmup, type: concurrency, concurrency: 2, requests: 6}
    - {name: open_loop, kind: profiling, type: poisson, rate: 40, duration: 5s, grace_period: 5s}
    - {name: open_loop_cap, kind: profiling, type: poisson, rate: 60, concurrency: 4, requests: 150,
       cancellation: {rate: 30, delay: 0.06}}
  artifacts: {dir: ./artifacts}
",
    );
    let expected = json!({
        "models": {"items": [{"name": "mock-model"}]},
        "endpoint": {"urls": ["http://127.0.0.1:18001"], "type": "chat", "streaming": true},
        "datasets": [{"name": "default", "type": "synthetic", "entries": 20,
            "prompts": {"isl": {"value": 32.0}, "osl": {"value": 16.0}}}],
        "phases": [
            {"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true,
             "requests": 6, "concurrency": 2},
            {"name": "open_loop", "kind": "profiling", "type": "poisson", "duration": 5.0,
             "grace_period": 5.0, "rate": 40.0},
            {"name": "open_loop_cap", "kind": "profiling", "type": "poisson", "requests": 150,
             "concurrency": 4, "cancellation": {"rate": 30.0, "delay": 0.06}, "rate": 60.0},
        ],
        "artifacts": {"dir": "./artifacts"},
        "tokenizer": {"name": "./tokenizer-local"},
        "network_latency": {"enabled": false},
    });
    // As text, because the order of the keys belongs to it.
    assert_eq!(loaded.config.input_config.to_string(), expected.to_string());
}

#[test]
fn every_example_loads_and_is_short() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap_or_else(|error| panic!("{error}")) {
        let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        count += 1;
        let loaded = config::load(&path).unwrap_or_else(|faults| panic!("{faults}"));
        let seconds: f64 =
            loaded.config.phases.iter().filter_map(|phase| phase.stop.duration).map(Nanos::as_secs_f64).sum();
        assert!(seconds <= 15.0, "{}: {seconds} s", path.display());
        assert!(loaded.config.artifacts.dir.is_some(), "{}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(text.starts_with("# "), "{} says nothing about itself", path.display());
    }
    assert!(count >= 4, "{count} examples");
}
