//! Plain scalars as YAML 1.1 reads them.
//!
//! AIPerf's reader follows YAML 1.1, where `on` is a boolean, `1:30` is ninety and `1e3` is text; the parser
//! underneath follows 1.2, so it hands over the text alone and this module decides. It knows no positions.

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Nothing: `~`, `null` or no text at all.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// A whole number; beyond 128 bits the nearest end of the range.
    Integer(i128),
    /// A number with a point, an infinity or not-a-number.
    Float(f64),
    /// A date or a moment: no field takes one, so the text is kept for the message only.
    Date(String),
    /// Everything else, and all that is quoted.
    Text(String),
}

/// Resolves an unquoted, untagged scalar.
pub fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return Scalar::Integer(number);
    }
    if let Some(number) = float(text) {
        return Scalar::Float(number);
    }
    if is_date(text) {
        return Scalar::Date(text.to_owned());
    }
    Scalar::Text(text.to_owned())
}

/// A whole number in one of YAML 1.1's notations.
pub fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = sign(text);
    let magnitude = if digits == "0" {
        0
    } else if let Some(digits) = digits.strip_prefix("0b") {
        radix(digits, 2)?
    } else if let Some(digits) = digits.strip_prefix("0x") {
        radix(digits, 16)?
    } else if let Some(digits) = digits.strip_prefix('0') {
        radix(digits, 8)?
    } else if digits.contains(':') {
        let (head, rest) = digits.split_once(':')?;
        let mut sum = decimal_head(head)?;
        for part in rest.split(':') {
            sum = sum.saturating_mul(60).saturating_add(i128::from(minute(part)?));
        }
        sum
    } else {
        decimal_head(digits)?
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// A number with a decimal point, or an infinity.
pub fn float(text: &str) -> Option<f64> {
    let (negative, digits) = sign(text);
    let signed = |value: f64| if negative { -value } else { value };
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(signed(f64::INFINITY));
    }
    if digits.contains(':') {
        let (whole, fraction) = digits.split_once('.')?;
        if !fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
            return None;
        }
        let mut parts = whole.split(':');
        let head = parts.next().filter(|head| head.starts_with(|c: char| c.is_ascii_digit()))?;
        let mut sum: f64 = without_underscores(head)?.parse().ok()?;
        for part in parts {
            sum = sum * 60.0 + f64::from(minute(part)?);
        }
        let fraction: f64 = format!("0.{}0", without_underscores(fraction)?).parse().ok()?;
        return Some(signed(sum + fraction));
    }
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (digits.get(..at)?, digits.get(at + 1..)?),
        None => (digits, "+0"),
    };
    // An exponent without a sign makes the whole thing text.
    let exponent_digits = exponent.strip_prefix(['+', '-'])?;
    if exponent_digits.is_empty() || !exponent_digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.')?;
    let whole = without_underscores(whole)?;
    let fraction_digits = without_underscores(fraction)?;
    if whole.is_empty()
        && (text.starts_with(['+', '-']) || !fraction.starts_with(|c: char| c.is_ascii_digit()))
    {
        return None;
    }
    format!("0{whole}.{fraction_digits}0e{exponent}").parse().ok().map(signed)
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The digits of `text`; absent when anything but digits and underscores is in it or it starts with one.
fn without_underscores(text: &str) -> Option<String> {
    let good = !text.starts_with('_') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    good.then(|| text.replace('_', ""))
}

fn decimal_head(digits: &str) -> Option<i128> {
    let digits =
        without_underscores(digits).filter(|digits| digits.starts_with(|c| ('1'..='9').contains(&c)))?;
    Some(digits.parse().unwrap_or(i128::MAX))
}

fn minute(text: &str) -> Option<u8> {
    let good = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|minute| good && *minute < 60)
}

fn radix(digits: &str, radix: u32) -> Option<i128> {
    let digits = digits.replace('_', "");
    let good = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    good.then(|| i128::from_str_radix(&digits, radix).unwrap_or(i128::MAX))
}

/// `2024-05-06`, with or without a time of day behind it.
fn is_date(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day: &str = rest.split(['T', 't', ' ', '\t']).next().unwrap_or_default();
    let time = rest.get(day.len()..).unwrap_or_default();
    let digits = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if time.is_empty() {
        return digits(year, &[4]) && digits(month, &[2]) && digits(day, &[2]);
    }
    let clock = time.trim_start_matches(['T', 't', ' ', '\t']);
    digits(year, &[4])
        && digits(month, &[1, 2])
        && digits(day, &[1, 2])
        && clock.split(':').count() >= 3
        && clock.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_follow_yaml_1_1() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("+6", 6),
            ("-3", -3),
            ("1_000", 1_000),
            ("010", 8),
            ("0x10", 16),
            ("0b101", 5),
            ("1:30", 90),
            ("1:02:03", 3_723),
            ("-1:30", -90),
        ] {
            assert_eq!(resolve(text), Scalar::Integer(value), "{text}");
        }
        assert_eq!(resolve("99999999999999999999"), Scalar::Integer(99_999_999_999_999_999_999));
    }

    #[test]
    fn numbers_with_a_point_follow_yaml_1_1() {
        for (text, value) in [
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1.5e+2", 150.0),
            ("-2.5", -2.5),
            ("1:30.5", 90.5),
            (".inf", f64::INFINITY),
            ("-.inf", f64::NEG_INFINITY),
            ("1_0.2_5", 10.25),
        ] {
            assert_eq!(resolve(text), Scalar::Float(value), "{text}");
        }
        assert!(matches!(resolve(".nan"), Scalar::Float(value) if value.is_nan()));
    }

    #[test]
    fn what_yaml_1_2_takes_for_a_number_may_be_text() {
        for text in
            ["1e3", "1E3", "0o17", "1.5e2", "y", "n", "5m", "1:60", "08", "-.5", "0b", "1__:x", "é1", "."]
        {
            assert_eq!(resolve(text), Scalar::Text(text.to_owned()), "{text}");
        }
    }

    #[test]
    fn dates_are_not_text() {
        for text in ["2024-05-06", "2024-05-06T07:08:09", "2024-5-6 07:08:09"] {
            assert_eq!(resolve(text), Scalar::Date(text.to_owned()), "{text}");
        }
        assert_eq!(resolve("2024-05"), Scalar::Text("2024-05".to_owned()));
    }
}
