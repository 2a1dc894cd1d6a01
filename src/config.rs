//! From a YAML file to what is meant.
//!
//! A file passes three stages, each a type of its own: [`source`] keeps the text and its nodes with their
//! positions, [`written`] is what the user wrote (spans, nothing filled in), [`Config`] is what is meant
//! (defaults filled in, names checked, durations in nanoseconds). Every fault found on the way is a
//! [`Diagnostic`] with a place; all of them are reported at once. It opens no socket and runs nothing.

pub mod diagnostic;
pub mod directory;
pub mod environment;
pub mod expand;
pub mod keys;
pub mod lax;
pub mod meant;
pub mod phases;
pub mod places;
pub mod resolved;
pub mod scalar;
pub mod sections;
pub mod shape;
pub mod source;
pub mod support;
pub mod templates;
pub mod url;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use diagnostic::{Span, Texts};
use keys::Reading;
use source::Node;

pub use diagnostic::{Colour, Diagnostic, Diagnostics, Severity};
pub use expand::Variation;
pub use meant::{
    AdaptiveScale, Artifacts, CacheBust, Cancellation, Config, Control, Dataset, DatasetSource, Distribution,
    Endpoint, EndpointKind, FileDataset, GpuTelemetry, IterationOrder, LengthMix, Load, LogLevel, Model,
    ModelStrategy, Models, MultiRun, Phase, PhaseKind, Prefix, Prompts, PublicDataset, Ramp, RampStrategy,
    RatePoint, Reuse, Runtime, Sampling, ServerMetrics, Shape, SlaRule, StopRules, Sweep, SweepKind,
    SyntheticDataset, SystemPrompt, TimingMode, Tokenizer, Ui, Url, Weighted,
};

/// A config that can be run, and what the user may want to know about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is meant.
    pub config: Config,
    /// The runs that it means: one, or the variations of its sweep.
    pub variations: Vec<Variation>,
    /// Warnings only.
    pub warnings: Diagnostics,
}

/// A text to be read, and what it is read with.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// What the text is called in messages.
    pub file_name: &'s str,
    /// The YAML.
    pub text: &'s str,
    /// Looks variables of the environment up.
    pub variables: &'s environment::Variables<'s>,
    /// Where relative paths start; absent: the working directory.
    pub directory: Option<&'s Path>,
}

/// Reads and converts the file at `path`.
///
/// # Errors
/// Every fault of the file, or the one that kept it from being read.
pub fn load(path: &Path) -> Result<Loaded, Diagnostics> {
    let file_name = path.display().to_string();
    let unreadable = |message: String, help: &str| {
        let mut diagnostics = Diagnostics::new(&file_name, "");
        diagnostics.push(Diagnostic::error(message).with_help(help));
        diagnostics
    };
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unreadable("the config file does not exist".to_owned(), "check the path"),
        io::ErrorKind::IsADirectory => {
            unreadable("the config path is a directory".to_owned(), "name the YAML file in it")
        }
        _ => unreadable(format!("the config file cannot be read: {error}"), "check its permissions"),
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("the config file is not UTF-8: byte {at} does not fit"), "save it as UTF-8")
    })?;
    parse(&file_name, &text)
}

/// Converts `text`, which was read from `file_name`.
///
/// # Errors
/// Every fault of the text.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Diagnostics> {
    let variables = |name: &str| std::env::var(name).ok();
    read(&Source { file_name, text, variables: &variables, directory: None })
}

/// Converts the text of `source`.
///
/// # Errors
/// Every fault of the text.
pub fn read(source: &Source<'_>) -> Result<Loaded, Diagnostics> {
    // A byte order mark is no part of the document.
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(source.text);
    let texts = Texts::new(source.file_name, text, "");
    let trees = trees(text, &texts, source.variables)?;
    convert(trees, &texts, source)
}

/// A document as written and with its templates rendered; short forms are expanded in both.
struct Trees {
    rendered: Node,
    raw: Node,
    /// Doubts noticed on the way.
    doubts: Vec<Diagnostic>,
}

fn trees(text: &str, texts: &Texts, variables: &environment::Variables<'_>) -> Result<Trees, Diagnostics> {
    let failed = |faults: Vec<Diagnostic>| {
        let mut diagnostics = Diagnostics::in_texts(texts.clone());
        diagnostics.extend(faults);
        // Doubts about a config that has to change anyway would only hide the faults.
        diagnostics.without_warnings()
    };
    let mut raw = source::read(text).map_err(failed)?;
    let mut faults = Vec::new();
    shape::move_flat_sections(&mut raw, &mut faults);
    environment::substitute(&mut raw, variables, &mut faults);
    if has_errors(&faults) {
        return Err(failed(faults));
    }
    let mut rendered = raw.clone();
    templates::render(&mut rendered, &mut faults);
    if has_errors(&faults) {
        return Err(failed(faults));
    }
    shape::expand(&mut rendered, &mut faults);
    // The same faults again.
    shape::expand(&mut raw, &mut Vec::new());
    Ok(Trees { rendered, raw, doubts: faults })
}

fn has_errors(faults: &[Diagnostic]) -> bool {
    faults.iter().any(|fault| fault.severity == Severity::Error)
}

fn convert(trees: Trees, texts: &Texts, source: &Source<'_>) -> Result<Loaded, Diagnostics> {
    let mut reading = Reading::within(source.directory.map_or_else(PathBuf::new, Path::to_path_buf));
    reading.faults = trees.doubts;
    let config = sections::read(&trees.rendered, texts, &mut reading);
    reading.faults.extend(notice(&reading.unused));
    let mut diagnostics = Diagnostics::in_texts(texts.clone());
    let failed = has_errors(&reading.faults);
    diagnostics.extend(std::mem::take(&mut reading.faults));
    match config {
        Some(config) if !failed => match expand::expand(&config, &trees.raw, texts, &reading) {
            Ok(variations) => Ok(Loaded { config, variations, warnings: diagnostics }),
            Err(faults) => {
                diagnostics.extend(faults);
                Err(diagnostics.without_warnings())
            }
        },
        Some(_) | None => {
            if !failed {
                // Every way to no config reports its fault; this one says so if one day it does not.
                diagnostics
                    .push(Diagnostic::error("the config cannot be used, for a reason that was not reported"));
            }
            Err(diagnostics.without_warnings())
        }
    }
}

/// The seed of trial `trial`, from 0, of a variation.
pub fn trial_seed(variation: &Variation, trial: u32) -> Option<u64> {
    use sha2::{Digest as _, Sha256};
    let seed = variation.config.random_seed?;
    if !variation.config.multi_run.vary_seed_per_trial {
        return Some(seed);
    }
    let digest = Sha256::digest(format!("{seed}:variation:{}:trial:{trial}", variation.label));
    let first = digest.iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    Some(first & (u64::MAX >> 1))
}

/// One notice about all keys that do nothing here.
fn notice(unused: &[(String, Span)]) -> Option<Diagnostic> {
    let (_, place) = unused.first()?;
    let names: Vec<String> = unused.iter().map(|(path, _)| format!("`{path}`")).collect();
    Some(
        Diagnostic::warning(format!(
            "not used: {} belongs to parts of AIPerf that phasor does not have and that do not touch the load",
            names.join(", ")
        ))
        .at(place.clone(), "not used"),
    )
}
