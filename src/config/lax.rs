//! What a scalar may stand for: AIPerf's lenient conversions of numbers, booleans and durations.
//!
//! A field of one type takes several spellings (`4`, `4.0`, `"4"`, `true` for a whole number). Each function
//! gives the value or nothing; bounds and messages are the caller's.

use crate::config::scalar::Scalar;

/// A whole number: an integer, a number without fraction, a boolean or a decimal text.
pub fn whole(scalar: &Scalar) -> Option<i128> {
    match scalar {
        Scalar::Integer(value) => Some(*value),
        Scalar::Bool(value) => Some(i128::from(*value)),
        Scalar::Float(value) => whole_float(*value),
        Scalar::Text(text) => {
            let digits = without_inner_underscores(text.trim())?;
            let digits = match digits.split_once('.') {
                Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
                Some(_) => return None,
                None => &digits,
            };
            digits.parse().ok()
        }
        Scalar::Null | Scalar::Date(_) => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and the range check stands above it"
)]
#[expect(clippy::float_cmp, reason = "whether there is a fraction is an exact question")]
fn whole_float(value: f64) -> Option<i128> {
    (value.trunc() == value && value.abs() < 1e38).then_some(value as i128)
}

/// A number: any number, a boolean or a decimal text, infinities and not-a-number included.
pub fn number(scalar: &Scalar) -> Option<f64> {
    match scalar {
        Scalar::Integer(value) => Some(*value as f64),
        Scalar::Float(value) => Some(*value),
        Scalar::Bool(value) => Some(f64::from(u8::from(*value))),
        Scalar::Text(text) => without_inner_underscores(text.trim())?.parse().ok(),
        Scalar::Null | Scalar::Date(_) => None,
    }
}

/// A boolean: one, or 0 or 1, or one of the usual words in any case.
pub fn switch(scalar: &Scalar) -> Option<bool> {
    match scalar {
        Scalar::Bool(value) => Some(*value),
        Scalar::Integer(0) => Some(false),
        Scalar::Integer(1) => Some(true),
        Scalar::Float(value) => match whole_float(*value) {
            Some(0) => Some(false),
            Some(1) => Some(true),
            Some(_) | None => None,
        },
        Scalar::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        Scalar::Integer(_) | Scalar::Null | Scalar::Date(_) => None,
    }
}

/// A duration in seconds: a number of seconds, or a text of a number and a unit of hours, minutes or
/// seconds.
pub fn duration_s(scalar: &Scalar) -> Option<f64> {
    match scalar {
        Scalar::Integer(_) | Scalar::Float(_) | Scalar::Bool(_) => number(scalar),
        Scalar::Text(text) => duration_text_s(&text.trim().to_ascii_lowercase()),
        Scalar::Null | Scalar::Date(_) => None,
    }
}

fn duration_text_s(text: &str) -> Option<f64> {
    if matches!(text, "inf" | "infinity") {
        return Some(f64::INFINITY);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let unit_s = match unit.trim_start() {
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" | "hr" | "hour" => 3_600.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit_s)
}

/// `text` without the underscores, which may stand singly between digits only.
pub(in crate::config) fn without_inner_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let good = bytes
        .iter()
        .enumerate()
        .all(|(at, byte)| *byte != b'_' || (digit(at.checked_sub(1)) && digit(Some(at + 1))));
    good.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    #[test]
    fn whole_numbers_come_in_many_spellings() {
        for (written, value) in
            [(" 10 ", 10), ("1_000", 1_000), ("10.0", 10), ("007", 7), ("+5", 5), ("-2", -2)]
        {
            assert_eq!(whole(&text(written)), Some(value), "{written}");
        }
        assert_eq!(whole(&Scalar::Float(4.0)), Some(4));
        assert_eq!(whole(&Scalar::Bool(true)), Some(1));
        for written in ["1e3", "0x10", "1,000", "10_", "_1", "1__0", "", "2.5", "many", "1.", "- 1"] {
            assert_eq!(whole(&text(written)), None, "{written}");
        }
        for value in [2.5, f64::INFINITY, f64::NAN] {
            assert_eq!(whole(&Scalar::Float(value)), None, "{value}");
        }
    }

    #[test]
    fn booleans_come_in_many_spellings() {
        for written in ["true", "T", "YES", "y", "on", "1"] {
            assert_eq!(switch(&text(written)), Some(true), "{written}");
        }
        for written in ["false", "F", "No", "n", "off", "0"] {
            assert_eq!(switch(&text(written)), Some(false), "{written}");
        }
        assert_eq!(switch(&Scalar::Float(1.0)), Some(true));
        for scalar in [text(" true"), text("maybe"), Scalar::Integer(2), Scalar::Null] {
            assert_eq!(switch(&scalar), None, "{scalar:?}");
        }
    }

    #[test]
    fn durations_follow_their_grammar() {
        for (written, seconds) in [
            ("45", 45.0),
            ("1.5", 1.5),
            ("90s", 90.0),
            ("90 s", 90.0),
            ("90sec", 90.0),
            ("2 min", 120.0),
            ("1.5h", 5_400.0),
            ("1hr", 3_600.0),
            ("1 hour", 3_600.0),
            ("3H", 10_800.0),
            ("  5m  ", 300.0),
            ("Infinity", f64::INFINITY),
        ] {
            assert_eq!(duration_s(&text(written)), Some(seconds), "{written}");
        }
        for written in [
            "1h30m",
            "500ms",
            "1d",
            "5 minutes",
            "-5s",
            "1e3",
            "",
            ".5s",
            "1,5s",
            "5m s",
            "nan",
            "5.",
            "1.2.3",
            "é",
        ] {
            assert_eq!(duration_s(&text(written)), None, "{written}");
        }
    }
}
