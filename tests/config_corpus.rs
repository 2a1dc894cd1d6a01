//! Configs that AIPerf 0.13 accepted or refused, with what it made of them (tests/data/config/corpus.jsonl).

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use phasor::config::{self, CommandLine, Loaded, Source, resolved};
use serde_json::{Value, json};

const CORPUS: &str = include_str!("data/config/corpus.jsonl");

/// Cases that phasor decides otherwise for good, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("b21-poisson-rate-inf", "an open loop cannot have an infinite rate"),
    ("c16-duration-null", "null is unset here too; AIPerf fails in its own checker"),
    ("c17-grace-null", "null is unset here too; AIPerf fails in its own checker"),
    ("w06-integer-text-forms", "a request count of twenty digits is refused"),
    ("w16-float-text-forms", "an open loop cannot have an infinite rate"),
];

/// Accepted here too, but which values are drawn is for the generators of scipy to say.
const DRAWN: &[&str] = &["s64-sobol", "s68-latin-choices"];

fn corpus() -> impl Iterator<Item = (String, Value)> {
    CORPUS.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (case["case"].as_str().unwrap_or_default().to_owned(), case)
    })
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/config")
}

fn load(case: &Value) -> Result<Loaded, String> {
    read(case, None).map_err(|faults| faults.to_string())
}

/// As the program loads a case whose command line has flags.
fn load_with_flags(case: &Value) -> Result<Loaded, String> {
    let words = case["cli"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let typed: Vec<OsString> =
        ["phasor", "profile", "--config", "case.yaml"].into_iter().chain(words).map(OsString::from).collect();
    let given = phasor::cli::flags_of_profile(&typed).map_err(|error| error.to_string())?;
    read(case, Some(&given)).map_err(|faults| faults.to_string())
}

fn read(case: &Value, command_line: Option<&CommandLine>) -> Result<Loaded, config::Diagnostics> {
    let variables = |name: &str| case["environment"][name].as_str().map(str::to_owned);
    let directory = data();
    let text = case["text"].as_str().unwrap_or_default();
    config::read(&Source {
        directory: Some(&directory),
        command_line,
        ..Source::file("case.yaml", text, &variables)
    })
}

/// The first place where `ours` is not `theirs`.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let absent = right.keys().find(|key| !left.contains_key(*key));
            let added = left.keys().find(|key| !right.contains_key(*key));
            if let Some(key) = absent.or(added) {
                return Some(format!("{path}.{key}: {} instead of {}", ours[key], theirs[key]));
            }
            left.iter().find_map(|(key, value)| difference(&format!("{path}.{key}"), value, &right[key]))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(at, (left, right))| difference(&format!("{path}.{at}"), left, right)),
        (Value::Number(left), Value::Number(right)) if left.as_f64() == right.as_f64() => None,
        _ if ours == theirs => None,
        _ => Some(format!("{path}: {ours} instead of {theirs}")),
    }
}

/// What AIPerf says, with what phasor does otherwise put the way phasor does it (design, section 7).
fn expected(normalized: &Value) -> Value {
    let mut theirs = normalized.clone();
    let strip = |phase: &mut Value| {
        let Some(members) = phase.as_object_mut() else { return };
        if let Some(runtime) = members.get_mut("runtime").and_then(Value::as_object_mut) {
            for name in ["grace_seconds", "seamless", "cancellation", "timing_mode"] {
                runtime.remove(name);
            }
        }
        // Waiting without end and a rate of nothing are the same as not saying so.
        if members.get("grace_seconds") == Some(&json!("inf")) {
            members.insert("grace_seconds".to_owned(), Value::Null);
        }
        if members.get("cancellation").is_some_and(|block| block["rate"] == json!(0.0)) {
            members.insert("cancellation".to_owned(), Value::Null);
        }
        if members.get("smoothness") == Some(&Value::Null) {
            members.insert("smoothness".to_owned(), json!(1.0));
        }
    };
    if let Some(first) = theirs.get_mut("first") {
        first["phases"].as_array_mut().into_iter().flatten().for_each(strip);
        // The start of a run is not for reading.
        first.as_object_mut().map(|first| first.remove("start_error"));
    }
    for other in theirs["others"].as_array_mut().into_iter().flatten() {
        for (_, phase) in other["phase_changes"].as_object_mut().into_iter().flatten() {
            strip(phase);
        }
    }
    // A name and a password are not shown.
    for url in theirs["endpoint"]["urls"].as_array_mut().into_iter().flatten() {
        *url = json!(config::url::without_user_info(url.as_str().unwrap_or_default()));
    }
    // Off a terminal the command line replaces it.
    if let Some(members) = theirs.as_object_mut() {
        members.remove("ui");
    }
    if let Some(sections) = theirs["sections"].as_object_mut() {
        sections.remove("runtime");
    }
    theirs
}

fn ours(loaded: &Loaded) -> Value {
    let normalized = resolved::normalized(loaded, Path::new("$CWD"));
    expected(&normalized)
}

/// Compares all cases that `wanted` chooses; the result is how many there were.
fn compare(wanted: impl Fn(&Value) -> bool, load: impl Fn(&Value) -> Result<Loaded, String>) -> usize {
    let different: HashMap<&str, &str> = DIFFERENT.iter().copied().collect();
    let (mut faults, mut count) = (Vec::new(), 0);
    for (name, case) in corpus().filter(|(_, case)| wanted(case)) {
        count += 1;
        if different.contains_key(name.as_str()) {
            assert_ne!(json!(load(&case).is_ok()), case["accepted"], "{name} is no difference");
            continue;
        }
        match (load(&case), case["accepted"] == json!(true)) {
            (Ok(_), true) if DRAWN.contains(&name.as_str()) => {}
            (Ok(loaded), true) => {
                if let Some(fault) = difference("", &ours(&loaded), &expected(&case["normalized"])) {
                    faults.push(format!("{name}: {fault}"));
                }
            }
            (Ok(_), false) => {
                faults.push(format!("{name}: accepted, but AIPerf refuses it: {}", case["kind"]));
            }
            (Err(found), true) => faults.push(format!("{name}: refused, but AIPerf accepts it:\n{found}")),
            (Err(_), false) => {}
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    count
}

#[test]
fn what_aiperf_accepts_is_accepted_with_the_same_meaning_and_what_it_refuses_is_refused() {
    let count = compare(|case| case["cli"].is_null(), load);
    assert!(count > 400, "{count} cases");
}

#[test]
fn flags_beside_a_file_mean_what_they_mean_to_aiperf() {
    let count = compare(|case| !case["cli"].is_null(), load_with_flags);
    assert!(count > 50, "{count} cases");
}

/// Whether the first error of `case` stands where AIPerf's does: its line or message has the field.
fn points_at(found: &config::Diagnostics, case: &Value) -> bool {
    let text = case["text"].as_str().unwrap_or_default();
    let path = case["path"].as_str().unwrap_or_default();
    found.errors().any(|error| {
        let Some(line) = found.line_of(error) else { return false };
        let line = text.lines().nth(line - 1).unwrap_or_default();
        let named =
            path.split('.').filter(|part| part.parse::<u32>().is_err()).collect::<Vec<_>>().into_iter();
        let bare = |text: &str| text.to_lowercase().replace('_', "");
        // A fault of a phase or a sweep as a whole is named after its type, which is the last part.
        named.rev().take(2).any(|field| {
            let field = bare(field);
            bare(line).contains(&field) || bare(&error.message).contains(&field)
        })
    })
}

#[test]
fn an_error_stands_at_the_line_of_the_field_that_aiperf_names() {
    let (mut pointing, mut missing) = (0, Vec::new());
    for (name, case) in corpus().filter(|(_, case)| case["cli"].is_null() && !case["path"].is_null()) {
        let Err(found) = read(&case, None) else { continue };
        if points_at(&found, &case) {
            pointing += 1;
        } else {
            missing.push(format!("{name}: {}\n{found}", case["path"]));
        }
    }
    let all = pointing + missing.len();
    assert!(pointing * 100 >= all * 95, "{} of {all}:\n{}", missing.len(), missing.join("\n\n"));
    assert!(all > 200, "{all} cases");
}
