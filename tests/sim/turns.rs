//! Sessions of several turns, users, schedules, and the connections they keep.

use crate::SHARDS;
use crate::world::{
    Faults, Finished, Outcomes, PhaseWords, Simulation, after, at, check_totals, concurrency, constant,
    poisson, run, schedule, users,
};
use phasor::config::{Reuse, Sampling};
use phasor::measure::Record;
use phasor::schedule::Turn;
use phasor::time::{Nanos, Stamp};
use std::collections::HashMap;

/// Five conversations of three turns, each 20 ms after the one before.
fn chats(sim: &mut Simulation) {
    sim.script = vec![vec![Turn::default(), after(20), after(20)]; 5];
}

/// The requests of each session, in the order in which they were sent.
fn by_session(of: &Finished) -> Vec<Vec<&Record>> {
    let mut sessions: HashMap<u128, Vec<&Record>> = HashMap::new();
    for record in &of.records {
        sessions.entry(record.correlation_id).or_default().push(record);
    }
    let mut sessions: Vec<Vec<&Record>> = sessions.into_values().collect();
    for turns in &mut sessions {
        turns.sort_by_key(|record| record.issued);
    }
    sessions.sort_by_key(|turns| turns[0].issued);
    sessions
}

/// Turns of a session are consecutive rows of one conversation, on one shard, one after the other.
fn check_turns(of: &Finished, seed: u64) {
    for turns in by_session(of) {
        for pair in turns.windows(2) {
            assert_eq!(pair[1].row, pair[0].row + 1, "seed {seed}");
            assert_eq!(pair[1].shard, pair[0].shard, "seed {seed}");
            assert!(pair[1].issued >= pair[0].ended, "seed {seed}: a turn before the answer to the last");
        }
    }
}

#[test]
fn turns_follow_their_answers_after_their_delay() {
    for shards in SHARDS {
        let outcomes = run(vec![concurrency("chat", 4).sessions(10)]).shards(shards).with(chats).run();
        check_totals(&outcomes, 1);
        let chat = outcomes.phase(0);
        check_turns(chat, 1);
        let sessions = by_session(chat);
        assert_eq!(sessions.len(), 10, "{shards} shards");
        for turns in &sessions {
            assert_eq!(turns.len(), 3);
            assert_eq!(turns[0].row % 3, 0);
            for pair in turns.windows(2) {
                assert_eq!(pair[1].issued, pair[0].ended.plus(Nanos::from_millis(20)));
                assert_eq!(pair[1].planned, pair[1].issued);
            }
        }
        let numbers: Vec<u64> = chat.records.iter().map(|record| record.number).collect();
        assert_eq!(numbers, (0..30).collect::<Vec<_>>());
    }
}

#[test]
fn a_session_holds_its_slot_while_it_thinks() {
    let outcomes = run(vec![concurrency("chat", 2).sessions(6)]).shards(2).with(chats).run();
    check_totals(&outcomes, 1);
    let sessions = by_session(outcomes.phase(0));
    let mut edges: Vec<(Stamp, i32)> = Vec::new();
    for turns in &sessions {
        edges.push((turns[0].issued, 1));
        edges.push((turns[turns.len() - 1].ended, -1));
    }
    edges.sort();
    let mut open = 0;
    for (at, edge) in edges {
        open += edge;
        assert!(open <= 2, "{open} sessions at {at:?}");
    }
}

#[test]
fn the_sessions_rule_starts_so_many_and_sends_all_their_turns() {
    for shards in SHARDS {
        for phase in [
            concurrency("closed", 3),
            constant("open", 300.0, None),
            poisson("capped", 300.0, Some(3)),
            users("users", 4, 200.0, None),
        ] {
            let name = phase.name.clone();
            let outcomes = run(vec![phase.sessions(9)]).shards(shards).with(chats).run();
            check_totals(&outcomes, 1);
            let sessions = by_session(outcomes.phase(0));
            assert_eq!(sessions.len(), 9, "{name}, {shards} shards");
            if name != "users" {
                assert!(sessions.iter().all(|turns| turns.len() == 3), "{name}, {shards} shards");
            }
        }
    }
}

#[test]
fn the_requests_rule_counts_turns_and_may_cut_a_session_short() {
    for shards in SHARDS {
        let outcomes = run(vec![concurrency("cut", 3).requests(10)]).shards(shards).with(chats).run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 10);
        check_turns(outcomes.phase(0), 1);
    }
}

#[test]
fn a_rate_gates_requests_and_turns_go_before_new_sessions() {
    let outcomes = run(vec![constant("open", 100.0, None).millis(3_000)])
        .with(|sim| sim.script = vec![vec![Turn::default(); 3]; 7])
        .run();
    check_totals(&outcomes, 1);
    let open = outcomes.phase(0);
    assert_eq!(open.tally.counts().sent, 300, "every turn takes an arrival");
    let sessions = by_session(open);
    // The answer takes 8 ms of the 10 between arrivals: each session is finished before the next begins.
    for pair in sessions.windows(2) {
        assert!(pair[1][0].issued > pair[0][pair[0].len() - 1].issued);
    }
}

#[test]
fn sessions_without_a_count_of_turns_share_a_rate_over_any_number_of_shards() {
    for shards in SHARDS {
        let outcomes = run(vec![poisson("open", 400.0, None).millis(1_000)]).shards(shards).with(chats).run();
        check_totals(&outcomes, 1);
        check_turns(outcomes.phase(0), 1);
        let planned = crate::arrivals(400.0).take_while(|a| a.offset <= Nanos::from_millis(1_000)).count();
        assert_eq!(outcomes.phase(0).tally.counts().sent, planned as u64, "{shards} shards");
    }
}

#[test]
fn errors_and_cancelled_turns_do_not_end_a_session() {
    let outcomes = run(vec![concurrency("bad", 3).sessions(20).cancel(30.0, 0)])
        .faults(Faults { status: 20, close_early: 10, ..Faults::default() })
        .with(chats)
        .run();
    check_totals(&outcomes, 1);
    let counts = *outcomes.phase(0).tally.counts();
    assert!(counts.failed > 5 && counts.cancelled > 5, "{counts:?}");
    assert_eq!(counts.sent, 60);
}

#[test]
fn thinking_sessions_are_given_up_when_sending_ends_and_their_slots_go_to_the_next_phase() {
    for shards in SHARDS {
        let outcomes =
            run(vec![concurrency("long", 6).millis(100), concurrency("next", 6).requests(24).seamless()])
                .shards(shards)
                .with(|sim| sim.script = vec![vec![Turn::default(), after(60_000)]; 9])
                .run();
        check_totals(&outcomes, 1);
        let long = outcomes.phase(0);
        assert_eq!(long.tally.counts().sent, 6, "nobody has a second turn in this time");
        assert_eq!(long.sending_ended, long.started.plus(Nanos::from_millis(100)));
        assert_eq!(outcomes.phase(1).tally.counts().ok, 24);
    }
}

#[test]
fn requests_of_a_session_go_to_one_url_and_sessions_go_round() {
    for shards in SHARDS {
        let outcomes = run(vec![concurrency("first", 2).sessions(5), concurrency("second", 2).sessions(4)])
            .shards(shards)
            .with(chats)
            .with(|sim| sim.urls = 3)
            .run();
        check_totals(&outcomes, 1);
        let urls: HashMap<u128, Vec<u16>> =
            outcomes.urls.iter().fold(HashMap::new(), |mut urls, (id, url)| {
                urls.entry(*id).or_insert_with(Vec::new).push(*url);
                urls
            });
        assert!(urls.values().all(|of| of.iter().all(|url| *url == of[0])));
        let mut counts = [0; 3];
        for of in urls.values() {
            counts[usize::from(of[0])] += 1;
        }
        assert_eq!(counts, [3, 3, 3], "nine sessions over both phases, {shards} shards");
    }
}

fn lives_by_session(outcomes: &Outcomes) -> HashMap<u128, Vec<(u16, u32, u32)>> {
    let mut lives: HashMap<u128, Vec<(u16, u32, u32)>> = HashMap::new();
    for (session, life) in &outcomes.sent_on {
        lives.entry(*session).or_default().push(*life);
    }
    lives
}

#[test]
fn sticky_connections_serve_one_session_each() {
    let outcomes = run(vec![concurrency("chat", 3).sessions(12)])
        .shards(2)
        .with(chats)
        .with(|sim| sim.reuse = Reuse::Sticky)
        .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.connections_made, 12);
    for lives in lives_by_session(&outcomes).values() {
        assert!(lives.iter().all(|life| *life == lives[0]), "{lives:?}");
    }
}

#[test]
fn a_session_whose_connection_broke_goes_on_with_a_new_one() {
    for seed in 0..10 {
        let outcomes = run(vec![concurrency("chat", 3).sessions(12).cancel(20.0, 0)])
            .seed(seed)
            .with(chats)
            .faults(Faults { truncate: 20, reset_early: 10, ..Faults::default() })
            .with(|sim| sim.reuse = Reuse::Sticky)
            .run();
        check_totals(&outcomes, seed);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 36);
        assert!(outcomes.connections_made > 12);
        let lives = lives_by_session(&outcomes);
        let distinct: std::collections::HashSet<_> = lives.values().flatten().collect();
        let shared = lives.values().map(|of| of.iter().collect::<std::collections::HashSet<_>>().len());
        assert_eq!(distinct.len(), shared.sum::<usize>(), "no two sessions share a connection");
    }
}

#[test]
fn never_makes_a_connection_for_each_request() {
    let outcomes = run(vec![concurrency("load", 3).requests(30)]).with(|sim| sim.reuse = Reuse::Never).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.connections_made, 30);
}

#[test]
fn users_send_at_their_share_of_the_rate() {
    for shards in SHARDS {
        let outcomes = run(vec![users("users", 5, 50.0, None).millis(4_000)])
            .shards(shards)
            .with(|sim| sim.script = vec![vec![Turn::default(); 6]; 9])
            .run();
        check_totals(&outcomes, 1);
        let of = outcomes.phase(0);
        check_turns(of, 1);
        for turns in by_session(of) {
            for pair in turns.windows(2) {
                assert_eq!(pair[1].issued.since(pair[0].issued), Nanos::from_millis(100));
            }
        }
        let sent = of.tally.counts().sent;
        assert!((190..=203).contains(&sent), "{sent} of 200, {shards} shards");
        let mut stamps: Vec<Stamp> = of.records.iter().map(|record| record.issued).collect();
        stamps.sort();
        let steady =
            stamps.windows(2).filter(|pair| pair[1].since(pair[0]) == Nanos::from_millis(20)).count();
        assert!(steady > 180, "users are spread over the gap: {steady}");
    }
}

#[test]
fn a_user_whose_answer_is_late_sends_at_once_and_is_replaced_on_time() {
    let outcomes = run(vec![users("slow", 2, 20.0, None).millis(2_000)])
        .with(|sim| {
            sim.script = vec![vec![Turn::default(); 3]; 9];
            sim.ttft = Nanos::from_millis(150);
        })
        .run();
    check_totals(&outcomes, 1);
    for turns in by_session(outcomes.phase(0)) {
        for pair in turns.windows(2) {
            assert_eq!(pair[1].issued, pair[0].ended, "the gap of 100 ms has passed by then");
        }
    }
    assert!(by_session(outcomes.phase(0)).len() > 8);
}

#[test]
fn users_wait_for_a_slot_at_the_cap() {
    for shards in SHARDS {
        let outcomes = run(vec![users("capped", 20, 400.0, Some(3)).requests(60)])
            .shards(shards)
            .with(|sim| sim.ttft = Nanos::from_millis(40))
            .run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.in_flight_max, 3, "{shards} shards");
        assert_eq!(outcomes.phase(0).tally.counts().ok, 60);
        assert_eq!(outcomes.phase(0).tally.counts().dropped(), 0);
    }
}

fn trace(sim: &mut Simulation) {
    sim.script = vec![
        vec![at(5_300)],
        vec![at(5_000), at(5_050), after(10)],
        vec![at(5_100), at(5_101)],
        vec![at(5_100)],
    ];
}

#[test]
fn a_trace_is_sent_at_its_own_times() {
    for shards in SHARDS {
        let outcomes = run(vec![schedule("trace", None)]).shards(shards).with(trace).run();
        check_totals(&outcomes, 1);
        let of = outcomes.phase(0);
        assert_eq!(of.tally.counts().sent, 7, "{shards} shards");
        let due = |row: u32| {
            let record = of.records.iter().find(|record| record.row == row).unwrap();
            (record.planned.since(of.started), record)
        };
        let millis = Nanos::from_millis;
        for (row, at) in [(0, 300), (1, 0), (2, 50), (4, 100), (6, 100)] {
            assert_eq!(due(row).0, millis(at), "row {row}");
        }
        let (_, second) = due(2);
        assert_eq!(due(3).1.planned, second.ended.plus(millis(10)), "a delay counts from the answer");
        let (_, first) = due(4);
        assert_eq!(due(5).1.planned, first.ended, "a time that is past means at once");
    }
}

#[test]
fn offsets_choose_a_part_of_the_trace() {
    use phasor::config::Load;
    let part = |auto_offset, start_offset_ms, end_offset_ms| {
        let phase = schedule("part", None).change(|phase| {
            phase.load =
                Load::FixedSchedule { auto_offset, start_offset_ms, end_offset_ms, concurrency: None };
        });
        let outcomes = run(vec![phase]).with(trace).run();
        check_totals(&outcomes, 1);
        let of = outcomes.phase(0);
        let mut rows: Vec<(u32, Nanos)> =
            of.records.iter().map(|record| (record.row, record.planned.since(of.started))).collect();
        rows.sort_by_key(|(row, at)| (*at, *row));
        rows
    };
    let millis = Nanos::from_millis;
    assert_eq!(part(false, Some(5_080), None).first(), Some(&(4, millis(20))));
    assert_eq!(part(false, Some(5_200), Some(5_300)), [(0, millis(100))]);
    assert_eq!(part(true, None, Some(5_000)).len(), 3, "a session is sent whole");
}

#[test]
fn a_trace_waits_at_its_cap_and_ends_by_its_duration() {
    for shards in SHARDS {
        let outcomes = run(vec![schedule("capped", Some(1))]).shards(shards).with(trace).run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.in_flight_max, 1);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 7, "{shards} shards");
        let outcomes = run(vec![schedule("short", None).millis(200)]).shards(shards).with(trace).run();
        check_totals(&outcomes, 1);
        assert_eq!(outcomes.phase(0).tally.counts().sent, 6, "{shards} shards");
    }
}

#[test]
fn counts_mean_nothing_to_a_trace() {
    let outcomes = run(vec![schedule("trace", None).requests(2).sessions(1)]).with(trace).run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().sent, 7);
}

#[test]
fn warmups_run_as_they_are_written() {
    let outcomes = run(vec![
        schedule("trace", None).warmup(),
        users("users", 3, 30.0, None).requests(9).warmup(),
        concurrency("load", 2).requests(4).seamless(),
    ])
    .shards(2)
    .with(trace)
    .run();
    check_totals(&outcomes, 1);
    assert_eq!(outcomes.phase(0).tally.counts().sent, 7);
    assert_eq!(outcomes.phase(1).tally.counts().sent, 9);
}

#[test]
fn conversations_are_taken_in_the_order_of_the_sampler_across_phases() {
    let taken = |sampling, shards| {
        let outcomes = run(vec![concurrency("a", 1).requests(6), concurrency("b", 1).requests(6)])
            .shards(shards)
            .with(|sim| sim.sampling = sampling)
            .run();
        check_totals(&outcomes, 1);
        let rows = |index: usize| outcomes.phase(index).records.iter().map(|record| record.row);
        rows(0).chain(rows(1)).collect::<Vec<u32>>()
    };
    assert_eq!(taken(Sampling::Sequential, 1), [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]);
    let random = taken(Sampling::Random, 1);
    assert_ne!(random, taken(Sampling::Sequential, 1));
    assert_eq!(random, taken(Sampling::Random, 2));
}

#[test]
fn a_count_that_cuts_a_session_has_drawn_one_conversation_more() {
    let first_of_next = |requests| {
        let outcomes = run(vec![concurrency("a", 1).requests(requests), concurrency("b", 1).requests(1)])
            .with(chats)
            .run();
        check_totals(&outcomes, 1);
        outcomes.phase(1).records[0].row / 3
    };
    assert_eq!(
        first_of_next(4),
        2,
        "the fourth request begins the second conversation, and none is drawn after"
    );
    assert_eq!(first_of_next(5), 3, "the fifth goes on with it, and the third has been drawn");
}
