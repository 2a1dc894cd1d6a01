//! Every number of the results, computed again from the record file and the windows of the phases alone.
#![allow(dead_code, reason = "each test program uses its own part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

pub(crate) fn load(path: &Path) -> Value {
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

/// Metrics that compare the server's counts with the client's.
const DIFFERENCES: [&str; 3] =
    ["usage_prompt_tokens_diff_pct", "usage_completion_tokens_diff_pct", "usage_reasoning_tokens_diff_pct"];

/// Checks a scope and returns how many values were compared.
fn check(scope: &str, records: &[&Value], file: &Value, windows: &[(u64, u64)]) -> usize {
    let span = (
        windows.iter().map(|window| window.0).min().unwrap(),
        windows.iter().map(|window| window.1).max().unwrap(),
    );
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
    let mut checked: BTreeSet<String> = by_tag.keys().map(|tag| (*tag).to_owned()).collect();
    let held = by_tag.remove("good_request_count").map(|values| values.iter().sum::<f64>());
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
        checked.insert(tag.to_owned());
        let values: Vec<f64> = records.iter().map(|record| stamps(record, "credit_issued_ns", to)).collect();
        compared += check_statistics(scope, tag, &values, &file[tag]);
    }
    for base in ["request_latency", "time_to_first_token", "inter_token_latency", "decode_duration"] {
        let tag = format!("adj_{base}");
        checked.insert(tag.clone());
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
    let mismatched = |record: &&&Value| {
        let value = |tag: &str| record["metrics"][tag]["value"].as_f64();
        value("output_sequence_length").zip(value("osl_mismatch_diff_pct")).is_some_and(
            |(length, percent)| {
                let asked = length / (1.0 + percent / 100.0);
                (length - asked).abs() > (asked * 0.05).min(50.0) + 1e-9
            },
        )
    };
    let overflowed = |record: &&&Value| {
        record["error"]["message"].as_str().is_some_and(|message| message.contains("context length"))
    };
    let discrepant = |record: &&&Value| {
        DIFFERENCES.iter().any(|tag| record["metrics"][*tag]["value"].as_f64().is_some_and(|off| off > 10.0))
    };
    let any_difference = DIFFERENCES.iter().any(|tag| by_tag.contains_key(tag));
    let singles = [
        ("usage_discrepancy_count", any_difference.then(|| good.iter().filter(discrepant).count() as f64)),
        (
            "osl_mismatch_count",
            total("osl_mismatch_diff_pct").map(|_| good.iter().filter(mismatched).count() as f64),
        ),
        ("context_overflow_count", some(bad.len()).map(|_| bad.iter().filter(overflowed).count() as f64)),
        ("good_request_count", held),
        ("goodput", held.map(|held| held / window_s)),
        ("good_request_fraction", held.map(|held| held / records.len() as f64)),
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
        ("total_usage_prompt_cache_write_tokens", total("usage_prompt_cache_write_tokens")),
        ("total_usage_prompt_cache_miss_tokens", total("usage_prompt_cache_miss_tokens")),
        ("total_usage_prompt_audio_tokens", total("usage_prompt_audio_tokens")),
        ("total_usage_prompt_audio_seconds", total("usage_prompt_audio_seconds")),
        ("total_usage_tool_use_prompt_tokens", total("usage_tool_use_prompt_tokens")),
        ("total_usage_completion_audio_tokens", total("usage_completion_audio_tokens")),
        ("total_usage_accepted_prediction_tokens", total("usage_accepted_prediction_tokens")),
        ("total_usage_rejected_prediction_tokens", total("usage_rejected_prediction_tokens")),
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
        checked.insert(tag.to_owned());
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
    compared += check_curves(scope, records, file, span, &mut checked);
    let unchecked: Vec<&String> = file
        .as_object()
        .unwrap()
        .iter()
        .filter(|(tag, value)| value["unit"].is_string() && !checked.contains(*tag))
        .map(|(tag, _)| tag)
        .collect();
    assert!(unchecked.is_empty(), "{scope}: nobody looked at {unchecked:?}");
    compared
}

/// The step functions: concurrency of requests, decoding and prefilling, throughput of both and of all, tokens
/// in flight.
const CURVES: usize = 7;

/// Adds `by` from `from` to `to`.
fn over(curve: &mut Vec<(f64, f64)>, from: f64, to: f64, by: f64) {
    curve.extend([(from, by), (to, -by)]);
}

fn curves_of(records: &[&Value]) -> [Vec<(f64, f64)>; CURVES] {
    let mut curves: [Vec<(f64, f64)>; CURVES] = Default::default();
    let any_gap = records.iter().any(|record| record["metrics"]["inter_chunk_latency"].is_object());
    for record in records {
        let [requests, decoding, prefilling, decode, prefill, all, tokens] = &mut curves;
        let value = |tag: &str| record["metrics"][tag]["value"].as_f64();
        let start_ns = integer(&record["metadata"], "request_start_ns");
        let (start, end) = (start_ns as f64, integer(&record["metadata"], "request_end_ns") as f64);
        over(requests, start, end, 1.0);
        let Some(ttft) = value("time_to_first_token") else { continue };
        // Added as whole nanoseconds: only then is there a single rounding to a float.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds of a request"
        )]
        let first = (start_ns + (ttft * 1e6).round() as u64) as f64;
        let (input, output) =
            (value("input_sequence_length").unwrap(), value("output_sequence_length").unwrap());
        over(decoding, first, end, 1.0);
        over(prefilling, start, first, 1.0);
        if first > start {
            let rate = input / (first - start);
            over(prefill, start, first, rate);
            over(all, start, first, rate);
            over(tokens, start, end, input);
        }
        let later = output - 1.0;
        if end > first && later >= 0.0 {
            over(all, first, end, later / (end - first));
            if !any_gap {
                over(decode, first, end, later / (end - first));
            }
        }
        if !any_gap {
            over(tokens, first, end, output);
            continue;
        }
        let gaps: Vec<f64> = record["metrics"]["inter_chunk_latency"]["value"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|gap| (gap.as_f64().unwrap() * 1e6).round())
            .collect();
        if gaps.is_empty() {
            continue;
        }
        let long = gaps.iter().filter(|gap| **gap > 0.0).count() as f64;
        tokens.extend([(first, 1.0), (end, -output)]);
        let mut elapsed = 0.0;
        for gap in &gaps {
            elapsed += gap;
            let arrival = first + elapsed;
            if *gap > 0.0 {
                over(decode, arrival - gap, arrival, later / long / gap);
            }
            let held = if arrival >= end { end.next_down() } else { arrival };
            tokens.push((held, later / gaps.len() as f64));
        }
    }
    for curve in &mut curves {
        curve.sort_by(|left, right| left.0.total_cmp(&right.0).then((left.1 > 0.0).cmp(&(right.1 > 0.0))));
    }
    curves
}

/// Pieces of time in which no curve changes: how long, and where each stands.
fn pieces(curves: &[Vec<(f64, f64)>; CURVES], span: (u64, u64)) -> Vec<(f64, [f64; CURVES])> {
    let (start, end) = (span.0 as f64, span.1 as f64);
    let mut edges: Vec<f64> = curves.iter().flatten().map(|change| change.0.clamp(start, end)).collect();
    edges.extend([start, end]);
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let (mut next, mut levels) = ([0; CURVES], [0.0_f64; CURVES]);
    edges
        .windows(2)
        .map(|pair| {
            for (curve, changes) in curves.iter().enumerate() {
                while let Some((_, by)) = changes.get(next[curve]).filter(|change| change.0 <= pair[0]) {
                    levels[curve] += by;
                    next[curve] += 1;
                }
            }
            (pair[1] - pair[0], levels)
        })
        .collect()
}

/// What the values come to over time; zeros when there are none.
fn weighted(mut values: Vec<(f64, f64)>) -> BTreeMap<&'static str, f64> {
    let total: f64 = values.iter().map(|value| value.0).sum();
    if total <= 0.0 {
        return ["avg", "min", "max", "std", "p50", "p90", "p95", "p99"].map(|name| (name, 0.0)).into();
    }
    let avg = values.iter().map(|(length, value)| length * value).sum::<f64>() / total;
    let variance =
        values.iter().map(|(length, value)| length * (value - avg) * (value - avg)).sum::<f64>() / total;
    values.sort_by(|left, right| left.1.total_cmp(&right.1));
    let mut all = BTreeMap::from([
        ("avg", avg),
        ("std", variance.sqrt()),
        ("min", values[0].1),
        ("max", values[values.len() - 1].1),
    ]);
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
        let mut sum = 0.0;
        let reached = values.iter().find(|(length, _)| {
            sum += length;
            sum / total >= share
        });
        all.insert(name, reached.unwrap_or(&values[values.len() - 1]).1);
    }
    all
}

/// A metric over time: its name, what one of its unit is, and its value where there is one.
type Series<'a> = (&'a str, f64, Box<dyn Fn(&[f64; CURVES]) -> Option<f64>>);

/// Checks the time-weighted metrics.
fn check_curves(
    scope: &str,
    records: &[&Value],
    file: &Value,
    span: (u64, u64),
    checked: &mut BTreeSet<String>,
) -> usize {
    let curves = curves_of(records);
    let largest = pieces(&curves, span).into_iter().fold([0.0_f64; CURVES], |largest, (_, levels)| {
        std::array::from_fn(|curve| largest[curve].max(levels[curve].abs()))
    });
    let pieces: Vec<(f64, [f64; CURVES])> = pieces(&curves, span)
        .into_iter()
        .map(|(length, levels)| {
            let clean = |curve: usize| {
                if levels[curve].abs() < 1e-9 * largest[curve] { 0.0 } else { levels[curve] }
            };
            (length, std::array::from_fn(clean))
        })
        .collect();
    let share = |of: f64, over: f64| if over > 0.0 { of / over } else { 0.0 };
    let series: [Series<'_>; 14] = [
        ("effective_concurrency", 1.0, Box::new(|at| Some(at[0]))),
        ("effective_decode_concurrency", 1.0, Box::new(|at| Some(at[1]))),
        ("effective_prefill_concurrency", 1.0, Box::new(|at| Some(at[2]))),
        ("effective_decode_throughput", 1e9, Box::new(|at| Some(at[3]))),
        ("effective_prefill_throughput", 1e9, Box::new(|at| Some(at[4]))),
        ("effective_total_throughput", 1e9, Box::new(|at| Some(at[5]))),
        ("tokens_in_flight", 1.0, Box::new(|at| Some(at[6]))),
        ("effective_decode_throughput_per_user", 1e9, Box::new(move |at| Some(share(at[3], at[1])))),
        ("effective_prefill_throughput_per_user", 1e9, Box::new(move |at| Some(share(at[4], at[2])))),
        ("active_decode_throughput", 1e9, Box::new(|at| (at[1] > 0.0).then_some(at[3]))),
        ("active_prefill_throughput", 1e9, Box::new(|at| (at[2] > 0.0).then_some(at[4]))),
        ("active_total_throughput", 1e9, Box::new(|at| (at[0] > 0.0).then_some(at[5]))),
        (
            "active_decode_throughput_per_user",
            1e9,
            Box::new(move |at| (at[1] > 0.0).then(|| share(at[3], at[1]))),
        ),
        (
            "active_prefill_throughput_per_user",
            1e9,
            Box::new(move |at| (at[2] > 0.0).then(|| share(at[4], at[2]))),
        ),
    ];
    let mut compared = 0;
    for (tag, scale, read) in &series {
        checked.insert((*tag).to_owned());
        let values: Vec<(f64, f64)> = pieces
            .iter()
            .filter_map(|(length, levels)| read(levels).map(|value| (*length, value * scale)))
            .collect();
        for (name, expected) in weighted(values) {
            let found =
                file[*tag][name].as_f64().unwrap_or_else(|| panic!("{scope}: {tag}.{name} is missing"));
            // Times lie 256 ns apart in the sums, and values in the file are rounded.
            let near = (found - expected).abs() <= 5e-3 * expected.abs().max(found.abs()) + 1e-6;
            assert!(near, "{scope}: {tag}.{name}: {expected} computed, {found} in the file");
            compared += 1;
        }
    }
    compared
}

/// Checks the files in `directory`; the number of values compared.
pub(crate) fn check_directory(directory: &Path) -> usize {
    let records = records(directory);
    let report = load(&directory.join("client_report.json"));
    let root = load(&directory.join("profile_export_aiperf.json"));
    let phases = report["phases"].as_array().unwrap();
    let of = |name: &str, value: &str| -> Vec<&Value> {
        records.iter().filter(|record| record["metadata"][name] == value).collect()
    };
    let window = |phase: &Value| (integer(phase, "start_ns"), integer(phase, "end_ns"));
    let windows = |kind: &str| -> Vec<(u64, u64)> {
        phases.iter().filter(|phase| phase["phase_kind"] == kind).map(window).collect()
    };
    let mut compared = check("root", &of("benchmark_phase", "profiling"), &root, &windows("profiling"));
    let warmups = of("benchmark_phase", "warmup");
    if warmups.is_empty() {
        assert!(root["warmup_metrics"].is_null());
    } else {
        compared += check("warmups", &warmups, &root["warmup_metrics"], &windows("warmup"));
    }
    let manifest = directory.join("phase_manifest.json");
    assert_eq!(manifest.exists(), phases.len() > 1);
    if phases.len() < 2 {
        return compared;
    }
    let manifest = load(&manifest);
    assert_eq!(manifest["phases"].as_array().unwrap().len(), phases.len());
    for (phase, reported) in manifest["phases"].as_array().unwrap().iter().zip(phases) {
        let name = phase["phase_name"].as_str().unwrap();
        assert_eq!((reported["phase_name"].as_str(), window(reported)), (Some(name), window(phase)));
        let mine = of("phase_name", name);
        let file = load(&directory.join(phase["metrics_json"].as_str().unwrap()));
        compared += check(name, &mine, &file, &[window(phase)]);
        let errors = mine.iter().filter(|record| !record["error"].is_null()).count() as u64;
        assert_eq!(integer(phase, "error_request_count"), errors);
        assert_eq!(integer(phase, "total_request_count"), mine.len() as u64);
        assert_eq!(integer(phase, "successful_request_count"), mine.len() as u64 - errors);
        let listed: u64 =
            file["error_summary"].as_array().unwrap().iter().map(|group| integer(group, "count")).sum();
        assert_eq!(listed, errors, "{name}: every error is in the summary");
        for record in &mine {
            let metadata = &record["metadata"];
            assert!(integer(metadata, "request_start_ns") >= window(phase).0);
            assert!(integer(metadata, "request_end_ns") <= window(phase).1);
        }
    }
    compared
}
