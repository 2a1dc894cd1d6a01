//! Files about adaptive phases: what happened as it happened, what it came to, and where both lie
//! (spec/artifacts 13).

use crate::adaptive::{Candidate, Controller, Event, EventName, Rule, Scale};
use crate::artifact::file::{WriteFailure, write_json};
use crate::config::{Control, PhaseKind};
use crate::time::{Clock, Stamp};
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Name of the file that lists the adaptive phases of a run.
pub const MANIFEST: &str = "adaptive_scale_manifest.json";
const EVENTS: &str = "adaptive_scale_events.jsonl";
const SUMMARY: &str = "adaptive_scale_summary.json";

/// Version of the shapes.
const SCHEMA_VERSION: u32 = 2;

/// The phase that the files are about.
#[derive(Clone, Debug)]
pub struct AdaptivePhase {
    /// Position in the config.
    pub index: u16,
    /// Position among the profiling phases; absent for warmups.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
}

/// The files of one adaptive phase.
#[derive(Debug)]
pub struct AdaptiveFiles {
    directory: PathBuf,
    phase: AdaptivePhase,
    clock: Clock,
    events: File,
    path: PathBuf,
    failure: Option<WriteFailure>,
}

/// Members in the order of their names.
type Members = BTreeMap<&'static str, Json>;

impl AdaptiveFiles {
    /// Starts the event file in `directory`, the run's own; one of an earlier run is overwritten.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(directory: &Path, phase: AdaptivePhase, clock: Clock) -> Result<Self, WriteFailure> {
        let path = directory.join("phases").join(&phase.name).join(EVENTS);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(&path));
        match made {
            Ok(events) => {
                Ok(Self { directory: directory.to_owned(), phase, clock, events, path, failure: None })
            }
            Err(source) => Err(WriteFailure { path, source }),
        }
    }

    /// Appends one line. What cannot be written does not stop the search: see [`AdaptiveFiles::finish`].
    pub fn tell(&mut self, event: &Event, scale: &Scale) {
        let mut line = Json::Object(sorted(self.line(event, scale))).to_string();
        line.push('\n');
        if let Err(source) = self.events.write_all(line.as_bytes()) {
            self.failure.get_or_insert_with(|| WriteFailure { path: self.path.clone(), source });
        }
    }

    /// Writes the summary.
    ///
    /// # Errors
    /// The first of both files that could not be written.
    pub fn finish(self, controller: &Controller) -> Result<(), WriteFailure> {
        let name = format!("phases/{}/{SUMMARY}", self.phase.name);
        let document = Json::Object(sorted(self.summary(controller)));
        write_json(&self.directory, &name, &document, "\n")?;
        self.failure.map_or(Ok(()), Err)
    }

    fn of_phase(&self, members: &mut Members) {
        let AdaptivePhase { index, profiling_index, name, kind } = &self.phase;
        members.insert("phase_index", json!(index));
        members.insert("profiling_index", json!(profiling_index));
        members.insert("phase_name", json!(name));
        members.insert("phase_kind", json!(kind.name()));
    }

    fn line(&self, event: &Event, scale: &Scale) -> Members {
        let control = scale.control;
        let shown = |value: f64| shown(control, value);
        let optional = |value: Option<f64>| value.map_or(Json::Null, shown);
        let unix_ns = self.clock.unix_ns(event.at);
        let seen = &event.seen;
        let judged = event.name != EventName::Started;
        let values = seen.values.iter().filter(|_| event.tells_limits);
        let binding = seen.binding.as_ref().filter(|_| judged);
        let mut members = Members::from([
            ("accepted_value", shown(event.after)),
            ("adaptive_iteration", json!(event.iteration)),
            ("binding_sla", json!(binding.filter(|_| event.tells_limits).map(|(name, _)| name))),
            ("boundary_value", optional(event.standing.boundary)),
            ("cancelled", json!(seen.cancelled)),
            ("candidate_value", shown(event.before)),
            ("completed", json!(seen.good)),
            ("control", json!({ "actual_value": shown(event.after), "target_value": shown(event.after) })),
            ("control_value", shown(event.after)),
            ("control_value_after", shown(event.after)),
            ("control_value_before", shown(event.before)),
            ("control_variable", json!(control.name())),
            ("error_count", json!(seen.errors)),
            ("errored", json!(seen.errors)),
            ("event", json!(event.name.name())),
            ("fault_window_id", Json::Null),
            ("first_failing_value", optional(event.standing.first_failing)),
            ("in_flight", Json::Null),
            ("last_passing_value", optional(event.standing.last_passing)),
            ("phase", json!(event.stage.name())),
            ("phase_end_ts", Json::Null),
            ("phase_id", json!(self.phase.name)),
            ("phase_start_ts", Json::Null),
            ("reason", json!(event.reason)),
            ("run_id", Json::Null),
            ("sample_count", json!(seen.good)),
            ("schema_version", json!(SCHEMA_VERSION)),
            ("sent", json!(seen.good + seen.errors + seen.cancelled)),
            ("sla_passed", json!(event.passed)),
            ("sla_value", json!(binding.map(|(_, value)| *value))),
            (
                "sla_values",
                values.map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into(),
            ),
            ("step_policy", json!(scale.policy.name())),
            ("step_size", optional(event.step)),
            ("strategy_type", json!("ramp_until_fail")),
            ("throughput", json!(seen.throughput)),
            ("timestamp", json!(unix_ns)),
            ("timestamp_ns", json!(unix_ns)),
            ("timestamp_utc", json!(utc(unix_ns))),
        ]);
        of_limit(scale.rules.all().iter().next(), &mut members);
        self.of_phase(&mut members);
        members
    }

    fn summary(&self, controller: &Controller) -> Members {
        let scale = controller.scale();
        let shown = |value: f64| shown(scale.control, value);
        let optional = |value: Option<f64>| value.map_or(Json::Null, shown);
        let standing = controller.standing();
        let last = controller.last();
        let (windows, passed) = controller.sustain_windows();
        let value = shown(controller.value());
        let begun = controller.sustain_begun().map(|begun| self.clock.unix_ns(begun));
        let candidates = controller.candidates().iter().map(|candidate| self.candidate(candidate, scale));
        let first = scale.rules.all().iter().next();
        let mut members = Members::from([
            ("base_step", json!(scale.base_step)),
            ("boundary_value", optional(standing.boundary)),
            ("candidates", candidates.collect()),
            ("completed_reason", json!(controller.ending().map(crate::adaptive::Ending::reason))),
            ("control", json!({ "actual_value": value, "target_value": value })),
            ("control_value", value),
            ("control_variable", json!(scale.control.name())),
            ("first_failing_value", optional(standing.first_failing)),
            ("last_passing_value", optional(standing.last_passing)),
            ("max_step_multiplier", json!(scale.max_step_multiplier)),
            (
                "result",
                json!({
                    "boundary_value": optional(standing.boundary),
                    "first_failing_value": optional(standing.first_failing),
                    "last_passing_value": optional(standing.last_passing),
                }),
            ),
            ("schema_version", json!(SCHEMA_VERSION)),
            ("sla_passed_during_sustain", json!(windows > 0 && passed == windows)),
            ("status", json!(controller.ending().map(crate::adaptive::Ending::status))),
            ("step_percent", json!(scale.step_percent)),
            ("step_policy", json!(scale.policy.name())),
            ("strategy_type", json!("ramp_until_fail")),
            ("sustain_duration_seconds", json!(scale.sustain.as_secs_f64())),
            ("sustain_passed_windows", json!(passed)),
            ("sustain_started_at", json!(begun)),
            ("sustain_windows", json!(windows)),
            ("throughput", json!(last.throughput)),
            (
                "totals",
                json!({
                    "cancelled": last.cancelled,
                    "completed": last.good,
                    "errored": last.errors,
                    "sent": last.good + last.errors + last.cancelled,
                }),
            ),
        ]);
        if let Some(Rule { written, .. }) = first {
            let sla = json!({
                "bound": written.threshold, "metric": written.metric, "op": written.op, "stat": written.stat,
            });
            members.insert("sla", sla);
        }
        of_limit(first, &mut members);
        self.of_phase(&mut members);
        members
    }

    fn candidate(&self, candidate: &Candidate, scale: &Scale) -> Json {
        let at = |stamp: Stamp| json!(utc(self.clock.unix_ns(stamp)));
        let millis = |span_ns: Option<f64>| json!(span_ns.map(|span_ns| span_ns / 1e6));
        let ended = candidate.good + candidate.errors;
        let [latency, first_token, inter_token] = candidate.percentiles_ns;
        let mut members = Members::from([
            ("accepted", json!(candidate.rejection.is_none())),
            ("adaptive_iteration", json!(candidate.iteration)),
            ("cancelled", json!(candidate.cancelled)),
            ("candidate_value", shown(scale.control, candidate.value)),
            ("control_value", shown(scale.control, candidate.value)),
            ("duration_s", json!(candidate.ended.since(candidate.begun).as_secs_f64())),
            ("end_ts", at(candidate.ended)),
            ("error_count", json!(candidate.errors)),
            ("latency_avg_ms", millis(candidate.latency_avg_ns)),
            ("rejection_reason", json!(candidate.rejection.map(crate::adaptive::Rejection::name))),
            ("request_count", json!(ended + candidate.cancelled)),
            ("start_ts", at(candidate.begun)),
            ("success_count", json!(candidate.good)),
            ("success_rate", json!(if ended > 0 { candidate.good as f64 / ended as f64 } else { 0.0 })),
            ("throughput_rps", json!(candidate.throughput)),
        ]);
        let names = [
            (["latency_p50_ms", "latency_p95_ms", "latency_p99_ms"], latency),
            (["ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms"], first_token),
            (["itl_p50_ms", "itl_p95_ms", "itl_p99_ms"], inter_token),
        ];
        for (names, values) in names {
            members.extend(names.into_iter().zip(values.map(millis)));
        }
        Json::Object(sorted(members))
    }
}

/// Writes the list of the adaptive phases of a run.
///
/// # Errors
/// The file cannot be written.
pub fn write_manifest(directory: &Path, phases: &[AdaptivePhase]) -> Result<(), WriteFailure> {
    let mut phases: Vec<&AdaptivePhase> = phases.iter().collect();
    phases.sort_by_key(|phase| phase.index);
    let entries: Vec<Json> = phases
        .into_iter()
        .map(|phase| {
            json!({
                "events_path": format!("phases/{}/{EVENTS}", phase.name),
                "phase_index": phase.index,
                "phase_kind": phase.kind.name(),
                "phase_name": phase.name,
                "profiling_index": phase.profiling_index,
                "summary_path": format!("phases/{}/{SUMMARY}", phase.name),
            })
        })
        .collect();
    let manifest = json!({ "adaptive_phases": entries, "schema_version": SCHEMA_VERSION });
    write_json(directory, MANIFEST, &manifest, "\n")
}

fn of_limit(rule: Option<&Rule>, members: &mut Members) {
    if let Some(Rule { written, .. }) = rule {
        members.insert("sla_bound", json!(written.threshold));
        members.insert("sla_metric", json!(written.metric));
        members.insert("sla_op", json!(written.op));
        members.insert("sla_stat", json!(written.stat));
    }
}

fn sorted(members: Members) -> Map<String, Json> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A value of the control: rates have a fraction, all else is counted.
fn shown(control: Control, value: f64) -> Json {
    match control {
        Control::Concurrency | Control::PrefillConcurrency | Control::Users => {
            json!(crate::adaptive::whole(value))
        }
        Control::RequestRate => json!(value),
    }
}

fn utc(unix_ns: u64) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    stamp.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
