//! Flags of `profile`: each has an effect or is named, whatever is combined does not panic, and flags alone
//! mean what they mean to AIPerf.

use std::ffi::OsString;
use std::path::Path;

use insta::assert_snapshot;
use phasor::config::flags::{self, Flag, Takes};
use phasor::config::places::Places;
use phasor::config::{self, Config, Load, Loaded, PhaseKind, Source};
use phasor::time::Nanos;
use proptest::prelude::*;

/// What flags are given beside: no file, or one of these.
const FILES: &[Option<&str>] = &[
    None,
    Some("{name: load, kind: profiling, type: concurrency, concurrency: 3, requests: 9}"),
    Some("{name: load, kind: profiling, type: poisson, rate: 5, duration: 9, gracePeriod: 1}"),
    Some("{name: load, kind: profiling, type: user_centric, rate: 5, users: 2, requests: 9}"),
    Some(
        "{name: warmup, type: poisson, rate: 1, duration: 2}\n    - {name: load, kind: profiling, type: gamma, rate: 5, requests: 9}",
    ),
    Some(
        "{name: one, kind: profiling, type: concurrency, requests: 9}\n    - {name: two, kind: profiling, type: concurrency, requests: 9}",
    ),
];

fn file_of(phases: &str) -> String {
    format!(
        "benchmark:\n  model: demo\n  endpoint: {{url: \"http://127.0.0.1:8000\", streaming: false}}\n  dataset: {{isl: 8}}\n  \
         phases:\n    - {phases}\n"
    )
}

/// What comes of `words` behind `profile`, beside `file` if there is one.
fn given(file: Option<&str>, words: &[&str]) -> Result<Loaded, String> {
    let typed: Vec<OsString> =
        ["phasor", "profile"].iter().chain(words).map(|word| OsString::from(*word)).collect();
    let line = phasor::cli::flags_of_profile(&typed).map_err(|error| error.to_string())?;
    let text = file.map(file_of).unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/config");
    let source = Source::file("demo.yaml", &text, &|_| None);
    let source =
        Source { command_line: Some(&line), has_file: file.is_some(), directory: Some(&directory), ..source };
    config::read(&source).map_err(|faults| faults.to_string())
}

fn alone(words: &str) -> Result<Loaded, String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    given(None, &[["--model", "m"].as_slice(), &words].concat())
}

fn config_of(words: &str) -> Config {
    alone(words).unwrap_or_else(|faults| panic!("{words}:\n{faults}")).config
}

/// Everything a config says, places left out.
fn told(loaded: &Loaded) -> String {
    let bare = |config: &Config| format!("{:?}", Config { places: Places::default(), ..config.clone() });
    format!("{} {} {}", bare(&loaded.config), loaded.variations.len(), bare(&loaded.variations[0].config))
}

/// A value that is good for the flag, and what must stand beside it.
fn sample(flag: &Flag) -> Vec<&'static str> {
    match flag.name() {
        "arrival-pattern" | "warmup-arrival-pattern" => vec!["constant"],
        "cache-bust" => vec!["system_prefix"],
        "connection-reuse-strategy" => vec!["never"],
        "convergence-mode" => vec!["cv"],
        "convergence-stat" => vec!["p95"],
        "custom-dataset-type" => vec!["mooncake_trace"],
        "custom-endpoint"
        | "reset-kv-cache-path"
        | "server-profiler-start-path"
        | "server-profiler-stop-path" => {
            vec!["/x"]
        }
        "endpoint-type" => vec!["completions"],
        "export-level" => vec!["raw"],
        "input-file" => vec!["trace.jsonl"],
        "log-level" => vec!["debug"],
        "dataset-sampling-strategy" | "model-selection-strategy" => vec!["random"],
        "parameter-sweep-mode" => vec!["independent"],
        "prompt-corpus" => vec!["coding"],
        "public-dataset" => vec!["sharegpt"],
        "random-corpus-style" => vec!["sglang"],
        "random-range-ratio" => vec!["0.5"],
        "request-content-type" => vec!["application/json"],
        "request-rate-series" => vec!["series.json"],
        "seq-dist" => vec!["64,8:50;128|9,16:50"],
        "server-metrics-formats" => vec!["jsonl"],
        "sweep-type" => vec!["zip"],
        "transport" => vec!["http"],
        "ui-type" => vec!["simple"],
        "url-strategy" => vec!["round_robin"],
        "wait-for-model-mode" => vec!["models"],
        _ => match flag.takes {
            Takes::Assignments => vec!["endpoint.timeout=4"],
            Takes::Limits => vec!["request_latency:5"],
            Takes::Pairs => vec!["A:b"],
            Takes::Switch | Takes::TwoWaySwitch => vec![],
            Takes::Text | Takes::Texts => vec!["word"],
            Takes::Whole(_) | Takes::Wholes(_) => vec!["4"],
            Takes::Number(_) | Takes::Numbers(_) => vec!["0.5"],
        },
    }
}

#[test]
fn every_flag_of_a_search_changes_it() {
    let search = |more: &[&str]| {
        let words = ["--model", "m", "--isl", "4", "--concurrency", "1", "--request-count", "5"];
        let words = [&words[..], &["--concurrency-max", "64"], more].concat();
        let loaded = given(None, &words).unwrap_or_else(|faults| panic!("{more:?}: {faults}"));
        let sweep = loaded.config.sweep.clone();
        let sweep = sweep.unwrap_or_else(|| panic!("{more:?} makes no sweep"));
        (sweep.search, sweep.limits)
    };
    let plain = search(&[]);
    for more in [
        &["--search-space", "phases.profiling.concurrency:2:9:int"][..],
        &["--concurrency-min", "2"],
        &["--search-metric", "goodput"],
        &["--search-stat", "p50"],
        &["--search-direction", "minimize"],
        &["--search-max-iterations", "9"],
        &["--search-initial-points", "3"],
        &["--search-random-seed", "7"],
        &["--search-sla", "request_latency:p95:le:500"],
        &["--ttft-sla-ms", "50"],
        &["--itl-sla-ms", "5"],
        &["--tpot-sla-ms", "5"],
        &["--e2e-sla-ms", "500"],
        &["--error-rate-sla", "1"],
    ] {
        assert_ne!(search(more), plain, "{more:?}");
    }
    let refused = given(None, &["--model", "m", "--search-sla", "latency"]);
    let faults = refused.err().unwrap_or_default();
    assert!(faults.contains("`--search-sla` takes a limit such as"), "{faults}");
}

#[test]
fn every_flag_changes_the_config_or_is_named() {
    let mut silent = Vec::new();
    let mut count = 0;
    for flag in flags::all() {
        count += 1;
        let mut effects = 0;
        for file in FILES {
            let plain = given(*file, &["--model", "m"]).unwrap_or_else(|faults| panic!("{faults}"));
            for name in flag.names {
                let typed = format!("--{name}");
                let mut words = vec!["--model", "m"];
                if flag.name() == "model-names" {
                    words = vec![];
                }
                words.push(&typed);
                words.extend(sample(flag));
                match given(*file, &words) {
                    Ok(loaded) if told(&loaded) != told(&plain) => effects += 1,
                    Ok(loaded) if loaded.warnings.to_string().contains(&typed) => {}
                    Ok(_) => silent.push(format!("{typed} beside {file:?} does nothing")),
                    // A fault of the field that it sets stands at the flag.
                    Err(faults) if faults.contains(&typed) => {}
                    Err(faults) => silent.push(format!("{typed} beside {file:?} is not named:\n{faults}")),
                }
            }
        }
        // Each adds to a search that needs others: see the test below.
        let searches = matches!(flag.sets, flags::Sets::Special(flags::SpecialFlag::Search(_)));
        let is_foreign = matches!(flag.sets, flags::Sets::Nothing(_) | flags::Sets::Refused(_));
        let needs_more = matches!(
            flag.name(),
            "convergence-stat"
                | "convergence-mode"
                | "convergence-threshold"
                | "convergence-metric"
                | "fixed-schedule-auto-offset"
                | "fixed-schedule-start-offset"
                | "fixed-schedule-end-offset"
                | "request-cancellation-delay"
                | "no-fixed-schedule"
                | "custom-dataset-type"
                | "allow-dataset-wrap"
                | "rankings-passages-stddev"
                | "rankings-passages-prompt-token-stddev"
                | "rankings-query-prompt-token-stddev"
                | "synthesis-speedup-ratio"
                | "synthesis-prefix-len-multiplier"
                | "synthesis-prefix-root-multiplier"
                | "synthesis-prompt-len-multiplier"
                | "synthesis-output-len-multiplier"
                | "synthesis-max-isl"
                | "synthesis-max-osl"
                | "input-file"
                | "profile-run-cooldown-seconds"
                | "set-consistent-seed"
                | "profile-run-disable-warmup-after-first"
                | "parameter-sweep-same-seed"
                | "parameter-sweep-mode"
                | "parameter-sweep-cooldown-seconds"
                | "sweep-type"
                | "wait-for-model-mode"
                | "wait-for-model-interval"
                | "per-chunk-usage"
                | "random-range-ratio"
                | "agentic-cache-warmup-duration"
                | "prompt-output-tokens-stddev"
                | "api-host"
                | "prefill-concurrency"
                | "warmup-prefill-concurrency"
                | "trajectory-start-max-ratio"
        );
        if effects == 0 && !is_foreign && !needs_more && !searches {
            silent.push(format!("--{} never changes anything", flag.name()));
        }
    }
    assert!(silent.is_empty(), "{} of {count}:\n{}", silent.len(), silent.join("\n"));
    assert!(count > 250, "{count} flags");
}

#[test]
fn flags_that_need_others_change_the_config_beside_them() {
    for (before, after) in [
        ("--num-profile-runs 3", "--profile-run-cooldown-seconds 2"),
        ("--num-profile-runs 3", "--no-set-consistent-seed"),
        ("--num-profile-runs 3", "--no-profile-run-disable-warmup-after-first"),
        ("--num-profile-runs 3", "--convergence-metric request_latency"),
        ("--num-profile-runs 3 --convergence-metric request_latency", "--convergence-stat p95"),
        ("--num-profile-runs 3 --convergence-metric request_latency", "--convergence-mode cv"),
        ("--num-profile-runs 3 --convergence-metric request_latency", "--convergence-threshold 0.2"),
        ("--concurrency 2,4", "--parameter-sweep-same-seed"),
        ("--concurrency 2,4", "--parameter-sweep-mode independent"),
        ("--concurrency 2,4", "--parameter-sweep-cooldown-seconds 4"),
        ("--concurrency 2,4 --osl 2,4", "--sweep-type zip"),
        ("--wait-for-model-timeout 9", "--wait-for-model-mode models"),
        ("--wait-for-model-timeout 9", "--wait-for-model-interval 2"),
        ("--streaming --use-server-token-count", "--per-chunk-usage"),
        ("--isl 8 --osl 8", "--random-range-ratio 0.5"),
        ("--osl 8", "--osl-stddev 2"),
        ("--streaming --concurrency 9", "--prefill-concurrency 4"),
        ("--streaming --concurrency 9 --warmup-request-count 3", "--warmup-prefill-concurrency 4"),
        ("--api-port 9", "--api-host h"),
        ("--request-cancellation-rate 5", "--request-cancellation-delay 2"),
        ("--fixed-schedule", "--fixed-schedule-start-offset 4"),
        ("--fixed-schedule", "--fixed-schedule-end-offset 4"),
        ("--fixed-schedule", "--fixed-schedule-auto-offset=false"),
        ("--input-file trace.jsonl", "--no-fixed-schedule"),
        ("--input-file trace.jsonl", "--custom-dataset-type mooncake_trace"),
        ("--input-file trace.jsonl", "--allow-dataset-wrap"),
        ("--input-file trace.jsonl", "--synthesis-speedup-ratio 2"),
        ("--input-file trace.jsonl", "--synthesis-prefix-len-multiplier 2"),
        ("--input-file trace.jsonl", "--synthesis-prefix-root-multiplier 2"),
        ("--input-file trace.jsonl", "--synthesis-prompt-len-multiplier 2"),
        ("--input-file trace.jsonl", "--synthesis-output-len-multiplier 2"),
        ("--input-file trace.jsonl", "--synthesis-max-isl 2"),
        ("--input-file trace.jsonl", "--synthesis-max-osl 2"),
        ("--rankings-passages-mean 5", "--rankings-passages-stddev 2"),
        ("--rankings-passages-prompt-token-mean 5", "--rankings-passages-prompt-token-stddev 2"),
        ("--rankings-query-prompt-token-mean 5", "--rankings-query-prompt-token-stddev 2"),
    ] {
        let plain = alone(before).unwrap_or_else(|faults| panic!("{before}:\n{faults}"));
        let both = alone(&format!("{before} {after}"))
            .unwrap_or_else(|faults| panic!("{before} {after}:\n{faults}"));
        assert_ne!(told(&plain), told(&both), "{after} beside {before}");
    }
}

#[test]
fn a_run_without_a_file_has_an_end_and_the_documented_defaults() {
    let config = config_of("");
    assert_eq!(config.phases[0].stop.requests, Some(10));
    assert_eq!(config.phases[0].load, Load::Concurrency { concurrency: 1 });
    assert_eq!((config.dataset.name.as_str(), config.dataset.entries), ("main", Some(100)));
    assert_eq!(config.dataset.prompts.isl.fixed_tokens(), Some(550));
    assert_eq!(config.endpoint.urls[0].text, "http://localhost:8000");
    let config = config_of("--concurrency 8 --request-count 100 --streaming --url h:1");
    assert_eq!((config.phases[0].stop.requests, config.dataset.entries), (Some(100), Some(100)));
    assert!(config.endpoint.streaming);
    let config = config_of("--benchmark-duration 60");
    assert_eq!(config.phases[0].grace, Some(Nanos::from_secs_f64(30.0)));
    assert_eq!(config.phases[0].stop.requests, None);
    assert_eq!(config_of("--num-sessions 7").dataset.entries, Some(7));
    let config = config_of("--isl-stddev 128");
    let isl = &config.dataset.prompts.isl;
    assert!((isl.mean() - 550.0).abs() < 1e-9 && isl.fixed_tokens().is_none());
}

#[test]
fn rates_and_patterns_choose_the_type() {
    for (words, name) in [
        ("--request-rate 10", "poisson"),
        ("--request-rate 10 --arrival-smoothness 2", "gamma"),
        ("--request-rate 10 --vllm-burstiness 2", "gamma"),
        ("--request-rate 10 --request-rate-mode CONSTANT", "constant"),
        ("--user-centric-rate 5 --num-users 8 --session-turns-mean 2", "user_centric"),
        ("--request-rate-series series.json", "poisson"),
        ("--fixed-schedule", "fixed_schedule"),
        ("--input-file trace.jsonl", "fixed_schedule"),
        ("--input-file trace.jsonl --no-fixed-schedule", "concurrency"),
    ] {
        assert_eq!(config_of(words).phases[0].load.name(), name, "{words}");
    }
    for words in [
        "--user-centric-rate 5",
        "--user-centric-rate 5 --num-users 8",
        "--user-centric-rate 5 --num-users 20 --session-turns-mean 2",
        "--num-users 8",
        "--arrival-smoothness 2",
        "--request-rate 10 --arrival-pattern constant --arrival-smoothness 2",
        "--request-cancellation-delay 1",
        "--request-cancellation-rate 0",
        "--osl-stddev 3",
        "--request-count 10 --benchmark-grace-period 5",
        "--warmup-grace-period 5",
        "--fixed-schedule --fixed-schedule-auto-offset --fixed-schedule-start-offset 4",
        "--input-file trace.jsonl --request-rate 4",
        "--num-sessions 3 --conversation-num 4",
        "--benchmark-duration 1m",
        "--request-timeout-seconds 0",
    ] {
        assert!(alone(words).is_err(), "{words}");
    }
}

#[test]
fn a_warmup_takes_over_what_its_own_flags_do_not_say() {
    let config = config_of(
        "--request-rate 10 --arrival-pattern gamma --arrival-smoothness 3 --prefill-concurrency 4 --streaming \
         --concurrency 9 --request-rate-ramp-duration 5 --warmup-request-count 50",
    );
    let [warmup, profiling] = config.phases.as_slice() else { panic!("{:?}", config.phases) };
    assert_eq!((warmup.kind, warmup.stop.requests), (PhaseKind::Warmup, Some(50)));
    assert_eq!(warmup.load, profiling.load);
    assert_eq!(warmup.prefill_concurrency, profiling.prefill_concurrency);
    assert_eq!(warmup.rate_ramp, profiling.rate_ramp);
    assert_eq!(config_of("--warmup-concurrency 4").phases.len(), 1);
    let loaded =
        alone("--concurrency 2,4 --warmup-request-count 5").unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(loaded.variations.len(), 2);
    for variation in &loaded.variations {
        assert_eq!(variation.config.phases[0].load, Load::Concurrency { concurrency: 1 });
    }
}

#[test]
fn trials_and_variations_have_the_documented_seeds() {
    let mut loaded =
        alone("--num-profile-runs 2 --vary-seed-per-trial").unwrap_or_else(|faults| panic!("{faults}"));
    let only = loaded.variations.remove(0);
    assert_eq!(config::trial_seed(&only, 0), Some(6_858_774_025_263_032_934));
    assert_eq!(config::trial_seed(&only, 1), Some(4_337_237_111_802_998_792));
}

#[test]
fn any_field_can_be_set() {
    let config = config_of(
        "--set phases.profiling.requests=7 --set dataset.entries=3 randomSeed=5 --set endpoint.headers={\"A\":\"b\"}",
    );
    assert_eq!(
        (config.phases[0].stop.requests, config.dataset.entries, config.random_seed),
        (Some(7), Some(3), Some(5))
    );
    assert_eq!(config.endpoint.headers, [("A".to_owned(), "b".to_owned())]);
    for words in
        ["--set phases.nothing.requests=7", "--set x", "--set =4", "--set phases.profiling.requests=x"]
    {
        let faults = alone(words).err().unwrap_or_default();
        assert!(faults.contains("command line"), "{words}: {faults}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    for words in [
        ["--api-key", "s3cret", "--concurrency", "0"].as_slice(),
        &["--api-key=s3cret", "--concurrency", "0"],
    ] {
        let shown = given(None, words).err().unwrap_or_default();
        assert!(shown.contains("***") && !shown.contains("s3cret"), "{shown}");
    }
    let config = config_of("--api-key s3cret");
    assert_eq!(config.endpoint.api_key.as_deref(), Some("s3cret"));
    assert!(!config.input_config.to_string().contains("s3cret"));
}

fn shown(file: Option<&str>, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    match given(file, &words) {
        Ok(_) => panic!("accepted: {words:?}"),
        Err(faults) => faults,
    }
}

#[test]
fn a_load_flag_with_several_profiling_phases() {
    assert_snapshot!(shown(FILES[5], "--config demo.yaml --concurrency 4"), @r"
    error: `--concurrency` changes the profiling phase, but this config has 2: `one`, `two`
     --> command line:1:35
      |
    1 | phasor profile --config demo.yaml --concurrency 4
      |                                   ^^^^^^^^^^^^^ which phase is meant?
      |
     ::: demo.yaml:6:14
      |
    6 |     - {name: one, kind: profiling, type: concurrency, requests: 9}
      |              --- one of them
      |
      = help: write `concurrency` into the phase that is meant
    ");
}

#[test]
fn a_flag_whose_field_refuses_it() {
    assert_snapshot!(shown(FILES[1], "--config demo.yaml --endpoint-type gpt"), @r"
    error: `benchmark.endpoint.type` must be `audio_transcription`, `chat`, `cohere_rankings`, `completions`, `responses`, `messages`, `chat_embeddings`, `embeddings`, `hf_tei_rankings`, `huggingface_generate`, `image_generation`, `image_edit`, `video_generation`, `image_retrieval`, `nim_embeddings`, `nim_rankings`, `solido_rag`, `raw` or `template`, found the text `gpt`
     --> command line:1:51
      |
    1 | phasor profile --config demo.yaml --endpoint-type gpt
      |                                                   ^^^ not one of them
    ");
}

#[test]
fn a_flag_that_does_not_fit_the_phase() {
    assert_snapshot!(shown(FILES[1], "--config demo.yaml --request-rate-ramp-duration 4"), @r"
    error: `--request-rate-ramp-duration` needs a phase with a rate
     --> command line:1:35
      |
    1 | phasor profile --config demo.yaml --request-rate-ramp-duration 4
      |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ does not fit the phase
      |
      = help: add `--request-rate`
    ");
}

#[test]
fn flags_that_are_for_runs_without_a_file() {
    assert_snapshot!(shown(FILES[1], "--config demo.yaml --sweep-type zip --public-dataset sharegpt"), @r"
    error: `--public-dataset`, `--sweep-type` cannot be given beside `--config`
     --> command line:1:52
      |
    1 | phasor profile --config demo.yaml --sweep-type zip --public-dataset sharegpt
      |                                                    ^^^^^^^^^^^^^^^^ only without a file
      |
      = help: write it into the file
    ");
}

#[test]
fn a_run_without_a_model() {
    assert_snapshot!(shown(None, "--concurrency 4"), @r"
    error: `benchmark.model` is missing
     --> command line:1:31
      |
    1 | phasor profile --concurrency 4
      |                               ^ no `model` in it
      |
      = help: write the model's name as the server knows it
    ");
}

/// Values that may stand behind any flag.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2,4",
    "-1",
    "2.5",
    "1e3",
    "inf",
    "nan",
    "true",
    "word",
    "a:1,b:x",
    "{\"a\": [1]}",
    "{",
    "poisson",
    "gamma",
    "completions",
    "series.json",
    "trace.jsonl",
    "/x",
    "é",
    "'",
    "9999999999999999999999",
    "a,b:c;d",
    "none",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_combination_of_flags_panics(
        file in 0..FILES.len(),
        chosen in prop::collection::vec((0..263_usize, 0..4_usize, prop::option::of(0..VALUES.len()), any::<bool>()), 1..7),
    ) {
        let all: Vec<&Flag> = flags::all().collect();
        let mut words = vec!["--model".to_owned(), "m".to_owned()];
        for (flag, name, value, joined) in chosen {
            let flag = all[flag % all.len()];
            let typed = format!("--{}", flag.names[name % flag.names.len()]);
            match (value.map(|value| VALUES[value]), joined) {
                (Some(value), true) => words.push(format!("{typed}={value}")),
                (Some(value), false) => words.extend([typed, value.to_owned()]),
                (None, _) => words.push(typed),
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Err(faults) = given(FILES[file], &words) {
            prop_assert!(!faults.is_empty() && !faults.contains("was not reported"), "{words:?}: {faults}");
        }
    }
}
