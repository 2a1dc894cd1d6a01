//! One line of a page at a time: help, type, or a sample. Nothing is grouped here.

use crate::prometheus::{Fault, ReadError};
use std::borrow::Cow;

/// Characters of a faulty line that are shown.
const SHOWN_CHARS: usize = 60;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'a> {
    /// `# EOF`.
    End,
    /// `# HELP name text`, escapes resolved.
    Help {
        /// Of which family.
        name: &'a str,
        /// The text.
        text: Cow<'a, str>,
    },
    /// `# TYPE name kind`.
    Kind {
        /// Of which family.
        name: &'a str,
        /// As written.
        kind: &'a str,
    },
    /// `name{labels} value`; time stamps and exemplars are left out.
    Sample {
        /// As written.
        name: &'a str,
        /// In the order of the line.
        labels: Vec<(&'a str, Cow<'a, str>)>,
        /// May be infinite or not a number.
        value: f64,
    },
}

/// The lines of `text` that say something.
pub fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, ReadError>> {
    text.split('\n').enumerate().filter_map(|(number, line)| {
        let line = line.trim();
        let said = if line.is_empty() {
            None
        } else if let Some(comment) = line.strip_prefix('#') {
            comment_line(comment).map(Ok)
        } else {
            Some(sample_line(line))
        };
        said.map(|said| {
            said.map_err(|why| ReadError {
                line: number + 1,
                why,
                shown: line.chars().take(SHOWN_CHARS).collect(),
            })
        })
    })
}

/// Help and type; any other comment says nothing.
fn comment_line(comment: &str) -> Option<Line<'_>> {
    let comment = comment.trim_start();
    let (word, rest) = comment.split_once([' ', '\t']).unwrap_or((comment, ""));
    let rest = rest.trim_start();
    let (name, text) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    match word {
        "EOF" => Some(Line::End),
        "HELP" if !name.is_empty() => Some(Line::Help { name, text: unescaped(text, Escapes::Help) }),
        "TYPE" if !name.is_empty() => Some(Line::Kind { name, kind: text.trim() }),
        _ => None,
    }
}

fn sample_line(line: &str) -> Result<Line<'_>, Fault> {
    let end = line.find(|c: char| !is_name_char(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        // A page that begins with `{` is JSON more often than a name in quotes.
        return Err(if rest.starts_with('{') { Fault::Labels } else { Fault::Name });
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None if end < line.len() && rest.len() == line.len() - end => return Err(Fault::Name),
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next().ok_or(Fault::Value)?;
    let value = value.parse().map_err(|_| Fault::Value)?;
    Ok(Line::Sample { name, labels, value })
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

type ReadLabels<'a> = (Vec<(&'a str, Cow<'a, str>)>, &'a str);

/// The labels behind `{`, and what follows `}`.
fn labels(mut rest: &str) -> Result<ReadLabels<'_>, Fault> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok((labels, behind));
        }
        let (name, behind) = rest.split_once('=').ok_or(Fault::Labels)?;
        let name = name.trim();
        let named = !name.is_empty() && name.chars().all(|c| is_name_char(c) || c == '.' || c == '-');
        let inside = behind.trim_start().strip_prefix('"').filter(|_| named).ok_or(Fault::Labels)?;
        let end = closing_quote(inside).ok_or(Fault::Labels)?;
        let (text, behind) = inside.split_at(end);
        labels.push((name, unescaped(text, Escapes::Label)));
        rest = behind.strip_prefix('"').unwrap_or(behind);
        if !rest.trim_start().starts_with([',', '}']) {
            return Err(Fault::Labels);
        }
    }
}

/// Where the quote stands that no backslash takes back.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// Where a text stands decides which escapes it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Help,
    Label,
}

fn unescaped(text: &str, escapes: Escapes) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('\\') | None => plain.push('\\'),
            Some('"') if escapes == Escapes::Label => plain.push('"'),
            Some(other) => plain.extend(['\\', other]),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<Result<Line<'_>, Fault>> {
        lines(line).next().map(|line| line.map_err(|error| error.why))
    }

    #[expect(clippy::unnecessary_wraps, reason = "what `one` gives")]
    fn sample<'a>(
        name: &'a str,
        labels: &[(&'a str, &'a str)],
        value: f64,
    ) -> Option<Result<Line<'a>, Fault>> {
        let labels = labels.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))).collect();
        Some(Ok(Line::Sample { name, labels, value }))
    }

    #[test]
    fn a_sample_is_read_whatever_its_blanks() {
        assert_eq!(one("a 3"), sample("a", &[], 3.0));
        assert_eq!(one(" a{ x = \"1\" , } \t 3 1700000000"), sample("a", &[("x", "1")], 3.0));
        assert_eq!(one("a{x=\"}\"}3"), sample("a", &[("x", "}")], 3.0));
        assert_eq!(one("a{} +Inf # {id=\"1\"} 2"), sample("a", &[], f64::INFINITY));
        assert_eq!(one(r#"a{x="\\\"\n\q"} 1"#), sample("a", &[("x", "\\\"\n\\q")], 1.0));
    }

    #[test]
    fn a_line_that_is_no_sample_names_its_fault() {
        for (line, fault) in [
            ("<html>", Fault::Name),
            ("{\"a\": 1}", Fault::Labels),
            ("a{x=1} 3", Fault::Labels),
            ("a{x=\"1} 3", Fault::Labels),
            ("a{x=\"1\"y=\"2\"} 3", Fault::Labels),
            ("a{x=\"1\"", Fault::Labels),
            ("a", Fault::Value),
            ("a{}", Fault::Value),
            ("a b", Fault::Value),
            ("a-b 3", Fault::Name),
            ("1a 3", Fault::Name),
        ] {
            assert_eq!(one(line), Some(Err(fault)), "{line}");
        }
    }

    #[test]
    fn a_fault_tells_its_line_and_no_more_of_it_than_fits() {
        let page = format!("a 1\n\nb {}\n", "x".repeat(500));
        let error = lines(&page).find_map(Result::err);
        assert_eq!(error.as_ref().map(|error| error.line), Some(3));
        assert!(error.is_some_and(|error| error.to_string().len() < 160));
    }

    #[test]
    fn comments_say_nothing_but_help_type_and_end() {
        assert_eq!(one("# EOF"), Some(Ok(Line::End)));
        assert_eq!(one("#TYPE a gauge"), Some(Ok(Line::Kind { name: "a", kind: "gauge" })));
        assert_eq!(one("# HELP a  b"), Some(Ok(Line::Help { name: "a", text: Cow::Borrowed(" b") })));
        for nothing in ["# note", "#", "# HELP", "# UNIT a seconds"] {
            assert_eq!(one(nothing), None, "{nothing}");
        }
    }
}
