//! What a person sees on stderr while the run goes on: the notices of phase edges and a line of counts.

use crate::artifact::FinishedPhase;
use crate::artifact::log::Level;
use crate::artifact::log::Log;
use crate::config::PhaseKind;
use crate::plan::PhasePlan;
use crate::run::companion::Companion;
use crate::run::companion::Stage;
use crate::shard::driver::Gauges;
use crate::shard::driver::Stopped;
use crate::time::Nanos;
use crate::time::Stamp;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ui {
    /// Nothing but the edges of phases.
    None,
    /// A line of counts every now and then.
    #[default]
    Simple,
}

/// Time between two lines of counts.
const INTERVAL: Nanos = Nanos::from_millis(1_000);

/// Time between two lines of counts where each takes a line of its own.
const INTERVAL_PLAIN: Nanos = Nanos::from_millis(5_000);

/// Whom a doubt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Who looks into the log.
    Log,
    /// The user, who asked for what it is about; the log has it too.
    User,
}

/// Shows the run on stderr.
#[derive(Debug)]
pub struct Display {
    ui: Ui,
    terminal: bool,
    log: Option<Log>,
    phase_started: Option<(u16, Stamp)>,
    last_shown: Stamp,
    last_ended: u64,
    line_open: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    ok: u64,
    errors: u64,
    in_flight: u64,
}

impl Display {
    /// A display; notices go to `log` too.
    pub fn new(ui: Ui, log: Option<Log>) -> Self {
        Self {
            ui,
            terminal: std::io::stderr().is_terminal(),
            log,
            phase_started: None,
            last_shown: Stamp::ORIGIN,
            last_ended: 0,
            line_open: false,
        }
    }

    /// A line of its own.
    pub fn notice(&mut self, text: &str) {
        self.end_line();
        let _ = writeln!(std::io::stderr(), "{text}");
        if let Some(log) = &mut self.log {
            log.line(Level::Notice, text);
        }
    }

    /// Something that may be wrong.
    pub fn doubt(&mut self, text: &str, audience: Audience) {
        if audience == Audience::User {
            self.end_line();
            let _ = writeln!(std::io::stderr(), "warning: {text}");
        }
        if let Some(log) = &mut self.log {
            log.line(Level::Warning, text);
        }
    }

    /// Nothing more is shown; the log, for what the end of the run still has to say.
    pub fn into_log(self) -> Option<Log> {
        self.log
    }

    fn show_counts(&mut self, stage: &Stage<'_>, now: Stamp) {
        let plan = stage.plan;
        let Some((index, started)) = self.phase_started else { return };
        let Some(phase) = plan.phase(index) else { return };
        let counts = counts_of(stage.gauges);
        let ended = counts.ok + counts.errors;
        let span_s = now.since(self.last_shown).as_secs_f64();
        let rate = if span_s > 0.0 { ended.saturating_sub(self.last_ended) as f64 / span_s } else { 0.0 };
        let line = format!(
            "{}/{} {} | {:.0}s | sent {} | ok {} | errors {} | in flight {} | {rate:.0} req/s",
            usize::from(index) + 1,
            plan.phases.len(),
            phase.name,
            now.since(started).as_secs_f64(),
            counts.sent,
            counts.ok,
            counts.errors,
            counts.in_flight,
        );
        let mut stderr = std::io::stderr();
        if self.terminal {
            let _ = write!(stderr, "\r\x1b[2K{line}");
            let _ = stderr.flush();
            self.line_open = true;
        } else {
            let _ = writeln!(stderr, "{line}");
        }
        self.last_shown = now;
        self.last_ended = ended;
    }

    fn end_line(&mut self) {
        if self.line_open {
            let _ = writeln!(std::io::stderr());
            self.line_open = false;
        }
    }
}

impl Companion for Display {
    fn phase_started(&mut self, stage: &Stage<'_>, phase: &PhasePlan, at: Stamp) {
        let _ = stage;
        self.phase_started = Some((phase.index, at));
        self.last_ended = 0;
        self.last_shown = at;
        self.notice(&started_notice(phase));
    }

    fn look(&mut self, stage: &Stage<'_>, now: Stamp) {
        let interval = if self.terminal { INTERVAL } else { INTERVAL_PLAIN };
        if self.ui == Ui::Simple && now.since(self.last_shown) >= interval {
            self.show_counts(stage, now);
        }
    }

    fn sending_ended(&mut self, stage: &Stage<'_>, phase: &PhasePlan, stopped: Stopped) {
        let _ = stage;
        self.notice(&format!(
            "Phase {} ({}) sending complete | sent={}, completed={}, in_flight={} | sessions: sent={}",
            phase.name,
            phase.kind.name(),
            stopped.sent,
            stopped.sent.saturating_sub(stopped.in_flight),
            stopped.in_flight,
            stopped.sessions
        ));
    }

    fn phase_ended(&mut self, stage: &Stage<'_>, phase: &PhasePlan, finished: &FinishedPhase) {
        let _ = stage;
        let counts = finished.tally.counts();
        let mut text = format!(
            "Phase {} ({}) complete | completed={}, cancelled={}, errors={}",
            phase.name,
            phase.kind.name(),
            counts.completed(),
            counts.abandoned,
            counts.errors()
        );
        if counts.dropped() > 0 {
            let _ = write!(text, ", dropped={}", counts.dropped());
        }
        let took = finished.ended.since(finished.started);
        let _ = write!(text, " | elapsed={:.2}s", took.as_secs_f64());
        self.notice(&text);
    }
}

fn counts_of(gauges: &[Arc<Gauges>]) -> Counts {
    let mut sum = Counts::default();
    for gauges in gauges {
        sum.sent += gauges.sent.load(Relaxed);
        sum.ok += gauges.ok.load(Relaxed);
        sum.errors += gauges.errors.load(Relaxed);
        sum.in_flight += gauges.in_flight.load(Relaxed);
    }
    sum
}

fn started_notice(phase: &PhasePlan) -> String {
    let mut text =
        format!("Phase {} ({}) started | phase_index={}", phase.name, phase.kind.name(), phase.index);
    if phase.kind == PhaseKind::Profiling
        && let Some(index) = phase.profiling_index
    {
        let _ = write!(text, " | profiling_index={index}");
    }
    let mut targets = Vec::new();
    if let Some(requests) = phase.stop.requests {
        targets.push(format!("{requests} requests"));
    }
    if let Some(duration) = phase.stop.duration {
        targets.push(format!("{}s duration", duration.as_secs_f64()));
    }
    if let Some(sessions) = phase.stop.sessions {
        targets.push(format!("{sessions} sessions"));
    }
    if targets.is_empty() {
        targets.push("the whole schedule".to_owned());
    }
    let _ = write!(text, " | target: {}", targets.join(", "));
    text
}
