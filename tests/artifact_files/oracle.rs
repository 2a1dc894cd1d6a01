//! Every number of the results, computed again from the record file and the manifest alone.

use crate::synthetic::{Options, Synthetic, phase, storm};
use phasor::config::PhaseKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn load(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn records(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("profile_export.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn integer(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

fn close(mine: f64, theirs: f64, what: &str) {
    let tolerance = 1e-9 * mine.abs().max(theirs.abs()).max(1e-6);
    assert!((mine - theirs).abs() <= tolerance, "{what}: {mine} computed, {theirs} in the file");
}

const PERCENTILES: [u32; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// The fifteen statistics by the textbook.
fn statistics(values: &[f64]) -> BTreeMap<String, f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let sum: f64 = sorted.iter().sum();
    let avg = sum / count;
    let variance = sorted.iter().map(|value| (value - avg) * (value - avg)).sum::<f64>() / count;
    let mut all = BTreeMap::from([
        ("avg".to_owned(), avg),
        ("min".to_owned(), sorted[0]),
        ("max".to_owned(), sorted[sorted.len() - 1]),
        ("sum".to_owned(), sum),
        ("count".to_owned(), count),
        ("std".to_owned(), variance.sqrt()),
    ]);
    for percent in PERCENTILES {
        // In hundredths of a rank, so that no float decides which rank it is.
        let position = u64::from(percent) * (sorted.len() as u64 - 1);
        let low = usize::try_from(position / 100).unwrap();
        let high = (low + 1).min(sorted.len() - 1);
        let share = (position % 100) as f64 / 100.0;
        all.insert(format!("p{percent}"), sorted[low] + share * (sorted[high] - sorted[low]));
    }
    all
}

fn check_statistics(scope: &str, tag: &str, values: &[f64], file: &Value) -> usize {
    let expected = statistics(values);
    let found = file.as_object().unwrap_or_else(|| panic!("{scope}: {tag} is missing"));
    let names: Vec<&String> = found.keys().filter(|name| *name != "unit").collect();
    assert_eq!(names.len(), expected.len(), "{scope}: {tag} has {names:?}");
    for (name, value) in &expected {
        close(*value, found[name].as_f64().unwrap(), &format!("{scope}: {tag}.{name}"));
    }
    expected.len()
}

/// The error-adjusted percentiles: as many infinite values as there were errors, nearest rank.
fn check_adjusted(scope: &str, tag: &str, values: &[f64], errors: usize, file: &Value) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut expected =
        BTreeMap::from([("min".to_owned(), sorted[0]), ("count".to_owned(), (sorted.len() + errors) as f64)]);
    sorted.extend(std::iter::repeat_n(f64::INFINITY, errors));
    for percent in PERCENTILES {
        let position = u64::from(percent) * (sorted.len() as u64 - 1);
        let (low, rest) = (usize::try_from(position / 100).unwrap(), position % 100);
        let up = rest > 50 || (rest == 50 && low % 2 == 1);
        let value = sorted[low + usize::from(up)];
        if value.is_finite() {
            expected.insert(format!("p{percent}"), value);
        }
    }
    let found: BTreeMap<String, f64> = file
        .as_object()
        .unwrap_or_else(|| panic!("{scope}: {tag} is missing"))
        .iter()
        .filter(|(name, _)| *name != "unit")
        .map(|(name, value)| (name.clone(), value.as_f64().unwrap()))
        .collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{scope}: {tag}");
    for (name, value) in expected {
        close(value, found[&name], &format!("{scope}: {tag}.{name}"));
    }
}

/// Checks a scope and returns how many values were compared.
fn check(scope: &str, records: &[&Value], file: &Value, windows: &[(u64, u64)]) -> usize {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for record in records {
        if record["error"].is_null() { good.push(*record) } else { bad.push(*record) }
    }
    let mut by_tag: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for record in records {
        for (tag, metric) in record["metrics"].as_object().unwrap() {
            let values = by_tag.entry(tag).or_default();
            match &metric["value"] {
                Value::Array(list) => values.extend(list.iter().map(|value| value.as_f64().unwrap())),
                value => values.push(value.as_f64().unwrap()),
            }
        }
    }
    let mut compared = 0;
    for (tag, values) in &by_tag {
        compared += check_statistics(scope, tag, values, &file[*tag]);
    }
    let stamps = |record: &Value, from: &str, to: &str| {
        let metadata = &record["metadata"];
        integer(metadata, to).saturating_sub(integer(metadata, from)) as f64 / 1e6
    };
    for (tag, to) in
        [("credit_to_start_latency", "request_start_ns"), ("effective_latency", "request_end_ns")]
    {
        let values: Vec<f64> = records.iter().map(|record| stamps(record, "credit_issued_ns", to)).collect();
        compared += check_statistics(scope, tag, &values, &file[tag]);
    }
    for base in ["request_latency", "time_to_first_token", "inter_token_latency", "decode_duration"] {
        let tag = format!("adj_{base}");
        match by_tag.get(base) {
            Some(values) if !bad.is_empty() => check_adjusted(scope, &tag, values, bad.len(), &file[&tag]),
            _ => assert!(file[&tag].is_null(), "{scope}: {tag} must not be there"),
        }
    }

    let window_s = windows.iter().map(|(start, end)| end - start).sum::<u64>() as f64 / 1e9;
    let total = |tag: &str| by_tag.get(tag).map(|values| values.iter().sum::<f64>());
    let latency_ns = |record: &Value| record["metrics"]["request_latency"]["value"].as_f64().unwrap() * 1e6;
    let start_ns = |record: &Value| integer(&record["metadata"], "request_start_ns");
    let duration_s = (!good.is_empty()).then(|| {
        if windows.len() > 1 {
            return window_s;
        }
        let first = good.iter().map(|record| start_ns(record)).min().unwrap();
        let last = good
            .iter()
            .map(|record| (start_ns(record) - first) as f64 + latency_ns(record))
            .fold(0.0, f64::max);
        last / 1e9
    });
    let some = |count: usize| (count > 0).then_some(count as f64);
    let (isl, osl) = (total("input_sequence_length"), total("output_sequence_length"));
    let singles = [
        ("request_count", some(good.len())),
        ("error_request_count", some(bad.len())),
        ("completed_request_count", some(records.len())),
        ("request_error_rate", Some(100.0 * bad.len() as f64 / records.len() as f64)),
        ("benchmark_duration", duration_s),
        ("request_throughput", some(good.len()).map(|count| count / window_s)),
        ("total_isl", isl),
        ("total_osl", osl),
        ("total_output_tokens", total("output_token_count")),
        ("total_reasoning_tokens", total("reasoning_token_count")),
        ("total_error_isl", total("error_isl")),
        ("total_usage_prompt_tokens", total("usage_prompt_tokens")),
        ("total_usage_completion_tokens", total("usage_completion_tokens")),
        ("total_usage_total_tokens", total("usage_total_tokens")),
        ("total_usage_reasoning_tokens", total("usage_reasoning_tokens")),
        ("total_usage_prompt_cache_read_tokens", total("usage_prompt_cache_read_tokens")),
        (
            "overall_usage_prompt_cache_read_pct",
            total("usage_prompt_cache_read_tokens")
                .map(|read| 100.0 * read / total("usage_prompt_tokens").unwrap()),
        ),
        ("input_token_throughput", isl.map(|isl| isl / window_s)),
        ("output_token_throughput", osl.map(|osl| osl / window_s)),
        ("total_token_throughput", isl.zip(osl).map(|(isl, osl)| (isl + osl) / window_s)),
    ];
    for (tag, expected) in singles {
        let found = &file[tag];
        match expected {
            None => assert!(found.is_null(), "{scope}: {tag} must not be there, but is {found}"),
            Some(expected) => {
                assert_eq!(found.as_object().map(serde_json::Map::len), Some(2), "{scope}: {tag}: {found}");
                close(expected, found["avg"].as_f64().unwrap(), &format!("{scope}: {tag}"));
                compared += 1;
            }
        }
    }
    compared
}

/// Checks the files in `directory`; the number of values compared.
fn check_directory(directory: &Path) -> usize {
    let records = records(directory);
    let manifest = load(&directory.join("phase_manifest.json"));
    let root = load(&directory.join("profile_export_aiperf.json"));
    let phases = manifest["phases"].as_array().unwrap();
    let of = |name: &str, value: &str| -> Vec<&Value> {
        records.iter().filter(|record| record["metadata"][name] == value).collect()
    };
    let windows = |kind: &str| -> Vec<(u64, u64)> {
        phases
            .iter()
            .filter(|phase| phase["phase_kind"] == kind)
            .map(|phase| (integer(phase, "start_ns"), integer(phase, "end_ns")))
            .collect()
    };
    let mut compared = check("root", &of("benchmark_phase", "profiling"), &root, &windows("profiling"));
    let warmups = of("benchmark_phase", "warmup");
    if warmups.is_empty() {
        assert!(root["warmup_metrics"].is_null());
    } else {
        compared += check("warmups", &warmups, &root["warmup_metrics"], &windows("warmup"));
    }
    for phase in phases {
        let name = phase["phase_name"].as_str().unwrap();
        let mine = of("phase_name", name);
        let file = load(&directory.join(phase["metrics_json"].as_str().unwrap()));
        let window = (integer(phase, "start_ns"), integer(phase, "end_ns"));
        compared += check(name, &mine, &file, &[window]);
        let errors = mine.iter().filter(|record| !record["error"].is_null()).count() as u64;
        assert_eq!(integer(phase, "error_request_count"), errors);
        assert_eq!(integer(phase, "total_request_count"), mine.len() as u64);
        assert_eq!(integer(phase, "successful_request_count"), mine.len() as u64 - errors);
        let listed: u64 =
            file["error_summary"].as_array().unwrap().iter().map(|group| integer(group, "count")).sum();
        assert_eq!(listed, errors, "{name}: every error is in the summary");
        for record in &mine {
            let metadata = &record["metadata"];
            assert!(integer(metadata, "request_start_ns") >= window.0);
            assert!(integer(metadata, "request_end_ns") <= window.1);
        }
    }
    compared
}

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
