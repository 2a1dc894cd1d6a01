//! From a YAML file to what is meant.
//!
//! A file passes three stages, each a type of its own: [`source`] keeps the text and its nodes with their
//! positions, [`keys`] read them field by field, [`Config`] is what is meant
//! (defaults filled in, names checked, durations in nanoseconds). Every fault found on the way is a
//! [`Diagnostic`] with a place; all of them are reported at once. It opens no socket and runs nothing.

pub mod check;
pub mod diagnostic;
pub mod directory;
pub mod environment;
pub mod expand;
pub mod flags;
pub mod keys;
pub mod lax;
pub mod meant;
pub mod phases;
pub mod places;
pub mod resolved;
pub mod scalar;
pub mod schema;
pub mod sections;
pub mod shape;
pub mod source;
pub mod support;
pub mod templates;
pub mod url;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use diagnostic::{Span, Texts};
use keys::Reading;
use source::Node;

pub use diagnostic::{Colour, Diagnostic, Diagnostics, Severity};
pub use expand::Variation;
pub use meant::{
    AdaptiveScale, Artifacts, CacheBust, Cancellation, Config, Control, Dataset, DatasetSource, Dimension,
    Direction, Distribution, Endpoint, EndpointKind, FileDataset, GpuCollector, GpuMode, GpuTelemetry,
    IterationOrder, LengthMix, Load, LogLevel, MetricsFormat, Model, ModelStrategy, Models, MultiRun,
    Objective, Phase, PhaseKind, Prefix, Prompts, PublicDataset, Ramp, RampStrategy, RatePoint, Reuse,
    Runtime, Sampling, Search, ServerMetrics, Shape, SlaRule, StepPolicy, StopRules, Sweep, SweepKind,
    SyntheticDataset, SystemPrompt, TimingMode, Tokenizer, Ui, Url, Weighted,
};

/// A config that can be run, and what the user may want to know about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is meant.
    pub config: Config,
    /// The runs that it means: one, or the variations of its sweep.
    pub variations: Vec<Variation>,
    /// Makes the variations of a sweep that chooses them while running; absent for all others.
    pub expander: Option<Box<expand::Expander>>,
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
    /// What was given beside or instead of a file.
    pub command_line: Option<&'s CommandLine>,
    /// Whether there is a text; without one the command line alone says what is meant.
    pub has_file: bool,
}

impl<'s> Source<'s> {
    /// A text with nothing beside it.
    pub const fn file(file_name: &'s str, text: &'s str, variables: &'s environment::Variables<'s>) -> Self {
        Self { file_name, text, variables, directory: None, command_line: None, has_file: true }
    }
}

/// Flags given on a command line.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// The line as it is shown, secrets masked.
    pub text: String,
    /// The flags; their places are bytes of `text`.
    pub given: Vec<flags::Given>,
}

/// Reads and converts the file at `path`.
///
/// # Errors
/// Every fault of the file, or the one that kept it from being read.
pub fn load(path: &Path) -> Result<Loaded, Diagnostics> {
    load_with(Some(path), None)
}

/// Reads and converts the file at `path`, `-` being standard input, with what the command line says; without
/// a path the command line alone says what is meant.
///
/// # Errors
/// Every fault of both, or the one that kept the file from being read.
pub fn load_with(path: Option<&Path>, command_line: Option<&CommandLine>) -> Result<Loaded, Diagnostics> {
    let file_name = path.map(|path| path.display().to_string()).unwrap_or_default();
    let text = match path {
        Some(path) => text_of(path).map_err(|fault| {
            let mut diagnostics = Diagnostics::new(&file_name, "");
            diagnostics.push(*fault);
            diagnostics
        })?,
        None => String::new(),
    };
    let variables = |name: &str| std::env::var(name).ok();
    let source = Source::file(&file_name, &text, &variables);
    read(&Source { command_line, has_file: path.is_some(), ..source })
}

fn text_of(path: &Path) -> Result<String, Box<Diagnostic>> {
    let unreadable = |error: io::Error| {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => {
                Diagnostic::error("the config file does not exist").with_help("check the path")
            }
            io::ErrorKind::IsADirectory => {
                Diagnostic::error("the config path is a directory").with_help("name the YAML file in it")
            }
            _ => Diagnostic::error(format!("the config file cannot be read: {error}"))
                .with_help("check its permissions"),
        };
        Box::new(fault)
    };
    // One byte more than a config may have tells that it is too long, however long it is.
    let limit = source::TEXT_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        fs::File::open(path).map_err(unreadable)?.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    if bytes.len() > source::TEXT_BYTES_MAX {
        return Err(Diagnostic::error(format!(
            "the config file has more than the {} bytes that a config may have",
            source::TEXT_BYTES_MAX
        ))
        .with_help("name the YAML file")
        .into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Diagnostic::error(format!("the config file is not UTF-8: byte {at} does not fit"))
            .with_help("save it as UTF-8")
            .into()
    })
}

/// Converts `text`, which was read from `file_name`.
///
/// # Errors
/// Every fault of the text.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Diagnostics> {
    let variables = |name: &str| std::env::var(name).ok();
    read(&Source::file(file_name, text, &variables))
}

/// Converts the text of `source`.
///
/// # Errors
/// Every fault of the text.
pub fn read(source: &Source<'_>) -> Result<Loaded, Diagnostics> {
    // A byte order mark is no part of the document.
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(source.text);
    let Some(command_line) = source.command_line else {
        let texts = Texts::new(source.file_name, text, "");
        return convert(trees(text, &texts, source.variables)?, &texts, source);
    };
    let texts = Texts::new(source.file_name, text, &command_line.text);
    let shift = Texts::command_line_start(text);
    let given: Vec<flags::Given> = command_line.given.iter().map(|given| given.shifted(shift)).collect();
    let mut faults = Vec::new();
    flags::check(&given, source.has_file, &mut faults);
    if has_errors(&faults) {
        return Err(failed(&texts, faults));
    }
    let end = shift + command_line.text.len()..shift + command_line.text.len();
    let mut trees = if source.has_file {
        trees(text, &texts, source.variables)?
    } else {
        let mut document = flags::document(&given, &end);
        let directory = source.directory.map_or_else(PathBuf::new, Path::to_path_buf);
        flags::promote(&mut document, &given, &directory, &mut faults);
        Trees { rendered: document.clone(), raw: document, doubts: Vec::new() }
    };
    trees.doubts.append(&mut faults);
    flags::apply_early(&mut trees.edited(), &given, &mut faults);
    if source.has_file && !has_errors(&faults) {
        // A file must be valid by itself, before the flags of the load are looked at.
        let mut reading = source.reading();
        sections::read(&trees.rendered, &texts, &mut reading);
        if has_errors(&reading.faults) {
            return Err(failed(&texts, reading.faults));
        }
    }
    flags::apply_late(&mut trees.edited(), &given, source.has_file, &mut faults);
    if !source.has_file {
        flags::complete(&mut trees.raw, &given, &end, &mut Vec::new());
        flags::complete(&mut trees.rendered, &given, &end, &mut faults);
    }
    if has_errors(&faults) {
        return Err(failed(&texts, faults));
    }
    trees.doubts.append(&mut faults);
    convert(trees, &texts, source)
}

/// The errors among `faults`: doubts about a config that has to change anyway would only hide them.
fn failed(texts: &Texts, faults: Vec<Diagnostic>) -> Diagnostics {
    let mut diagnostics = Diagnostics::in_texts(texts.clone());
    diagnostics.extend(faults);
    diagnostics.without_warnings()
}

impl Source<'_> {
    fn reading(&self) -> Reading {
        Reading::within(self.directory.map_or_else(PathBuf::new, Path::to_path_buf))
    }
}

impl Trees {
    fn edited(&mut self) -> flags::Edited<'_> {
        flags::Edited { rendered: &mut self.rendered, raw: &mut self.raw }
    }
}

/// A document as written and with its templates rendered; short forms are expanded in both.
struct Trees {
    rendered: Node,
    raw: Node,
    /// Doubts noticed on the way.
    doubts: Vec<Diagnostic>,
}

fn trees(text: &str, texts: &Texts, variables: &environment::Variables<'_>) -> Result<Trees, Diagnostics> {
    let mut raw = source::read(text).map_err(|faults| failed(texts, faults))?;
    let mut faults = Vec::new();
    shape::move_flat_sections(&mut raw, &mut faults);
    environment::substitute(&mut raw, variables, &mut faults);
    if has_errors(&faults) {
        return Err(failed(texts, faults));
    }
    let mut rendered = raw.clone();
    templates::render(&mut rendered, &mut faults);
    if has_errors(&faults) {
        return Err(failed(texts, faults));
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
    let mut reading = source.reading();
    reading.faults = trees.doubts;
    let config = sections::read(&trees.rendered, texts, &mut reading);
    reading.faults.extend(notice(&reading.unused));
    let mut diagnostics = Diagnostics::in_texts(texts.clone());
    let failed = has_errors(&reading.faults);
    diagnostics.extend(std::mem::take(&mut reading.faults));
    match config {
        Some(config) if !failed => match expand::expand(&config, &trees.raw, texts, &reading) {
            Ok(variations) => {
                let expander = expand::Expander::of(&config, &trees.raw, texts, &reading).map(Box::new);
                Ok(Loaded { config, variations, expander, warnings: diagnostics })
            }
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
