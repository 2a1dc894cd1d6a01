//! Open loops, ramps and what their limits do.

use crate::world::{
    Finished, PhaseWords, Simulation, arrivals_of, check_totals, concurrency, constant, gamma, poisson, ramp,
    run,
};
use crate::{SHARDS, arrivals};
use phasor::config::{RampStrategy, RatePoint};
use phasor::plan::{AtCapacity, Tuning};
use phasor::schedule::{Gaps, PacedArrivals, Share};
use phasor::time::Nanos;

const STRATEGIES: [RampStrategy; 3] =
    [RampStrategy::Exponential, RampStrategy::Linear, RampStrategy::Poisson];

fn planned(of: &Finished) -> Vec<Nanos> {
    of.records.iter().map(|record| record.planned.since(of.started)).collect()
}

fn queueing(sim: &mut Simulation) {
    sim.tuning = Tuning { at_capacity: AtCapacity::Queue, ..Tuning::default() };
}

#[test]
fn constant_and_gamma_phases_send_what_their_streams_plan_whatever_the_shards() {
    for (phase, gaps) in [
        (constant("even", 400.0, None), Gaps::Constant),
        (gamma("smooth", 400.0, 4.0, None), Gaps::Gamma(4.0)),
        (gamma("bursty", 400.0, 0.5, None), Gaps::Gamma(0.5)),
    ] {
        let expected: Vec<Nanos> = PacedArrivals::steady(42, gaps, 400.0, Share::new(0, 1))
            .take(150)
            .map(|arrival| arrival.offset)
            .collect();
        for shards in SHARDS {
            let outcomes = run(vec![phase.clone().requests(150)]).shards(shards).run();
            check_totals(&outcomes, 1);
            assert_eq!(planned(outcomes.phase(0)), expected, "{gaps:?}, {shards} shards");
        }
    }
}

#[test]
fn thirty_per_second_for_thirty_seconds_are_nine_hundred() {
    for shards in SHARDS {
        let outcomes = run(vec![constant("even", 30.0, None).millis(30_000)]).shards(shards).run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 900, "{shards} shards");
    }
}

#[test]
fn a_rate_ramp_delivers_its_integral_for_any_law_strategy_and_number_of_shards() {
    for strategy in STRATEGIES {
        for phase in
            [constant("even", 200.0, None), poisson("random", 200.0, None), gamma("bursty", 200.0, 0.5, None)]
        {
            let phase = phase.millis(20_000).change(|phase| phase.rate_ramp = Some(ramp(10_000, strategy)));
            let whole = run(vec![phase.clone()]).run();
            check_totals(&whole, 1);
            let sent = whole.phase(0).tally.counts().sent;
            let intended = arrivals_of(&phase);
            let off = (sent as f64 - intended).abs();
            assert!(off < 1.0 + 6.0 * intended.sqrt(), "{strategy:?} {}: {sent} of {intended}", phase.name);
            let plan = planned(whole.phase(0));
            for shards in [2, 5] {
                let outcomes = run(vec![phase.clone()]).shards(shards).run();
                assert_eq!(planned(outcomes.phase(0)), plan, "{strategy:?} {}", phase.name);
            }
        }
    }
}

#[test]
fn a_ramp_longer_than_its_phase_ends_early() {
    let phase = constant("even", 100.0, None)
        .millis(5_000)
        .change(|phase| phase.rate_ramp = Some(ramp(10_000, RampStrategy::Linear)));
    let outcomes = run(vec![phase]).run();
    check_totals(&outcomes, 1);
    // From 1 per second to 50.5 per second: the integral is 128.75.
    assert_eq!(outcomes.phase(0).tally.counts().sent, 128);
}

#[test]
fn a_series_of_rates_is_followed() {
    let point = |time_s, rate_per_s| RatePoint { time_s, rate_per_s };
    let phase = constant("series", 10.0, None).millis(8_000).change(|phase| {
        phase.rate_series = vec![point(0.0, 10.0), point(2.0, 100.0), point(4.0, 100.0), point(5.0, 1.0)];
    });
    let outcomes = run(vec![phase]).shards(2).run();
    check_totals(&outcomes, 1);
    let due = planned(outcomes.phase(0));
    let between = |from: u64, to: u64| {
        let span = Nanos::from_millis(from)..Nanos::from_millis(to);
        due.iter().filter(|due| span.contains(due)).count()
    };
    for (from, to, count) in [(0, 2_000, 110), (2_000, 4_000, 200), (4_000, 5_000, 50), (5_000, 8_000, 3)] {
        let sent = between(from, to);
        assert!(sent.abs_diff(count) <= 1, "{sent} of {count} between {from} and {to} ms");
    }
}

#[test]
fn slots_of_a_closed_loop_open_when_the_ramp_says() {
    for shards in SHARDS {
        let phase = concurrency("rise", 11)
            .millis(2_000)
            .change(|phase| phase.concurrency_ramp = Some(ramp(1_000, RampStrategy::Linear)));
        let outcomes = run(vec![phase]).shards(shards).with(|sim| sim.ttft = Nanos::from_millis(5_000)).run();
        check_totals(&outcomes, 1);
        // No reply comes before the end of the ramp: each request is the first of its slot.
        let expected: Vec<Nanos> = (0..11).map(|slot| Nanos::from_millis(slot * 100)).collect();
        assert_eq!(planned(outcomes.phase(0)), expected, "{shards} shards");
    }
}

#[test]
fn a_concurrency_ramp_of_any_strategy_ends_at_its_target() {
    for strategy in STRATEGIES {
        for shards in SHARDS {
            let phase = concurrency("rise", 30)
                .millis(3_000)
                .change(|phase| phase.concurrency_ramp = Some(ramp(1_000, strategy)));
            let outcomes = run(vec![phase]).shards(shards).run();
            check_totals(&outcomes, 1);
            assert_eq!(outcomes.in_flight_max, 30, "{strategy:?}, {shards} shards");
            let early = outcomes
                .phase(0)
                .records
                .iter()
                .filter(|record| record.issued < outcomes.phase(0).started.plus(Nanos::from_millis(200)));
            let most = outcomes.phase(0).records.len() / 15;
            assert!(early.count() < most * 2, "{strategy:?}: the start is not gentle");
        }
    }
}

#[test]
fn the_cap_of_an_open_loop_rises_with_its_ramp() {
    for shards in SHARDS {
        let phase = constant("capped", 1_000.0, Some(10))
            .millis(1_000)
            .change(|phase| phase.concurrency_ramp = Some(ramp(900, RampStrategy::Linear)));
        let outcomes = run(vec![phase]).shards(shards).with(|sim| sim.ttft = Nanos::from_millis(5_000)).run();
        check_totals(&outcomes, 1);
        let counts = *outcomes.phase(0).tally.counts();
        assert_eq!((counts.sent, counts.dropped_at_capacity), (10, 990), "{shards} shards");
        let steps: Vec<Nanos> = planned(outcomes.phase(0));
        for (slot, due) in (1..).zip(steps.iter().skip(1)) {
            let step = Nanos::from_millis(slot * 100);
            assert!(*due >= step && due.0 <= step.0 + 1_000_000, "slot {slot} at {due:?}");
        }
    }
}

#[test]
fn requests_without_content_are_never_more_than_allowed() {
    for shards in SHARDS {
        for phase in [
            concurrency("closed", 20).requests(300),
            poisson("open", 2_000.0, None).requests(300),
            poisson("capped", 2_000.0, Some(12)).requests(300),
        ] {
            let name = phase.name.clone();
            let outcomes = run(vec![phase.prefill(3)])
                .shards(shards)
                .with(|sim| {
                    sim.ttft = Nanos::from_millis(4);
                    sim.gap = Nanos::from_millis(3);
                })
                .run();
            check_totals(&outcomes, 1);
            assert_eq!(outcomes.prefill_max, 3, "{name}, {shards} shards");
            assert_eq!(outcomes.phase(0).tally.counts().ok, 300, "{name}, {shards} shards");
            assert!(outcomes.in_flight_max > 3, "a slot is freed at the first content, not at the end");
            let dropped = outcomes.phase(0).tally.counts().dropped_at_capacity;
            assert_eq!(dropped > 0, name != "closed", "{name}: {dropped} dropped");
        }
    }
}

#[test]
fn a_prefill_ramp_rises_from_one() {
    let phase = concurrency("rise", 40)
        .millis(2_000)
        .prefill(8)
        .change(|phase| phase.prefill_ramp = Some(ramp(700, RampStrategy::Linear)));
    let outcomes = run(vec![phase]).shards(2).with(|sim| sim.ttft = Nanos::from_millis(50)).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.prefill_max, 8);
    let rise = outcomes.phase(0);
    let before = |millis| {
        let until = rise.started.plus(Nanos::from_millis(millis));
        rise.records.iter().filter(|record| record.issued < until).count()
    };
    assert_eq!(before(49), 1);
    assert_eq!(before(99), 2);
}

#[test]
fn prefill_slots_are_freed_however_a_request_ends() {
    for (seed, fault) in (0..).zip([
        crate::world::Faults { refuse: 100, ..Default::default() },
        crate::world::Faults { close_early: 100, ..Default::default() },
        crate::world::Faults { status: 100, ..Default::default() },
        crate::world::Faults { hang: 100, ..Default::default() },
    ]) {
        let outcomes = run(vec![concurrency("bad", 6).requests(40).prefill(2)])
            .faults(fault)
            .with(|sim| sim.timeout = Some(Nanos::from_millis(30)))
            .run();
        check_totals(&outcomes, seed);
        assert_eq!(outcomes.phase(0).tally.counts().failed, 40);
    }
}

#[test]
fn arrivals_that_queue_at_the_cap_lose_nothing_and_their_wait_counts() {
    for shards in SHARDS {
        let phase = constant("queued", 1_000.0, Some(4)).requests(200);
        let outcomes = run(vec![phase]).shards(shards).with(queueing).run();
        check_totals(&outcomes, 1);
        let queued = outcomes.phase(0);
        let counts = *queued.tally.counts();
        assert_eq!((counts.ok, counts.dropped()), (200, 0), "{shards} shards");
        assert_eq!(outcomes.in_flight_max, 4);
        let waits: Vec<Nanos> =
            queued.records.iter().map(|record| record.issued.since(record.planned)).collect();
        assert!(waits.iter().max().is_some_and(|wait| *wait > Nanos::from_millis(150)));
        let lateness = queued.tally.lateness_summary().map(|late| late.max);
        assert!(
            lateness.is_some_and(|late| late < Nanos::from_millis(1)),
            "waiting for a slot is not the client's lateness: {lateness:?}"
        );
        if shards == 1 {
            let order: Vec<_> = queued.records.iter().map(|record| record.planned).collect();
            assert!(order.is_sorted(), "arrivals wait in order");
        }
    }
}

#[test]
fn what_waits_at_the_cap_when_the_phase_ends_is_dropped_and_counted() {
    for shards in SHARDS {
        let phase = constant("queued", 1_000.0, Some(2)).millis(500);
        let outcomes = run(vec![phase]).shards(shards).with(queueing).run();
        check_totals(&outcomes, 1);
        let counts = *outcomes.phase(0).tally.counts();
        assert_eq!(counts.planned(), 500, "{shards} shards: {counts:?}");
        assert!(counts.dropped_at_capacity > 350, "{counts:?}");
        let ended = outcomes.phase(0);
        assert_eq!(ended.sending_ended, ended.started.plus(Nanos::from_millis(500)));
    }
}

#[test]
fn the_old_rule_of_catching_up_gives_up_what_is_older_and_counts_it() {
    let stall = (Nanos::from_millis(500), Nanos::from_millis(800));
    let outcomes = run(vec![constant("even", 1_000.0, None).millis(2_000)])
        .with(|sim| {
            sim.stall = Some(stall);
            sim.tuning.catch_up = Some(Nanos::from_millis(10));
        })
        .run();
    check_totals(&outcomes, 1);
    let counts = *outcomes.phase(0).tally.counts();
    assert!((285..=295).contains(&counts.dropped_late), "{counts:?}");
    assert_eq!(counts.planned(), 2_000);
}

#[test]
fn a_rate_that_no_clock_can_follow_ends_all_the_same() {
    let outcomes = run(vec![constant("absurd", 1e7, Some(3)).millis(50)]).run();
    check_totals(&outcomes, 1);
    let counts = *outcomes.phase(0).tally.counts();
    assert_eq!(counts.planned(), 500_000);
    assert!(counts.dropped_at_capacity > 499_000, "{counts:?}");
}

#[test]
fn too_many_failures_over_all_shards_give_the_run_up() {
    use crate::world::Faults;
    for shards in SHARDS {
        let phases = |threshold| {
            vec![
                concurrency("warm", 4)
                    .requests(40)
                    .warmup()
                    .change(|p| p.failed_request_threshold = Some(0.0)),
                concurrency("load", 4).requests(400).change(|p| p.failed_request_threshold = Some(threshold)),
                concurrency("never", 4).requests(10),
            ]
        };
        let half = Faults { status: 50, ..Faults::default() };
        let outcomes = run(phases(0.3)).shards(shards).faults(half).run();
        check_totals(&outcomes, 1);
        assert!(outcomes.given_up, "{shards} shards");
        let counts = *outcomes.phase(1).tally.counts();
        assert!(counts.completed() >= 10 && counts.sent < 100, "{counts:?}");
        assert!(outcomes.phases[2].is_none(), "nothing begins after the end");
        let outcomes = run(phases(0.9)).shards(shards).faults(half).run();
        assert!(!outcomes.given_up);
        assert_eq!(outcomes.phase(1).tally.counts().sent, 400);
    }
}

#[test]
fn arrivals_behind_a_cap_are_those_of_the_seed() {
    let due: Vec<Nanos> = arrivals(1_000.0).take(2_000).map(|arrival| arrival.offset).collect();
    let outcomes = run(vec![poisson("capped", 1_000.0, Some(3)).requests(50)]).shards(2).run();
    check_totals(&outcomes, 1);
    assert!(planned(outcomes.phase(0)).iter().all(|at| due.contains(at)));
}
