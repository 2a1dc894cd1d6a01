//! The program over real sockets: a directory with a config, the run, and what must hold of its files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "each test program uses its own part")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn phasor() -> Command {
    Command::new(env!("CARGO_BIN_EXE_phasor"))
}

/// The program on the config in `directory`; no tokenizer that happens to be on this machine joins in.
fn command_in(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = phasor();
    command
        .current_dir(directory)
        .env("HF_HUB_CACHE", directory.join("no-cache"))
        .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"])
        .args(arguments);
    command
}

/// Puts a config into `directory`, where others may have been before, and runs the program on it.
pub(crate) fn profile_in(directory: &Path, yaml: &str, arguments: &[&str]) -> Output {
    std::fs::write(directory.join("config.yaml"), yaml).unwrap();
    command_in(directory, arguments).output().unwrap()
}

/// A directory for one test, with its config in it.
pub(crate) struct Run {
    pub(crate) directory: tempfile::TempDir,
}

impl Run {
    pub(crate) fn new(yaml: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.yaml"), yaml).unwrap();
        Self { directory }
    }

    /// Puts a file beside the config.
    pub(crate) fn with(self, name: &str, content: &str) -> Self {
        std::fs::write(self.directory.path().join(name), content).unwrap();
        self
    }

    /// The program on the config.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command_in(self.directory.path(), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs to a good end; gives what was said on the way.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_ok(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs and is refused; gives the reason. Nothing may be written.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let Output { status, stderr, .. } = self.run(arguments);
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(!self.path("").exists(), "a refused run has written something: {said}");
        said
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("out").join(name)
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Records in the order in which they ended.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.lines("profile_export.jsonl")
    }

    /// Records in the order in which they were planned.
    pub(crate) fn planned_records(&self) -> Vec<Value> {
        let mut records = self.records();
        records.sort_by_key(|record| record["metadata"]["session_num"].as_u64().unwrap());
        records
    }

    /// The names of all files of the results.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        walk(&self.path("")).into_iter().collect()
    }

    /// A file of the results that holds `text`.
    pub(crate) fn any_file_says(&self, text: &str) -> Option<PathBuf> {
        let holds = |path: &PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains(text);
        self.files().iter().map(|name| self.path(name)).find(holds)
    }
}

pub(crate) fn head(url: &str) -> String {
    format!(
        "benchmark:\n  model: mock-model\n  endpoint: {{url: '{url}', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 20, prompts: {{isl: 16, osl: 8}}}}\n  phases:\n"
    )
}

pub(crate) fn config(phases: &[&str]) -> String {
    let mut yaml = head("http://127.0.0.1:1");
    for phase in phases {
        yaml.push_str("    - ");
        yaml.push_str(phase);
        yaml.push('\n');
    }
    yaml
}

pub(crate) fn seeded(phases: &[&str]) -> String {
    format!("randomSeed: 42\n{}", config(phases))
}

pub(crate) const QUICK: [&str; 4] = ["--mock-ttft", "2ms", "--mock-itl", "500us"];

pub(crate) fn with_mock<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["--mock"];
    arguments.extend_from_slice(&QUICK);
    arguments.extend_from_slice(more);
    arguments
}

pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

pub(crate) fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// What must hold of the files of any run.
pub(crate) fn check_files(run: &Run) -> Value {
    let report = run.json("client_report.json");
    let records = run.records();
    let mut lines = BTreeMap::<String, u64>::new();
    for record in &records {
        let name = record.pointer("/metadata/phase_name").and_then(Value::as_str).unwrap();
        *lines.entry(name.to_owned()).or_default() += 1;
    }
    for phase in report["phases"].as_array().unwrap() {
        let count = |name: &str| number(phase, &format!("/{name}"));
        let dropped = count("dropped/at_capacity") + count("dropped/late");
        assert_eq!(count("planned"), count("sent") + dropped, "{phase}");
        let ended = count("ok") + count("failed") + count("cancelled") + count("abandoned");
        assert_eq!(count("sent"), ended, "{phase}");
        let name = phase["phase_name"].as_str().unwrap();
        let expected = count("ok") + count("failed") + count("cancelled");
        assert_eq!(lines.get(name).copied().unwrap_or(0), expected, "{name}");
    }
    let identifiers: std::collections::HashSet<&str> =
        records.iter().map(|record| record["metadata"]["x_request_id"].as_str().unwrap()).collect();
    assert_eq!(identifiers.len(), records.len(), "a request is recorded twice");
    for entry in walk(&run.path("")) {
        assert!(!entry.contains("tmp"), "a temporary file is left: {entry}");
    }
    report
}

pub(crate) fn walk(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                names.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    names.sort();
    names
}
