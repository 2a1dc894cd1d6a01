//! Faults with their places.

/// One fault or doubt.
#[derive(Clone, Debug)]
pub struct Diagnostic {}

/// Everything found wrong with one file.
#[derive(Clone, Debug)]
pub struct Diagnostics {}
