//! From a YAML file to what is meant.
//!
//! A file passes three stages, each a type of its own: [`source`] keeps the text and its nodes with their
//! positions, [`written`] is what the user wrote (spans, nothing filled in), [`Config`] is what is meant
//! (defaults filled in, names checked, durations in nanoseconds). Every fault found on the way is a
//! [`Diagnostic`] with a place; all of them are reported at once. It opens no socket and runs nothing.

pub mod diagnostic;
pub mod meant;
pub mod scalar;
pub mod source;
pub mod written;

pub use diagnostic::{Colour, Diagnostic, Diagnostics, Severity};
pub use meant::{
    Artifacts, Cancellation, Config, Endpoint, EndpointKind, Load, Phase, PhaseKind, Prompts, StopRules,
    SyntheticDataset, Url,
};
