//! `validate`, `explain` and `completions` as programs: output and exit codes.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

fn phasor(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .args(arguments)
        .write_stdin(VALID)
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const VALID: &str = "benchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {isl: 8}\n  phases:\n    \
                     - {name: load, kind: profiling, type: poisson, rate: 20, duration: 30, gracePeriod: 1}\n\
                     sweep: {type: grid, parameters: {rate: [20, 40]}}\n";

fn files() -> (tempfile::TempDir, String, String) {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
        path.display().to_string()
    };
    let good = write("good.yaml", VALID);
    let bad = write("bad.yaml", &VALID.replace("rate: 20,", "rate: 0, zzz: 1,"));
    (directory, good, bad)
}

#[test]
fn every_file_is_judged_and_the_exit_code_tells_whether_one_is_bad() {
    let (_directory, good, bad) = files();
    let (code, stdout, stderr) = phasor(&["validate", &good, "-"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, format!("Configuration valid: {good}\nConfiguration valid: -\n"));
    let (code, stdout, stderr) = phasor(&["validate", &bad, &good]);
    assert_eq!((code, stdout), (1, format!("Configuration valid: {good}\n")));
    assert!(
        stderr.contains("bad.yaml:6:") && stderr.contains("unknown key") && stderr.contains("above 0"),
        "{stderr}"
    );
}

#[test]
fn the_meaning_is_one_object_per_file() {
    let (_directory, good, _) = files();
    let (code, stdout, _) = phasor(&["validate", "--json", &good, &good]);
    let objects: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!((code, objects.len()), (0, 2));
    assert_eq!(objects[0]["variations"], 2);
    assert_eq!(objects[0]["others"][0]["dir_name"], "rate_40");
    assert_eq!(objects[0]["first"]["phases"][0]["duration_seconds"], 30.0);
}

#[test]
fn an_explanation_counts_what_will_be_sent() {
    let (_directory, good, bad) = files();
    let (code, stdout, stderr) = phasor(&["explain", &good]);
    assert_eq!(code, 0);
    assert!(stdout.contains("about 600 requests") && stdout.contains("[1] dir=rate_40"), "{stdout}");
    assert!(stderr.contains("phasor cannot run it yet"), "{stderr}");
    assert_eq!(phasor(&["explain", &bad]).0, 1);
}

#[test]
fn a_run_that_cannot_start_ends_with_one_and_says_why() {
    let (_directory, good, _) = files();
    let (code, stdout, stderr) = phasor(&["profile", "--config", &good, "--concurrency", "2,4"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("`sweep` is valid, phasor cannot run it yet"), "{stderr}");
    let (code, _, stderr) = phasor(&["profile", "--conurrency", "4"]);
    assert!(code == 1 && stderr.contains("--concurrency"), "{stderr}");
}

#[test]
fn completions_and_help_know_the_flags() {
    assert!(phasor(&["completions", "bash"]).1.contains("--request-rate"));
    let (code, stdout, _) = phasor(&["profile", "--help"]);
    assert!(code == 0 && stdout.contains("Load:") && !stdout.contains("--audio-format"), "{stdout}");
}

#[test]
fn odd_files_end_in_a_message_within_bounded_time() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = directory.path().join("odd.yaml");
    let keys: Vec<String> = (0..300_000).map(|key| format!("key{key}: 1")).collect();
    let keys = keys.join("\n");
    let bomb = format!("a: &a [1]\nb: [{}]\n", "*a, ".repeat(100_000));
    let deep = format!("a: {}", "{b: ".repeat(100_000));
    let scalars = format!("a: &a x\nb: [{}]\n", "*a, ".repeat(100_000));
    let templates = format!("benchmark: {{m: [{}]}}\n", "\"{{ 1 }}\", ".repeat(20_000));
    for text in [keys, bomb, deep, scalars, templates, "\u{0}\u{1}".to_owned(), "x".repeat(17 << 20)] {
        fs::write(&path, &text).unwrap_or_else(|error| panic!("{error}"));
        let (code, _, stderr) = phasor(&["validate", &path.display().to_string()]);
        assert!(code == 1 && stderr.contains("error: ") && stderr.len() < 1 << 20, "{stderr:.300}");
    }
    assert!(Path::new("/dev/zero").exists() && phasor(&["validate", "/dev/zero"]).0 == 1);
}
