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
fn an_objective_on_an_unknown_metric_is_refused_with_its_place() {
    let (directory, good, _) = files();
    let path = directory.path().join("slos.yaml");
    let text = format!("{}  slos: {{made_up_metric: 4}}\n", VALID.split("sweep").next().unwrap_or_default());
    fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
    let (code, stdout, stderr) = phasor(&["validate", &path.display().to_string(), &good]);
    assert_eq!((code, stdout), (1, format!("Configuration valid: {good}\n")));
    assert!(stderr.contains("slos.made_up_metric") && stderr.contains("slos.yaml:7:"), "{stderr}");
}

#[test]
fn a_config_to_start_from_is_printed_or_written_once() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = directory.path().join("new.yaml").display().to_string();
    let (code, stdout, _) = phasor(&["config", "init", "--list"]);
    assert!(code == 0 && stdout.contains("multi-phase"), "{stdout}");
    let init = ["config", "init", "--template", "poisson", "--model", "m", "--output", path.as_str()];
    assert_eq!(phasor(&init).0, 0);
    let (code, _, stderr) = phasor(&init);
    assert!(code == 1 && stderr.contains("new.yaml"), "{stderr}");
    assert_eq!(phasor(&["config", "validate", &path]).0, 0);
    let (code, _, stderr) = phasor(&["config", "init", "--template", "none"]);
    assert!(code == 1 && stderr.contains("multi-phase"), "{stderr}");
}

#[test]
fn a_sweep_is_expanded_into_its_runs() {
    let (code, stdout, _) = phasor(&["config", "expand", "-"]);
    let expected = "Sweep type: grid (2 variations)\n\n[0] dir=rate_20  label=phases.profiling.rate=20\n[1] dir=rate_40  label=phases.profiling.rate=40\n";
    assert_eq!((code, stdout.as_str()), (0, expected));
    let (code, stdout, _) = phasor(&["config", "expand", "-", "--index", "1", "--format", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (code, &runs["variations"][0]["benchmark"]["phases"][0]["rate"]),
        (0, &serde_json::json!(40.0))
    );
    let (code, _, stderr) = phasor(&["config", "expand", "-", "--index", "2"]);
    assert!(code == 1 && stderr.contains("0 to 1"), "{stderr}");
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(phasor(&["man", "--dir", &directory.path().display().to_string()]).0, 0);
    for name in ["phasor", "phasor-profile", "phasor-config-init", "phasor-doctor"] {
        let page = directory.path().join(format!("{name}.1"));
        let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
}

#[test]
fn the_readme_shows_what_the_program_says_of_its_wrong_config() {
    let readme = include_str!("../README.md");
    let section = readme.split("## When a config is wrong").nth(1).unwrap_or_default();
    let mut blocks = section.split("```");
    let yaml = blocks.nth(1).and_then(|block| block.strip_prefix("yaml\n")).unwrap_or_default();
    let shown = blocks.nth(1).and_then(|block| block.strip_prefix('\n')).unwrap_or_default();
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    fs::write(directory.path().join("workflow.yaml"), yaml).unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .current_dir(directory.path())
        .args(["validate", "workflow.yaml"])
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), shown);
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
    assert_eq!(stderr, "");
    assert_eq!(phasor(&["explain", &bad]).0, 1);
}

#[test]
fn a_run_that_cannot_start_ends_with_one_and_says_why() {
    let (_directory, good, _) = files();
    let (code, stdout, stderr) = phasor(&["profile", "--config", &good, "--concurrency", "2,4"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("the host `h` has no address"), "{stderr}");
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
