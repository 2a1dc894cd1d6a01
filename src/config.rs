//! From a YAML file to what is meant.
//!
//! A file passes three stages, each a type of its own: [`source`] keeps the text and its nodes with their
//! positions, [`written`] is what the user wrote (spans, nothing filled in), [`Config`] is what is meant
//! (defaults filled in, names checked, durations in nanoseconds). Every fault found on the way is a
//! [`Diagnostic`] with a place; all of them are reported at once. It opens no socket and runs nothing.

pub mod conversion;
pub mod diagnostic;
pub mod keys;
pub mod lax;
pub mod meant;
pub mod normal;
pub mod phases;
pub mod scalar;
pub mod shape;
pub mod source;
pub mod url;
pub mod written;

use std::fs;
use std::io;
use std::path::Path;

pub use diagnostic::{Colour, Diagnostic, Diagnostics, Severity};
pub use meant::{
    Artifacts, Cancellation, Config, Endpoint, EndpointKind, Load, Phase, PhaseKind, Prompts, StopRules,
    SyntheticDataset, Url,
};

/// A config that can be run, and what the user may want to know about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is meant.
    pub config: Config,
    /// Warnings only.
    pub warnings: Diagnostics,
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
    // A byte order mark is no part of the document.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut diagnostics = Diagnostics::new(file_name, text);
    let mut root = match source::read(text) {
        Ok(root) => root,
        Err(faults) => {
            diagnostics.extend(faults);
            return Err(diagnostics);
        }
    };
    let mut faults = Vec::new();
    shape::expand(&mut root, &mut faults);
    let config = written::file(&root, &mut faults).and_then(|file| conversion::convert(&file, &mut faults));
    diagnostics.extend(faults);
    match config {
        Some(config) if !diagnostics.has_errors() => Ok(Loaded { config, warnings: diagnostics }),
        Some(_) | None => {
            if !diagnostics.has_errors() {
                // Every way to no config reports its fault; this one says so if one day it does not.
                diagnostics
                    .push(Diagnostic::error("the config cannot be used, for a reason that was not reported"));
            }
            // Doubts about a config that has to change anyway would only hide the faults.
            Err(diagnostics.without_warnings())
        }
    }
}
