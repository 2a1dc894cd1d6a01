//! Connections that the server closes just as they are used again, that stand in each other's way, or that
//! do not come about; and how evenly requests leave.

use crate::CANCELLED_AT_20;
use crate::SHARDS;
use crate::world::{
    Faults, Outcomes, PhaseWords, Simulation, Tls, after, check_totals, concurrency, constant, poisson, ramp,
    run,
};
use phasor::config::{RampStrategy, Reuse};
use phasor::engine::{PROBE_GAP, UNREACHED_MAX};
use phasor::measure::{Outcome, Record};
use phasor::plan::AtCapacity;
use phasor::time::Nanos;
use std::collections::HashMap;

fn stale(percent: u32) -> Faults {
    Faults { stale: percent, ..Faults::default() }
}

/// How often each session's requests were sent.
fn sends_by_session(outcomes: &Outcomes) -> HashMap<u128, usize> {
    let mut sends = HashMap::new();
    for (session, _) in &outcomes.sent_on {
        *sends.entry(*session).or_default() += 1;
    }
    sends
}

/// Whether the request was begun again: it was written before its connection was made.
fn was_repeated(record: &Record) -> bool {
    let written = record.first_byte_written.unwrap();
    record.connect.is_some_and(|(begun, _)| begun > written)
}

fn many(seed: u64) -> Simulation {
    let shards = SHARDS[usize::try_from(seed % 3).unwrap()];
    run(vec![concurrency("load", 8).requests(400)]).shards(shards).seed(seed)
}

#[test]
fn a_request_on_a_connection_that_the_server_has_closed_begins_again_on_a_fresh_one() {
    for seed in 0..30 {
        let tls = [Tls::No, Tls::Trusted][usize::try_from(seed / 3 % 2).unwrap()];
        let outcomes = many(seed).faults(stale(40)).with(|sim| sim.tls = tls).run();
        check_totals(&outcomes, seed);
        let load = outcomes.phase(0);
        let counts = *load.tally.counts();
        assert_eq!((counts.sent, counts.ok), (400, 400), "seed {seed}: {counts:?}");
        assert!(counts.repeated > 20, "seed {seed}: {counts:?}");
        assert_eq!(outcomes.server_requests, counts.sent + counts.repeated, "seed {seed}");
        let repeated: Vec<&Record> = load.records.iter().filter(|record| was_repeated(record)).collect();
        assert_eq!(repeated.len() as u64, counts.repeated, "seed {seed}");
        for record in repeated {
            // The client is punctual here, so the first try went out when it was planned.
            assert_eq!(record.first_byte_written, Some(record.issued), "seed {seed}");
            assert!(record.written > record.connect.map(|(_, made)| made), "seed {seed}");
        }
        let lateness = load.tally.lateness_summary().unwrap();
        assert_eq!(lateness.count, 400, "seed {seed}: a request is late once, however often it is sent");
        assert_eq!(outcomes.in_flight_max, 8, "seed {seed}");
    }
}

#[test]
fn a_request_is_sent_twice_at_most() {
    for seed in 0..20 {
        let faults = Faults { close_early: 25, reset_early: 25, ..stale(10) };
        let outcomes = many(seed).faults(faults).run();
        check_totals(&outcomes, seed);
        let counts = *outcomes.phase(0).tally.counts();
        assert!(counts.failed > 0 && counts.repeated > 0, "seed {seed}: {counts:?}");
        let sends = sends_by_session(&outcomes);
        assert!(sends.values().all(|sends| *sends <= 2), "seed {seed}");
        let twice = sends.values().filter(|sends| **sends == 2).count() as u64;
        assert_eq!(twice, counts.repeated, "seed {seed}");
        for record in &outcomes.phase(0).records {
            if let Outcome::Failed(failure) = &record.outcome {
                let on_its_first = sends[&record.correlation_id] == 1;
                assert!(!on_its_first || record.connect.is_some(), "seed {seed}: it was not repeated");
                assert!(
                    ["ClientOSError", "ServerDisconnectedError"].contains(&failure.kind.as_str()),
                    "seed {seed}: {failure:?}"
                );
            }
        }
    }
}

#[test]
fn a_server_that_has_worked_on_a_request_does_not_get_it_again() {
    // It closes two seconds after the request came: it has had it.
    let outcomes = many(3)
        .faults(Faults { close_early: 30, ..Faults::default() })
        .with(|sim| sim.ttft = Nanos::from_millis(2_000))
        .run();
    check_totals(&outcomes, 3);
    let counts = *outcomes.phase(0).tally.counts();
    assert_eq!(counts.repeated, 0);
    assert_eq!(outcomes.server_requests, 400);
    let reused = outcomes.phase(0).records.iter().filter(|record| record.connect.is_none());
    let failed = reused.filter(|record| matches!(record.outcome, Outcome::Failed(_))).count();
    assert!(failed > 0, "no connection was used again");
}

#[test]
fn a_reply_that_had_begun_is_not_asked_for_again() {
    let outcomes = many(4).faults(Faults { reset_late: 30, ..Faults::default() }).run();
    check_totals(&outcomes, 4);
    let counts = *outcomes.phase(0).tally.counts();
    assert!(counts.failed > 50, "{counts:?}");
    assert_eq!((counts.repeated, outcomes.server_requests), (0, 400));
}

#[test]
fn repeated_requests_are_cancelled_by_their_numbers_as_others_are() {
    for shards in SHARDS {
        for delay in [0, 2] {
            let outcomes = run(vec![concurrency("cut", 4).requests(100).cancel(20.0, delay)])
                .shards(shards)
                .faults(stale(60))
                .run();
            check_totals(&outcomes, 1);
            let cut = outcomes.phase(0);
            assert!(cut.tally.counts().repeated > 0);
            let cancelled = cut.records.iter().filter(|record| !matches!(record.outcome, Outcome::Ok));
            let numbers: Vec<u64> = cancelled.clone().map(|record| record.number).collect();
            assert_eq!(numbers, CANCELLED_AT_20);
            for record in cancelled {
                let written = record.written.unwrap();
                assert_eq!(record.ended.since(written), Nanos::from_millis(delay), "from its last byte");
            }
        }
    }
}

#[test]
fn a_session_whose_connection_was_closed_while_it_thought_goes_on() {
    for seed in 0..10 {
        let outcomes = run(vec![concurrency("chat", 5).sessions(40)])
            .seed(seed)
            .faults(stale(50))
            .with(|sim| {
                sim.reuse = Reuse::Sticky;
                sim.script = vec![vec![after(0), after(0), after(3)]; 7];
            })
            .run();
        check_totals(&outcomes, seed);
        let counts = *outcomes.phase(0).tally.counts();
        assert_eq!((counts.ok, counts.failed), (120, 0), "seed {seed}");
        assert!(counts.repeated > 0, "seed {seed}");
    }
}

#[test]
fn idle_connections_of_other_urls_make_room_at_the_limit() {
    for seed in 0..10 {
        // Four connections for nine URLs in turn: a connection is never to the URL that is next.
        let outcomes = run(vec![concurrency("load", 3).requests(90)])
            .seed(seed)
            .with(|sim| {
                sim.urls = 9;
                sim.connections_max = 4;
                sim.tuning.connections_max = Some(4);
            })
            .run();
        check_totals(&outcomes, seed);
        let counts = *outcomes.phase(0).tally.counts();
        assert_eq!((counts.ok, counts.failed), (90, 0), "seed {seed}");
        assert!(outcomes.connections_made > 80, "{}", outcomes.connections_made);
        let urls: Vec<u16> = outcomes.urls.iter().map(|(_, url)| *url).collect();
        assert!((0..9).all(|url| urls.iter().filter(|to| **to == url).count() == 10), "seed {seed}");
    }
}

#[test]
fn a_closed_loop_tries_a_server_that_is_down_once_in_a_while_and_goes_on_when_it_is_back() {
    for shards in SHARDS {
        let outcomes = run(vec![concurrency("load", 50).millis(2_000)])
            .shards(shards)
            .with(|sim| sim.down_until = Some(Nanos::from_millis(1_000)))
            .run();
        check_totals(&outcomes, 1);
        let load = outcomes.phase(0);
        let counts = *load.tally.counts();
        let tries = Nanos::from_millis(1_000).0 / PROBE_GAP.0;
        let most = u64::from(shards) * (tries + u64::from(UNREACHED_MAX) + 1) + 50;
        assert!((tries / 2..=most).contains(&counts.failed), "{shards} shards: {counts:?}");
        let slots = 50.0 * load.sending_ended.since(load.started).as_secs_f64();
        let occupied = load.tally.occupied().as_secs_f64();
        assert!(
            (0.95..=1.0).contains(&(occupied / slots)),
            "the client is not to blame: {occupied} of {slots}"
        );
        // From the first connection on every slot sends again.
        let up = load.started.plus(Nanos::from_millis(1_100));
        let sent = load.records.iter().filter(|record| record.issued >= up).count();
        let alone = run(vec![concurrency("load", 50).millis(900)]).shards(shards).run();
        let expected = alone.phase(0).records.len();
        assert!(sent > expected * 95 / 100, "{shards} shards: {sent} sent, {expected} without the failure");
    }
}

#[test]
fn a_server_that_is_down_now_and_then_slows_nothing() {
    let calm = run(vec![concurrency("load", 20).millis(1_000)]).run();
    let faults = Faults { refuse: 50, ..Faults::default() };
    let outcomes = run(vec![concurrency("load", 20).millis(1_000)])
        .faults(faults)
        .with(|sim| sim.reuse = Reuse::Never)
        .run();
    check_totals(&outcomes, 1);
    let (calm, ok) = (calm.phase(0).tally.counts().ok, outcomes.phase(0).tally.counts().ok);
    assert!(ok > calm * 95 / 100, "{ok} of {calm}");
}

#[test]
fn slots_that_fall_free_in_a_lump_show_in_the_peak_and_are_counted_right() {
    // A hundred per second, and a server that takes a second for each: behind the cap they go in lumps.
    let lumps = |at_capacity| {
        run(vec![constant("load", 100.0, Some(64)).millis(5_000)])
            .with(|sim| {
                sim.ttft = Nanos::from_millis(1_000);
                sim.tuning.at_capacity = at_capacity;
                sim.stall = Some((Nanos::from_millis(1_000), Nanos::from_millis(1_800)));
            })
            .run()
    };
    let queued = lumps(AtCapacity::Queue);
    check_totals(&queued, 1);
    let load = queued.phase(0);
    let peak = load.tally.sends().peak().unwrap();
    assert_eq!(peak.window, Nanos::from_millis(100));
    assert!(peak.sends >= 40, "{peak:?} where ten were planned");
    // What was planned is what was sent and dropped, lump or no lump.
    let counts = load.tally.counts();
    assert_eq!(counts.planned(), 500, "{counts:?}");
    let by_hand = (0..80).map(|window| {
        let of = |record: &&Record| {
            record.first_byte_written.unwrap().since(load.started).0 / peak.window.0 == window
        };
        load.records.iter().filter(of).count() as u64
    });
    assert_eq!(by_hand.max(), Some(peak.sends));
    // Without a cap and without a stall it is the planned rate.
    let even = run(vec![constant("load", 100.0, None).millis(5_000)]).shards(2).run();
    let peak = even.phase(0).tally.sends().peak().unwrap();
    assert!(peak.sends <= 11, "{peak:?}");
}

#[test]
fn a_closed_loop_tells_how_long_its_slots_took_to_start() {
    for shards in SHARDS {
        let outcomes = run(vec![
            concurrency("burst", 64).requests(500),
            concurrency("short", 64).requests(10),
            concurrency("rising", 64).requests(200).change(|phase| {
                phase.concurrency_ramp = Some(ramp(50, RampStrategy::Linear));
            }),
            poisson("open", 500.0, None).requests(20),
        ])
        .shards(shards)
        .run();
        check_totals(&outcomes, 1);
        let start = |phase: usize| outcomes.phase(phase).tally.sends().start();
        let burst = start(0).unwrap();
        assert_eq!(burst.requests, 64);
        assert_eq!(burst.last, burst.first, "virtual time is punctual");
        assert_eq!(burst.first, Nanos::from_micros(50), "connecting is part of it");
        assert_eq!(start(1).map(|start| start.requests), Some(10), "the phase sends no more");
        assert_eq!((start(2), start(3)), (None, None), "a ramp and an open loop have no start");
    }
}

#[test]
fn one_slow_request_keeps_no_other_slot_from_sending() {
    let outcomes = run(vec![concurrency("load", 10).millis(3_000)])
        .faults(Faults { hang: 1, ..Faults::default() })
        .with(|sim| sim.timeout = Some(Nanos::from_millis(1_000)))
        .run();
    check_totals(&outcomes, 1);
    let load = outcomes.phase(0);
    let hung = load.records.iter().find(|record| matches!(record.outcome, Outcome::Failed(_))).unwrap();
    let meanwhile = load
        .records
        .iter()
        .filter(|record| record.issued > hung.issued && record.ended < hung.ended)
        .filter(|record| matches!(record.outcome, Outcome::Ok))
        .count();
    // Nine slots of some 9 ms a request, of which a few hang as well.
    assert!(meanwhile > 9 * 60, "{meanwhile} requests beside one that hung for a second");
}

#[test]
fn a_stall_delays_each_request_once_and_makes_none_up() {
    // A request every millisecond, and a client that stands still for ten of them.
    let outcomes = run(vec![constant("load", 1_000.0, None).millis(100)])
        .with(|sim| {
            // Phases start 20 ms after the origin.
            sim.stall = Some((Nanos::from_millis(60), Nanos::from_millis(70)));
        })
        .run();
    check_totals(&outcomes, 1);
    let load = outcomes.phase(0);
    assert_eq!(load.records.len(), 100, "no request was made up");
    let late: Vec<u64> = load
        .records
        .iter()
        .map(|record| record.issued.since(record.planned).0)
        .filter(|late| *late > 100_000)
        .collect();
    assert!((9..=10).contains(&late.len()), "{late:?}");
    let steps: Vec<u64> = late.windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert!(steps.iter().all(|step| *step == 1_000_000), "each a millisecond less late: {late:?}");
    let lateness = load.tally.lateness_summary().unwrap();
    assert_eq!(lateness.count, 100);
    assert_eq!(Some(lateness.max.0), late.iter().copied().max());
}
