//! Tallies: what counts where, the balance of the books, and merging over any number of shards.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::measure::catalogue::Sampled;
use phasor::measure::latency::{Latencies, Latency};
use phasor::measure::statistics::{Ordered, Statistics};
use phasor::measure::tally::{Drop, ERROR_GROUPS_MAX};
use phasor::measure::{Failure, Outcome, PhaseTally, Record};
use phasor::time::{Nanos, Stamp};
use phasor::wire::{Fault, Usage};
use proptest::prelude::*;

fn at(micros: u64) -> Stamp {
    Stamp::from_nanos(micros * 1_000)
}

/// A good streamed reply of four tokens: issued at `start`, content at 30, 40, 50 and 60 microseconds later.
fn good(start: u64) -> Record {
    Record {
        phase: 0,
        shard: 0,
        number: start,
        row: 0,
        request_id: u128::from(start),
        correlation_id: 1,
        planned: at(start - 5),
        issued: at(start),
        connect: None,
        handshake_begun: None,
        first_byte_written: Some(at(start + 1)),
        written: Some(at(start + 2)),
        headers: Some(at(start + 10)),
        first_body: Some(at(start + 20)),
        last_body: Some(at(start + 70)),
        first_content: Some(at(start + 30)),
        second_content: Some(at(start + 40)),
        first_output: Some(at(start + 30)),
        last_content: Some(at(start + 60)),
        ended: at(start + 70),
        outcome: Outcome::Ok,
        status: Some(200),
        messages: 6,
        contents: 4,
        body_reads: 6,
        body_bytes: 600,
        request_body_bytes: 256,
        usage: Some(Usage {
            prompt_tokens: Some(24),
            completion_tokens: Some(4),
            total_tokens: Some(28),
            reasoning_tokens: None,
            cached_tokens: None,
            ..Usage::default()
        }),
        first_content_tokens: None,
        isl_tokens: Some(32),
        osl_tokens: Some(4),
        token_source: phasor::wire::TokenSource::Estimate,
        counted: phasor::measure::Counted::default(),
    }
}

fn failed(start: u64, status: u16, body: &str) -> Record {
    let fault = Fault::Status { status, reason: "Too Bad".to_owned(), body: body.to_owned() };
    Record {
        outcome: Outcome::Failed(Box::new(Failure::from(fault))),
        status: Some(status),
        contents: 0,
        first_content: None,
        second_content: None,
        first_output: None,
        last_content: None,
        usage: None,
        ..good(start)
    }
}

fn statistics(tally: &PhaseTally, sampled: Sampled) -> Option<Statistics> {
    Ordered::of(&[tally.samples(sampled)]).statistics()
}

fn avg(tally: &PhaseTally, sampled: Sampled) -> Option<f64> {
    statistics(tally, sampled).map(|statistics| statistics.avg)
}

#[test]
fn a_good_reply_feeds_every_metric_with_the_definitions_of_the_reference() {
    let mut tally = PhaseTally::new(16);
    tally.sent();
    tally.record(&good(100), &[10_000, 10_000, 10_000]);
    for (sampled, expected) in [
        (Sampled::RequestLatency, 60_000.0),
        (Sampled::TimeToFirstToken, 30_000.0),
        (Sampled::TimeToSecondToken, 10_000.0),
        (Sampled::DecodeDuration, 30_000.0),
        (Sampled::InterTokenLatency, 10_000.0),
        (Sampled::InterChunkLatency, 10_000.0),
        (Sampled::OutputTokenThroughputPerUser, 1e5),
        (Sampled::OutputSequenceLength, 4.0),
        (Sampled::InputSequenceLength, 24.0),
        (Sampled::OutputTokenCount, 4.0),
        (Sampled::HttpReqSending, 2_000.0),
        (Sampled::HttpReqWaiting, 18_000.0),
        (Sampled::HttpReqReceiving, 50_000.0),
        (Sampled::HttpReqTotal, 70_000.0),
        (Sampled::HttpReqConnectionReused, 1.0),
        (Sampled::CreditToStartLatency, 5_000.0),
        (Sampled::EffectiveLatency, 75_000.0),
    ] {
        let value = avg(&tally, sampled).unwrap();
        assert!((value - expected).abs() < 1e-6, "{sampled:?}: {value} instead of {expected}");
    }
    assert_eq!(tally.samples(Sampled::InterChunkLatency).count(), 3);
    assert_eq!(avg(&tally, Sampled::ReasoningTokenCount), None);
    assert_eq!(avg(&tally, Sampled::ErrorIsl), None);
    assert_eq!((tally.first_start(), tally.last_content()), (Some(at(100)), Some(at(160))));
    assert!(tally.check().is_ok());
}

#[test]
fn service_runs_from_the_first_byte_and_response_from_the_plan() {
    let mut tally = PhaseTally::new(16);
    tally.record(&good(100), &[]);
    tally.record(&Record { outcome: Outcome::Cancelled { delay: Nanos(1) }, ..good(200) }, &[]);
    let spread = |latency| Latencies::spread([tally.latencies()].into_iter(), latency).unwrap();
    for (latency, expected) in [
        (Latency::Service, 59_000.0),
        (Latency::ServiceFirstToken, 29_000.0),
        (Latency::Response, 65_000.0),
        (Latency::ResponseFirstToken, 35_000.0),
    ] {
        let spread = spread(latency);
        assert!((spread.p99_9 - expected).abs() < 1e-9, "{latency:?}: {}", spread.p99_9);
        assert_eq!((spread.count, spread.p99_interval), (1, None), "cancelled requests have no latency");
    }
    let mut unsent = PhaseTally::new(16);
    unsent.record(&Record { first_byte_written: None, ..good(100) }, &[]);
    assert_eq!(Latencies::spread([unsent.latencies()].into_iter(), Latency::Service), None);
}

#[test]
fn without_usage_messages_with_content_are_counted_and_said_to_be() {
    let mut tally = PhaseTally::new(16);
    let mut record = good(100);
    record.usage = None;
    tally.record(&record, &[]);
    assert_eq!(avg(&tally, Sampled::OutputSequenceLength), Some(4.0));
    assert_eq!(avg(&tally, Sampled::OutputTokenCount), Some(4.0));
    assert_eq!(avg(&tally, Sampled::InputSequenceLength), Some(32.0));
    assert_eq!(avg(&tally, Sampled::UsagePromptTokens), None);
    assert_eq!((tally.counts().osl_by_chunks, tally.counts().osl_by_usage), (1, 0));
    // When the first message was reasoning, how many were output is not known, and so not said.
    record.first_output = Some(at(150));
    let mut reasoning = PhaseTally::new(16);
    reasoning.record(&record, &[]);
    assert_eq!(avg(&reasoning, Sampled::OutputSequenceLength), Some(4.0));
    assert_eq!(avg(&reasoning, Sampled::OutputTokenCount), None);
}

#[test]
fn reasoning_is_taken_off_the_output_and_never_below_zero() {
    for (completion, reasoning, output, sequence) in [(20, 4, 16.0, 20.0), (3, 5, 0.0, 5.0)] {
        let mut tally = PhaseTally::new(4);
        let mut record = good(100);
        record.usage = Some(Usage {
            completion_tokens: Some(completion),
            reasoning_tokens: Some(reasoning),
            ..Usage::default()
        });
        tally.record(&record, &[]);
        assert_eq!(avg(&tally, Sampled::OutputTokenCount), Some(output));
        assert_eq!(avg(&tally, Sampled::OutputSequenceLength), Some(sequence));
    }
}

#[test]
fn tokens_of_the_first_message_are_not_divided_by_where_the_server_told_them() {
    // Thirty microseconds between the first and the last of four tokens.
    for (told, expected_ns) in [
        (None, 10_000.0),
        (Some(1), 10_000.0),
        (Some(2), 15_000.0),
        (Some(3), 30_000.0),
        (Some(0), 10_000.0),
        (Some(4), 10_000.0),
    ] {
        let mut tally = PhaseTally::new(1_000);
        tally.record(&Record { first_content_tokens: told, ..good(100) }, &[]);
        assert_eq!(avg(&tally, Sampled::InterTokenLatency), Some(expected_ns), "{told:?}");
    }
}

#[test]
fn one_token_has_no_inter_token_latency() {
    let mut tally = PhaseTally::new(4);
    let mut record = good(100);
    record.usage = Some(Usage { completion_tokens: Some(1), ..Usage::default() });
    tally.record(&record, &[]);
    assert_eq!(avg(&tally, Sampled::InterTokenLatency), None);
    assert_eq!(avg(&tally, Sampled::OutputTokenThroughputPerUser), None);
    assert!(avg(&tally, Sampled::E2eOutputTokenThroughput).is_some());
}

#[test]
fn failed_and_cancelled_requests_feed_only_what_counts_all_or_errors() {
    let mut tally = PhaseTally::new(16);
    for _ in 0..2 {
        tally.sent();
    }
    tally.record(&failed(100, 500, "boom"), &[1, 2]);
    let cancelled =
        Record { outcome: Outcome::Cancelled { delay: Nanos::from_millis(50) }, ended: at(300), ..good(200) };
    tally.record(&cancelled, &[1, 2]);
    assert_eq!(avg(&tally, Sampled::RequestLatency), None);
    assert_eq!(avg(&tally, Sampled::InterChunkLatency), None);
    assert_eq!(avg(&tally, Sampled::ErrorIsl), Some(32.0));
    // An error status ends, for the files, when it starts; a cancellation ends when it was cancelled.
    let effective = statistics(&tally, Sampled::EffectiveLatency).unwrap();
    assert_eq!((effective.min, effective.max, effective.count), (5_000.0, 105_000.0, 2));
    let groups: Vec<(Option<u16>, &str, u64)> = tally
        .error_groups()
        .iter()
        .map(|group| (group.failure.code, group.failure.message.as_str(), group.count))
        .collect();
    assert_eq!(groups, [(Some(500), "boom", 1), (Some(499), "Request cancelled 0.050s after being sent", 1)]);
    assert_eq!(tally.last_end(), Some(at(300)));
    assert!(tally.first_start().is_none());
    assert!(tally.check().is_ok());
}

#[test]
fn abandoned_requests_and_dropped_arrivals_are_counted_and_leave_no_values() {
    let mut tally = PhaseTally::new(16);
    tally.sent();
    tally.dropped(Drop::AtCapacity);
    tally.dropped(Drop::Late);
    tally.dropped(Drop::Late);
    tally.record(&Record { outcome: Outcome::Abandoned, ..good(100) }, &[5]);
    let counts = tally.counts();
    assert_eq!((counts.planned(), counts.dropped(), counts.completed(), counts.abandoned), (4, 3, 0, 1));
    assert!(Sampled::ALL.iter().all(|sampled| tally.samples(*sampled).is_empty()));
    assert!(tally.check().is_ok());
    tally.sent();
    assert!(tally.check().is_err(), "a request that was sent and never ended does not balance");
}

#[test]
fn lateness_keeps_its_exact_maximum_and_is_absent_when_nothing_was_sent() {
    let mut tally = PhaseTally::new(4);
    assert_eq!(tally.lateness_summary(), None);
    for late in 1..=1_000_u64 {
        tally.lateness(Nanos(late * 1_000));
    }
    let lateness = tally.lateness_summary().unwrap();
    assert_eq!((lateness.max, lateness.count), (Nanos(1_000_000), 1_000));
    for (value, expected) in
        [(lateness.p50, 500_000.0), (lateness.p99, 990_000.0), (lateness.p99_9, 999_000.0)]
    {
        assert!((value.0 as f64 - expected).abs() <= expected * 1e-3 + 1.0, "{value:?}");
    }
}

#[test]
fn error_texts_without_end_do_not_take_memory_without_end() {
    let mut tally = PhaseTally::new(4);
    let many = ERROR_GROUPS_MAX as u64 + 50;
    for number in 0..many {
        tally.record(&failed(100 + number, 502, &format!("text {number}")), &[]);
    }
    assert_eq!(tally.error_groups().len(), ERROR_GROUPS_MAX);
    assert_eq!(tally.errors_beyond(), 50);
    let grouped: u64 = tally.error_groups().iter().map(|group| group.count).sum();
    assert_eq!(grouped + tally.errors_beyond(), tally.counts().failed);
}

proptest! {
    #[test]
    fn a_phase_comes_to_the_same_on_any_number_of_shards(
        latencies in prop::collection::vec((1_u64..5_000, 0_u8..10), 1..120),
        shards in 1_usize..6,
        budget in prop::sample::select(vec![8_usize, 1_000]),
    ) {
        let records: Vec<Record> = latencies
            .iter()
            .enumerate()
            .map(|(number, (micros, kind))| {
                let start = 100 + number as u64 * 10;
                match kind {
                    0 => failed(start, 503, "busy"),
                    1 => Record {
                        outcome: Outcome::Cancelled { delay: Nanos::from_millis(u64::from(number % 2 == 0)) },
                        ..good(start)
                    },
                    2 => Record { outcome: Outcome::Abandoned, ..good(start) },
                    _ => Record { last_content: Some(at(start + 60 + micros)), ..good(start) },
                }
            })
            .collect();
        let mut whole = PhaseTally::new(budget);
        let mut parts: Vec<PhaseTally> = (0..shards).map(|_| PhaseTally::new(budget)).collect();
        for (number, record) in records.iter().enumerate() {
            for tally in [&mut whole, &mut parts[number % shards]] {
                tally.sent();
                tally.record(record, &[record.number, 7]);
                tally.lateness(Nanos(record.number));
            }
        }
        let mut merged = parts.pop().unwrap();
        for part in parts {
            merged.merge(part);
        }
        prop_assert_eq!(whole.counts(), merged.counts());
        prop_assert!(merged.check().is_ok());
        prop_assert_eq!(whole.lateness_summary(), merged.lateness_summary());
        prop_assert_eq!(whole.error_groups(), merged.error_groups());
        prop_assert_eq!(whole.last_end(), merged.last_end());
        prop_assert_eq!(whole.last_content(), merged.last_content());
        prop_assert_eq!(whole.first_start(), merged.first_start());
        for sampled in Sampled::ALL {
            let (left, right) = (statistics(&whole, sampled), statistics(&merged, sampled));
            if budget == 1_000 {
                prop_assert_eq!(left, right);
            } else if let (Some(left), Some(right)) = (left, right) {
                prop_assert_eq!((left.min, left.max, left.count), (right.min, right.max, right.count));
                prop_assert!((left.sum - right.sum).abs() <= left.sum * 1e-15);
                for (mine, theirs) in left.percentiles.iter().zip(right.percentiles) {
                    prop_assert!((mine - theirs).abs() <= mine * 2e-3 + 1e-9);
                }
            }
        }
    }
}

#[test]
fn settling_gives_back_memory_and_changes_no_number() {
    let made = |settles: bool| {
        let mut sum: Option<PhaseTally> = None;
        for shard in 0..3 {
            let mut tally = PhaseTally::new(10_000);
            for number in 0..20 {
                tally.sent();
                tally.lateness(Nanos(shard * 1_000 + number * 7));
                tally.record(&good(100 + number * 50 + shard), &[1_000, 2_000 + shard, 3_000 + number]);
            }
            match &mut sum {
                None => sum = Some(tally),
                Some(sum) => sum.merge(tally),
            }
            if settles {
                sum.as_mut().unwrap().settle();
            }
        }
        sum.unwrap()
    };
    let (plain, settled) = (made(false), made(true));
    assert_eq!(plain.counts(), settled.counts());
    assert_eq!(plain.lateness_summary(), settled.lateness_summary());
    for sampled in [Sampled::RequestLatency, Sampled::InterChunkLatency, Sampled::HttpReqSending] {
        let statistics = |tally: &PhaseTally| Ordered::of(&[tally.samples(sampled)]).statistics();
        assert_eq!(statistics(&plain), statistics(&settled));
        assert!(statistics(&settled).is_some());
    }
    for latency in Latency::ALL {
        let spread = |tally: &PhaseTally| Latencies::spread(std::iter::once(tally.latencies()), latency);
        assert_eq!(spread(&plain), spread(&settled));
    }
}
