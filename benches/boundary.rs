//! What the edge between two phases costs: a new tally, merging 64 shards' tallies, the gap between phases on
//! real shards, and memory over a long run of short phases.
//!
//! `cargo bench --bench boundary` prints all four; `-- --json` one JSON line for each scenario. Without
//! `--bench` (as under `cargo test`) it runs with tiny numbers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

#[path = "support/memory.rs"]
mod memory;
#[path = "support/records.rs"]
mod records;
#[path = "support/run.rs"]
mod run;
#[path = "support/spread.rs"]
mod spread;

use memory::resident_kib;
use phasor::measure::{Outcome, PhaseTally, Record};
use phasor::mock::{Mock, MockOptions, Writes};
use phasor::run::SAMPLES_MAX;
use phasor::run::cores::available;
use phasor::shard::driver::Idle;
use phasor::time::{Nanos, Stamp};
use phasor::wire::Usage;
use records::{records, time_ns};
use run::{number, run};
use serde_json::{Value, json};
use spread::Spread;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shards whose tallies are merged.
const SHARDS: u16 = 64;

/// Requests of a short phase, and how many of them at once.
const PHASE_REQUESTS: u64 = 20;
const PHASE_SLOTS: u64 = 4;

/// How often memory is looked at while a phase goes on.
const SAMPLE_EVERY: Duration = Duration::from_micros(500);

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    // First, while this process has no memory that it could use again.
    if full {
        memory_over_phases(1_000, 100, json);
    } else {
        memory_over_phases(40, 10, json);
    }
    let cores = available().unwrap();
    for shards in 1..=2 {
        let cpus: Vec<usize> = cores.iter().copied().cycle().take(shards).collect();
        gaps(&cpus, if full { 200 } else { 12 }, json);
    }
    make(SAMPLES_MAX, if full { 200 } else { 3 }, json);
    let merges: &[(u64, usize)] = if full {
        // The third is what a shard of 64 keeps; the last one has counted most values in histograms.
        &[(1_000, 1_000), (16_384, 16_384), (100_000, 100_000), (20_000, 1_000)]
    } else {
        &[(100, 100), (200, 100)]
    };
    for &(requests, samples_max) in merges {
        merge(requests, samples_max, if full { 5 } else { 1 }, json);
    }
}

/// What a shard does when a phase begins: an empty tally, and its first record.
fn make(samples_max: usize, rounds: usize, json: bool) {
    let mut made = Vec::new();
    let mut first = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut tally = PhaseTally::new(samples_max);
        made.push(i64::try_from(begun.elapsed().as_nanos()).unwrap());
        let begun = Instant::now();
        fill(&mut tally, 0, 1);
        first.push(i64::try_from(begun.elapsed().as_nanos()).unwrap());
        assert_eq!(tally.counts().ok, 1);
    }
    let [made, first] = [made, first].map(|all| Spread::of_ns(all.into_iter()));
    if json {
        println!(
            "{}",
            json!({
                "bench": "boundary",
                "scenario": "make",
                "samples_max": samples_max,
                "make_us": made.json(),
                "first_record_us": first.json(),
            })
        );
    } else {
        println!("a tally for {samples_max} exact values\n  making it   {made}\n  first record{first}");
    }
}

/// A phase's tallies of all shards into one, as the conductor does it.
fn merge(requests: u64, samples_max: usize, rounds: u64, json: bool) {
    let mut times_ms = Vec::new();
    let mut hash = 0;
    for _ in 0..rounds {
        let mut tallies =
            (0..SHARDS).map(|shard| tally(shard, requests, samples_max)).collect::<Vec<_>>().into_iter();
        let begun = Instant::now();
        let mut sum = tallies.next().unwrap();
        for other in tallies {
            sum.merge(other);
        }
        times_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(sum.counts().ok, requests * u64::from(SHARDS));
        assert_eq!(sum.is_exact(), requests * GAPS as u64 <= samples_max as u64);
        let lateness = sum.lateness_summary().unwrap();
        hash = sum.counts().reply_body_bytes ^ lateness.p50.0 ^ lateness.count << 32;
    }
    times_ms.sort_by(f64::total_cmp);
    let ms = times_ms[times_ms.len() / 2];
    if json {
        println!(
            "{}",
            json!({
                "bench": "boundary",
                "scenario": "merge",
                "shards": SHARDS,
                "requests_per_shard": requests,
                "samples_max": samples_max,
                "merge_ms": ms,
                "hash": format!("{hash:016x}"),
            })
        );
    } else {
        println!(
            "merge of {SHARDS} shards, {requests} requests each, {samples_max} exact values kept: {ms:.3} ms  {hash:016x}"
        );
    }
}

/// Gaps between the content messages of each request.
const GAPS: usize = 4;

/// A tally of `requests` good requests.
fn tally(shard: u16, requests: u64, samples_max: usize) -> PhaseTally {
    let mut tally = PhaseTally::new(samples_max);
    fill(&mut tally, shard, requests);
    tally
}

/// Good requests of a shard.
fn fill(tally: &mut PhaseTally, shard: u16, requests: u64) {
    let mut random = fastrand::Rng::with_seed(u64::from(shard));
    for number in 0..requests {
        let planned = Stamp::from_nanos(1 + number * 1_000_000);
        let after = |micros: u64| planned.plus(Nanos::from_micros(micros));
        let first = 500 + random.u64(0..500);
        let gaps_ns: [u64; GAPS] = std::array::from_fn(|_| random.u64(1_000_000..9_000_000));
        let last = after(first).plus(Nanos(gaps_ns.iter().sum()));
        tally.sent();
        tally.lateness(Nanos(random.u64(0..10_000)));
        let record = Record {
            phase: 0,
            shard,
            number: number * u64::from(SHARDS) + u64::from(shard),
            row: 0,
            request_id: 0,
            correlation_id: 0,
            planned,
            issued: after(1),
            connect: None,
            handshake_begun: None,
            first_byte_written: Some(after(2)),
            written: Some(after(3)),
            headers: Some(after(first)),
            first_body: Some(after(first)),
            last_body: Some(last),
            first_content: Some(after(first)),
            second_content: Some(after(first).plus(Nanos(gaps_ns[0]))),
            first_output: Some(after(first)),
            last_content: Some(last),
            ended: last,
            outcome: Outcome::Ok,
            status: Some(200),
            messages: 9,
            contents: 5,
            body_reads: 5,
            body_bytes: 2_000,
            request_body_bytes: 300,
            usage: Some(Usage { prompt_tokens: Some(16), completion_tokens: Some(5), ..Usage::default() }),
            first_content_tokens: None,
            isl_tokens: Some(16),
            osl_tokens: Some(5),
            token_source: phasor::wire::TokenSource::Estimate,
            counted: phasor::measure::Counted::default(),
        };
        tally.record(&record, &gaps_ns);
    }
}

/// A server that answers at once.
fn server() -> Mock {
    let cpus = available().unwrap().get(1).copied().into_iter().collect();
    Mock::start(MockOptions { writes: Writes::Whole, cpus, ..MockOptions::default() }).unwrap()
}

/// `count` phases of a few requests each.
fn short_phases(mock: &Mock, count: u64) -> String {
    let mut yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  \
         endpoint: {{url: 'http://{}/v1/chat/completions', type: chat, streaming: true}}\n  \
         dataset: {{type: synthetic, entries: 16, prompts: {{isl: 16, osl: 4}}}}\n  phases:\n",
        mock.address(),
    );
    for phase in 0..count {
        writeln!(
            yaml,
            "    - {{name: p{phase}, kind: profiling, type: concurrency, concurrency: {PHASE_SLOTS}, requests: {PHASE_REQUESTS}}}"
        )
        .unwrap();
    }
    yaml
}

/// From the last end of each phase to the start of the next, and to its first request.
fn gaps(cpus: &[usize], phases: u64, json: bool) {
    let directory = tempfile::tempdir().unwrap();
    let mock = server();
    let report = run(&short_phases(&mock, phases), cpus, Some(Idle::Sleep), directory.path());
    mock.stop().unwrap();
    let first_sent = first_requests(directory.path(), phases);
    let edges: Vec<(u64, u64)> = report["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| (number(phase, "/start_ns"), number(phase, "/end_ns")))
        .collect();
    assert_eq!(edges.len() as u64, phases);
    let between = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
    let gaps: Vec<(i64, i64)> = edges
        .windows(2)
        .zip(&first_sent[1..])
        .map(|(pair, first)| (between(pair[0].1, pair[1].0), between(pair[0].1, *first)))
        .collect();
    let starts = Spread::of_ns(gaps.iter().map(|gap| gap.0));
    let sends = Spread::of_ns(gaps.iter().map(|gap| gap.1));
    let quarter = gaps.len() / 4;
    let early = Spread::of_ns(gaps[..quarter].iter().map(|gap| gap.1));
    let late = Spread::of_ns(gaps[gaps.len() - quarter..].iter().map(|gap| gap.1));
    if json {
        println!(
            "{}",
            json!({
                "bench": "boundary",
                "scenario": format!("gaps, {} shards", cpus.len()),
                "shards": cpus.len(),
                "phases": phases,
                "end_to_start_us": starts.json(),
                "end_to_first_request_us": sends.json(),
                "first_quarter_us": early.json(),
                "last_quarter_us": late.json(),
            })
        );
    } else {
        println!(
            "{} shards, {phases} phases\n  end to start         {starts}\n  end to first request {sends}\n  \
             of the first quarter {early}\n  of the last quarter  {late}",
            cpus.len()
        );
    }
}

/// When the first request of each phase was let go.
fn first_requests(directory: &Path, phases: u64) -> Vec<u64> {
    let mut first = vec![u64::MAX; usize::try_from(phases).unwrap()];
    let started = records(directory, |record: &Value| {
        (number(record, "/metadata/phase_index"), time_ns(record, "request_start_ns"))
    });
    for (phase, start_ns) in started {
        let first = &mut first[usize::try_from(phase).unwrap()];
        *first = start_ns.min(*first);
    }
    first
}

/// Memory at phase `early`, at the last of `phases` phases, and when the files were written.
fn memory_over_phases(phases: u64, early: u64, json: bool) {
    let directory = tempfile::tempdir().unwrap();
    let mock = server();
    let yaml = short_phases(&mock, phases);
    let cpu = available().unwrap()[0];
    let mock = Arc::new(mock);
    // The server outlives the sampler, which ends when all requests have been answered.
    let sampler = std::thread::spawn({
        let mock = Arc::clone(&mock);
        move || {
            let at = |requests| memory_after(&mock, requests);
            (at(early * PHASE_REQUESTS), at((phases - 1) * PHASE_REQUESTS))
        }
    });
    run(&yaml, &[cpu], Some(Idle::Sleep), directory.path());
    let (early_kib, last_kib) = sampler.join().unwrap();
    let end_kib = resident_kib();
    let per_phase = (last_kib as f64 - early_kib as f64) / (phases - 1 - early) as f64;
    if json {
        println!(
            "{}",
            json!({
                "bench": "boundary",
                "scenario": "memory",
                "phases": phases,
                "early_phase": early,
                "resident_early_kib": early_kib,
                "resident_last_kib": last_kib,
                "resident_end_kib": end_kib,
                "kib_per_phase": per_phase,
            })
        );
    } else {
        println!(
            "{phases} phases of {PHASE_REQUESTS} requests: {early_kib} KiB at phase {early}, {last_kib} KiB at the last \
             ({per_phase:.1} KiB each), {end_kib} KiB at the end"
        );
    }
}

/// Memory when the server has answered `requests` requests.
fn memory_after(mock: &Mock, requests: u64) -> u64 {
    while mock.requests() < requests {
        std::thread::sleep(SAMPLE_EVERY);
    }
    resident_kib()
}
