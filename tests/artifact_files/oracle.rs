//! The files of synthetic runs, held against what their record files say.

use crate::again::{check_directory, load};
use crate::synthetic::{Options, Synthetic, phase, storm};
use phasor::config::PhaseKind;
use std::fs;

#[test]
fn every_statistic_is_what_the_record_file_says() {
    for seed in 1..=3 {
        let directory = tempfile::tempdir().unwrap();
        let phases = vec![
            phase("warmup", PhaseKind::Warmup, 2),
            phase("first", PhaseKind::Profiling, 4),
            phase("warm_again", PhaseKind::Warmup, 2),
            storm("storm"),
            phase("recovery", PhaseKind::Profiling, 4),
        ];
        let options = Options { seed, ..Options::default() };
        let written = Synthetic::new(phases, 200, options).write(directory.path());
        assert!(written.failures.is_empty());
        let compared = check_directory(directory.path());
        assert!(compared > 3_000, "only {compared} values were compared");
    }
}

#[test]
fn what_few_servers_report_of_usage_is_everywhere_or_nowhere() {
    let tags = [
        "usage_prompt_cache_write_tokens",
        "usage_prompt_cache_miss_tokens",
        "usage_prompt_audio_tokens",
        "usage_prompt_audio_seconds",
        "usage_tool_use_prompt_tokens",
        "usage_completion_audio_tokens",
        "usage_accepted_prediction_tokens",
        "usage_rejected_prediction_tokens",
    ];
    for detailed_usage in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let phases = vec![phase("a", PhaseKind::Profiling, 4), phase("b", PhaseKind::Profiling, 4)];
        let options = Options { detailed_usage, ..Options::default() };
        let written = Synthetic::new(phases, 100, options).write(directory.path());
        assert!(check_directory(directory.path()) > 1_000);
        let root = load(&directory.path().join("profile_export_aiperf.json"));
        for tag in tags {
            let unit = if tag.ends_with("seconds") { "sec" } else { "tokens" };
            let unit = detailed_usage.then_some(unit);
            assert_eq!(root[tag]["unit"].as_str(), unit, "{tag}");
            assert_eq!(root[format!("total_{tag}")]["unit"].as_str(), unit, "{tag}");
            assert_eq!(root[tag]["sum"], root[format!("total_{tag}")]["avg"]);
        }
        assert_eq!(written.tables.contains("Total Usage Rejected Prediction Tokens"), detailed_usage);
        assert_eq!(written.tables.contains("Usage Prompt Audio Seconds (sec)"), detailed_usage);
    }
}

#[test]
fn a_phase_in_which_nothing_succeeded_has_errors_and_no_latencies() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("only", PhaseKind::Profiling, 4), storm("storm")];
    let options = Options { failed_percent: 100, ..Options::default() };
    let written = Synthetic::new(phases, 40, options).write(directory.path());
    assert!(written.failures.is_empty());
    assert!(check_directory(directory.path()) > 100);
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    assert!(root["request_count"].is_null() && root["request_latency"].is_null());
    assert_eq!(root["request_error_rate"]["avg"], 100.0);
}

#[test]
fn an_interrupted_run_keeps_its_windows_and_says_what_was_cut() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("whole", PhaseKind::Profiling, 4), phase("cut", PhaseKind::Profiling, 4)];
    let options = Options { interrupted: true, failed_percent: 0, ..Options::default() };
    let written = Synthetic::new(phases, 100, options).write(directory.path());
    assert!(check_directory(directory.path()) > 500);
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    let whole = load(&directory.path().join("phases/whole/profile_export_aiperf.json"));
    let cut = load(&directory.path().join("phases/cut/profile_export_aiperf.json"));
    for (file, was_cancelled) in [(&root, true), (&whole, false), (&cut, true)] {
        assert_eq!(file["was_cancelled"], was_cancelled);
        assert_eq!(file["is_complete"], !was_cancelled);
        assert_eq!(file["incomplete_reason"].is_string(), was_cancelled);
    }
    assert!(written.tables.contains("INCOMPLETE RESULTS") && written.footer.contains("(cancelled early)"));
    let report = load(&directory.path().join("client_report.json"));
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["total"]["abandoned"], 4);
    let ready = fs::read_to_string(directory.path().join(".aiperf_results_ready.json")).unwrap();
    assert_eq!(ready, r#"{"ready":true,"was_cancelled":true,"partial":false}"#);
}

#[test]
fn one_and_several_shards_write_the_same_files() {
    let files = [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "phase_manifest.json",
        "phases/storm/profile_export_aiperf.json",
        "phases/storm/profile_export_aiperf.csv",
    ];
    let write = |shards: u16| {
        let directory = tempfile::tempdir().unwrap();
        let phases = vec![phase("warmup", PhaseKind::Warmup, 2), storm("storm")];
        let options = Options { shards, ..Options::default() };
        let written = Synthetic::new(phases, 150, options).write(directory.path());
        assert!(written.failures.is_empty());
        files.map(|file| {
            let text = fs::read_to_string(directory.path().join(file)).unwrap();
            text.replace(directory.path().to_str().unwrap(), "DIRECTORY")
        })
    };
    let one = write(1);
    for shards in [2, 5] {
        for ((file, one), several) in files.iter().zip(&one).zip(write(shards)) {
            assert_eq!(one, &several, "{file} with {shards} shards");
        }
    }
}

#[test]
fn beyond_the_exact_budget_the_client_report_says_so_and_percentiles_stay_within_a_thousandth() {
    let both = [100_000, 20].map(|samples_max| {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { samples_max, ..Options::default() };
        let phases = vec![phase("only", PhaseKind::Profiling, 4)];
        let written = Synthetic::new(phases, 500, options).write(directory.path());
        assert!(written.failures.is_empty());
        let root = load(&directory.path().join("profile_export_aiperf.json"));
        let report = load(&directory.path().join("client_report.json"));
        (root, report["phases"][0]["percentile_method"].clone())
    });
    let [(exact, exact_method), (bounded, bounded_method)] = both;
    assert_eq!((exact_method.as_str(), bounded_method.as_str()), (Some("exact"), Some("hdr3")));
    for tag in ["request_latency", "time_to_first_token", "inter_token_latency", "output_sequence_length"] {
        for name in ["avg", "p1", "p50", "p90", "p99", "min", "max", "std", "sum"] {
            let (left, right) = (exact[tag][name].as_f64().unwrap(), bounded[tag][name].as_f64().unwrap());
            assert!((left - right).abs() <= 1e-3 * left, "{tag}.{name}: {left} and {right}");
        }
        assert_eq!(exact[tag]["count"], bounded[tag]["count"]);
    }
}
