//! Time-weighted metrics: held against the reference program's own numbers, and over any number of shards.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::measure::catalogue::WEIGHTED;
use phasor::measure::slices::slices;
use phasor::measure::weighted::{Grain, TimeWeighted, Window, time_weighted};
use phasor::measure::{Outcome, PhaseTally, Record};
use phasor::time::{Clock, Nanos, Stamp};
use phasor::wire::Usage;
use proptest::prelude::*;
use serde_json::Value;

const ORIGIN_NS: u64 = 1_796_053_897_000_000_123;

fn clock() -> Clock {
    Clock::with_wall_origin(ORIGIN_NS)
}

/// A request of `output` tokens whose contents came at `first_ns` and after each gap; cancelled without one.
fn request(start: u64, end: u64, first_ns: Option<u64>, tokens: (u64, u64), gaps: &[u64]) -> Record {
    let at = |nanos: u64| Some(Stamp::from_nanos(nanos));
    let first = first_ns.map(|first| start + first);
    let outcome = match first {
        Some(_) => Outcome::Ok,
        None => Outcome::Cancelled { delay: Nanos::ZERO },
    };
    let usage =
        Usage { prompt_tokens: Some(tokens.0), completion_tokens: Some(tokens.1), ..Usage::default() };
    Record {
        phase: 0,
        shard: 0,
        number: 0,
        row: 0,
        request_id: 0,
        correlation_id: 0,
        planned: Stamp::from_nanos(start),
        issued: Stamp::from_nanos(start),
        connect: None,
        handshake_begun: None,
        first_byte_written: at(start),
        written: at(start),
        headers: first.and_then(at),
        first_body: first.and_then(at),
        last_body: at(end),
        first_content: first.and_then(at),
        second_content: first.zip(gaps.first()).and_then(|(first, gap)| at(first + gap)),
        first_output: first.and_then(at),
        last_content: first.and_then(|first| at(first + gaps.iter().sum::<u64>())),
        ended: Stamp::from_nanos(end),
        outcome,
        status: Some(200),
        messages: 1,
        contents: 1,
        body_reads: 1,
        body_bytes: 1,
        request_body_bytes: 1,
        usage: first.map(|_| usage),
        first_content_tokens: None,
        isl_tokens: Some(1),
        osl_tokens: None,
        token_source: phasor::wire::TokenSource::Estimate,
        counted: phasor::measure::Counted::default(),
    }
}

fn fields(curve: &TimeWeighted) -> [(&'static str, f64); 8] {
    [
        ("avg", curve.avg),
        ("p50", curve.p50),
        ("p90", curve.p90),
        ("p95", curve.p95),
        ("p99", curve.p99),
        ("min", curve.min),
        ("max", curve.max),
        ("std", curve.std),
    ]
}

#[test]
fn every_curve_has_the_numbers_of_the_reference() {
    let golden: Value = serde_json::from_str(include_str!("data/golden/time_weighted.json")).unwrap();
    let records = golden["records"].as_array().unwrap();
    let mut compared = 0;
    for scope in golden["scopes"].as_array().unwrap() {
        let phases = scope["phases"].as_array().unwrap();
        let mut tally = PhaseTally::new(64);
        for record in records.iter().filter(|record| phases.contains(&record["phase"])) {
            let nanos = |name: &str| record[name].as_u64();
            let stamp = |name: &str| nanos(name).unwrap() - ORIGIN_NS;
            let gaps: Vec<u64> =
                record["gaps"].as_array().into_iter().flatten().map(|gap| gap.as_u64().unwrap()).collect();
            let tokens = (nanos("isl").unwrap_or(0), nanos("osl").unwrap_or(0));
            let made = request(stamp("start"), stamp("end"), nanos("ttft"), tokens, &gaps);
            tally.record(&made, &gaps);
        }
        let edge = |name: &str| Stamp::from_nanos(scope[name].as_u64().unwrap() - ORIGIN_NS);
        let window = Window { clock: clock(), start: edge("start"), end: edge("end"), streaming: true };
        let curves = time_weighted(&[tally.intervals()], window).unwrap();
        for (metric, curve) in WEIGHTED.iter().zip(&curves) {
            for (name, found) in fields(curve) {
                let expected = scope["expected"][metric.tag][name].as_f64().unwrap();
                let near = (found - expected).abs() <= 1e-6 * expected.abs() + 1e-9;
                assert!(near, "{}: {}.{name}: {found} instead of {expected}", scope["name"], metric.tag);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 5 * 14 * 8);
}

/// A request of the property tests: where it starts, and what it is like.
type Drawn = (u64, Option<u64>, (u64, u64), Vec<u64>);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let gap = prop_oneof![1 => Just(0), 1 => 1_u64..2_000, 4 => 1_000_u64..9_000_000];
    let one = (
        0_u64..200_000_000,
        prop::option::weighted(0.8, 0_u64..40_000_000),
        (0_u64..300, 0_u64..40),
        prop::collection::vec(gap, 0..12),
    );
    prop::collection::vec(one, 1..60)
}

fn made((start, first, tokens, gaps): &Drawn) -> Record {
    let end = start + first.unwrap_or(5_000_000) + gaps.iter().sum::<u64>() + 1_000;
    request(start + 1_000, end + 1_000, *first, *tokens, gaps)
}

/// One tally from `shards` of them.
fn tally(requests: &[Drawn], shards: usize) -> PhaseTally {
    let mut parts: Vec<PhaseTally> = (0..shards).map(|_| PhaseTally::new(64)).collect();
    for (number, one) in requests.iter().enumerate() {
        parts[number % shards].record(&made(one), &one.3);
    }
    let mut parts = parts.into_iter();
    let mut merged = parts.next().unwrap();
    parts.for_each(|part| merged.merge(part));
    merged
}

fn window(end: u64) -> Window {
    Window { clock: clock(), start: Stamp::ORIGIN, end: Stamp::from_nanos(end), streaming: true }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_number_of_shards_does_not_show_in_a_single_bit(requests in drawn(), shards in 2_usize..6) {
        let (one, many) = (tally(&requests, 1), tally(&requests, shards));
        let window = window(400_000_000);
        let bits = |tally: &PhaseTally| {
            let curves = time_weighted(&[tally.intervals()], window).unwrap();
            curves.map(|curve| fields(&curve).map(|(_, value)| value.to_bits()))
        };
        prop_assert_eq!(bits(&one), bits(&many));
        let cut = |tally: &PhaseTally| {
            slices(&[tally], clock(), Nanos(30_000_000), true)
                .unwrap()
                .into_iter()
                .map(|slice| {
                    let values: Vec<_> = slice.summary.values().map(|(_, value)| value.clone()).collect();
                    (slice.start_ns, slice.end_ns, slice.is_complete, values)
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(cut(&one), cut(&many));
    }

    #[test]
    fn mean_concurrency_is_the_time_spent_in_requests(requests in drawn(), end in 1_000_000_u64..300_000_000) {
        let tally = tally(&requests, 1);
        let curves = time_weighted(&[tally.intervals()], window(end)).unwrap();
        let spent: u64 = requests
            .iter()
            .map(made)
            .map(|record| record.ended.min(Stamp::from_nanos(end)).since(record.issued).0)
            .sum();
        let expected = spent as f64 / end as f64;
        // Each edge is rounded to 256 ns.
        let tolerance = requests.len() as f64 * 512.0 / end as f64;
        prop_assert!((curves[0].avg - expected).abs() <= tolerance, "{} {expected}", curves[0].avg);
        for curve in &curves {
            prop_assert!(curve.min <= curve.p50 && curve.p50 <= curve.p99 && curve.p99 <= curve.max);
        }
    }

    #[test]
    fn every_request_lies_in_the_slice_in_which_it_started(requests in drawn(), width in 1_000_000_u64..90_000_000) {
        let tally = tally(&requests, 3);
        let cut = slices(&[&tally], clock(), Nanos(width), true).unwrap();
        let records: Vec<Record> = requests.iter().map(made).collect();
        let first = records.iter().map(|record| clock().unix_ns(record.issued)).min().unwrap() as f64;
        let mut found = 0.0;
        for slice in &cut {
            let starts = |record: &&Record| {
                let number = (clock().unix_ns(record.issued) as f64 - first) / width as f64;
                number.floor().total_cmp(&((slice.start_ns as f64 - first) / width as f64).round()).is_eq()
            };
            let inside: Vec<&Record> = records.iter().filter(starts).collect();
            let completed = slice.summary.single("completed_request_count").unwrap();
            prop_assert!((completed - inside.len() as f64).abs() < 0.5);
            let latest = inside
                .iter()
                .filter_map(|record| Some(record.last_content?.since(record.issued).as_millis_f64()))
                .reduce(f64::max);
            match (slice.summary.value("request_latency"), latest) {
                (Some(phasor::measure::summary::Value::Full(latency)), Some(latest)) => {
                    prop_assert!((latency.max - latest).abs() < 1e-9);
                }
                (None, None) => {}
                (found, expected) => prop_assert!(false, "{found:?} instead of {expected:?}"),
            }
            found += completed;
        }
        prop_assert!((found - records.len() as f64).abs() < 0.5);
        prop_assert!(cut.iter().rev().skip(1).all(|slice| slice.is_complete));
    }
}

#[test]
fn more_requests_than_fit_leave_no_curves_and_more_gaps_make_them_coarser() {
    let gaps = [1_000_000; 4];
    let one: Drawn = (0, Some(1_000), (10, 5), gaps.to_vec());
    let grain = |samples_max: usize, gaps: &[u64], requests: usize| {
        let mut tally = PhaseTally::new(samples_max);
        for _ in 0..requests {
            tally.record(&made(&one), gaps);
        }
        let curves = time_weighted(&[tally.intervals()], window(10_000_000));
        (Grain::of(&[tally.intervals()]), curves.map(|curves| curves[1].avg))
    };
    let (grain_of_few, rate) = grain(4, &gaps, 4);
    assert_eq!(grain_of_few, Grain::Chunks);
    // Four requests of four tokens after the first in a window of 10 ms.
    assert!((rate.unwrap() - 1_600.0).abs() < 1.0, "{rate:?}");
    assert_eq!(grain(4, &gaps, 5), (Grain::Absent, None));
    let (coarse, rate) = grain(4, &[u64::MAX; 60], 4);
    assert_eq!(coarse, Grain::Requests);
    assert!((rate.unwrap() - 1_600.0).abs() < 1.0, "evenly spread, the mean is the same: {rate:?}");
}
