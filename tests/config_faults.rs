//! How faults in a config are shown, and that no text whatever makes the reader panic.

use std::fs;

use insta::assert_snapshot;
use phasor::config::{self, Colour};
use proptest::prelude::*;

/// What is shown for a file with these phases around which all is well.
fn shown(phases: &str) -> String {
    shown_text(&around(phases))
}

fn around(phases: &str) -> String {
    format!(
        "benchmark:\n  model: demo\n  endpoint: {{url: \"http://127.0.0.1:8000\"}}\n  dataset: {{isl: 8}}\n  phases:\n\
         {phases}"
    )
}

fn shown_text(text: &str) -> String {
    match config::parse("demo.yaml", text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(faults) => faults.render(Colour::Never),
    }
}

#[test]
fn a_bad_name() {
    assert_snapshot!(shown("    - {name: 2nd, kind: profiling, type: concurrency, requests: 1}\n"), @r#"
    error: `benchmark.phases.0.name` must be letters, digits, `_` and `-`, starting with a letter or `_`, found `2nd`
     --> demo.yaml:6:14
      |
    6 |     - {name: 2nd, kind: profiling, type: concurrency, requests: 1}
      |              ^^^ not a phase name
      |
      = help: the name becomes a directory and part of sweep paths: write for example `baseline_traffic`
    "#);
}

#[test]
fn a_missing_kind() {
    assert_snapshot!(shown("    - {name: load, type: concurrency, requests: 1}\n"), @r#"
    error: `benchmark.phases.0.kind` is missing: only the names `warmup` and `profiling` say their kind themselves
     --> demo.yaml:6:14
      |
    6 |     - {name: load, type: concurrency, requests: 1}
      |              ^^^^ warmup or profiling?
      |
      = help: add `kind: profiling`, or `kind: warmup` to keep it out of the results
    "#);
}

#[test]
fn a_name_used_twice() {
    let phases = "    - {name: Calm, kind: profiling, type: concurrency, requests: 1}\n    \
                  - {name: calm, kind: profiling, type: concurrency, requests: 1}\n";
    assert_snapshot!(shown(phases), @r#"
    error: `benchmark.phases.1.name`: `calm` is taken by `Calm`: names must differ by more than case
     --> demo.yaml:7:14
      |
    6 |     - {name: Calm, kind: profiling, type: concurrency, requests: 1}
      |              ---- used first here
    7 |     - {name: calm, kind: profiling, type: concurrency, requests: 1}
      |              ^^^^ used again
      |
      = help: give this phase another name
    "#);
}

#[test]
fn a_reserved_name_with_the_other_kind() {
    let phases = "    - {name: warmup, kind: profiling, type: concurrency, requests: 1}\n";
    assert_snapshot!(shown(phases), @r#"
    error: `benchmark.phases.0`: the name `warmup` is reserved for phases of kind warmup, found kind profiling
     --> demo.yaml:6:28
      |
    6 |     - {name: warmup, kind: profiling, type: concurrency, requests: 1}
      |                            ^^^^^^^^^ must be `warmup` for this name
      |
      = help: change the name or the kind
    "#);
}

#[test]
fn warmups_only() {
    assert_snapshot!(shown("    - {name: warmup, type: concurrency, requests: 1}\n"), @r#"
    error: all phases are of kind warmup: a benchmark needs a profiling phase
     --> demo.yaml:5:3
      |
    5 |   phases:
      |   ^^^^^^ warmups only
      |
      = help: add a phase of `kind: profiling`
    "#);
}

#[test]
fn a_seamless_first_phase() {
    let phases = "    - {name: profiling, type: concurrency, requests: 1, seamless: true}\n";
    assert_snapshot!(shown(phases), @r#"
    error: `benchmark.phases.0.seamless`: the first phase cannot be seamless, there is no phase before it
     --> demo.yaml:6:67
      |
    6 |     - {name: profiling, type: concurrency, requests: 1, seamless: true}
      |                                                                   ^^^^ first phase
      |
      = help: take `seamless` out
    "#);
}

#[test]
fn a_ramp_longer_than_its_phase_is_doubted() {
    let phase = "    - {name: load, kind: profiling, type: poisson, rate: 9, duration: 60, grace_period: 1, rate_ramp: 5m}\n";
    let loaded = config::parse("demo.yaml", &around(phase)).unwrap_or_else(|faults| panic!("{faults}"));
    assert_snapshot!(loaded.warnings.render(Colour::Never), @r#"
    warning: `benchmark.phases.0.rate_ramp` takes 300 s and the phase only 60 s: its full load is never reached
     --> demo.yaml:6:103
      |
    6 |     - {name: load, kind: profiling, type: poisson, rate: 9, duration: 60, grace_period: 1, rate_ramp: 5m}
      |                                                                                                       ^^ ends after its phase
      |
      = help: shorten the ramp, or lengthen the phase
    "#);
}

#[test]
fn an_unknown_key() {
    assert_snapshot!(shown("    - {name: profiling, type: concurrency, requestz: 1, duration: 5s}\n"), @r#"
    error: unknown key `benchmark.phases.0.requestz`
     --> demo.yaml:6:44
      |
    6 |     - {name: profiling, type: concurrency, requestz: 1, duration: 5s}
      |                                            ^^^^^^^^ did you mean `requests`?
      |
      = help: write `requests`, or take the key out
    "#);
}

#[test]
fn a_negative_rate() {
    assert_snapshot!(shown("    - {name: profiling, type: poisson, rate: -2, requests: 1}\n"), @r#"
    error: `benchmark.phases.0.rate` must be a number above 0 and finite, found the whole number -2
     --> demo.yaml:6:46
      |
    6 |     - {name: profiling, type: poisson, rate: -2, requests: 1}
      |                                              ^^ must be a number above 0 and finite
    "#);
}

#[test]
fn a_concurrency_of_zero() {
    assert_snapshot!(shown("    - {name: profiling, type: concurrency, concurrency: 0, requests: 1}\n"), @r#"
    error: `benchmark.phases.0.concurrency` must be a whole number of at least 1, found the whole number 0
     --> demo.yaml:6:57
      |
    6 |     - {name: profiling, type: concurrency, concurrency: 0, requests: 1}
      |                                                         ^ must be a whole number of at least 1
    "#);
}

#[test]
fn a_value_of_the_wrong_type() {
    assert_snapshot!(shown("    - name: profiling\n      type: concurrency\n      requests: [1]\n"), @r#"
    error: `benchmark.phases.0.requests` must be a whole number of at least 1, found a list
     --> demo.yaml:8:17
      |
    8 |       requests: [1]
      |                 ^^^ must be a whole number of at least 1
    "#);
}

#[test]
fn a_phase_that_never_ends() {
    assert_snapshot!(shown("    - name: profiling\n      type: concurrency\n      concurrency: 4\n"), @r#"
    error: `benchmark.phases.0` never ends: it has neither `requests` nor `duration`, nor `sessions`
     --> demo.yaml:6:7
      |
    6 |     - name: profiling
      |       ^^^^^^^^^^^^^^^ nothing ends this phase
      |
      = help: add `duration: 30s` or `requests: 100`
    "#);
}

#[test]
fn a_key_of_another_type_of_phase() {
    assert_snapshot!(shown("    - {name: profiling, type: concurrency, rate: 4, requests: 1}\n"), @r#"
    error: `benchmark.phases.0.rate` is not a key of a phase of type `concurrency`
     --> demo.yaml:6:44
      |
    6 |     - {name: profiling, type: concurrency, rate: 4, requests: 1}
      |                                            ^^^^ not with `type: concurrency`
      |
      = help: take it out, or change the phase's type
    "#);
}

#[test]
fn what_cannot_be_run_yet_is_valid_and_refused_at_the_start() {
    let phases = "    - {name: profiling, type: concurrency, requests: 8}\n\
                  sweep: {type: sobol, samples: 4, dimensions: [{path: concurrency, lo: 1, hi: 8}]}\n";
    let loaded = config::parse("demo.yaml", &around(phases)).unwrap_or_else(|faults| panic!("{faults}"));
    let shown = config::support::unsupported(&loaded.config).render(Colour::Never);
    assert!(shown.contains("`sweep.type: sobol` is valid, phasor cannot run it yet"), "{shown}");
    assert!(shown.contains("demo.yaml:7:"), "{shown}");
}

#[test]
fn an_undefined_name_in_a_template() {
    let phases =
        "    - {name: profiling, type: concurrency, requests: \"{{ bse * 2 }}\"}\nvariables: {base: 4}\n";
    assert_snapshot!(shown(phases), @r#"
    error: the template of `benchmark.phases.0.requests` cannot be rendered: `bse` is not defined, did you mean `base`?
     --> demo.yaml:6:54
      |
    6 |     - {name: profiling, type: concurrency, requests: "{{ bse * 2 }}"}
      |                                                      ^^^^^^^^^^^^^^^ template
      |
      = help: names in templates are the keys of `variables:` and of this file
    "#);
}

#[test]
fn a_variable_of_the_environment_that_is_not_set() {
    let phases = "    - {name: profiling, type: concurrency, requests: \"${PHASOR_TEST_NEVER_SET}\"}\n";
    assert_snapshot!(shown(phases), @r#"
    error: the environment variable `PHASOR_TEST_NEVER_SET` is not set
     --> demo.yaml:6:54
      |
    6 |     - {name: profiling, type: concurrency, requests: "${PHASOR_TEST_NEVER_SET}"}
      |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^ needs `PHASOR_TEST_NEVER_SET`
      |
      = help: set it, or give a default: `${PHASOR_TEST_NEVER_SET:value}`
    "#);
}

#[test]
fn a_bad_variation() {
    let phases = "    - {name: profiling, type: concurrency, requests: 4}\nsweep: {type: grid, parameters: {requests: [1, 0]}}\n";
    assert_snapshot!(shown(phases), @r"
    error: variation 1 (phases.profiling.requests=0): `benchmark.phases.0.requests` must be a whole number of at least 1, found the whole number 0
     --> demo.yaml:7:48
      |
    7 | sweep: {type: grid, parameters: {requests: [1, 0]}}
      |                                                ^ must be a whole number of at least 1
    ");
}

#[test]
fn a_sweep_path_to_nowhere() {
    let phases = "    - {name: profiling, type: concurrency, requests: 4}\nsweep: {type: grid, parameters: {phases.calm.rate: [1]}}\n";
    assert_snapshot!(shown(phases), @r"
    error: the path `phases.calm.rate` cannot be written: nothing is named `calm` there, but `profiling`
     --> demo.yaml:7:53
      |
    7 | sweep: {type: grid, parameters: {phases.calm.rate: [1]}}
      |                                                     ^ value for `phases.calm.rate`
      |
      = help: name one of the entries
    ");
}

#[test]
fn two_faults_at_once() {
    let phases = "    - {name: profiling, type: concurrency, requests: 1, seamless: maybe}\n    \
                  - {name: after, kind: Profiling, type: concurrency, duration: 1h30m}\n";
    assert_snapshot!(shown(phases), @r#"
    error: `benchmark.phases.0.seamless` must be true or false, found the text `maybe`
     --> demo.yaml:6:67
      |
    6 |     - {name: profiling, type: concurrency, requests: 1, seamless: maybe}
      |                                                                   ^^^^^ must be true or false

    error: `benchmark.phases.1.kind` must be `warmup` or `profiling`, found the text `Profiling`
     --> demo.yaml:7:27
      |
    7 |     - {name: after, kind: Profiling, type: concurrency, duration: 1h30m}
      |                           ^^^^^^^^^ must be `warmup` or `profiling`
      |
      = help: did you mean `profiling`?

    error: `benchmark.phases.1.duration` must be a duration above 0: seconds (90) or a number with a unit (90s, 5m, 1.5h), found the text `1h30m`
     --> demo.yaml:7:67
      |
    7 |     - {name: after, kind: Profiling, type: concurrency, duration: 1h30m}
      |                                                                   ^^^^^ must be a duration above 0
    "#);
}

#[test]
fn text_that_is_no_yaml() {
    assert_snapshot!(shown_text("benchmark:\n  model: demo\n  endpoint: {url: \"h\"\n  dataset: {isl: 8}\n"), @r#"
    error: the file is not YAML: invalid indentation in flow construct
     --> demo.yaml:4:3
      |
    4 |   dataset: {isl: 8}
      |   ^ the parser stopped here
      |
      = help: check indentation (blanks, no tabs), quotes and brackets around this place
    "#);
}

#[test]
fn a_section_that_is_missing() {
    assert_snapshot!(shown_text("benchmark:\n  model: demo\n  endpoint: {url: h}\n  phases: {type: concurrency, requests: 1}\n"), @r#"
    error: `benchmark.dataset` is missing
     --> demo.yaml:1:1
      |
    1 | benchmark:
      | ^^^^^^^^^ no `dataset` in it
      |
      = help: write for example `dataset: {type: synthetic, isl: 512, osl: 128}`
    "#);
}

#[test]
fn a_schema_version_without_quotes() {
    assert_snapshot!(shown_text("schemaVersion: 2.0\nbenchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\n"), @r#"
    error: `schemaVersion` must be the text `2.0`, found the number 2.0
     --> demo.yaml:1:16
      |
    1 | schemaVersion: 2.0
      |                ^^^ must be the text `2.0`
      |
      = help: put it in quotes
    "#);
}

#[test]
fn files_that_cannot_be_read_are_faults_too() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let binary = directory.path().join("binary.yaml");
    fs::write(&binary, b"model: \xff").unwrap_or_else(|error| panic!("{error}"));
    for (path, telling) in [
        (directory.path().join("gone.yaml"), "does not exist"),
        (directory.path().to_path_buf(), "is a directory"),
        (binary, "not UTF-8: byte 7"),
    ] {
        let faults = config::load(&path).err().map(|faults| faults.to_string()).unwrap_or_default();
        assert!(faults.contains(telling) && faults.contains(&path.display().to_string()), "{faults}");
    }
}

#[test]
fn every_file_of_the_fuzz_corpus_is_understood_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/config");
    let files: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let understood = files
        .iter()
        .filter(|file| {
            config::check::loader(&fs::read(file.path()).unwrap_or_else(|error| panic!("{error}")))
        })
        .count();
    assert!(
        files.len() > 50 && understood > 20 && understood < files.len(),
        "{understood} of {}",
        files.len()
    );
}

#[test]
fn the_wide_file_is_valid() {
    let loaded = config::parse("wide.yaml", WIDE).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(loaded.variations.len(), 8);
    assert!(config::support::unsupported(&loaded.config).has_errors());
    // Trials that end early need all trials of one variation before the next.
    let repeated = config::parse("wide.yaml", &WIDE.replace("independent", "repeated"));
    let faults = repeated.err().map(|faults| faults.to_string()).unwrap_or_default();
    assert!(faults.contains("iterationOrder: independent"), "{faults}");
}

#[test]
fn one_fault_makes_no_second_one() {
    for phases in [
        "    - {name: profiling, type: concurrency, requests: 0}\n",
        "    - {name: profiling, type: concurrency, requests: 1, grace_period: 5}\n",
        "    - {name: profiling, type: poisson, rate: fast, requests: 1}\n",
        "    - {name: profiling, type: poisson, requests: 1}\n",
        "    - {name: 7, type: concurrency, requests: 1}\n",
        "    - {type: concurrency, kind: profiling, requests: 1}\n",
        "    - {name: load, kind: warm, type: concurrency, requests: 1}\n",
        "    - {name: load, kind: profiling, requests: 1, users: 4}\n",
        "    - {name: load, kind: profiling, type: user_centric, users: 4, rate: 1, sessions: 3}\n",
        "    - {name: load, kind: profiling, type: gamma, rate: 1, smoothness: 0, sessions: 3}\n",
        "    - {name: profiling, type: concurrency, sessions: 0}\n",
        "    - {name: profiling, type: concurrency, requests: 1, cancellation: {delay: 1}}\n",
        "    - {name: profiling, type: concurrency, requests: 1, requests: 2}\n",
        "    []\n",
        "    ~\n",
    ] {
        let shown = shown(phases);
        assert_eq!(shown.matches("error: ").count(), 1, "{phases}{shown}");
    }
}

const WHOLE: &str = r#"schemaVersion: "2.0"
randomSeed: 7
benchmark:
  models: {items: [{name: demo}]}
  endpoint: {urls: ["http://[::1]:8000/v1", "h:1?é=1"], type: chat, streaming: yes, timeout: 30.5}
  dataset:
    type: synthetic
    entries: 1_0
    prompts: {isl: {mean: 8}, osl: {value: 4}}
  phases:
    - &anchor {name: warmup, type: concurrency, concurrency: 010, duration: 1:30}
    - name: calm
      kind: profiling
      type: poisson
      rate: !!float 12
      requests: 20
      grace_period: "5 min"
      duration: >-
        90s
      cancellation: {rate: 5, delay: 0}   # a comment
  artifacts: {dir: './a'}
  runtime: {ui: none}
"#;

/// The rest of what a file may have.
const WIDE: &str = r#"schemaVersion: "2.0"
variables: {base: 4, twice: "{{ base * 2 }}"}
sweep:
  type: grid
  iterationOrder: independent
  parameters:
    phases.calm.rate: [1, 2.5]
    phases.0.cancellation: [{rate: 1}, null]
    variables.base: [3, 4]
multiRun: {numRuns: 2, cooldownSeconds: 1, convergence: {metric: request_latency, minRuns: 2}}
benchmark:
  models: {strategy: weighted, items: [{name: a, weight: 0.5}, {name: b, weight: 0.5}]}
  endpoint:
    urls: ["https://u:p@h/v1?x=1"]
    headers: {A: "${HOME:x}"}
    extra: {a: [1, {b: null}]}
    streaming: true
    resetKvCache: {path: /x}
  dataset:
    isl: {peaks: [{mean: 8, weight: 2}, {mean: 9, median: 4, max: 20}]}
    prompts: {osl: {points: [{value: 4, weight: 1}]}, sequenceDistribution: [{isl: 4, osl: 4, probability: 100}]}
    prefixPrompts: {poolSize: 2, length: 4}
    turns: {mean: 2, stddev: 1}
  phases:
    - {name: warmup, type: gamma, rate: 4, smoothness: 0.5, requests: "{{ twice }}", concurrencyRamp: {duration: 5s}}
    - {name: calm, kind: profiling, type: poisson, rate: "{{ base }}", duration: 9, gracePeriod: 1}
    - {name: users, kind: profiling, type: user_centric, rate: 4, users: 2, sessions: 4, seamless: true}
    - {name: series, kind: profiling, type: constant, rateSeries: [{timeS: 0, qps: 1}, {timeS: 1, qps: 2}], requests: 4}
    - {name: scale, kind: profiling, type: concurrency, concurrency: 9, duration: 9, adaptiveScale: {sustainDuration: 2, sla: {request_latency: {p95: {lt: 5}}}}}
  slos: {request_latency: 5}
  artifacts: {summary: false, userFiles: [{path: a, content: "{{ x }}"}]}
  serverMetrics: http://a:1/metrics
  logging: {level: debug}
"#;

/// Pieces that a mutated file may gain.
const PIECES: &[&str] = &[
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "\n",
    "\t",
    "  ",
    "\"",
    "'",
    "&a ",
    "*a",
    "*anchor",
    "<<: ",
    "!!int ",
    "!x ",
    "? ",
    "| ",
    ">",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "\u{feff}",
    "\u{0}",
    "é",
    "😀",
    "\r\n",
    "null",
    "-1",
    "1e999",
    ".inf",
    ".nan",
    "9999999999999999999999999999999999999999999",
    "phases:",
    "name: ",
    "sweep: ",
    "{{ ",
    " }}",
    "{% if x %}",
    "${",
    "phases.calm.",
    "\\x",
    "\u{2028}",
    "@",
    "`",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_change_of_a_file_makes_the_reader_panic(
        wide in any::<bool>(),
        changes in prop::collection::vec((0..WIDE.len(), 0..12_usize, 0..PIECES.len(), any::<bool>()), 1..6)
    ) {
        let mut text = if wide { WIDE } else { WHOLE }.to_owned();
        for (at, removed, piece, inserts) in changes {
            let floor = |at: usize| {
                (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
            };
            let (start, end) = (floor(at), floor(at + removed));
            text.replace_range(start..end, if inserts { PIECES[piece] } else { "" });
        }
        match config::parse("mutated.yaml", &text) {
            Ok(loaded) => prop_assert!(loaded.config.phases.iter().any(|phase| phase.kind.name() == "profiling")),
            Err(faults) => {
                prop_assert!(faults.has_errors());
                prop_assert!(!faults.to_string().contains("was not reported"), "{text}");
                prop_assert!(!faults.render(Colour::Always).is_empty());
            }
        }
    }

    #[test]
    fn no_text_at_all_makes_the_reader_panic(text in "(?s).{0,200}", yaml in "[-:{}\\[\\]a-c \\n\"'&*!?|>#,0-9]{0,120}") {
        for text in [text, yaml] {
            if let Err(faults) = config::parse("any.yaml", &text) {
                prop_assert!(faults.has_errors() && !faults.to_string().is_empty());
            }
        }
    }
}
