//! A dataset as written. Distributions that spread are for later.

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, mismatch, not_yet};
use crate::config::scalar::Scalar;
use crate::config::source::Value;
use crate::config::written::require;

/// A synthetic dataset.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its name.
    pub name: Written<String>,
    /// Whether `type` was written.
    pub kind: Written<DatasetKind>,
    /// Number of conversations.
    pub entries: Written<u32>,
    /// Prompt length.
    pub isl: Written<Length>,
    /// Reply length.
    pub osl: Written<Length>,
}

/// Where a dataset comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// Made by phasor.
    Synthetic,
}

/// A length in tokens that is the same for every request.
#[derive(Clone, Debug, PartialEq)]
pub struct Length {
    /// Tokens, rounded up to a whole one.
    pub tokens: u32,
    /// The distribution in AIPerf's normal form.
    pub normal_form: serde_json::Value,
}

pub(super) fn dataset(mut keys: Keys<'_>) -> Dataset {
    let name = keys.key("name").text();
    require(&mut keys, &name, "name");
    let kind = keys.key("type").word(Words {
        known: &[("synthetic", DatasetKind::Synthetic)],
        not_yet: &["file", "public"],
        spelling: Spelling::Exact,
    });
    if kind == Written::Faulty {
        // The keys of another type would only repeat the fault.
        keys.forgive();
        return Dataset { name, kind, entries: Written::Absent, isl: Written::Absent, osl: Written::Absent };
    }
    let entries = keys.key("entries").or_null().whole(1..=u32::MAX);
    let mut isl = length(&mut keys, "isl");
    let mut osl = length(&mut keys, "osl");
    keys.key("sampling").word(Words {
        known: &[("sequential", ())],
        not_yet: &["random", "shuffle"],
        spelling: Spelling::Lenient,
    });
    // The long form wins over the short one.
    keys.key("prompts").or_null().section(|mut keys| {
        let (long_isl, long_osl) = (length(&mut keys, "isl"), length(&mut keys, "osl"));
        isl = if long_isl.is_absent() { isl.clone() } else { long_isl };
        osl = if long_osl.is_absent() { osl.clone() } else { long_osl };
        keys.not_yet(&[
            "block_size",
            "batch_size",
            "cache_bust",
            "corpus",
            "sequence_distribution",
            "random_range_ratio",
            "random_corpus_style",
        ]);
        keys.finish();
    });
    keys.not_yet(&[
        "random_seed",
        "system_prompt",
        "system_prompt_file",
        "prefix_prompts",
        "turns",
        "turn_delay",
        "turn_delay_ratio",
        "images",
        "audio",
        "video",
        "rankings",
    ]);
    keys.finish();
    Dataset { name, kind, entries, isl, osl }
}

const TOKENS: Bound = Bound::Within(1.0, u32::MAX as f64);

/// A number, `{value: n}` or `{mean: n}`: distributions that spread are for later.
fn length(keys: &mut Keys<'_>, name: &'static str) -> Written<Length> {
    let Written::Present(Spanned { key, span, value: (node, path) }) = keys.key(name).or_null().node() else {
        return Written::Absent;
    };
    let written = match &node.value {
        Value::Scalar(Scalar::Integer(_) | Scalar::Float(_)) => keys
            .key(name)
            .number(TOKENS)
            .value()
            .map(|tokens| (*tokens, serde_json::json!({ "value": tokens }))),
        Value::Mapping(_) => {
            let read = keys.key(name).section(distribution);
            read.value().cloned().flatten()
        }
        Value::Scalar(_) | Value::Sequence(_) => {
            keys.fault(
                mismatch(&path, "a number of tokens", node, &span)
                    .with_help(format!("write for example `{name}: 512`, without quotes")),
            );
            None
        }
    };
    written.map_or(Written::Faulty, |(tokens, normal_form)| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the bound keeps it within 1 to u32::MAX"
        )]
        let tokens = tokens.ceil() as u32;
        Written::Present(Spanned { key, span, value: Length { tokens, normal_form } })
    })
}

fn distribution(mut keys: Keys<'_>) -> Option<(f64, serde_json::Value)> {
    const SPREADING: &[&str] = &["peaks", "points", "median"];
    if SPREADING.iter().any(|name| keys.has(name)) {
        keys.not_yet(SPREADING);
        // The other keys of such a distribution would only repeat the fault.
        keys.forgive();
        return None;
    }
    keys.key("type").word(Words {
        known: &[("fixed", ()), ("normal", ())],
        not_yet: &["lognormal", "multimodal", "empirical"],
        spelling: Spelling::Exact,
    });
    keys.not_yet(&["min", "max"]);
    let value = keys.key("value").number(TOKENS);
    let mean = keys.key("mean").number(TOKENS);
    let deviation = keys.key("stddev").number(Bound::AtLeast(0.0));
    if let Some(spread) = deviation.present().filter(|deviation| deviation.value > 0.0) {
        let path = format!("{}.stddev", keys.path());
        keys.fault(not_yet(&path, &spread.span).with_help("write `stddev: 0`, or take it out"));
    }
    let read = match (&value, &mean) {
        (Written::Absent, Written::Absent) => {
            let (path, place) = (keys.path().to_owned(), keys.place());
            keys.fault(
                Diagnostic::error(format!("`{path}` has neither `value` nor `mean`"))
                    .at(place, "no number of tokens")
                    .with_help("write a number, or `{mean: 512}`"),
            );
            None
        }
        (Written::Present(value), _) => Some((value.value, serde_json::json!({ "value": value.value }))),
        (_, Written::Present(mean)) => {
            let mut form = serde_json::json!({ "mean": mean.value });
            if let (Some(deviation), Some(form)) = (deviation.value(), form.as_object_mut()) {
                form.insert("stddev".to_owned(), (*deviation).into());
            }
            Some((mean.value, form))
        }
        (Written::Faulty | Written::Absent, Written::Faulty | Written::Absent) => None,
    };
    keys.finish();
    read
}
