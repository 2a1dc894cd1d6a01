//! A distribution: a number, or a mapping whose keys tell its law.

use serde_json::json;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, mismatch};
use crate::config::meant::{Distribution, Shape, Weighted};
use crate::config::scalar::Scalar;
use crate::config::sections::NOT_NEGATIVE;
use crate::config::source::Value;

/// The law of a distribution, before its values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Empirical,
    Fixed,
    LogNormal,
    Multimodal,
    Normal,
}

const LAWS: Words<Law> = Words {
    known: &[
        ("fixed", Law::Fixed),
        ("normal", Law::Normal),
        ("lognormal", Law::LogNormal),
        ("multimodal", Law::Multimodal),
        ("empirical", Law::Empirical),
    ],
    spelling: Spelling::Exact,
};

/// The key that tells the law when `type` is not written, in the order in which they are looked for.
const TELLING: &[(&str, Law)] = &[
    ("peaks", Law::Multimodal),
    ("points", Law::Empirical),
    ("median", Law::LogNormal),
    ("stddev", Law::Normal),
    ("value", Law::Fixed),
    ("mean", Law::Normal),
];

/// Any number at all.
const FINITE: Bound = Bound::Finite;

/// Takes the distribution `name`; null is unset.
pub(super) fn distribution(keys: &mut Keys<'_>, name: &'static str) -> Written<Distribution> {
    keys.note_distribution(name);
    let Written::Present(Spanned { key, span, value: (node, path) }) = keys.key(name).or_null().node() else {
        return Written::Absent;
    };
    match &node.value {
        Value::Scalar(Scalar::Integer(_) | Scalar::Float(_)) => {
            let read = keys.key(name).number(FINITE);
            if let Some(value) = read.value() {
                keys.set_form(name, json!({ "value": value }));
            }
            read.map(Distribution::fixed)
        }
        Value::Mapping(_) => match keys.key(name).section(of_mapping) {
            Written::Present(Spanned { value: Some(distribution), .. }) => {
                Written::Present(Spanned { key, span, value: distribution })
            }
            Written::Present(_) | Written::Absent | Written::Faulty => Written::Faulty,
        },
        Value::Scalar(_) | Value::Sequence(_) => {
            keys.fault(
                mismatch(&path, "a number or a distribution", node, &span)
                    .with_help(format!("write for example `{name}: 512`, without quotes")),
            );
            Written::Faulty
        }
    }
}

fn of_mapping(mut keys: Keys<'_>) -> Option<Distribution> {
    let read = law_and_clamps(&mut keys);
    keys.finish();
    read
}

/// Reads all but the unknown keys; a peak has a weight beside these.
fn law_and_clamps(keys: &mut Keys<'_>) -> Option<Distribution> {
    let written = keys.key("type").or_null().word(LAWS);
    let law = match &written {
        Written::Present(law) => law.value,
        Written::Faulty => {
            keys.forgive();
            return None;
        }
        Written::Absent => {
            if let Some((_, law)) = TELLING.iter().find(|(name, _)| keys.has(name)) {
                *law
            } else {
                let (path, place) = (keys.path().to_owned(), keys.place());
                keys.fault(
                Diagnostic::error(format!("`{path}` is no distribution that can be told by its keys"))
                    .at(place, "which law is it?")
                    .with_help(
                        "write a number, `{mean: 512, stddev: 64}`, `{mean, median}`, `{peaks: [...]}` or \
                         `{points: [...]}`",
                    ),
            );
                keys.forgive();
                return None;
            }
        }
    };
    let shape = shape(keys, law);
    let min = keys.key("min").or_null().number(FINITE);
    let max = keys.key("max").or_null().number(FINITE);
    if let (Some(least), Some(most)) = (min.value(), max.value())
        && least > most
    {
        let message = format!("`{}`: `min` ({least}) is above `max` ({most})", keys.path());
        keys.fault_at(&min, message, "above `max`", "exchange the two");
    }
    Some(Distribution { shape: shape?, min: min.optional(), max: max.optional() })
}

fn shape(keys: &mut Keys<'_>, law: Law) -> Option<Shape> {
    match law {
        Law::Fixed => needed(keys, "value", FINITE).map(Shape::Fixed),
        Law::Normal => {
            let mean = needed(keys, "mean", NOT_NEGATIVE);
            let stddev = keys.key("stddev").number(NOT_NEGATIVE).or(0.0);
            mean.map(|mean| Shape::Normal { mean, stddev })
        }
        Law::LogNormal => {
            let mean = needed(keys, "mean", Bound::Above(0.0));
            let median = needed(keys, "median", Bound::Above(0.0));
            let (mean, median) = (mean?, median?);
            if median > mean {
                let message = format!("`{}`: the median ({median}) is above the mean ({mean})", keys.path());
                let absent = Written::<()>::Absent;
                keys.fault_at(&absent, message, "no log-normal distribution", "exchange the two");
            }
            Some(Shape::LogNormal { mean, median })
        }
        Law::Multimodal => {
            let peaks = keys.items("peaks", "a list of at least two distributions", |mut keys| {
                let weight = keys.key("weight").number(Bound::Above(0.0)).or(1.0);
                let distribution = law_and_clamps(&mut keys);
                keys.finish();
                distribution.map(|distribution| Weighted { weight, distribution })
            });
            missing(keys, &peaks, "peaks");
            if peaks.value().is_some_and(|peaks| peaks.len() < 2) {
                let message = format!("`{}.peaks` must be a list of at least two distributions", keys.path());
                keys.fault_at(&peaks, message, "only one", "add another, or write the one without `peaks`");
            }
            peaks.optional()?.into_iter().collect::<Option<Vec<_>>>().map(Shape::Multimodal)
        }
        Law::Empirical => {
            let points = keys.items("points", "a list of values and weights", |mut keys| {
                let value = needed(&mut keys, "value", FINITE);
                let weight = keys.key("weight").number(Bound::Above(0.0)).or(1.0);
                keys.finish();
                value.map(|value| (value, weight))
            });
            missing(keys, &points, "points");
            points.optional()?.into_iter().collect::<Option<Vec<_>>>().map(Shape::Empirical)
        }
    }
}

fn needed(keys: &mut Keys<'_>, name: &'static str, bound: Bound) -> Option<f64> {
    let written = keys.key(name).number(bound);
    missing(keys, &written, name);
    written.optional()
}

fn missing<T>(keys: &mut Keys<'_>, written: &Written<T>, name: &str) {
    crate::config::sections::require(keys, written, name);
}
