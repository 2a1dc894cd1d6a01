//! `phasor explain`: what a config would send, for people.

use crate::cli::exit;
use crate::cli::say_all;
use crate::cli::show;
use crate::config;
use crate::config::Config;
use crate::config::Load;
use crate::config::Loaded;
use crate::config::Phase;
use crate::config::PhaseKind;
use crate::config::directory;
use crate::config::resolved::distribution;
use crate::config::support;
use crate::time::Nanos;
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Bytes of memory that a request in flight takes, beyond the kernel's sockets.
const IN_FLIGHT_BYTES: u64 = 4_096;
/// Bytes of a token of a synthetic prompt, on average.
const TOKEN_BYTES: f64 = 6.0;
/// Ports that one address has for connections to one server.
const PORTS: u64 = 28_000;
/// Variations that are listed.
const VARIATIONS_SHOWN: usize = 20;

/// Arguments of `phasor explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The YAML file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints what the file means and tells the exit code.
pub(super) fn explain(arguments: &ExplainArguments) -> u8 {
    match config::load(&arguments.file) {
        Ok(loaded) => {
            say_all(&loaded.warnings);
            say_all(&support::unsupported(&loaded.config));
            show(&text(&loaded));
            0
        }
        Err(faults) => {
            say_all(&faults);
            exit::FAILED
        }
    }
}

fn text(loaded: &Loaded) -> String {
    let config = loaded.variations.first().map_or(&loaded.config, |variation| &variation.config);
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "{words}");
    };
    let urls: Vec<&str> = config.endpoint.urls.iter().map(|url| url.text.as_str()).collect();
    let models: Vec<&str> = config.models.items.iter().map(|model| model.name.as_str()).collect();
    let replies = if config.endpoint.streaming { "streams" } else { "whole replies" };
    line(format!("Server    {} ({}, {replies})", urls.join(", "), config.endpoint.kind.name()));
    line(format!("Model     {}", models.join(", ")));
    line(format!("Dataset   {}", dataset(config)));
    line(format!("Results   {}", directory::base(config).display()));
    match config.random_seed {
        Some(seed) => line(format!("Seed      {seed}")),
        None => line("Seed      a new one for each run".to_owned()),
    }
    line(String::new());
    for (index, phase) in config.phases.iter().enumerate() {
        line(format!("Phase {}   {}", index + 1, self::phase(phase)));
        if let Some(cancelled) = phase.cancellation.filter(|_| phase.kind == PhaseKind::Profiling) {
            line(format!(
                "          cancels {} % of requests, {} after each was sent",
                cancelled.rate_percent,
                seconds(cancelled.delay)
            ));
        }
        if phase.seamless {
            line("          starts as soon as the phase before it stops sending".to_owned());
        }
    }
    line(String::new());
    line(totals(config));
    sweep(loaded, &mut line);
    text
}

fn dataset(config: &Config) -> String {
    let dataset = &config.dataset;
    let count = dataset.entries.map_or_else(|| "all".to_owned(), |entries| entries.to_string());
    let osl = dataset.prompts.osl.as_ref().map_or_else(|| "as the server likes".to_owned(), distribution);
    match &dataset.source {
        config::DatasetSource::Synthetic(_) => format!(
            "{count} synthetic conversations, prompts of {} tokens, replies of {osl}",
            distribution(&dataset.prompts.isl)
        ),
        config::DatasetSource::File(file) => {
            let from =
                file.path.clone().unwrap_or_else(|| format!("{} records in the config", file.records.len()));
            format!(
                "{count} conversations of {from} ({})",
                file.format.as_deref().unwrap_or("its format is looked for")
            )
        }
        config::DatasetSource::Public(public) => format!("{count} conversations of {}", public.dataset),
    }
}

fn phase(phase: &Phase) -> String {
    let load = match phase.load {
        Load::Concurrency { concurrency } => format!("{concurrency} requests in flight"),
        Load::Constant { rate_per_s, .. } => format!("{rate_per_s} requests/s at equal gaps"),
        Load::FixedSchedule { .. } => "requests at the times of the trace".to_owned(),
        Load::Gamma { rate_per_s, smoothness, .. } => {
            format!("{rate_per_s} requests/s with gamma gaps of smoothness {smoothness}")
        }
        Load::Poisson { rate_per_s, .. } => format!("{rate_per_s} requests/s at random"),
        Load::UserCentric { rate_per_s, users, .. } => {
            format!("{users} users, {rate_per_s} requests/s together")
        }
    };
    let cap = match phase.load {
        Load::Concurrency { .. } => None,
        other => other.concurrency(),
    };
    let cap = cap.map(|cap| format!(", {cap} in flight at most")).unwrap_or_default();
    let mut ends = Vec::new();
    ends.extend(phase.stop.requests.map(|count| format!("{count} requests")));
    ends.extend(phase.stop.duration.map(seconds));
    ends.extend(phase.stop.sessions.map(|count| format!("{count} sessions")));
    let ends = if ends.is_empty() { "the whole trace".to_owned() } else { ends.join(" or ") };
    let expected =
        expected_requests(phase).map(|count| format!(", about {count} requests")).unwrap_or_default();
    format!("{} ({}): {load}{cap}, for {ends}{expected}", phase.name, phase.kind.name())
}

/// How many requests a phase will send, where that is known beforehand.
fn expected_requests(phase: &Phase) -> Option<u64> {
    let by_time = phase.load.rate_per_s().zip(phase.stop.duration).and_then(|(rate, duration)| {
        let count = rate * duration.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
        (phase.rate_series.is_empty() && count < 1e15).then_some(count.round() as u64)
    });
    match (phase.stop.requests, by_time) {
        (Some(requests), Some(by_time)) => Some(requests.min(by_time)),
        (requests, by_time) => requests.or(by_time),
    }
}

fn totals(config: &Config) -> String {
    let peak: Option<u64> =
        config.phases.iter().map(|phase| phase.load.concurrency().map(u64::from)).max().flatten();
    let bounded = config.phases.iter().all(|phase| phase.load.concurrency().is_some());
    let time: Option<f64> =
        config.phases.iter().map(|phase| phase.stop.duration.map(Nanos::as_secs_f64)).sum();
    let entries = f64::from(config.dataset.entries.unwrap_or(0));
    let tokens = config.dataset.prompts.isl.mean().max(1.0);
    let peak_text = match peak {
        Some(peak) if bounded => format!("at most {peak}"),
        Some(_) | None => "not bounded by the config".to_owned(),
    };
    let mut words = format!("In flight {peak_text}");
    if let Some(peak) = peak.filter(|_| bounded) {
        let servers = config.endpoint.urls.len().max(1) as u64;
        let memory = peak as f64 * IN_FLIGHT_BYTES as f64 + entries * tokens * TOKEN_BYTES;
        let _ = write!(words, "; as many connections and local ports");
        if peak / servers > PORTS {
            let _ = write!(words, " (more than the {PORTS} ports one address has: give several addresses)");
        }
        let _ = write!(words, ", about {:.0} MB of memory", (memory / 1e6).max(1.0));
    }
    let time = match time {
        Some(time) if time.is_finite() && time < 1e12 => {
            format!("Sending   for at most {}", seconds(Nanos::from_secs_f64(time)))
        }
        Some(_) | None => {
            "Sending   until the counts are reached; the server says how long that takes".to_owned()
        }
    };
    format!("{words}\n{time}")
}

fn sweep(loaded: &Loaded, line: &mut impl FnMut(String)) {
    let runs = loaded.config.multi_run.runs;
    let Some(sweep) = &loaded.config.sweep else {
        if runs > 1 {
            line(format!("Trials    {runs}"));
        }
        return;
    };
    line(String::new());
    let count = loaded.variations.len();
    let trials = if runs > 1 { format!(", {runs} trials of each") } else { String::new() };
    line(format!("Sweep     {} with {count} variations{trials}", sweep.kind.name()));
    for variation in loaded.variations.iter().take(VARIATIONS_SHOWN) {
        line(format!("  [{}] dir={}  label={}", variation.index, variation.dir_name, variation.label));
    }
    if let Some(more) = count.checked_sub(VARIATIONS_SHOWN).filter(|more| *more > 0) {
        line(format!("  ... and {more} more"));
    }
}

fn seconds(span: Nanos) -> String {
    if span == Nanos(u64::MAX) { "ever".to_owned() } else { format!("{} s", span.as_secs_f64()) }
}
