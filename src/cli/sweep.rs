//! `phasor profile` with several runs: what is shown of them, and the exit code.

use crate::artifact;
use crate::artifact::Cell;
use crate::artifact::trials::CellRuns;
use crate::artifact::trials::Choice;
use crate::artifact::trials::Parameters;
use crate::artifact::trials::RunMetrics;
use crate::cli::exit;
use crate::cli::say;
use crate::cli::show;
use crate::config::Config;
use crate::config::Variation;
use crate::config::expand::Expander;
use crate::run::RunOptions;
use crate::run::search::Found;
use crate::run::search::Search;
use crate::run::sweep::Build;
use crate::run::sweep::Finished;
use crate::run::sweep::Narrator;
use crate::run::sweep::Resume;
use crate::run::sweep::Runner;
use crate::run::sweep::Sweep;
use crate::run::sweep::SweepOutcome;
use anyhow::Context as _;
use std::fmt::Write as _;

/// Numbers of the tables: metric, statistic, header.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("request_throughput", "avg", "req/s"),
    ("output_token_throughput", "avg", "tok/s"),
    ("time_to_first_token", "p99", "TTFT p99"),
    ("inter_token_latency", "avg", "ITL avg"),
    ("request_latency", "p99", "latency p99"),
];

/// Width of a number in the tables.
const WIDTH: usize = 12;

/// Runs all variations and trials, and tells the exit code.
pub(super) fn run<'a>(
    config: &Config,
    variations: &'a [Variation],
    options: &'a RunOptions,
    build: &'a mut Build<'a>,
    resume: Resume,
) -> anyhow::Result<u8> {
    let base = artifact::directory_name(variations.first().map_or(config, |first| &first.config));
    let sweep = Sweep::new(variations, &base)?;
    let mut screen = Screen { table: !config.no_sweep_table };
    let outcome = sweep.run(Runner::start(options, &base, build, resume, &mut screen)?);
    show(&report(&outcome));
    Ok(code_of(&outcome))
}

/// Runs a sweep that chooses its variations as it goes, and tells the exit code. `turn` says where the
/// load of each goes.
pub(super) fn search<'a>(
    expander: &'a Expander,
    turn: &dyn Fn(&mut Config),
    options: &'a RunOptions,
    build: &'a mut Build<'a>,
    resume: Resume,
) -> anyhow::Result<u8> {
    let config = expander.config();
    let base = artifact::directory_name(config);
    let search = Search::new(expander, &base)?.context("the sweep has nothing to search")?;
    let mut screen = Screen { table: !config.no_sweep_table };
    let runner = Runner::start(options, &base, build, resume, &mut screen)?;
    let Found { outcome, report: found } = search.run(runner, &|variation| turn(&mut variation.config));
    show(&report(&outcome));
    let mut text = String::from("\nPoints tried:\n");
    for point in &found.points {
        let _ = writeln!(text, "  {}", point.line());
    }
    let _ = match found.best.and_then(|best| found.points.get(best)) {
        Some(best) => writeln!(text, "Best: {}", best.line()),
        None => writeln!(text, "Best: none"),
    };
    let _ = writeln!(text, "It stopped because {}.", found.stopped.text());
    show(&text);
    Ok(code_of(&outcome))
}

fn code_of(outcome: &SweepOutcome) -> u8 {
    for fault in &outcome.faults {
        say(&format!("error: {fault}"));
    }
    if outcome.interrupted {
        exit::INTERRUPTED
    } else if outcome.faults.is_empty() {
        0
    } else {
        exit::FAILED
    }
}

/// Shows runs as they end.
struct Screen {
    table: bool,
}

impl Narrator for Screen {
    fn say(&mut self, text: &str) {
        say(text);
    }

    fn finished(&mut self, cell: &Cell, finished: &Finished) {
        match &finished.result {
            Ok(metrics) if self.table => {
                let numbers = COLUMNS.iter().filter_map(|(tag, statistic, header)| {
                    Some(format!("{header} {}", shown(metrics, tag, statistic)?))
                });
                let taken = if finished.resumed { " (from its files)" } else { "" };
                let numbers: Vec<String> = numbers.collect();
                say(&format!("{} | {}{taken} | {}", cell.variation_label, cell.label(), numbers.join(" | ")));
            }
            Ok(_) => {}
            Err(error) => say(&format!("{} | {} failed: {error}", cell.variation_label, cell.label())),
        }
    }
}

fn shown(metrics: &RunMetrics, tag: &str, statistic: &str) -> Option<String> {
    Some(format!("{:.2} {}", metrics.value(tag, statistic)?, metrics.unit(tag)?))
}

/// What all runs say together.
pub(super) fn report(outcome: &SweepOutcome) -> String {
    let mut text = String::from("\n");
    let labels: Vec<String> = outcome.cells.iter().map(|(parameters, cell)| name(parameters, cell)).collect();
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let _ = write!(text, "{:width$}  {:>6}", "", "runs");
    for (_, _, header) in COLUMNS {
        let _ = write!(text, "  {header:>WIDTH$}");
    }
    text.push('\n');
    for (label, (_, cell)) in labels.iter().zip(&outcome.cells) {
        let done = format!("{}/{}", cell.successful().count(), cell.trials.len());
        let _ = write!(text, "{label:width$}  {done:>6}");
        for (tag, statistic, _) in COLUMNS {
            let mean = cell.spread(tag, statistic, outcome.terms.confidence_level).map(|spread| spread.mean);
            let mean = mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"));
            let _ = write!(text, "  {mean:>WIDTH$}");
        }
        text.push('\n');
    }
    text.push_str(&confidence(outcome));
    if let Some(chosen) = &outcome.chosen {
        let label = |choice: &Choice| labels.get(choice.cell).cloned().unwrap_or_default();
        text.push('\n');
        if let Some(best) = &chosen.best.throughput {
            let _ = writeln!(text, "Best throughput:  {} ({:.2} {})", label(best), best.value, best.unit);
        }
        if let Some(best) = &chosen.best.latency_p99 {
            let _ = writeln!(text, "Best p99 latency: {} ({:.2} {})", label(best), best.value, best.unit);
        }
        let pareto: Vec<&str> =
            chosen.pareto.iter().filter_map(|position| labels.get(*position)).map(String::as_str).collect();
        let pareto = if pareto.is_empty() { "none".to_owned() } else { pareto.join("; ") };
        let _ = writeln!(text, "Beaten by none in both: {pareto}");
    }
    let whole = outcome.whole.as_secs_f64();
    if whole > 0.0 {
        let between = whole - outcome.running.as_secs_f64() - outcome.cooldown.as_secs_f64();
        let _ = writeln!(
            text,
            "\n{} runs in {whole:.2} s, of which {between:.2} s ({:.1} %) between runs{}{}",
            outcome.runs,
            100.0 * between / whole,
            if outcome.cooldown.0 > 0 { ", waits that were asked for not counted" } else { "" },
            if outcome.resumed > 0 {
                format!("; {} taken from files", outcome.resumed)
            } else {
                String::new()
            },
        );
    }
    for directory in &outcome.written {
        let _ = writeln!(text, "Written to {}", directory.display());
    }
    text
}

/// The means of several trials with their intervals.
fn confidence(outcome: &SweepOutcome) -> String {
    let mut text = String::new();
    let [(_, cell)] = outcome.cells.as_slice() else { return text };
    if cell.successful().count() < 2 {
        return text;
    }
    let level = outcome.terms.confidence_level;
    text.push('\n');
    for (tag, statistic, header) in COLUMNS {
        let Some(spread) = cell.spread(tag, statistic, level) else { continue };
        let unit = cell.successful().find_map(|metrics| metrics.unit(tag)).unwrap_or_default();
        let cv = spread.cv.map(|cv| format!(", CV {:.2} %", 100.0 * cv)).unwrap_or_default();
        let _ = writeln!(
            text,
            "{header:WIDTH$} {:.4} {unit}, {} % interval {:.4} to {:.4}{cv}",
            spread.mean,
            100.0 * level,
            spread.ci_low,
            spread.ci_high,
        );
    }
    text
}

fn name(parameters: &Parameters, cell: &CellRuns) -> String {
    let parts: Vec<String> = parameters
        .iter()
        .filter(|(name, _)| name != "benchmark")
        .map(|(name, value)| {
            format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    if parts.is_empty() { cell.label.clone() } else { parts.join(", ") }
}
