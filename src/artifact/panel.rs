//! A text in a box with a title, and the warnings that are shown in one (spec/artifacts 15).

use crate::artifact::grid::wrap;
use crate::measure::Judgement;
use crate::measure::summary::{Summary, Value};
use std::fmt::Write;

/// Draws `lines` in a box with round corners, no wider than `width`.
pub(super) fn panel(title: &str, lines: &[String], width: usize) -> String {
    let room = width.saturating_sub(6).max(20);
    let lines: Vec<String> = lines
        .iter()
        .flat_map(|line| if line.is_empty() { vec![String::new()] } else { wrap(line, room) })
        .collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let inner = longest.max(title.chars().count() + 4) + 4;
    let rule = inner.saturating_sub(title.chars().count() + 2);
    let (left, right) = ("─".repeat(rule / 2), "─".repeat(rule - rule / 2));
    let mut text = format!("╭{left} {title} {right}╮\n");
    for line in lines {
        let space = " ".repeat(inner - 2 - line.chars().count());
        let _ = writeln!(text, "│  {line}{space}│");
    }
    let _ = writeln!(text, "╰{}╯", "─".repeat(inner));
    text
}

/// The warning that replies are not as long as asked for; absent when they are.
pub(super) fn length_mismatch(summary: &Summary, judgement: &Judgement, width: usize) -> Option<String> {
    let mismatched = summary.single("osl_mismatch_count").filter(|count| *count > 0.0)?;
    let Some(Value::Full(difference)) = summary.value("osl_mismatch_diff_pct") else { return None };
    let of = difference.count as f64;
    let (percent, tokens) = judgement.osl_thresholds();
    let why = if difference.avg < 0.0 {
        "Why: the server ended replies before the length asked for, most likely at an end-of-text token."
    } else {
        "Why: the server went on beyond the length asked for."
    };
    let lines = [
        format!(
            "{mismatched} of {of} requests ({:.1}%) have output length differing from requested by more than \
             the threshold.",
            mismatched / of * 100.0
        ),
        format!("Threshold (tokens): min(requested x {percent}%, {tokens})"),
        format!("Average mismatch: {:+.1}%", difference.avg),
        String::new(),
        why.to_owned(),
        String::new(),
        "What helps: send `ignore_eos: true` or `min_tokens` with each request (endpoint.extra), if the server \
         knows them."
            .to_owned(),
        "Each request's value is osl_mismatch_diff_pct in the record file. The thresholds are \
         AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD and AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD."
            .to_owned(),
    ];
    Some(panel("Output Sequence Length Mismatch Warning", &lines, width))
}

/// The warning that the server counts tokens otherwise than the client; absent when it does not.
pub(super) fn usage_discrepancy(summary: &Summary, judgement: &Judgement, width: usize) -> Option<String> {
    let discrepant = summary.single("usage_discrepancy_count").filter(|count| *count > 0.0)?;
    let of = summary.single("request_count")?;
    let averages = [
        ("prompt tokens", "usage_prompt_tokens_diff_pct"),
        ("reply tokens", "usage_completion_tokens_diff_pct"),
        ("reasoning tokens", "usage_reasoning_tokens_diff_pct"),
    ];
    let mut lines = vec![format!(
        "{discrepant} of {of} requests ({:.1}%) show a difference exceeding {}% between the tokens that the server \
         reports and those that the client counts.",
        discrepant / of * 100.0,
        judgement.usage_threshold()
    )];
    for (name, tag) in averages {
        if let Some(Value::Full(difference)) = summary.value(tag) {
            lines.push(format!("Average difference of {name}: {:.1}%", difference.avg));
        }
    }
    lines.extend([
        String::new(),
        "Why: the server puts a chat template around prompts, or the tokenizer is not the model's."
            .to_owned(),
        "What helps: name the model's own tokenizer (`--tokenizer`), or take the server's counts \
         (`--use-server-token-count`)."
            .to_owned(),
        "Each request's values are usage_*_diff_pct in the record file. The threshold is \
         AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD."
            .to_owned(),
    ]);
    Some(panel("Token Count Discrepancy Warning", &lines, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_panel_is_as_wide_as_its_frame() {
        let lines = ["short".to_owned(), String::new(), "word ".repeat(60)];
        let drawn = panel("Title", &lines, 80);
        let widths: Vec<usize> = drawn.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0] && *width <= 80), "{drawn}");
        assert!(drawn.starts_with("╭") && drawn.contains(" Title ") && drawn.ends_with("╯\n"));
    }
}
