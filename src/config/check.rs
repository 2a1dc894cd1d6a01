//! A property of the loader that holds for any bytes at all, shared by the tests and the fuzz target.
//!
//! It is no part of the program.

use crate::config::diagnostic::Colour;
use crate::config::{Source, read, resolved};
use std::path::Path;

/// Loads `data` as a config in an environment without variables: it is either understood, and then has a
/// meaning that can be shown, or refused with a fault that can be. Tells which.
///
/// # Panics
/// When the property is broken.
pub fn loader(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let variables = |_: &str| None;
    match read(&Source::file("fuzz.yaml", text, &variables)) {
        Ok(loaded) => {
            assert!(!loaded.variations.is_empty(), "a config without a run");
            assert!(resolved::normalized(&loaded, Path::new("/")).is_object(), "a config without a meaning");
            true
        }
        Err(faults) => {
            assert!(faults.has_errors(), "refused without a fault");
            assert!(!faults.render(Colour::Never).is_empty(), "a fault that cannot be shown");
            false
        }
    }
}
