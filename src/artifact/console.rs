//! The result tables: what is printed at the end and kept in `profile_export_console.txt` (spec/artifacts 15).

use crate::artifact::grid::{Align, Grid, wrap};
use crate::artifact::json::INCOMPLETE_REASON;
use crate::artifact::results::{Results, Scope};
use crate::artifact::{FinishedRun, api_error, names, panel, telemetry};
use crate::measure::catalogue::Table;
use crate::measure::statistics::Statistics;
use crate::measure::summary::{Summary, Value};
use crate::measure::tally::{Counts, ErrorGroup};
use crate::measure::verdict::Verdict;
use crate::measure::weighted::TimeWeighted;
use crate::time::Nanos;
use std::fmt::Write;
use std::path::Path;

/// Columns of the file.
pub const WIDTH: usize = 140;

/// Headers longer than this have their unit on a line of its own.
const HEADER_LINE_MAX: usize = 30;

pub(super) const SHOWN: [(&str, Align); 8] = [
    ("Metric", Align::Right),
    ("avg", Align::Right),
    ("min", Align::Right),
    ("max", Align::Right),
    ("p99", Align::Right),
    ("p90", Align::Right),
    ("p50", Align::Right),
    ("std", Align::Right),
];

/// The tables at `width` columns: errors, each phase when there are several, everything pooled, the client.
pub fn tables(run: &FinishedRun<'_>, results: &Results, width: usize) -> String {
    let mut text = String::new();
    if run.interrupted {
        let _ = write!(
            text,
            "\nphasor | INCOMPLETE RESULTS\n{INCOMPLETE_REASON}\nThese metrics were computed over a subset of \
             the run and must not be compared against complete runs.\n"
        );
    }
    let errors = &results.root.errors;
    if let Some(panel) = api_error::panel_of(errors, run.config, width) {
        let _ = write!(text, "\n{panel}");
    }
    if !errors.is_empty() {
        let _ = write!(text, "\n{}", error_table(errors).draw(width));
    }
    if run.phases.len() > 1 {
        for (phase, scope) in run.phases.iter().zip(&results.phases) {
            let cut = if phase.interrupted { ", cut short" } else { "" };
            let title = format!("phasor | Phase {} ({}{cut})", phase.name, phase.kind.name());
            section(&mut text, &metric_table(&title, &scope.summary, Table::Main), width);
        }
    }
    let root = &results.root.summary;
    if run.config.artifacts.show_trace_timing {
        section(&mut text, &metric_table("phasor | HTTP Trace Timing", root, Table::Trace), width);
    }
    let title = "phasor | LLM Metrics";
    section(&mut text, &metric_table(&format!("{title}: Effective"), root, Table::Effective), width);
    section(&mut text, &metric_table(&format!("{title}: Active"), root, Table::Active), width);
    section(&mut text, &metric_table(&format!("{title}: Usage"), root, Table::Usage), width);
    section(&mut text, &metric_table(title, root, Table::Main), width);
    if root.value("usage_prompt_tokens").is_some() && root.value("usage_prompt_cache_read_tokens").is_none() {
        let hint = "Token usage is reported but no prompt-cache read tokens were seen \
                    (usage.prompt_tokens_details.cached_tokens absent). If the server keeps a prefix cache, its \
                    option for reporting cached prompt tokens fills the prompt-cache metrics.";
        text.push('\n');
        for line in wrap(hint, width) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text.push_str(&telemetry::tables(run, root, width));
    if let Some(phase) = run.phases.first() {
        let judgement = phase.tally.judgement();
        let warnings = [panel::usage_discrepancy, panel::length_mismatch];
        for warning in warnings.into_iter().filter_map(|warning| warning(root, judgement, width)) {
            text.push('\n');
            text.push_str(&warning);
        }
    }
    section(&mut text, &client_table(run), width);
    text.push_str(&reasons(run));
    if root.single("replay_sched_degraded").is_some_and(|degraded| degraded > 0.0) {
        text.push_str(
            "\nThe schedule was not kept: a hundredth of the requests were let go more than 500 ms later than the \
             least late one (replay_sched_lag_p99). A slow client looks like a slow server.\n",
        );
    }
    let lost = run.records_lost;
    if lost > 0 {
        let _ = writeln!(
            text,
            "\n{lost} records are missing in {}: the disk was too slow or failed.",
            names::records(&run.config.artifacts)
        );
    }
    text
}

/// The lines that are printed after the tables and kept in no file.
pub fn footer(directory: &Path, run: &FinishedRun<'_>, results: &Results) -> String {
    let mut text = String::new();
    let early = if run.interrupted { " (cancelled early)" } else { "" };
    let _ = writeln!(text, "\nCLI Command: {}", run.cli_command);
    if let Some(seconds) = duration_s(&results.root) {
        let _ = writeln!(text, "Benchmark Duration: {seconds:.2} sec{early}");
    }
    let artifacts = &run.config.artifacts;
    let mut export = |what: &str, name: String| {
        let _ = writeln!(text, "{what}: {}", directory.join(name).display());
    };
    export("CSV Export", names::csv(artifacts));
    if artifacts.summary_json {
        export("JSON Export", names::json(artifacts));
    }
    if artifacts.slice_duration.is_some() {
        export("Time Slices", names::slices_json(artifacts));
    }
    if run.telemetry.has_servers() || run.telemetry.has_gpus() {
        export("Telemetry Report", telemetry::TELEMETRY_REPORT.to_owned());
    }
    export("Client Report", super::client_report::CLIENT_REPORT.to_owned());
    export("Log File", super::log::LOG.to_owned());
    if run.interrupted {
        text.push_str(
            "The profile run was cancelled early. Results shown may be incomplete or inaccurate.\n",
        );
    }
    text
}

/// The benchmark's duration, or the span of its phases when no request was good.
fn duration_s(root: &Scope) -> Option<f64> {
    root.summary
        .single("benchmark_duration")
        .or_else(|| root.span.map(|(start, end)| end.since(start).as_secs_f64()))
}

pub(super) fn section(text: &mut String, grid: &Grid, width: usize) {
    if !grid.is_empty() {
        text.push('\n');
        text.push_str(&grid.draw(width));
    }
}

fn error_table(errors: &[ErrorGroup]) -> Grid {
    let columns =
        [("Code", Align::Right), ("Type", Align::Right), ("Message", Align::Left), ("Count", Align::Right)];
    let mut grid = Grid::new("phasor | Error Summary", &columns);
    for group in errors {
        let code = group.failure.code.map_or_else(|| "N/A".to_owned(), |code| code.to_string());
        let failure = &group.failure;
        grid.row(vec![code, failure.kind.clone(), failure.message.clone(), whole(group.count)]);
    }
    grid
}

fn metric_table(title: &str, summary: &Summary, table: Table) -> Grid {
    let mut rows: Vec<_> = summary
        .values()
        .filter_map(|(metric, value)| {
            let (shown, order) = metric.console?;
            (shown == table).then_some((order, metric, value))
        })
        .collect();
    rows.sort_by_key(|(order, _, _)| *order);
    let mut grid = Grid::new(title, &SHOWN);
    for (_, metric, value) in rows {
        let apart = if metric.header.len() > HEADER_LINE_MAX { '\n' } else { ' ' };
        let mut row = vec![format!("{}{apart}({})", metric.header, metric.unit.name())];
        row.extend(cells(value).map(|value| value.map_or_else(|| "N/A".to_owned(), decimal)));
        grid.row(row);
    }
    grid
}

/// The values of the columns behind the name.
fn cells(value: &Value) -> [Option<f64>; 7] {
    match value {
        Value::Adjusted(adjusted) => {
            let [.., p50, _, p90, _, p99] = adjusted.percentiles;
            [None, Some(adjusted.min), None, p99, p90, p50, None]
        }
        Value::Full(Statistics { avg, min, max, std, percentiles, .. }) => {
            let [.., p50, _, p90, _, p99] = *percentiles;
            [Some(*avg), Some(*min), Some(*max), Some(p99), Some(p90), Some(p50), Some(*std)]
        }
        Value::Single(value) => [Some(*value), None, None, None, None, None, None],
        Value::Weighted(TimeWeighted { avg, min, max, p99, p90, p50, std, .. }) => {
            [*avg, *min, *max, *p99, *p90, *p50, *std].map(Some)
        }
    }
}

/// What the client itself did: a row per phase, and one for all when there are several.
fn client_table(run: &FinishedRun<'_>) -> Grid {
    let columns = [
        ("Phase", Align::Right),
        ("planned", Align::Right),
        ("sent", Align::Right),
        ("dropped", Align::Right),
        ("ok", Align::Right),
        ("failed", Align::Right),
        ("cancelled", Align::Right),
        ("abandoned", Align::Right),
        ("late p50", Align::Right),
        ("late p99", Align::Right),
        ("late max", Align::Right),
        ("verdict", Align::Left),
    ];
    let mut grid = Grid::new("phasor | Client (lateness in us)", &columns);
    for phase in &run.phases {
        let tally = &phase.tally;
        let late = tally.lateness_summary().map(|late| [late.p50, late.p99, late.max]);
        grid.row(client_row(phase.name.clone(), tally.counts(), late, phase.verdict.name()));
    }
    if run.phases.len() > 1 {
        let counts = Counts::sum(run.phases.iter().map(|phase| phase.tally.counts()));
        let late = crate::measure::PhaseTally::pooled_lateness(run.phases.iter().map(|phase| &phase.tally));
        let late = late.map(|late| [late.p50, late.p99, late.max]);
        let worst = run.phases.iter().map(|phase| phase.verdict).max().unwrap_or(Verdict::Ok);
        grid.row(client_row("all".to_owned(), &counts, late, worst.name()));
    }
    grid
}

/// Why phases are not ok, a line for each limit that was crossed; empty when all are.
fn reasons(run: &FinishedRun<'_>) -> String {
    let mut text = String::new();
    for phase in &run.phases {
        for reason in &phase.reasons {
            let _ = writeln!(
                text,
                "{}: {} is {:.3}, over {:.3} ({})",
                phase.name,
                reason.what,
                reason.value,
                reason.limit,
                reason.verdict.name()
            );
        }
    }
    text
}

fn client_row(name: String, counts: &Counts, late: Option<[Nanos; 3]>, verdict: &str) -> Vec<String> {
    let numbers = [
        counts.planned(),
        counts.sent,
        counts.dropped(),
        counts.ok,
        counts.failed,
        counts.cancelled,
        counts.abandoned,
    ];
    let mut row = vec![name];
    row.extend(numbers.map(whole));
    match late {
        Some(late) => row.extend(late.map(|late| decimal(late.0 as f64 / 1e3))),
        None => row.extend(["N/A"; 3].map(str::to_owned)),
    }
    row.push(verdict.to_owned());
    row
}

/// Two decimals and thousands separators.
pub(super) fn decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    format!("{sign}{}.{fraction}", separated(integer))
}

fn whole(value: u64) -> String {
    separated(&value.to_string())
}

fn separated(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_decimals_and_thousands_separators() {
        assert_eq!(decimal(0.0), "0.00");
        assert_eq!(decimal(999.999), "1,000.00");
        assert_eq!(decimal(26_345.33), "26,345.33");
        assert_eq!(decimal(-1_234_567.0), "-1,234,567.00");
        assert_eq!(whole(1_000), "1,000");
        assert_eq!(whole(7), "7");
    }
}
