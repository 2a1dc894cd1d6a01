//! TLS in virtual time: rustls's own server on the other side, any split of the records, every fault.

use crate::world::{Faults, PhaseWords, Simulation, Tls, after, check_totals, concurrency, poisson, run};
use phasor::config::Reuse;
use phasor::measure::handshakes::Handshakes;
use phasor::measure::{Outcome, Record};
use phasor::time::Nanos;

fn over_tls(sim: Simulation) -> Simulation {
    sim.with(|sim| {
        sim.tls = Tls::Trusted;
        sim.split = true;
    })
}

fn kind(record: &Record) -> Option<&str> {
    match &record.outcome {
        Outcome::Failed(failure) => Some(&failure.kind),
        Outcome::Abandoned | Outcome::Cancelled { .. } | Outcome::Ok => None,
    }
}

#[test]
fn a_run_over_tls_sends_and_counts_what_a_plain_one_does() {
    for seed in 0..6 {
        let phases = || {
            vec![
                concurrency("warmup", 2).requests(9).warmup(),
                concurrency("load", 5).requests(60),
                poisson("open", 200.0, Some(8)).requests(40).seamless(),
            ]
        };
        let plain = run(phases()).seed(seed).run();
        let secure = over_tls(run(phases()).seed(seed)).run();
        check_totals(&secure, seed);
        for index in 0..3 {
            let (plain, secure) = (plain.phase(index), secure.phase(index));
            assert_eq!(plain.tally.counts(), secure.tally.counts(), "seed {seed}");
            assert!(secure.records.iter().all(|record| matches!(record.outcome, Outcome::Ok)));
            for record in &secure.records {
                let Some((from, to)) = record.connect else {
                    assert_eq!(record.handshake_begun, None);
                    continue;
                };
                let begun = record.handshake_begun.unwrap();
                assert!(from < begun && begun < to, "seed {seed}: TLS follows TCP and takes time");
                assert!(record.first_byte_written.unwrap() >= to, "seed {seed}: nothing is sent before");
            }
        }
        let all = secure.phases.iter().flatten().map(|phase| phase.tally.handshakes());
        let summary = Handshakes::summary(all).unwrap();
        assert_eq!(summary.count, secure.connections_made, "seed {seed}");
    }
}

#[test]
fn connections_that_carry_one_request_resume_the_session() {
    let outcomes =
        over_tls(run(vec![concurrency("load", 4).requests(200)])).with(|sim| sim.reuse = Reuse::Never).run();
    check_totals(&outcomes, 1);
    let summary = Handshakes::summary([outcomes.phase(0).tally.handshakes()].into_iter()).unwrap();
    assert_eq!((summary.count, outcomes.connections_made), (200, 200));
    assert!(summary.resumed >= 190, "{summary:?}");
}

#[test]
fn turns_of_a_session_share_a_connection_over_tls_too() {
    let script = vec![vec![after(0), after(3), after(1)]; 4];
    let outcomes = over_tls(run(vec![concurrency("load", 3).sessions(12)]))
        .with(|sim| {
            sim.reuse = Reuse::Sticky;
            sim.script = script;
        })
        .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().ok, 36);
    assert_eq!(outcomes.connections_made, 12);
}

#[test]
fn a_cut_reply_has_a_name_of_its_own_and_a_farewell_before_the_reply_has_not() {
    let faults = Faults { truncate: 30, close_early: 30, ..Faults::default() };
    for seed in 0..4 {
        let outcomes =
            over_tls(run(vec![concurrency("load", 4).requests(100)]).seed(seed).faults(faults)).run();
        check_totals(&outcomes, seed);
        let of = |name| outcomes.phase(0).records.iter().filter(|one| kind(one) == Some(name)).count();
        let (cut, left) = (of("TlsTruncatedError"), of("ServerDisconnectedError"));
        assert!(cut > 5 && left > 5, "seed {seed}: {cut} cut, {left} left");
        assert_eq!((cut + left) as u64, outcomes.phase(0).tally.counts().failed, "seed {seed}");
    }
}

#[test]
fn a_storm_of_faults_and_cancellations_over_tls_leaves_nothing_behind() {
    let faults = Faults {
        refuse: 5,
        reset_early: 5,
        reset_late: 5,
        close_early: 5,
        truncate: 5,
        hang: 5,
        status: 5,
        stale: 10,
        starve: 5,
    };
    for seed in 0..12 {
        let phases = vec![
            concurrency("storm", 16).millis(400).cancel(40.0, 2).grace_millis(10),
            poisson("open", 500.0, Some(8)).millis(300).cancel(20.0, 0).seamless(),
        ];
        let outcomes = over_tls(run(phases).seed(seed).faults(faults).shards(2))
            .with(|sim| sim.timeout = Some(Nanos::from_millis(60)))
            .run();
        check_totals(&outcomes, seed);
        assert!(outcomes.phase(0).tally.counts().ok > 0, "seed {seed}");
        assert!(outcomes.phase(0).tally.counts().cancelled > 0, "seed {seed}");
    }
}

#[test]
fn a_handshake_that_never_ends_is_cut_by_the_timeout() {
    let outcomes = run(vec![concurrency("load", 4).requests(20)])
        .with(|sim| {
            sim.tls = Tls::Silent;
            sim.timeout = Some(Nanos::from_millis(30));
        })
        .run();
    check_totals(&outcomes, 1);
    let records = &outcomes.phase(0).records;
    assert!(records.iter().all(|record| kind(record) == Some("TimeoutError")));
    assert!(records.iter().all(|record| record.connect.is_none() && record.written.is_none()));
}

#[test]
fn a_server_that_is_not_trusted_gets_no_request() {
    let outcomes = run(vec![concurrency("load", 4).requests(20)])
        .with(|sim| {
            sim.tls = Tls::Foreign;
            sim.split = true;
        })
        .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.server_requests, 0);
    let records = &outcomes.phase(0).records;
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|record| kind(record) == Some("ClientConnectorCertificateError")));
}

#[test]
fn an_interrupt_in_the_middle_of_handshakes_ends_the_run() {
    for micros in (5_000..5_400).step_by(20) {
        let outcomes = over_tls(run(vec![concurrency("load", 8).millis(1_000)]))
            .with(|sim| {
                sim.reuse = Reuse::Never;
                sim.interrupt_at = Some(Nanos::from_micros(micros));
            })
            .run();
        check_totals(&outcomes, micros);
    }
}
