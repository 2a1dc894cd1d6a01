//! Where each field of a config stands in its text, for what is found out after reading.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::diagnostic::{Diagnostic, Diagnostics, Span, Texts};

/// The places of all fields that were written.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// By dotted path in `snake_case`: `benchmark.phases.0.rate`.
    spans: Arc<HashMap<String, Span>>,
    texts: Texts,
}

impl Places {
    /// The places `spans` in `texts`.
    pub fn new(spans: HashMap<String, Span>, texts: Texts) -> Self {
        Self { spans: Arc::new(spans), texts }
    }

    /// Where the field at the dotted `path` stands, or the nearest mapping around it that was written.
    pub fn of(&self, path: &str) -> Option<Span> {
        let mut path = path;
        loop {
            if let Some(span) = self.spans.get(path) {
                return Some(span.clone());
            }
            path = path.rsplit_once('.')?.0;
        }
    }

    /// Whether the field at exactly `path` was written.
    pub fn written(&self, path: &str) -> bool {
        self.spans.contains_key(path)
    }

    /// No fault yet, in the same texts.
    pub fn diagnostics(&self) -> Diagnostics {
        Diagnostics::in_texts(self.texts.clone())
    }

    /// `fault` at the place of `path`, if there is one.
    pub fn at(&self, fault: Diagnostic, path: &str, label: &str) -> Diagnostic {
        match self.of(path) {
            Some(span) => fault.at(span, label),
            None => fault,
        }
    }
}
