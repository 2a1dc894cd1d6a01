//! One run of the program in a directory of its own.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

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

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasor"));
        command
            .current_dir(self.directory.path())
            .env("HF_HUB_CACHE", self.directory.path().join("no-cache"))
            .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"])
            .args(arguments);
        command
    }

    /// Runs to a good end; gives what was said on the way.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}\n{said}", output.status);
        said
    }

    /// Runs and is refused; gives the reason. Nothing may be written.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let Output { status, stderr, .. } = self.command(arguments).output().unwrap();
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

    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Records in the order in which they were planned.
    pub(crate) fn records(&self) -> Vec<Value> {
        let mut records = self.lines("profile_export.jsonl");
        records.sort_by_key(|record| record["metadata"]["session_num"].as_u64().unwrap());
        records
    }

    /// Whether any file of the results holds `text`.
    pub(crate) fn any_file_says(&self, text: &str) -> Option<PathBuf> {
        let mut open = vec![self.path("")];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text) {
                    return Some(path);
                }
            }
        }
        None
    }
}
