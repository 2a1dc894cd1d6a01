//! Phases that look for the highest load, against a server whose capacity is known.

use crate::SHARDS;
use crate::world::{Outcomes, PhaseWords, Simulation, check_totals, concurrency, poisson, run, users};
use phasor::adaptive::Ending;
use phasor::config::{AdaptiveScale, Control, Phase, SlaRule, StepPolicy};
use phasor::time::Nanos;

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn looking(phase: Phase, control: Control, min: f64, max: f64, sla: SlaRule) -> Phase {
    phase.change(|phase| {
        phase.sla = vec![sla];
        phase.adaptive = Some(AdaptiveScale {
            control,
            control_min: min,
            control_max: Some(max),
            assessment_period_s: Some(5.0),
            min_completed_requests: 20,
            sustain_s: 15.0,
            step_policy: StepPolicy::FixedPercentStep,
            base_step: 1,
            max_step_multiplier: 4,
            step_percent: 5.0,
        });
    })
}

fn limit(metric: &str, stat: &str, threshold: f64) -> SlaRule {
    SlaRule { metric: metric.to_owned(), stat: stat.to_owned(), op: "lt", threshold }
}

/// A server that works on one request after the other, ten milliseconds each.
fn queue(phase: Phase, seed: u64) -> Simulation {
    run(vec![phase.millis(1_800_000)])
        .seed(seed)
        .with(|sim| (sim.service, sim.ttft, sim.gap) = (Some(Nanos::from_millis(10)), Nanos(0), Nanos(0)))
}

fn boundary(outcomes: &Outcomes) -> f64 {
    outcomes.search.as_ref().and_then(|search| search.standing().boundary).unwrap()
}

fn near(found: f64, knee: f64) -> bool {
    (found / knee - 1.0).abs() <= 0.10
}

#[test]
fn the_knee_of_a_closed_loop_is_found_with_every_seed() {
    // In a closed loop of n the latency is n times the service: 300 ms are reached at 30.
    for seed in SEEDS {
        let phase = looking(
            concurrency("load", 1),
            Control::Concurrency,
            2.0,
            200.0,
            limit("request_latency", "avg", 300.0),
        );
        let outcomes = queue(phase, seed).run();
        check_totals(&outcomes, seed);
        let found = boundary(&outcomes);
        assert!(near(found, 30.0), "seed {seed}: {found}");
        let search = outcomes.search.as_ref().unwrap();
        assert_eq!(search.ending(), Some(Ending::Sustained), "seed {seed}");
        assert!(outcomes.in_flight_max <= 34, "seed {seed}: {} in flight", outcomes.in_flight_max);
    }
}

#[test]
fn the_knee_of_an_open_loop_is_found_with_every_seed_and_any_number_of_shards() {
    // The server does 100 per second; close to that the queue grows without bound.
    for (seed, shards) in SEEDS.into_iter().zip([1, 2, 5, 1, 2]) {
        let phase = looking(
            poisson("load", 20.0, None),
            Control::RequestRate,
            20.0,
            1_000.0,
            limit("request_latency", "p95", 400.0),
        );
        let outcomes = queue(phase, seed).shards(shards).run();
        check_totals(&outcomes, seed);
        let found = boundary(&outcomes);
        assert!(near(found, 100.0), "seed {seed}, {shards} shards: {found}");
    }
}

#[test]
fn a_rate_that_is_turned_sends_the_same_whatever_the_shards() {
    let planned = |shards| {
        let phase = looking(
            poisson("load", 20.0, None),
            Control::RequestRate,
            20.0,
            40.0,
            limit("request_latency", "p95", 5_000.0),
        );
        let outcomes = queue(phase, 1).shards(shards).run();
        check_totals(&outcomes, 1);
        let load = outcomes.phase(0);
        let mut planned: Vec<Nanos> =
            load.records.iter().map(|record| record.planned.since(load.started)).collect();
        planned.sort_unstable();
        assert_eq!(outcomes.search.as_ref().unwrap().ending(), Some(Ending::MaxReached));
        planned
    };
    let whole = planned(1);
    assert!(whole.len() > 1_000);
    for shards in SHARDS {
        let split = planned(shards);
        // The windows of several shards are cut a little later, so the ends differ; what both planned does not.
        let common = whole.len().min(split.len()) * 9 / 10;
        let same = whole.iter().zip(&split).take(common).filter(|(one, other)| one == other).count();
        assert!(same > common / 4, "{shards} shards: {same} of {common} due times agree");
    }
}

#[test]
fn the_number_of_users_is_found() {
    // Each user sends once per second: 100 users keep the server busy all the time.
    let phase = looking(
        users("load", 20, 20.0, None),
        Control::Users,
        20.0,
        1_000.0,
        limit("request_latency", "p95", 400.0),
    );
    let outcomes = queue(phase, 3).run();
    check_totals(&outcomes, 3);
    let found = boundary(&outcomes);
    assert!(near(found, 100.0), "{found}");
}

#[test]
fn the_prefill_concurrency_is_found() {
    let phase = looking(
        concurrency("load", 60),
        Control::PrefillConcurrency,
        2.0,
        60.0,
        limit("time_to_first_token", "avg", 300.0),
    );
    let outcomes = queue(phase, 4).run();
    check_totals(&outcomes, 4);
    let found = boundary(&outcomes);
    assert!(near(found, 30.0), "{found}");
    assert!(outcomes.prefill_max <= 34, "{}", outcomes.prefill_max);
}

#[test]
fn a_load_that_is_never_too_much_ends_at_the_greatest_value() {
    let sla = limit("request_latency", "p95", 60_000.0);
    let phase = looking(concurrency("load", 8), Control::Concurrency, 1.0, 8.0, sla);
    let outcomes = queue(phase, 1).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.search.as_ref().unwrap().ending(), Some(Ending::MaxReached));
}

#[test]
fn a_limit_that_cannot_be_kept_fails_at_the_first_window() {
    let sla = limit("request_latency", "p95", 1.0);
    let phase = looking(concurrency("load", 8), Control::Concurrency, 1.0, 8.0, sla);
    let outcomes = queue(phase, 1).run();
    check_totals(&outcomes, 1);
    let search = outcomes.search.as_ref().unwrap();
    assert_eq!(search.ending(), Some(Ending::NothingSustainable));
    assert_eq!(search.candidates().len(), 1);
}
