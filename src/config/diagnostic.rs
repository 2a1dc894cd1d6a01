//! Faults with their places, drawn as a compiler draws them.
//!
//! A [`Diagnostic`] says what is wrong, where it stands and what to write instead; [`Diagnostics`] holds all
//! that one file gave rise to, in file order. It judges nothing and prints nothing: the caller renders it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// A range of bytes in the text of the file, start included, end excluded.
pub type Span = Range<usize>;

/// Most items drawn by one rendering; the rest is counted.
pub const SHOWN_MAX: usize = 50;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but the user may have meant something else.
    Warning,
}

/// Whether a rendering carries terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escape sequences.
    Always,
}

/// One fault or doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong: names the key, what was expected and what was found.
    pub message: String,
    /// Where it stands; absent when the fault is not in the text (a file that cannot be read).
    pub place: Option<Span>,
    /// A few words beside the caret; may be empty.
    pub label: String,
    /// A second place that belongs to the fault, with a few words of its own.
    pub context: Option<(Span, String)>,
    /// What to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place; the other methods add to it.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            label: String::new(),
            context: None,
            help: None,
        }
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// The same at `place`, with `label` beside the caret.
    pub fn at(self, place: Span, label: impl Into<String>) -> Self {
        Self { place: Some(place), label: label.into(), ..self }
    }

    /// The same with a second place.
    pub fn with_context(self, place: Span, label: impl Into<String>) -> Self {
        Self { context: Some((place, label.into())), ..self }
    }

    /// The same with what to write instead.
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// The texts that places are in: a file's, and behind it a command line's.
///
/// Bytes of the command line count from one behind the end of the file's text, so that one number says both
/// which text and where in it.
#[derive(Clone, Debug)]
pub struct Texts {
    file_name: Arc<str>,
    text: Arc<str>,
    command_line: Arc<str>,
}

impl Texts {
    /// What a place in the command line is shown as.
    const COMMAND_LINE: &'static str = "command line";

    /// `text`, which was read from `file_name`, and the command line that goes with it.
    pub fn new(file_name: &str, text: &str, command_line: &str) -> Self {
        let text = masked(text).into();
        Self { file_name: file_name.into(), text, command_line: command_line.into() }
    }

    /// Where the bytes of the command line start behind a file of `text`.
    pub fn command_line_start(text: &str) -> usize {
        text.len() + 1
    }

    /// The text that `place` is in, its name, and how far its bytes are shifted.
    fn find(&self, place: &Span) -> (&str, &str, usize) {
        let shift = Self::command_line_start(&self.text);
        if place.start >= shift && !self.command_line.is_empty() {
            (&self.command_line, Self::COMMAND_LINE, shift)
        } else {
            (&self.text, &self.file_name, 0)
        }
    }

    /// Clamps `span` to its text, to whole characters and to its first line.
    fn first_line_of(&self, span: &Span) -> Span {
        let (text, _, shift) = self.find(span);
        let start = floor_boundary(text, span.start.saturating_sub(shift));
        let end = floor_boundary(text, span.end.saturating_sub(shift)).max(start);
        let line = text.get(start..end).unwrap_or_default();
        let length = line.find(['\n', '\r']).unwrap_or(line.len());
        shift + start..shift + start + length
    }
}

/// `text` with stars in place of what stands before an `@` as a user name and a password do, byte for byte, so
/// that places stay where they are.
fn masked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (at, _) in text.match_indices('@') {
        let before = text.get(..at).unwrap_or_default();
        let begin = before.rfind(|c: char| c.is_whitespace() || "/'\"`,{}[]".contains(c));
        let behind = |at: usize| {
            before.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8())
        };
        let begin = begin.map_or(0, behind);
        let has_scheme = before.get(..begin).is_some_and(|before| before.ends_with("://"));
        if has_scheme || before.get(begin..).is_some_and(|name| name.contains(':')) {
            bytes.iter_mut().take(at).skip(begin).for_each(|byte| *byte = b'*');
        }
    }
    // Whole characters have become stars.
    String::from_utf8(bytes).unwrap_or_default()
}

impl Default for Texts {
    fn default() -> Self {
        Self::new("", "", "")
    }
}

/// Everything found wrong with one file, in file order.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    texts: Texts,
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No fault yet in `text`, which was read from `file_name`.
    pub fn new(file_name: &str, text: &str) -> Self {
        Self::in_texts(Texts::new(file_name, text, ""))
    }

    /// No fault yet in `texts`.
    pub fn in_texts(texts: Texts) -> Self {
        Self { texts, items: Vec::new() }
    }

    /// Adds one; its spans are clamped to the text, to whole characters and to their first line.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.extend([diagnostic]);
    }

    /// Adds each of `diagnostics`.
    pub fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        let texts = &self.texts;
        self.items.extend(diagnostics.into_iter().map(|mut item| {
            item.place = item.place.map(|span| texts.first_line_of(&span));
            item.context = item.context.map(|(span, label)| (texts.first_line_of(&span), label));
            item
        }));
        // A stable sort: what stands at one place stays in the order of finding.
        self.items.sort_by_key(|item| item.place.as_ref().map_or(0, |span| span.start));
    }

    /// The same without the warnings.
    pub fn without_warnings(mut self) -> Self {
        self.items.retain(|item| item.severity == Severity::Error);
        self
    }

    /// Whether there is neither error nor warning.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether there is an error among them.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// All of them, in file order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// The errors, in file order.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter().filter(|item| item.severity == Severity::Error)
    }

    /// The warnings, in file order.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter().filter(|item| item.severity == Severity::Warning)
    }

    /// All of them as text for a terminal: file, line and column, the line itself, a caret, the help. Items
    /// are parted by an empty line; there is no line end after the last one.
    pub fn render(&self, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Never => Renderer::plain(),
            Colour::Always => Renderer::styled(),
        };
        let shown = self.items.iter().take(SHOWN_MAX);
        let mut drawings: Vec<String> = shown.map(|item| renderer.render(&[self.group(item)])).collect();
        if let Some(more) = self.items.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            drawings.push(format!("... and {more} more"));
        }
        drawings.join("\n\n")
    }

    fn group<'a>(&'a self, item: &'a Diagnostic) -> Group<'a> {
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let group = level.primary_title(item.message.as_str());
        let group = match &item.place {
            Some(place) => {
                let (text, name, shift) = self.texts.find(place);
                let snippet = Snippet::source(text).path(name).annotation(annotation(
                    AnnotationKind::Primary,
                    place,
                    shift,
                    &item.label,
                ));
                match item.context.as_ref().map(|(span, label)| (span, label, self.texts.find(span))) {
                    Some((span, label, (_, other, shift))) if other == name => group
                        .element(snippet.annotation(annotation(AnnotationKind::Context, span, shift, label))),
                    Some((span, label, (text, other, shift))) => group.element(snippet).element(
                        Snippet::source(text).path(other).annotation(annotation(
                            AnnotationKind::Context,
                            span,
                            shift,
                            label,
                        )),
                    ),
                    None => group.element(snippet),
                }
            }
            None if self.texts.file_name.is_empty() => group.element(Origin::path(Texts::COMMAND_LINE)),
            None => group.element(Origin::path(&*self.texts.file_name)),
        };
        match &item.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }
    }

    /// The line, from 1, in the file where `diagnostic` stands; absent without a place in the file.
    pub fn line_of(&self, diagnostic: &Diagnostic) -> Option<usize> {
        let place = diagnostic.place.as_ref()?;
        let (text, name, shift) = self.texts.find(place);
        let before = text.get(..place.start - shift)?;
        (name != Texts::COMMAND_LINE).then(|| before.matches('\n').count() + 1)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(Colour::Never))
    }
}

impl std::error::Error for Diagnostics {}

fn annotation<'a>(kind: AnnotationKind, span: &Span, shift: usize, label: &'a str) -> Annotation<'a> {
    let annotation = kind.span(span.start.saturating_sub(shift)..span.end.saturating_sub(shift));
    if label.is_empty() { annotation } else { annotation.label(label) }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_in_file_order_whatever_the_order_of_finding() {
        let mut diagnostics = Diagnostics::new("a.yaml", "one: 1\ntwo: 2\n");
        diagnostics.push(Diagnostic::error("second").at(7..10, ""));
        diagnostics.push(Diagnostic::warning("first").at(0..3, ""));
        let messages: Vec<&str> = diagnostics.iter().map(|item| item.message.as_str()).collect();
        assert_eq!(messages, ["first", "second"]);
        assert_eq!(diagnostics.errors().count(), 1);
        assert_eq!(diagnostics.warnings().count(), 1);
        assert!(diagnostics.has_errors());
    }

    #[test]
    fn a_span_that_is_out_of_place_is_drawn_all_the_same() {
        let mut diagnostics = Diagnostics::new("a.yaml", "clé: \u{1}\t1\r\nb: 2");
        for (start, end) in [(0, 900), (3, 4), (4, 3), (900, 901), (15, 15)] {
            diagnostics.push(Diagnostic::error("odd").at(start..end, "here").with_help("none"));
        }
        assert!(diagnostics.render(Colour::Never).contains("a.yaml:1:"));
        assert!(diagnostics.render(Colour::Always).contains('\u{1b}'));
    }

    #[test]
    fn what_is_too_much_to_draw_is_counted() {
        let mut diagnostics = Diagnostics::new("a.yaml", "a: 1\n");
        for _ in 0..SHOWN_MAX + 3 {
            diagnostics.push(Diagnostic::error("again").at(0..1, ""));
        }
        let drawing = diagnostics.to_string();
        assert_eq!(drawing.matches("error: again").count(), SHOWN_MAX);
        assert!(drawing.ends_with("... and 3 more"), "{drawing}");
    }

    #[test]
    fn a_fault_outside_the_text_names_the_file() {
        let mut diagnostics = Diagnostics::new("gone.yaml", "");
        diagnostics.push(Diagnostic::error("the file does not exist").with_help("check the path"));
        let drawing = diagnostics.to_string();
        assert!(drawing.contains("gone.yaml") && drawing.contains("check the path"), "{drawing}");
    }
}
