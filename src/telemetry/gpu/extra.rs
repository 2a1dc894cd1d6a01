//! Fields of DCGM that the user adds: a CSV file of names, as dcgm-exporter itself reads one.

use crate::telemetry::gpu::dcgm;

/// A field that the user added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// DCGM's name.
    pub field: String,
    /// Its key in files.
    pub key: String,
    /// Its name for people.
    pub header: String,
    /// Its unit; values are not scaled.
    pub unit: &'static str,
}

/// The fields of a file, and what is wrong with the lines that were left out.
///
/// A line reads `DCGM_FI_..., gauge, help text (in UNIT)`. Empty lines, comments and fields that are known
/// anyway are passed over.
pub fn read(text: &str) -> (Vec<Extra>, Vec<String>) {
    let mut found: Vec<Extra> = Vec::new();
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match field_of(line) {
            Ok(extra) if dcgm::is_known(&extra.field) || found.iter().any(|known| known.key == extra.key) => {
            }
            Ok(extra) => found.push(extra),
            Err(why) => faults.push(format!("line {}: {why}", number + 1)),
        }
    }
    (found, faults)
}

fn field_of(line: &str) -> Result<Extra, String> {
    let mut parts = line.splitn(3, ',').map(str::trim);
    let (Some(field), Some(kind), Some(help)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected `DCGM_FI_..., gauge, help text (in UNIT)`".to_owned());
    };
    if !field.starts_with("DCGM_FI_") {
        return Err(format!("`{field}` is no field of DCGM: its name must begin with `DCGM_FI_`"));
    }
    if !matches!(kind, "counter" | "gauge") {
        return Err(format!("`{kind}` is no kind: write `gauge` or `counter`"));
    }
    let rest =
        ["DCGM_FI_DEV_", "DCGM_FI_PROF_", "DCGM_FI_"].iter().find_map(|prefix| field.strip_prefix(prefix));
    let rest = rest.unwrap_or(field);
    let header = help.split('(').next().unwrap_or(help).trim();
    let header = if header.is_empty() { rest } else { header };
    Ok(Extra {
        field: field.to_owned(),
        key: format!("nvidia_{}", rest.to_lowercase()),
        header: title_case(header),
        unit: unit_of(help),
    })
}

/// The unit in `(in X)`; a count where none is known.
fn unit_of(help: &str) -> &'static str {
    let help = help.to_lowercase();
    let word = help.split_once("(in ").and_then(|(_, behind)| behind.split(')').next()).map(str::trim);
    match word.unwrap_or_default() {
        "%" | "percent" => "%",
        "c" | "celsius" | "\u{b0}c" => "\u{b0}C",
        "gb" | "gib" => "GB",
        "ghz" => "GHz",
        "j" => "J",
        "kb" | "kib" => "KB",
        "mb" | "mib" => "MB",
        "mhz" => "MHz",
        "mj" => "MJ",
        "ms" => "ms",
        "s" => "s",
        "us" => "us",
        "w" => "W",
        _ => "count",
    }
}

fn title_case(text: &str) -> String {
    let mut title = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins {
            title.extend(c.to_uppercase());
        } else {
            title.extend(c.to_lowercase());
        }
        begins = !c.is_alphabetic();
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_and_faults_have_their_line() {
        let (found, faults) = read(
            "# comment\n\nDCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).\n\
             DCGM_FI_DEV_POWER_USAGE, gauge, known\nDCGM_FI_PROF_PCIE_TX_BYTES, counter, bytes, sent\nfoo, gauge, x\nDCGM_FI_X\n",
        );
        let shown: Vec<_> =
            found.iter().map(|one| (one.key.as_str(), one.header.as_str(), one.unit)).collect();
        let expected = [
            ("nvidia_sm_clock", "Sm Clock Frequency", "MHz"),
            ("nvidia_pcie_tx_bytes", "Bytes, Sent", "count"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("line 6: `foo`"), "{faults:?}");
    }
}
