//! The floors of the house (see `src/lib.rs`): which module may use which, where unsafe code and the clock
//! may stand, and how long a file may be.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Module, and the modules of this crate that it may use besides itself.
const ALLOWED: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("rng", &[]),
    ("prometheus", &[]),
    ("config", &["time"]),
    ("tokenizer", &[]),
    ("endpoint", &["time", "config"]),
    ("dataset", &["time", "rng", "config", "endpoint", "tokenizer"]),
    ("schedule", &["time", "rng", "config"]),
    ("wire", &["time", "config", "endpoint"]),
    ("measure", &["time", "wire"]),
    ("telemetry", &["config", "prometheus"]),
    ("adaptive", &["time", "config", "measure"]),
    ("plan", &["time", "rng", "config", "dataset", "schedule", "adaptive"]),
    (
        "engine",
        &["time", "rng", "config", "endpoint", "dataset", "schedule", "wire", "measure", "adaptive", "plan"],
    ),
    ("shard", &["time", "plan", "engine", "measure", "adaptive"]),
    (
        "run",
        &[
            "time",
            "rng",
            "config",
            "tokenizer",
            "endpoint",
            "dataset",
            "schedule",
            "wire",
            "measure",
            "adaptive",
            "plan",
            "engine",
            "shard",
            "artifact",
            "prometheus",
            "telemetry",
        ],
    ),
    ("artifact", &["time", "config", "dataset", "measure", "adaptive", "plan", "prometheus", "telemetry"]),
    ("mock", &["time", "rng", "wire", "shard", "telemetry"]),
    ("cli", &["time", "config", "dataset", "measure", "plan", "run", "artifact", "mock", "shard"]),
];

/// Longest file, in lines.
const LINES_MAX: usize = 700;

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    assert!(paths.len() > 10, "the sources were not found");
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(&root).unwrap();
            let top = inside.components().next().unwrap().as_os_str().to_str().unwrap();
            (top.trim_end_matches(".rs").to_owned(), path, text)
        })
        .collect()
}

/// Code lines, comments taken out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.split("//").next().unwrap_or("")))
        .filter(|(_, line)| !line.trim().is_empty())
}

#[test]
fn every_edge_between_modules_is_in_the_table() {
    let mut faults = Vec::new();
    let mut edges = 0;
    for (module, path, text) in sources() {
        if module == "lib" || module == "main" {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == module) else {
            faults.push(format!("{}: module `{module}` is not in the table", path.display()));
            continue;
        };
        for (number, line) in code(&text) {
            for used in line.split("crate::").skip(1) {
                let name: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if name.is_empty() {
                    faults.push(format!("{}:{number}: name each module in its own `use`", path.display()));
                    continue;
                }
                edges += 1;
                let known = ALLOWED.iter().any(|(module, _)| *module == name);
                if known && name != module && !allowed.contains(&name.as_str()) {
                    faults.push(format!("{}:{number}: `{module}` may not use `{name}`", path.display()));
                }
            }
        }
    }
    assert!(edges > 20, "the edges were not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unsafe_code_stands_in_shard_sys_alone() {
    let mut faults = Vec::new();
    for (_, path, text) in sources() {
        if path.ends_with("shard/sys.rs") || path.components().any(|part| part.as_os_str() == "sys") {
            continue;
        }
        for (number, line) in code(&text) {
            let line: String = line.split('"').step_by(2).collect();
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if words.contains(&"unsafe") {
                faults.push(format!("{}:{number}: unsafe", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_clock_is_read_in_time_alone() {
    let mut faults = Vec::new();
    for (module, path, text) in sources() {
        if module == "time" {
            continue;
        }
        for (number, line) in code(&text) {
            if ["Instant::now", "SystemTime::now", "clock_gettime", ".elapsed()"]
                .iter()
                .any(|call| line.contains(call))
            {
                faults.push(format!("{}:{number}: a clock is read", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_floors_open_no_socket_and_no_executor() {
    let pure = [
        "time",
        "rng",
        "prometheus",
        "config",
        "tokenizer",
        "endpoint",
        "dataset",
        "schedule",
        "wire",
        "measure",
        "adaptive",
        "telemetry",
        "plan",
        "engine",
    ];
    let mut faults = Vec::new();
    for (module, path, text) in sources() {
        // Rendering bodies before the run is the one thing that a pure floor does on all cores.
        let renders = path.ends_with("dataset/render.rs");
        if !pure.contains(&module.as_str()) {
            continue;
        }
        for (number, line) in code(&text) {
            for word in
                ["glommio", "io_uring", "socket2", "TcpStream", "TcpListener", "std::thread", "libc::"]
            {
                if line.contains(word) && !(renders && word == "std::thread") {
                    faults.push(format!("{}:{number}: {word} on a pure floor", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_person_reads_at_once() {
    let faults: Vec<String> = sources()
        .iter()
        .filter(|(_, _, text)| text.lines().count() > LINES_MAX)
        .map(|(_, path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
