//! What a family is counted in, from its help text and its name: the first rule that speaks decides.
//!
//! Texts are AIPerf's (`seconds`, `bytes`, `ratio`); a family may have none.

/// The unit of a family.
pub fn infer(name: &str, help: &str) -> Option<&'static str> {
    range(help).or_else(|| in_parentheses(help)).or_else(|| phrase(help)).or_else(|| of_name(name))
}

/// A range of 0 to 1 or of 0 to 100.
fn range(help: &str) -> Option<&'static str> {
    let help = help.to_ascii_lowercase();
    let full = [" means ", " is ", " equals ", " = ", "=", "= "].iter().any(|verb| {
        ["1", "1.0"].iter().any(|one| {
            ["100%", "100 %", "100 percent", "100percent"].iter().any(|hundred| {
                let phrase = format!("{one}{verb}{hundred}");
                help.match_indices(&phrase).any(|(at, _)| !ends_in_number(&help[..at]))
            })
        })
    });
    if full {
        return Some("ratio");
    }
    let mut percent = None;
    for (at, _) in help.match_indices('0') {
        let Some((before, behind)) = help.split_at_checked(at) else { continue };
        if ends_in_number(before) || before.ends_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let behind = behind.strip_prefix("0.0").or_else(|| behind.strip_prefix('0')).unwrap_or(behind);
        let behind = behind.trim_start();
        let Some(behind) = behind.strip_prefix('-').or_else(|| behind.strip_prefix("to ")) else { continue };
        let behind = behind.trim_start();
        let number = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let (number, rest) = behind.split_at(number);
        let rest = rest.strip_prefix(".0").unwrap_or(rest);
        let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        match number {
            "1" if ends => return Some("ratio"),
            "100" if ends => {
                let named = rest.starts_with('%')
                    || before.ends_with('(') && rest.starts_with(')')
                    || before.trim_end().ends_with("range");
                if named {
                    percent = Some("percent");
                }
            }
            _ => {}
        }
    }
    percent
}

fn ends_in_number(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// `(in X)`, where case matters: `mJ` is not `MJ`.
fn in_parentheses(help: &str) -> Option<&'static str> {
    const SYMBOLS: [(&str, &str); 33] = [
        ("%", "percent"),
        ("B", "bytes"),
        ("C", "celsius"),
        ("F", "fahrenheit"),
        ("GB", "gigabytes"),
        ("GB/s", "gb/s"),
        ("GHz", "gigahertz"),
        ("GiB", "gigabytes"),
        ("Hz", "hertz"),
        ("J", "joule"),
        ("K", "kelvin"),
        ("KB", "kilobytes"),
        ("KiB", "kilobytes"),
        ("MB", "megabytes"),
        ("MB/s", "mb/s"),
        ("MHz", "megahertz"),
        ("MJ", "megajoule"),
        ("MiB", "megabytes"),
        ("TB", "terabytes"),
        ("TiB", "terabytes"),
        ("W", "watt"),
        ("mJ", "millijoule"),
        ("mW", "milliwatt"),
        ("milliseconds", "milliseconds"),
        ("ms", "milliseconds"),
        ("nanoseconds", "nanoseconds"),
        ("ns", "nanoseconds"),
        ("percent", "percent"),
        ("s", "seconds"),
        ("sec", "seconds"),
        ("seconds", "seconds"),
        ("us", "microseconds"),
        ("\u{b0}C", "celsius"),
    ];
    help.match_indices("(in ").find_map(|(at, opening)| {
        let symbol = help.get(at + opening.len()..)?.split(')').next()?.trim();
        SYMBOLS.iter().find(|(known, _)| *known == symbol).map(|(_, unit)| *unit)
    })
}

/// `in seconds`, `(ms)` and the like.
fn phrase(help: &str) -> Option<&'static str> {
    const WORDS: [(&str, &str); 17] = [
        ("tokens/sec", "tokens/s"),
        ("token/sec", "tokens/s"),
        ("tokens/s", "tokens/s"),
        ("token/s", "tokens/s"),
        ("requests/sec", "requests/s"),
        ("request/sec", "requests/s"),
        ("requests/s", "requests/s"),
        ("request/s", "requests/s"),
        ("gb/s", "gb/s"),
        ("mb/s", "mb/s"),
        ("milliseconds", "milliseconds"),
        ("ms", "milliseconds"),
        ("nanoseconds", "nanoseconds"),
        ("ns", "nanoseconds"),
        ("seconds", "seconds"),
        ("bytes", "bytes"),
        ("tokens", "tokens"),
    ];
    let help = help.to_ascii_lowercase();
    let says = |word: &str| {
        help.match_indices(word).any(|(at, _)| {
            let (before, behind) = (&help[..at], &help[at + word.len()..]);
            let ends = !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
            let introduced = before
                .strip_suffix("in ")
                .is_some_and(|before| !before.ends_with(|c: char| c.is_ascii_alphanumeric()));
            // A count of tokens is only named in words.
            ends && (introduced || (before.ends_with('(') && word != "tokens"))
        })
    };
    WORDS.iter().find(|(word, _)| says(word)).map(|(_, unit)| *unit)
}

/// The longest known ending; families of counters have lost their `_total` already, others may have one.
fn of_name(name: &str) -> Option<&'static str> {
    const ENDINGS: [(&str, &str); 27] = [
        ("_block_count", "blocks"),
        ("_blocks", "blocks"),
        ("_bytes", "bytes"),
        ("_celsius", "celsius"),
        ("_count", "count"),
        ("_error_count", "errors"),
        ("_errors", "errors"),
        ("_gb_s", "gb/s"),
        ("_gigabytes", "gigabytes"),
        ("_joules", "joule"),
        ("_kilobytes", "kilobytes"),
        ("_megabytes", "megabytes"),
        ("_microseconds", "microseconds"),
        ("_milliseconds", "milliseconds"),
        ("_ms", "milliseconds"),
        ("_nanoseconds", "nanoseconds"),
        ("_ns", "nanoseconds"),
        ("_perc", "percent"),
        ("_percent", "percent"),
        ("_ratio", "ratio"),
        ("_reqs", "requests"),
        ("_requests", "requests"),
        ("_seconds", "seconds"),
        ("_tokens", "tokens"),
        ("_total", "count"),
        ("_watts", "watt"),
        ("request_success", "requests"),
    ];
    let name = name.to_ascii_lowercase();
    let longest = |name: &str| {
        let known = ENDINGS.iter().filter(|(ending, _)| name.ends_with(ending));
        known.max_by_key(|(ending, _)| ending.len()).map(|(_, unit)| *unit)
    };
    let without_total = name.strip_suffix("_total").and_then(longest);
    without_total.or_else(|| longest(&name)).or_else(|| name.contains("num_requests_").then_some("requests"))
}
