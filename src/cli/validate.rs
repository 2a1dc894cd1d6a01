//! `phasor validate`.

use crate::cli::exit;
use crate::cli::say_all;
use crate::cli::show;
use crate::config;
use crate::config::Diagnostics;
use crate::config::Loaded;
use crate::config::diagnostic::Diagnostic;
use crate::config::resolved;
use crate::measure::Judgement;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `phasor validate`.
#[derive(Debug, Args)]
pub(super) struct ValidateArguments {
    /// The YAML files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print what each file means, one JSON object per file
    #[arg(long)]
    json: bool,
}

/// Checks all files and tells the exit code.
pub(super) fn validate(arguments: &ValidateArguments) -> u8 {
    let mut code = 0;
    for file in &arguments.files {
        match config::load(file) {
            Ok(loaded) => {
                say_all(&loaded.warnings);
                let unjudgeable = unjudgeable(&loaded);
                if unjudgeable.has_errors() {
                    say_all(&unjudgeable);
                    code = exit::FAILED;
                    continue;
                }
                show(&if arguments.json { json(&loaded) } else { line(file, &loaded) });
            }
            Err(faults) => {
                say_all(&faults);
                code = exit::FAILED;
            }
        }
    }
    code
}

/// Objectives that no request can be held against; the config itself does not know the metrics.
fn unjudgeable(loaded: &Loaded) -> Diagnostics {
    let places = &loaded.config.places;
    let mut faults = places.diagnostics();
    for (tag, limit) in loaded.config.slos.iter().flatten() {
        if let Err(error) = Judgement::new([(tag.as_str(), *limit)]) {
            let fault = Diagnostic::error(error.to_string());
            faults.push(places.at(fault, &format!("benchmark.slos.{tag}"), "not judged by it"));
        }
    }
    faults
}

fn line(file: &std::path::Path, loaded: &Loaded) -> String {
    let warnings = loaded.warnings.warnings().count();
    let doubts = match warnings {
        0 => String::new(),
        1 => " with 1 warning".to_owned(),
        several => format!(" with {several} warnings"),
    };
    format!("Configuration valid{doubts}: {}\n", file.display())
}

fn json(loaded: &Loaded) -> String {
    let directory = std::env::current_dir().unwrap_or_default();
    let mut text = resolved::normalized(loaded, &directory).to_string();
    text.push('\n');
    text
}
