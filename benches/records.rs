//! What records cost: a million of them through the writer, the lateness of requests with and without it, and
//! what the end of a run makes of them.
//!
//! `cargo bench --bench records` prints all three; `-- --json` one JSON line for each. The writer's part
//! fails when a line is missing or when the percentiles of the tally are not those of an independent
//! computation over the file. Without `--bench` (as under `cargo test`) it runs with tiny numbers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

#[path = "support/memory.rs"]
mod memory;
#[path = "support/run.rs"]
mod run;

use memory::{peak_kib, resident_kib};
use phasor::artifact::RecordLines;
use phasor::artifact::sink::RecordFile;
use phasor::config;
use phasor::measure::summary::{DurationRule, Summary, Terms, Timing, Value as Metric};
use phasor::measure::weighted::{Window, time_weighted};
use phasor::measure::{Counted, Judgement, Outcome, PhaseTally, Record, RecordBatch};
use phasor::mock::{Mock, MockOptions, Writes};
use phasor::run::cores::available;
use phasor::run::recording::{BATCH_RECORDS, Recorder};
use phasor::run::traffic::Traffic;
use phasor::shard::driver::Idle;
use phasor::time::{Clock, Nanos, Stamp};
use phasor::wire::{TokenSource, Usage};
use run::{number, run};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Gaps between the content messages of each request.
const GAPS: usize = 7;

/// Requests at once.
const SLOTS: usize = 64;

/// Wall time at the origin.
const ORIGIN_UNIX_NS: u64 = 1_796_053_897_000_000_123;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    // First, while the peak of this process is its start.
    writer(if full { 1_000_000 } else { 3_000 }, json);
    curves(if full { 1_000_000 } else { 3_000 }, json);
    let (rate_per_s, length) =
        if full { (5_000, Nanos::from_millis(5_000)) } else { (200, Nanos::from_millis(200)) };
    lateness(rate_per_s, length, json);
}

/// Good requests one after the other in each of a number of slots, made as they are needed.
struct Requests {
    random: fastrand::Rng,
    /// When each slot falls free.
    free: [u64; SLOTS],
    made: u64,
}

impl Requests {
    fn new() -> Self {
        let free = std::array::from_fn(|slot| 1_000_000 + slot as u64 * 1_017);
        Self { random: fastrand::Rng::with_seed(7), free, made: 0 }
    }

    fn next(&mut self) -> (Record, [u64; GAPS]) {
        let number = self.made;
        self.made += 1;
        let slot = usize::try_from(number).unwrap() % SLOTS;
        let start = Stamp::from_nanos(self.free[slot]);
        let after = |nanos: u64| start.plus(Nanos(nanos));
        let first = self.random.u64(2_000_000..30_000_000);
        let gaps_ns: [u64; GAPS] = std::array::from_fn(|_| self.random.u64(1_000_000..9_000_000));
        let last = after(first).plus(Nanos(gaps_ns.iter().sum()));
        let ended = last.plus(Nanos(20_000));
        self.free[slot] = ended.as_nanos() + self.random.u64(1_000..100_000);
        let record = Record {
            phase: 0,
            shard: 0,
            number,
            row: u32::try_from(number % 4).unwrap(),
            request_id: u128::from(number),
            correlation_id: u128::from(number) << 64,
            planned: start,
            issued: after(500),
            connect: None,
            handshake_begun: None,
            first_byte_written: Some(after(1_000)),
            written: Some(after(1_000)),
            headers: Some(after(first - 100_000)),
            first_body: Some(after(first)),
            last_body: Some(ended),
            first_content: Some(after(first)),
            second_content: Some(after(first + gaps_ns[0])),
            first_output: Some(after(first)),
            last_content: Some(last),
            ended,
            outcome: Outcome::Ok,
            status: Some(200),
            messages: 10,
            contents: 8,
            body_reads: 9,
            body_bytes: 2_000,
            request_body_bytes: 300,
            usage: Some(Usage { prompt_tokens: Some(16), completion_tokens: Some(8), ..Usage::default() }),
            first_content_tokens: None,
            isl_tokens: Some(16),
            osl_tokens: Some(8),
            token_source: TokenSource::Estimate,
            counted: Counted::default(),
        };
        (record, gaps_ns)
    }

    /// When the last of them had ended.
    fn end(&self) -> Stamp {
        Stamp::from_nanos(self.free.iter().copied().max().unwrap())
    }
}

/// The part of a line that is computed again.
#[derive(Deserialize)]
struct Line {
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Metrics {
    request_latency: One,
    time_to_first_token: One,
    inter_token_latency: One,
}

#[derive(Deserialize)]
struct One {
    value: f64,
}

/// Percentiles by linear interpolation between ranks.
fn percentile(sorted: &[f64], percent: u64) -> f64 {
    let position = percent * (sorted.len() as u64 - 1);
    let low = usize::try_from(position / 100).unwrap();
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (position % 100) as f64 / 100.0 * (sorted[high] - sorted[low])
}

/// `requests` records through the writer, and its file read again.
fn writer(requests: u64, json: bool) {
    let directory = tempfile::tempdir().unwrap();
    let yaml = format!(
        "{}    - {{name: only, kind: profiling, type: concurrency, concurrency: 1, requests: 1}}\n",
        head("127.0.0.1:1")
    );
    let config = config::parse("bench.yaml", &yaml).unwrap().config;
    let dataset = Traffic::in_words(&config).unwrap().dataset;
    let clock = Clock::with_wall_origin(ORIGIN_UNIX_NS);
    let lines = RecordLines::new(&config, &dataset, clock, Arc::new(Judgement::default()));
    let path = directory.path().join("profile_export.jsonl");

    let mut tally = PhaseTally::new(usize::try_from(requests).unwrap());
    let mut made = Requests::new();
    let sink = RecordFile::create(path.clone(), lines).unwrap();
    let (recorder, mut ports) = Recorder::start(vec![Box::new(sink)], 1, 0).unwrap();
    let port = ports.pop().unwrap();
    let before_kib = peak_kib();
    let begun = Instant::now();
    let mut batch = RecordBatch::with_capacity(BATCH_RECORDS);
    for _ in 0..requests {
        let (record, gaps) = made.next();
        tally.record(&record, &gaps);
        if !batch.push(&record, &gaps) {
            // A shard never waits; here the writer's own speed is wanted, so nothing may be lost.
            let empty = port.empty.recv().unwrap();
            port.full.send((0, std::mem::replace(&mut batch, empty))).unwrap();
            assert!(batch.push(&record, &gaps));
        }
    }
    port.full.send((0, batch)).unwrap();
    drop(port);
    let recorded = recorder.finish();
    let seconds = begun.elapsed().as_secs_f64();
    let after_kib = peak_kib();
    assert_eq!((recorded.lines, recorded.lost, recorded.faults), (requests, 0, Vec::new()));

    let bytes = std::fs::metadata(&path).unwrap().len();
    compare(&path, &tally);
    let kept_kib = resident_kib();
    if json {
        println!(
            "{}",
            json!({
                "bench": "records",
                "scenario": "writer",
                "requests": requests,
                "seconds": seconds,
                "bytes": bytes,
                "peak_before_kib": before_kib,
                "peak_after_kib": after_kib,
                "resident_end_kib": kept_kib,
            })
        );
    } else {
        println!(
            "{requests} records, {GAPS} gaps each: {:.0} lines/s, {:.1} MB/s; peak of memory {before_kib} KiB before, \
             {after_kib} KiB after (tally with every value included); the percentiles of the file are those of the tally",
            requests as f64 / seconds,
            bytes as f64 / 1e6 / seconds
        );
    }
}

/// The tally's percentiles against those of the values in the file.
fn compare(path: &Path, tally: &PhaseTally) {
    let terms = Terms {
        window: Nanos(1),
        rule: DurationRule::FirstToLast,
        streaming: true,
        span: None,
        timing: Timing::Made,
    };
    let summary = Summary::of(&[tally], &terms);
    let file = BufReader::with_capacity(1 << 20, std::fs::File::open(path).unwrap());
    let mut columns = [const { Vec::new() }; 3];
    for line in file.lines() {
        let Metrics { request_latency, time_to_first_token, inter_token_latency } =
            serde_json::from_str::<Line>(&line.unwrap()).unwrap().metrics;
        for (column, one) in
            columns.iter_mut().zip([request_latency, time_to_first_token, inter_token_latency])
        {
            column.push(one.value);
        }
    }
    for (tag, mut column) in
        ["request_latency", "time_to_first_token", "inter_token_latency"].into_iter().zip(columns)
    {
        column.sort_by(f64::total_cmp);
        let Some(Metric::Full(found)) = summary.value(tag) else { panic!("{tag} is missing") };
        for (percent, found) in
            [(50, found.percentiles[4]), (90, found.percentiles[6]), (99, found.percentiles[8])]
        {
            let expected = percentile(&column, percent);
            assert!((found - expected).abs() <= 1e-9 * expected, "{tag} p{percent}: {found}, not {expected}");
        }
    }
}

/// What the time-weighted metrics of `requests` requests cost.
fn curves(requests: u64, json: bool) {
    let mut tally = PhaseTally::new(usize::try_from(requests).unwrap());
    let mut made = Requests::new();
    for _ in 0..requests {
        let (record, gaps) = made.next();
        tally.record(&record, &gaps);
    }
    let window = Window {
        clock: Clock::with_wall_origin(ORIGIN_UNIX_NS),
        start: Stamp::ORIGIN,
        end: made.end(),
        streaming: true,
    };
    let begun = Instant::now();
    let curves = time_weighted(&[tally.intervals()], window).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let hash = curves.iter().fold(0_u64, |hash, curve| {
        [curve.avg, curve.p50, curve.p90, curve.p95, curve.p99, curve.min, curve.max, curve.std]
            .iter()
            .fold(hash, |hash, value| hash.rotate_left(5) ^ value.to_bits())
    });
    let per_million = seconds * 1e6 / requests as f64;
    if json {
        println!(
            "{}",
            json!({
                "bench": "records",
                "scenario": "time-weighted metrics",
                "requests": requests,
                "gaps": GAPS,
                "seconds": seconds,
                "seconds_per_million": per_million,
                "hash": format!("{hash:016x}"),
            })
        );
    } else {
        println!(
            "time-weighted metrics of {requests} requests, {GAPS} gaps each: {seconds:.3} s, {per_million:.2} s per million  {hash:016x}"
        );
    }
}

fn head(authority: &str) -> String {
    format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  \
         endpoint: {{url: 'http://{authority}/v1/chat/completions', type: chat, streaming: true}}\n  \
         dataset: {{type: synthetic, entries: 4, prompts: {{isl: 16, osl: 8}}}}\n  phases:\n"
    )
}

/// An open loop with and without the record file.
fn lateness(rate_per_s: u32, length: Nanos, json: bool) {
    let cores = available().unwrap();
    for (name, artifacts) in [("without records", "{records: false}"), ("with records", "{}")] {
        let directory = tempfile::tempdir().unwrap();
        let cpus = cores.get(1).copied().into_iter().collect();
        let mock =
            Mock::start(MockOptions { writes: Writes::Whole, cpus, ..MockOptions::default() }).unwrap();
        let yaml = format!(
            "{}    - {{name: profiling, kind: profiling, type: poisson, rate: {rate_per_s}, concurrency: 4096, duration: {}}}\n  artifacts: {artifacts}\n",
            head(&mock.address().to_string()),
            length.as_secs_f64()
        );
        let report = run(&yaml, &cores[..1], Some(Idle::Sleep), directory.path());
        mock.stop().unwrap();
        assert_eq!(number(&report, "/records_lost"), 0);
        let lateness: &Value = report.pointer("/phases/0/lateness_ns").unwrap();
        if json {
            println!(
                "{}",
                json!({
                    "bench": "records",
                    "scenario": format!("lateness {name}"),
                    "rate_per_s": rate_per_s,
                    "lateness_ns": lateness,
                })
            );
        } else {
            let micros = |at: &str| number(lateness, at) as f64 / 1e3;
            println!(
                "{rate_per_s}/s {name:16} lateness p50 {:8.1}  p99 {:8.1}  p99.9 {:8.1}  max {:8.1} us",
                micros("/p50"),
                micros("/p99"),
                micros("/p99_9"),
                micros("/max")
            );
        }
    }
}
