//! Phases that are valid and may not do what their author thinks: each with a warning. It refuses nothing.

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::Written;
use crate::config::meant::{Phase, PhaseKind, Ramp};
use crate::config::sections::phase as written;

/// Adds the doubts about `meant`, which was made from `written`.
pub(super) fn add(written: &[written::Phase], meant: &[Phase], faults: &mut Vec<Diagnostic>) {
    warn_of_inherited_cancellation(written, meant, faults);
    warn_of_cut_requests(written, meant, faults);
    for (written, meant) in written.iter().zip(meant) {
        warn_of_unfinished_ramps(written, meant, faults);
    }
}

/// A ramp that outlasts its phase never reaches the load that the phase names.
fn warn_of_unfinished_ramps(written: &written::Phase, meant: &Phase, faults: &mut Vec<Diagnostic>) {
    let Some(duration) = meant.stop.duration else { return };
    let ramps: [(&str, &Written<Ramp>, Option<Ramp>); 3] = [
        ("concurrency_ramp", &written.concurrency_ramp, meant.concurrency_ramp),
        ("prefill_ramp", &written.prefill_ramp, meant.prefill_ramp),
        ("rate_ramp", &written.rate_ramp, meant.rate_ramp),
    ];
    for (name, written_ramp, ramp) in ramps {
        let Some(ramp) = ramp.filter(|ramp| ramp.duration > duration) else { continue };
        let message = format!(
            "`{}.{name}` takes {} s and the phase only {} s: its full load is never reached",
            written.path,
            ramp.duration.as_secs_f64(),
            duration.as_secs_f64()
        );
        let doubt = Diagnostic::warning(message).with_help("shorten the ramp, or lengthen the phase");
        faults.push(match written_ramp.present() {
            Some(present) => doubt.at(present.span.clone(), "ends after its phase"),
            None => doubt,
        });
    }
}

/// AIPerf gives a profiling phase without cancellation the first block it finds in any other one.
fn warn_of_inherited_cancellation(written: &[written::Phase], meant: &[Phase], faults: &mut Vec<Diagnostic>) {
    let profiling = || written.iter().zip(meant).filter(|(_, phase)| phase.kind == PhaseKind::Profiling);
    let Some((_, donor)) = profiling().find(|(written, _)| !written.cancellation.is_absent()) else { return };
    let Some(block) = donor.cancellation else { return };
    let without: Vec<_> = profiling().filter(|(written, _)| written.cancellation.is_absent()).collect();
    let Some((first, _)) = without.first() else { return };
    faults.push(
        Diagnostic::warning(format!(
            "{} without `cancellation` cancels nothing; AIPerf would have used the block of phase `{}` ({} %)",
            listed(without.iter().map(|(_, phase)| phase.name.as_str())),
            donor.name,
            block.rate_percent
        ))
        .at(first.place.clone(), "no cancellation")
        .with_help("write `cancellation: {rate: 0}` to mean the same to both"),
    );
}

/// AIPerf cuts the requests in flight at the end of a duration when no grace period is written.
fn warn_of_cut_requests(written: &[written::Phase], meant: &[Phase], faults: &mut Vec<Diagnostic>) {
    let cut: Vec<_> = written
        .iter()
        .zip(meant)
        .filter(|(written, phase)| {
            phase.kind == PhaseKind::Profiling
                && written.grace_s.is_absent()
                && written.duration_s.value().is_some_and(|seconds| seconds.is_finite())
        })
        .collect();
    let Some(place) = cut.first().and_then(|(written, _)| written.duration_s.present()) else { return };
    faults.push(
        Diagnostic::warning(format!(
            "at the end of its duration {} waits for requests in flight; AIPerf would have cut them",
            listed(cut.iter().map(|(_, phase)| phase.name.as_str()))
        ))
        .at(place.span.clone(), "no `grace_period` beside it")
        .with_help("write `grace_period` to bound the wait"),
    );
}

/// "phase `a`" or "each of the phases `a`, `b`".
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if quoted.len() == 1 {
        format!("phase {}", quoted.concat())
    } else {
        format!("each of the phases {}", quoted.join(", "))
    }
}
