//! The engine against a simulated server in virtual time: thirty minutes of load in milliseconds, any
//! split of the bytes, every fault, and a seed that repeats each failure.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "sim/adaptive.rs"]
mod adaptive;
#[path = "support/certificates.rs"]
mod certificates;
#[path = "sim/connections.rs"]
mod connections;
#[path = "sim/loads.rs"]
mod loads;
#[path = "sim/secure.rs"]
mod secure;
#[path = "sim/servers.rs"]
mod servers;
#[path = "sim/turns.rs"]
mod turns;
#[path = "sim/world.rs"]
mod world;

use phasor::config::{Reuse, Sampling};
use phasor::measure::Outcome;
use phasor::plan::AtCapacity;
use phasor::schedule::{Gaps, PacedArrivals, Share, Turn};
use phasor::time::{Nanos, Stamp};
use world::{
    Faults, PhaseWords, Simulation, after, at, check_totals, concurrency, constant, gamma, poisson, ramp,
    run, schedule, users,
};

/// AIPerf's choice of cancelled requests for seed 42 at 20 %.
const CANCELLED_AT_20: [u64; 16] = [2, 3, 12, 14, 19, 27, 41, 51, 52, 55, 72, 78, 79, 89, 90, 98];

const SHARDS: [u16; 3] = [1, 2, 5];

/// The Poisson arrivals of seed 42.
fn arrivals(rate_per_s: f64) -> PacedArrivals {
    PacedArrivals::steady(42, Gaps::Exponential, rate_per_s, Share::new(0, 1))
}

#[test]
fn a_count_is_sent_exactly_whatever_the_shards_and_the_concurrency() {
    for shards in SHARDS {
        for slots in [1, 3, 64] {
            let outcomes = run(vec![concurrency("load", slots).requests(101)]).shards(shards).run();
            check_totals(&outcomes, 1);
            let load = outcomes.phase(0);
            assert_eq!(load.tally.counts().sent, 101);
            assert_eq!(load.tally.counts().ok, 101);
            assert_eq!(outcomes.in_flight_max, u64::from(slots));
            let numbers: Vec<u64> = load.records.iter().map(|record| record.number).collect();
            assert_eq!(numbers, (0..101).collect::<Vec<_>>());
        }
    }
}

#[test]
fn connections_are_kept_and_no_more_are_made_than_slots() {
    let outcomes = run(vec![concurrency("load", 8).requests(1_000)]).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.connections_made, 8);
}

#[test]
fn sending_ends_at_the_stamp_and_what_is_in_flight_is_waited_for() {
    let outcomes = run(vec![concurrency("load", 4).millis(1_000)]).shards(2).run();
    check_totals(&outcomes, 1);
    let load = outcomes.phase(0);
    assert_eq!(load.sending_ended, load.started.plus(Nanos::from_millis(1_000)));
    assert!(load.closed > load.sending_ended);
    assert_eq!(load.tally.counts().abandoned, 0);
    assert!(load.records.iter().all(|record| record.issued < load.sending_ended));
}

#[test]
fn thirty_minutes_pass_in_no_time() {
    let outcomes = run(vec![concurrency("soak", 2).millis(30 * 60_000)])
        .with(|sim| {
            sim.ttft = Nanos::from_millis(500);
            sim.gap = Nanos::from_millis(100);
        })
        .run();
    check_totals(&outcomes, 1);
    let soak = outcomes.phase(0);
    assert_eq!(soak.sending_ended, soak.started.plus(Nanos::from_millis(30 * 60_000)));
    // 0.5 s and four gaps of 0.1 s each, on two slots.
    assert!((3_900..=4_010).contains(&soak.tally.counts().ok), "{:?}", soak.tally.counts());
}

#[test]
fn grace_bounds_the_wait_and_cuts_only_what_is_left() {
    let outcomes =
        run(vec![concurrency("slow", 6).millis(100).grace_millis(50), concurrency("next", 2).requests(4)])
            .with(|sim| sim.ttft = Nanos::from_millis(400))
            .run();
    check_totals(&outcomes, 1);
    let slow = outcomes.phase(0);
    assert_eq!(slow.tally.counts().abandoned, 6);
    assert_eq!(slow.closed, slow.started.plus(Nanos::from_millis(150)));
    assert_eq!(outcomes.phase(1).tally.counts().ok, 4);
}

#[test]
fn grace_of_one_phase_leaves_the_requests_of_the_next_alone() {
    let outcomes = run(vec![
        concurrency("old", 3).millis(100).grace_millis(100),
        concurrency("new", 6).requests(12).seamless(),
    ])
    .with(|sim| sim.ttft = Nanos::from_millis(400))
    .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().abandoned, 3);
    assert_eq!(outcomes.phase(1).tally.counts().ok, 12);
}

#[test]
fn arrivals_are_planned_alike_by_any_number_of_shards_and_as_the_seed_says() {
    let planned: Vec<Nanos> = arrivals(500.0).take(200).map(|arrival| arrival.offset).collect();
    for shards in SHARDS {
        let outcomes = run(vec![poisson("open", 500.0, None).requests(200)]).shards(shards).run();
        check_totals(&outcomes, 1);
        let open = outcomes.phase(0);
        let due: Vec<Nanos> = open.records.iter().map(|record| record.planned.since(open.started)).collect();
        assert_eq!(due, planned, "{shards} shards");
        assert!(
            open.records.iter().all(|record| record.issued == record.planned),
            "virtual time is punctual"
        );
    }
}

#[test]
fn an_open_loop_sends_every_arrival_before_its_end_and_none_after() {
    let end = Nanos::from_millis(2_000);
    let planned = arrivals(300.0).take_while(|arrival| arrival.offset < end).count() as u64;
    for shards in SHARDS {
        let outcomes = run(vec![poisson("open", 300.0, None).millis(2_000)]).shards(shards).run();
        check_totals(&outcomes, 1);
        let open = outcomes.phase(0);
        assert_eq!(open.tally.counts().sent, planned);
        assert_eq!(open.tally.counts().planned(), planned);
        assert_eq!(open.sending_ended, open.started.plus(end));
    }
}

#[test]
fn cancelled_numbers_are_those_of_the_seed_for_any_number_of_shards() {
    for shards in SHARDS {
        for phase in [
            concurrency("closed", 7).requests(100).cancel(20.0, 0),
            poisson("open", 400.0, None).requests(100).cancel(20.0, 0),
            poisson("capped", 400.0, Some(50)).requests(100).cancel(20.0, 0),
        ] {
            let name = phase.name.clone();
            let outcomes = run(vec![phase]).shards(shards).run();
            check_totals(&outcomes, 1);
            let cancelled: Vec<u64> = outcomes
                .phase(0)
                .records
                .iter()
                .filter(|record| matches!(record.outcome, Outcome::Cancelled { .. }))
                .map(|record| record.number)
                .collect();
            assert_eq!(cancelled, CANCELLED_AT_20, "{name}, {shards} shards");
        }
    }
}

#[test]
fn with_a_seed_every_phase_cancels_alike_and_a_warmup_never_does() {
    let outcomes = run(vec![
        concurrency("warm", 4).requests(100).cancel(100.0, 0).warmup(),
        concurrency("first", 4).requests(100).cancel(20.0, 0),
        concurrency("second", 4).requests(100).cancel(20.0, 0),
    ])
    .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().cancelled, 0);
    for index in [1, 2] {
        let cancelled: Vec<u64> = outcomes
            .phase(index)
            .records
            .iter()
            .filter(|record| matches!(record.outcome, Outcome::Cancelled { .. }))
            .map(|record| record.number)
            .collect();
        assert_eq!(cancelled, CANCELLED_AT_20);
    }
}

#[test]
fn without_a_seed_each_phase_cancels_requests_of_its_own() {
    let outcomes = run(vec![
        concurrency("first", 4).requests(400).cancel(20.0, 0),
        concurrency("second", 4).requests(400).cancel(20.0, 0),
    ])
    .with(|sim| sim.random_seed = None)
    .run();
    let chosen = |index: usize| -> Vec<u64> {
        let of = &outcomes.phase(index).records;
        of.iter().filter(|r| matches!(r.outcome, Outcome::Cancelled { .. })).map(|r| r.number).collect()
    };
    assert_ne!(chosen(0), chosen(1));
}

#[test]
fn the_delay_counts_from_the_last_byte_written_and_a_faster_reply_is_a_success() {
    let outcomes = run(vec![concurrency("cut", 5).requests(50).cancel(100.0, 3)]).run();
    check_totals(&outcomes, 1);
    let cut = outcomes.phase(0);
    assert_eq!(cut.tally.counts().cancelled, 50);
    for record in &cut.records {
        let written = record.written.unwrap();
        assert_eq!(record.ended, written.plus(Nanos::from_millis(3)));
    }
    assert_eq!(outcomes.connections_made, 50, "a cancelled connection is never used again");

    let outcomes = run(vec![concurrency("spared", 5).requests(50).cancel(100.0, 1_000)]).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().ok, 50);
    assert_eq!(outcomes.connections_made, 5);
}

#[test]
fn a_storm_of_cancellations_adds_up() {
    for shards in SHARDS {
        let outcomes =
            run(vec![concurrency("storm", 1_000).millis(300).cancel(50.0, 0)]).shards(shards).run();
        check_totals(&outcomes, 1);
        let counts = *outcomes.phase(0).tally.counts();
        assert!(counts.cancelled > counts.ok / 2, "{counts:?}");
        assert_eq!(outcomes.in_flight_max, 1_000);
        assert_eq!(outcomes.server_requests, counts.sent, "a cancelled request is still sent");
    }
}

#[test]
fn a_seamless_hand_over_never_exceeds_the_larger_of_old_and_new() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shards = SHARDS[rng.usize(0..SHARDS.len())];
        let (old, new) = (rng.u32(1..40), rng.u32(1..40));
        let outcomes = run(vec![
            concurrency("old", old).millis(rng.u64(50..200)),
            concurrency("new", new).requests(rng.u64(1..300)).seamless(),
            concurrency("last", rng.u32(1..40)).millis(100).seamless(),
        ])
        .shards(shards)
        .seed(seed)
        .with(|sim| sim.ttft = Nanos::from_millis(30))
        .run();
        check_totals(&outcomes, seed);
        let limits = [old, new];
        for index in [1_usize, 2] {
            let at_switch = outcomes.in_flight_at_start[index];
            let limit = match index {
                1 => u64::from(limits[1]),
                _ => continue,
            };
            let most = outcomes.in_flight_max_since_start[index];
            assert!(
                most <= at_switch.max(limit),
                "seed {seed}: {most} in flight, {at_switch} at the switch, limit {limit}"
            );
        }
        let (first, second) = (outcomes.phase(0), outcomes.phase(1));
        assert!(second.started >= first.sending_ended, "seed {seed}");
        assert!(
            second.started.since(first.sending_ended) < Nanos::from_millis(1),
            "seed {seed}: a gap at the switch"
        );
    }
}

#[test]
fn a_seamless_hand_over_between_any_two_types_keeps_within_the_limits() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xca9);
        let (old, new) = (rng.u32(1..30), rng.u32(1..30));
        let mut load = |name: &str, cap: u32| match rng.u32(0..6) {
            0 => concurrency(name, cap),
            1 => constant(name, 2_000.0, Some(cap)),
            2 => gamma(name, 2_000.0, 0.5, Some(cap)),
            3 => poisson(name, 2_000.0, Some(cap)),
            4 => users(name, cap * 2, 2_000.0, Some(cap)),
            _ => schedule(name, Some(cap)),
        };
        let phases = vec![load("old", old).millis(100), load("new", new).millis(150).seamless()];
        let outcomes = run(phases)
            .shards(SHARDS[rng.usize(0..SHARDS.len())])
            .seed(seed)
            .with(|sim| {
                sim.ttft = Nanos::from_millis(30);
                sim.script = (0..200).map(|entry| vec![at(entry / 2)]).collect();
            })
            .run();
        check_totals(&outcomes, seed);
        let (at_switch, most) = (outcomes.in_flight_at_start[1], outcomes.in_flight_max_since_start[1]);
        assert!(outcomes.in_flight_max_since_start[0] <= u64::from(old), "seed {seed}");
        assert!(
            most <= at_switch.max(u64::from(new)),
            "seed {seed}: {most}, {at_switch} at the switch, {new}"
        );
    }
}

#[test]
fn without_seamless_a_phase_waits_for_the_one_before() {
    let outcomes =
        run(vec![concurrency("old", 9).millis(100), concurrency("new", 3).requests(9)]).shards(2).run();
    check_totals(&outcomes, 1);
    let gap = outcomes.phase(1).started.since(outcomes.phase(0).closed);
    assert!(outcomes.phase(1).started > outcomes.phase(0).closed);
    assert!(gap < Nanos::from_millis(1), "gap {gap:?}");
    assert_eq!(outcomes.in_flight_at_start[1], 0);
}

#[test]
fn arrivals_at_the_cap_are_dropped_counted_and_only_when_the_whole_process_is_full() {
    for shards in SHARDS {
        let outcomes = run(vec![poisson("capped", 2_000.0, Some(5)).millis(1_000)]).shards(shards).run();
        check_totals(&outcomes, 1);
        let counts = *outcomes.phase(0).tally.counts();
        assert_eq!(outcomes.in_flight_max, 5, "{shards} shards");
        assert!(counts.dropped_at_capacity > 0);
        let planned =
            arrivals(2_000.0).take_while(|arrival| arrival.offset < Nanos::from_millis(1_000)).count() as u64;
        assert_eq!(counts.planned(), planned, "planned = sent + dropped");
        let numbers: Vec<u64> = outcomes.phase(0).records.iter().map(|record| record.number).collect();
        assert_eq!(numbers, (0..counts.sent).collect::<Vec<_>>(), "numbers have no gap");
    }
}

#[test]
fn a_capped_open_loop_sends_its_count_exactly() {
    for shards in SHARDS {
        let outcomes = run(vec![poisson("capped", 3_000.0, Some(4)).requests(200)]).shards(shards).run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 200, "{shards} shards");
    }
}

#[test]
fn a_stall_of_the_client_forgets_no_arrival_and_shows_as_lateness() {
    let stall = (Nanos::from_millis(500), Nanos::from_millis(900));
    let calm = run(vec![poisson("open", 1_000.0, None).millis(2_000)]).run();
    let outcomes =
        run(vec![poisson("open", 1_000.0, None).millis(2_000)]).with(|sim| sim.stall = Some(stall)).run();
    check_totals(&outcomes, 1);
    let (open, calm) = (outcomes.phase(0), calm.phase(0));
    assert_eq!(open.tally.counts().sent, calm.tally.counts().sent);
    let late: Vec<Nanos> = open
        .records
        .iter()
        .map(|record| record.issued.since(record.planned))
        .filter(|late| *late > Nanos::from_millis(1))
        .collect();
    assert!((350..=450).contains(&late.len()), "{} late", late.len());
    let worst = late.iter().max().copied().unwrap_or_default();
    assert!(worst > Nanos::from_millis(390) && worst <= Nanos::from_millis(400), "{worst:?}");
    let order: Vec<Stamp> = open.records.iter().map(|record| record.issued).collect();
    assert!(order.is_sorted(), "what is due is sent in order");
}

#[test]
fn a_client_hopelessly_late_at_the_end_drops_and_says_so() {
    let outcomes = run(vec![poisson("open", 1_000.0, None).millis(3_000)])
        .with(|sim| sim.stall = Some((Nanos::from_millis(100), Nanos::from_millis(5_000))))
        .run();
    check_totals(&outcomes, 1);
    let counts = *outcomes.phase(0).tally.counts();
    assert!(counts.dropped_late > 2_000, "{counts:?}");
    let calm = run(vec![poisson("open", 1_000.0, None).millis(3_000)]).run();
    assert_eq!(counts.planned(), calm.phase(0).tally.counts().planned());
}

#[test]
fn requests_older_than_the_timeout_fail_and_their_connections_close() {
    let outcomes = run(vec![concurrency("hang", 3).requests(9)])
        .faults(Faults { hang: 100, ..Faults::default() })
        .with(|sim| sim.timeout = Some(Nanos::from_millis(250)))
        .run();
    check_totals(&outcomes, 1);
    let hang = outcomes.phase(0);
    assert_eq!(hang.tally.counts().failed, 9);
    for record in &hang.records {
        let Outcome::Failed(failure) = &record.outcome else { panic!("{:?}", record.outcome) };
        assert_eq!(failure.kind, "TimeoutError");
        assert_eq!(record.ended.since(record.issued), Nanos::from_millis(250));
    }
}

#[test]
fn each_fault_has_its_name() {
    let kinds = |faults: Faults| -> Vec<(Option<u16>, String)> {
        let outcomes = run(vec![concurrency("load", 2).requests(6)]).faults(faults).run();
        check_totals(&outcomes, 1);
        let of = |record: &phasor::measure::Record| match &record.outcome {
            Outcome::Failed(failure) => (failure.code, failure.kind.clone()),
            other => panic!("{other:?}"),
        };
        outcomes.phase(0).records.iter().map(of).collect()
    };
    let none = Faults::default();
    let expect = |faults: Faults, code: Option<u16>, kind: &str| {
        assert_eq!(kinds(faults), vec![(code, kind.to_owned()); 6]);
    };
    expect(Faults { refuse: 100, ..none }, None, "ClientConnectorError");
    expect(Faults { close_early: 100, ..none }, None, "ServerDisconnectedError");
    expect(Faults { reset_early: 100, ..none }, None, "ClientOSError");
    expect(Faults { truncate: 100, ..none }, None, "ClientPayloadError");
    expect(Faults { reset_late: 100, ..none }, None, "ClientPayloadError");
    expect(Faults { status: 100, ..none }, Some(429), "Too Many Requests");
    expect(Faults { starve: 100, ..none }, None, "ClientSocketError");
}

#[test]
fn a_client_without_ports_fails_every_request_by_the_name_of_the_limit() {
    let starved = Faults { starve: 100, ..Faults::default() };
    let outcomes = run(vec![concurrency("load", 3).requests(50)]).shards(2).faults(starved).run();
    check_totals(&outcomes, 1);
    let tally = &outcomes.phase(0).tally;
    assert_eq!(tally.counts().failed, 50);
    let groups = tally.error_groups();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].failure.client_error(), Some("EADDRNOTAVAIL"));
}

#[test]
fn any_mixture_of_faults_splits_phases_and_shards_adds_up() {
    for seed in 0..400 {
        let outcomes = mixture(seed).run();
        check_totals(&outcomes, seed);
    }
}

/// A phase of any type, with whatever it may have.
fn any_phase(rng: &mut fastrand::Rng, name: &str) -> phasor::config::Phase {
    use phasor::config::RampStrategy;
    let strategies = [RampStrategy::Exponential, RampStrategy::Linear, RampStrategy::Poisson];
    let rate_per_s = rng.f64() * 900.0 + 50.0;
    let cap = rng.bool().then(|| rng.u32(1..20));
    let paced = |rng: &mut fastrand::Rng, phase: phasor::config::Phase| {
        let ramps = rng.u32(0..3) == 0;
        let (millis, strategy) = (rng.u64(1..400), strategies[rng.usize(0..3)]);
        phase.change(|phase| phase.rate_ramp = Some(ramp(millis, strategy)).filter(|_| ramps))
    };
    let mut phase = match rng.u32(0..7) {
        0 | 1 => concurrency(name, rng.u32(1..30)),
        2 => {
            let phase = constant(name, rate_per_s, cap);
            paced(rng, phase)
        }
        3 => {
            let phase = gamma(name, rate_per_s, rng.f64() * 4.0 + 0.2, cap);
            paced(rng, phase)
        }
        4 => {
            let phase = poisson(name, rate_per_s, cap);
            paced(rng, phase)
        }
        5 => users(name, rng.u32(1..20), rate_per_s, cap),
        _ => schedule(name, cap),
    };
    phase = match rng.u32(0..5) {
        0 => phase.requests(rng.u64(1..200)),
        1 => phase.millis(rng.u64(1..300)),
        2 => phase.sessions(rng.u64(1..100)),
        3 => phase.sessions(rng.u64(1..100)).millis(rng.u64(1..300)),
        _ => phase.requests(rng.u64(1..200)).millis(rng.u64(1..300)),
    };
    if phase.stop.duration.is_some() && rng.bool() {
        phase = phase.grace_millis(rng.u64(0..40));
    }
    if rng.bool() {
        phase = phase.cancel(rng.f64() * 100.0, rng.u64(0..12));
    }
    let limit = phase.load.concurrency();
    if rng.u32(0..3) == 0 {
        phase = phase.prefill(rng.u32(1..=limit.unwrap_or(9)));
        let (millis, strategy) = (rng.u64(1..200), strategies[rng.usize(0..3)]);
        phase.prefill_ramp = Some(ramp(millis, strategy)).filter(|_| rng.bool());
    }
    if limit.is_some() && rng.u32(0..3) == 0 {
        phase.concurrency_ramp = Some(ramp(rng.u64(1..200), strategies[rng.usize(0..3)]));
    }
    phase
}

fn mixture(seed: u64) -> Simulation {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let mut phases = Vec::new();
    for index in 0..rng.usize(1..5) {
        let mut phase = any_phase(&mut rng, &format!("phase{index}"));
        if index > 0 && rng.bool() {
            phase = phase.seamless();
        }
        if index > 0 && rng.u32(0..4) == 0 {
            phase = phase.warmup();
        }
        phases.push(phase);
    }
    let faults = Faults {
        refuse: rng.u32(0..15),
        reset_early: rng.u32(0..10),
        reset_late: rng.u32(0..10),
        close_early: rng.u32(0..10),
        truncate: rng.u32(0..10),
        hang: rng.u32(0..5),
        status: rng.u32(0..10),
        starve: rng.u32(0..10),
        stale: 0,
    };
    let turns_max = rng.usize(1..5);
    let script: Vec<Vec<Turn>> = (0..rng.usize(1..30))
        .map(|_| {
            let mut turns: Vec<Turn> = (0..rng.usize(1..=turns_max))
                .map(|_| match rng.u32(0..3) {
                    0 => Turn::default(),
                    1 => after(rng.u64(0..60)),
                    _ => at(rng.u64(0..400)),
                })
                .collect();
            turns[0] = at(rng.u64(0..400));
            turns
        })
        .collect();
    run(phases).shards(SHARDS[rng.usize(0..SHARDS.len())]).seed(seed).faults(faults).with(|sim| {
        sim.split = true;
        sim.timeout = Some(Nanos::from_millis(200));
        sim.streaming = rng.u32(0..4) > 0;
        sim.urls = rng.usize(1..4);
        sim.tokens = rng.u32(1..6);
        sim.script = script;
        sim.reuse = [Reuse::Never, Reuse::Pooled, Reuse::Pooled, Reuse::Sticky][rng.usize(0..4)];
        sim.sampling = if rng.bool() { Sampling::Random } else { Sampling::Sequential };
        if rng.u32(0..3) == 0 {
            sim.tuning.at_capacity = AtCapacity::Queue;
        }
        if rng.u32(0..4) == 0 {
            sim.tuning.catch_up = Some(Nanos::from_millis(rng.u64(0..20)));
        }
        if rng.u32(0..4) == 0 {
            sim.stall = Some((Nanos::from_millis(20), Nanos::from_millis(rng.u64(21..200))));
        }
        sim.faults.stale = rng.u32(0..40);
        if sim.reuse == Reuse::Pooled && rng.u32(0..4) == 0 {
            let most = rng.u32(1..12);
            sim.tuning.connections_max = Some(most);
            sim.connections_max = most as usize;
        }
    })
}

#[test]
fn whichever_rule_is_reached_first_ends_sending_for_every_type_of_load() {
    type Rule = fn(phasor::config::Phase) -> phasor::config::Phase;
    // Each rule alone would stop a phase after about 40, 60 and 80 requests of the 400 per second.
    let rules: [(&str, Rule); 3] = [
        ("requests", |phase| phase.requests(40)),
        ("sessions", |phase| phase.sessions(30)),
        ("duration", |phase| phase.millis(200)),
    ];
    let loads = [
        concurrency("closed", 4),
        constant("constant", 400.0, None),
        gamma("gamma", 400.0, 3.0, Some(50)),
        poisson("poisson", 400.0, None),
        users("users", 4, 400.0, None),
    ];
    for shards in SHARDS {
        for load in &loads {
            for (one, first) in rules {
                for (other, second) in rules {
                    let both = first(second(load.clone()));
                    let name = format!("{} by {one} and {other}, {shards} shards", load.name);
                    let outcomes = run(vec![both])
                        .shards(shards)
                        .with(|sim| sim.script = vec![vec![Turn::default(), after(1)]; 9])
                        .run();
                    check_totals(&outcomes, 1);
                    let of = outcomes.phase(0);
                    let sent = of.tally.counts().sent;
                    let sessions: std::collections::HashSet<u128> =
                        of.records.iter().map(|record| record.correlation_id).collect();
                    let took = of.sending_ended.since(of.started);
                    if [one, other].contains(&"requests") {
                        assert!(sent <= 40, "{name}: {sent} requests");
                    }
                    if [one, other].contains(&"sessions") {
                        assert!(sessions.len() <= 30, "{name}: {} sessions", sessions.len());
                    }
                    if [one, other].contains(&"duration") {
                        assert!(took <= Nanos::from_millis(200), "{name}: {took:?}");
                    }
                    let reached = sent == 40 || sessions.len() == 30 || took == Nanos::from_millis(200);
                    assert!(reached, "{name}: {sent} requests, {} sessions, {took:?}", sessions.len());
                }
            }
        }
    }
}

#[test]
fn an_interrupt_at_any_moment_closes_every_phase_that_began_and_loses_no_record() {
    for seed in 0..100 {
        let at = Nanos::from_millis(10 + seed * 7 % 500);
        let outcomes = mixture(seed).with(|sim| sim.interrupt_at = Some(at)).run();
        check_totals(&outcomes, seed);
    }
}

#[test]
fn the_dataset_goes_on_across_phases_as_in_aiperf() {
    let outcomes = run(vec![
        concurrency("count", 1).requests(3),
        concurrency("timed", 1).millis(60),
        concurrency("after", 1).requests(2),
    ])
    .run();
    check_totals(&outcomes, 1);
    let rows = |index: usize| -> Vec<u32> { outcomes.phase(index).records.iter().map(|r| r.row).collect() };
    assert_eq!(rows(0), [0, 1, 2]);
    assert_eq!(rows(1)[0], 3, "a phase ended by its count has drawn nothing it did not send");
    let sent = outcomes.phase(1).tally.counts().sent;
    let expected = u32::try_from((3 + sent + 1) % world::ROWS as u64).unwrap();
    assert_eq!(rows(2)[0], expected, "a phase ended by its duration has drawn one row more");
}

#[test]
fn requests_go_round_the_urls_by_number() {
    for shards in SHARDS {
        let outcomes =
            run(vec![concurrency("load", 6).requests(60)]).shards(shards).with(|sim| sim.urls = 3).run();
        check_totals(&outcomes, 1);
    }
}

#[test]
fn a_full_table_of_connections_delays_a_closed_loop_and_fails_no_request() {
    let outcomes = run(vec![concurrency("storm", 10).requests(300).cancel(60.0, 0)])
        .with(|sim| sim.connections_max = 12)
        .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().failed, 0);
    assert_eq!(outcomes.phase(0).tally.counts().sent, 300);
}

#[test]
fn an_open_loop_without_room_for_connections_fails_as_the_client_and_goes_on() {
    let outcomes =
        run(vec![poisson("open", 5_000.0, None).requests(400)]).with(|sim| sim.connections_max = 8).run();
    check_totals(&outcomes, 1);
    let counts = *outcomes.phase(0).tally.counts();
    assert_eq!(counts.sent, 400);
    assert!(counts.failed > 0 && counts.ok > 0, "{counts:?}");
    let failures = outcomes.phase(0).records.iter().filter_map(|record| match &record.outcome {
        Outcome::Failed(failure) => Some(failure.kind.as_str()),
        _ => None,
    });
    assert!(failures.into_iter().all(|kind| kind == "ClientSocketError"));
}

#[test]
fn gaps_are_those_between_content_messages() {
    let outcomes = run(vec![concurrency("load", 1).requests(5)]).run();
    check_totals(&outcomes, 1);
    for gaps in &outcomes.gaps {
        assert_eq!(gaps, &vec![1_000_000; 3]);
    }
    for record in &outcomes.phase(0).records {
        assert_eq!(record.contents, 4);
        let first = record.first_content.unwrap();
        assert_eq!(record.second_content, Some(first.plus(Nanos::from_millis(1))));
        assert_eq!(record.last_content, Some(first.plus(Nanos::from_millis(3))));
    }
}

#[test]
fn warming_up_takes_requests_through_the_engine_and_leaves_no_trace() {
    let mut engine = world::idle_engine();
    assert_eq!(engine.warm_up(), 16);
    assert_eq!(engine.in_flight(), 0);
    assert_eq!(engine.connections_open(), 0);
    assert!(engine.poll_action().is_none() && engine.poll_event().is_none());
}
