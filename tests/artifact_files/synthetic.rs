//! Runs made of seeded synthetic records.

use phasor::artifact::calibration::Calibration;
use phasor::artifact::{FinishedPhase, FinishedRun, RecordBatch, RecordLines, ShardReport};
use phasor::config::{
    Cancellation, Config, Dataset as DatasetConfig, Endpoint, Load, Phase, PhaseKind, StopRules, Url,
};
use phasor::dataset::{Dataset, Row};
use phasor::measure::tally::Drop;
use phasor::measure::verdict::{Reason, Verdict};
use phasor::measure::{Cost, Failure, Judgement, Outcome, PhaseTally, Record};
use phasor::time::{Clock, Nanos, Stamp};
use phasor::wire::tls::Handshake;
use phasor::wire::{Detail, Fault, Usage, UsageDetails};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Wall time of the origin of every synthetic run.
pub(crate) const ORIGIN_UNIX_NS: u64 = 1_796_053_897_000_000_123;

/// A small generator with an even distribution; good enough to vary test data.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What a synthetic run is made of.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) shards: u16,
    pub(crate) samples_max: usize,
    pub(crate) streaming: bool,
    /// Percent of requests that fail, each in one of several ways.
    pub(crate) failed_percent: u64,
    /// Some replies have reasoning and cached tokens, some no usage at all.
    pub(crate) varied_usage: bool,
    /// The server reports everything that any server does.
    pub(crate) detailed_usage: bool,
    /// The last phase was cut.
    pub(crate) interrupted: bool,
    /// What the machine can do.
    pub(crate) calibration: Option<Calibration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            shards: 2,
            samples_max: 100_000,
            streaming: true,
            failed_percent: 5,
            varied_usage: true,
            detailed_usage: false,
            interrupted: false,
            calibration: None,
        }
    }
}

/// A run with what it borrows.
pub(crate) struct Synthetic {
    pub(crate) config: Config,
    pub(crate) dataset: Dataset,
    pub(crate) clock: Clock,
    pub(crate) phases: Vec<FinishedPhase>,
    pub(crate) records: Vec<(Record, Vec<u64>)>,
    pub(crate) options: Options,
    pub(crate) judgement: Arc<Judgement>,
}

pub(crate) fn phase(name: &str, kind: PhaseKind, concurrency: u32) -> Phase {
    Phase {
        stop: StopRules { requests: Some(100), ..StopRules::default() },
        ..Phase::new(name, kind, Load::Concurrency { concurrency })
    }
}

pub(crate) fn storm(name: &str) -> Phase {
    Phase {
        cancellation: Some(Cancellation { rate_percent: 40.0, delay: Nanos::from_millis(50) }),
        ..phase(name, PhaseKind::Profiling, 8)
    }
}

pub(crate) fn config(phases: Vec<Phase>, streaming: bool) -> Config {
    let url = Url {
        text: "http://127.0.0.1:18000/v1/chat/completions".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 18_000,
        target: "/v1/chat/completions".to_owned(),
        ..Url::default()
    };
    let endpoint = Endpoint { streaming, timeout: None, ..Endpoint::new(vec![url]) };
    let dataset = DatasetConfig::synthetic(3, 32, Some(16));
    let mut config = Config::new("org/mock-model", endpoint, dataset, phases);
    config.random_seed = Some(42);
    config.input_config = serde_json::json!({
        "models": { "items": [{ "name": "org/mock-model" }] },
        "artifacts": { "dir": "./artifacts" },
    });
    config
}

pub(crate) fn dataset() -> Dataset {
    let bodies: Vec<String> = (0..3)
        .map(|row| {
            format!(r#"{{"messages":[{{"role":"user","content":"wörds {row}"}}],"model":"org/mock-model","stream":true}}"#)
        })
        .collect();
    let mut block = Vec::new();
    let rows = bodies
        .iter()
        .enumerate()
        .map(|(row, body)| {
            let start = block.len();
            block.extend_from_slice(body.as_bytes());
            Row {
                conversation_id: format!("00000000-0000-4000-8000-00000000000{row}"),
                body: start..block.len(),
                isl_tokens: Some(32),
                osl_tokens: Some(16),
            }
        })
        .collect();
    Dataset::new(rows, block.into())
}

impl Synthetic {
    /// Makes `requests` records for each phase.
    pub(crate) fn new(phases: Vec<Phase>, requests: u64, options: Options) -> Self {
        Self::judged(phases, requests, options, Judgement::default())
    }

    /// The same, held against `judgement`.
    pub(crate) fn judged(phases: Vec<Phase>, requests: u64, options: Options, judgement: Judgement) -> Self {
        let judgement = Arc::new(judgement);
        let config = config(phases, options.streaming);
        let clock = Clock::with_wall_origin(ORIGIN_UNIX_NS);
        let mut dice = Dice(options.seed);
        let mut start = 1_000_000_000;
        let mut finished = Vec::new();
        let mut records = Vec::new();
        let mut profiling = 0;
        for (index, phase) in config.phases.iter().enumerate() {
            let last_phase = index + 1 == config.phases.len();
            let interrupted = options.interrupted && last_phase;
            let mut tallies: Vec<PhaseTally> = (0..options.shards)
                .map(|_| PhaseTally::judged(options.samples_max, Arc::clone(&judgement)))
                .collect();
            for number in 0..requests {
                let shard = usize::try_from(number).unwrap() % tallies.len();
                let (record, gaps) =
                    record(&mut dice, options, index, u16::try_from(shard).unwrap(), number, start, phase);
                let tally = &mut tallies[shard];
                tally.sent();
                tally.lateness(Nanos(dice.below(50_000)));
                if let Some((begun, ended)) = record.connect {
                    tally.handshake(Handshake::Resumed, ended.since(begun));
                }
                tally.record(&record, &gaps);
                if dice.below(10) == 0 {
                    tally.dropped(if number % 2 == 0 { Drop::AtCapacity } else { Drop::Late });
                }
                records.push((record, gaps));
            }
            let mut tally = tallies.remove(0);
            for other in tallies {
                tally.merge(other);
            }
            let ended = tally.last_end().map_or(start, Stamp::as_nanos) + 1_234_567;
            let profiling_index = (phase.kind == PhaseKind::Profiling).then(|| {
                profiling += 1;
                profiling - 1
            });
            finished.push(FinishedPhase {
                index: u16::try_from(index).unwrap(),
                profiling_index,
                name: phase.name.clone(),
                kind: phase.kind,
                started: Stamp::from_nanos(start),
                sending_ended: Stamp::from_nanos(ended - 1_000),
                ended: Stamp::from_nanos(ended),
                interrupted,
                shards: costs(options.shards),
                verdict: Verdict::Degraded,
                reasons: vec![Reason {
                    what: "busy_share",
                    value: 0.9,
                    limit: 0.85,
                    verdict: Verdict::Degraded,
                }],
                arrivals: None,
                tally,
            });
            start = ended + 3_456_789;
        }
        Self { config, dataset: dataset(), clock, phases: finished, records, options, judgement }
    }

    /// Writes the record file, the inputs and all results; the console text.
    pub(crate) fn write(self, directory: &Path) -> phasor::artifact::Written {
        phasor::artifact::write_inputs(directory, &self.dataset).unwrap();
        let mut lines = RecordLines::new(&self.config, &self.dataset, self.clock, self.judgement)
            .towards(Some(SocketAddr::from(([127, 0, 0, 1], 18_000))));
        let mut file =
            std::fs::File::create(directory.join(phasor::artifact::names::records(&self.config.artifacts)))
                .unwrap();
        let mut batch = RecordBatch::with_capacity(64);
        let mut written = 0;
        for (record, gaps) in &self.records {
            if !batch.push(record, gaps) {
                written += lines.write(&mut file, &batch).unwrap();
                batch.clear();
                assert!(batch.push(record, gaps));
            }
        }
        written += lines.write(&mut file, &batch).unwrap();
        let completed: u64 = self.phases.iter().map(|phase| phase.tally.counts().completed()).sum();
        assert_eq!(written, completed);
        let run = FinishedRun {
            config: &self.config,
            dataset: &self.dataset,
            clock: self.clock,
            cell: None,
            benchmark_id: "0123456789ab".to_owned(),
            cli_command: "phasor profile --config 'config.yaml'".to_owned(),
            phases: self.phases,
            interrupted: self.options.interrupted,
            given_up: None,
            records_lost: 0,
            counting: None,
            calibration: self.options.calibration,
            warnings: vec!["a warning".to_owned()],
            shards: costs(self.options.shards),
            console_width: phasor::artifact::console::WIDTH,
            telemetry: phasor::telemetry::Telemetry::default(),
        };
        phasor::artifact::write_results(directory, &run, &phasor::artifact::Results::of(&run))
    }
}

fn costs(shards: u16) -> Vec<ShardReport> {
    (0..shards)
        .map(|shard| ShardReport {
            shard,
            cpu: usize::from(shard) + 1,
            cost: Cost {
                elapsed: Nanos(1_000_000_000),
                busy_share: 0.25,
                longest_gap: Nanos(40_000),
                cpu_time: Some(Nanos(7_000_000)),
                ..Cost::default()
            },
        })
        .collect()
}

fn record(
    dice: &mut Dice,
    options: Options,
    phase: usize,
    shard: u16,
    number: u64,
    phase_start: u64,
    settings: &Phase,
) -> (Record, Vec<u64>) {
    let issued = phase_start + 1_000 + number * 1_000_003 + dice.below(900_000);
    let planned = issued - dice.below(1_000).min(issued - phase_start);
    let fresh = dice.below(4) == 0;
    let connected = issued + if fresh { 20_000 + dice.below(90_000) } else { 0 };
    let written = connected + 3_000 + dice.below(9_000);
    let headers = written + 400_000 + dice.below(2_000_000);
    let first_body = headers + dice.below(2_000);
    let contents = 1 + dice.below(24);
    let first = first_body + dice.below(30_000_000);
    let gaps: Vec<u64> =
        (1..contents).map(|_| if dice.below(5) == 0 { 0 } else { 1 + dice.below(8_000_000) }).collect();
    let last = first + gaps.iter().sum::<u64>();
    let ended = last + dice.below(100_000);
    let stamp = |nanos: u64| Some(Stamp::from_nanos(nanos));
    let reasoning = options.varied_usage && dice.below(6) == 0;
    let usage = Usage {
        prompt_tokens: Some(20 + dice.below(15)),
        completion_tokens: Some(contents + dice.below(2) * 3),
        total_tokens: Some(60),
        reasoning_tokens: reasoning.then(|| dice.below(contents + 4)),
        cached_tokens: reasoning.then(|| dice.below(16)),
        details: if options.detailed_usage && dice.below(3) > 0 {
            let mut detail = || Detail::new(dice.below(9));
            UsageDetails {
                cache_write_tokens: detail(),
                cache_miss_tokens: detail(),
                prompt_audio_tokens: detail(),
                prompt_audio_seconds: detail(),
                tool_use_prompt_tokens: detail(),
                completion_audio_tokens: detail(),
                accepted_prediction_tokens: detail(),
                rejected_prediction_tokens: detail(),
            }
        } else {
            UsageDetails::default()
        },
    };
    let mut record = Record {
        phase: u16::try_from(phase).unwrap(),
        shard,
        number,
        row: u32::try_from(number % 3).unwrap(),
        request_id: u128::from(dice.below(u64::MAX)) << 64 | u128::from(number),
        correlation_id: u128::from(dice.below(u64::MAX)),
        planned: Stamp::from_nanos(planned),
        issued: Stamp::from_nanos(issued),
        connect: fresh.then(|| (Stamp::from_nanos(issued), Stamp::from_nanos(connected))),
        handshake_begun: None,
        first_byte_written: stamp(written - 1_000),
        written: stamp(written),
        headers: stamp(headers),
        first_body: stamp(first_body),
        last_body: stamp(ended),
        first_content: stamp(first),
        second_content: gaps.first().and_then(|gap| stamp(first + gap)),
        first_output: stamp(if reasoning { last } else { first }),
        last_content: stamp(last),
        ended: Stamp::from_nanos(ended),
        outcome: Outcome::Ok,
        status: Some(200),
        messages: u32::try_from(contents).unwrap() + 2,
        contents: u32::try_from(contents).unwrap(),
        body_reads: u32::try_from(contents).unwrap(),
        body_bytes: 220 * contents,
        request_body_bytes: 240 + dice.below(60),
        usage: (!options.varied_usage || dice.below(8) > 0).then_some(usage),
        first_content_tokens: None,
        isl_tokens: Some(32),
        osl_tokens: Some(16),
        token_source: phasor::wire::TokenSource::Estimate,
        counted: phasor::measure::Counted::default(),
    };
    let fate = dice.below(100);
    if fate < options.failed_percent {
        let failure = match dice.below(4) {
            0 => {
                record.status = Some(503);
                Failure::from(Fault::Status {
                    status: 503,
                    reason: "Service Unavailable".to_owned(),
                    body: "{\"error\": \"busy\"}".to_owned(),
                })
            }
            1 => Failure::timeout(),
            2 => Failure::from(Fault::Truncated),
            _ => {
                (record.status, record.headers) = (None, None);
                Failure::connect("127.0.0.1", 18_000, 111)
            }
        };
        record.outcome = Outcome::Failed(Box::new(failure));
    } else if let Some(cancellation) = settings.cancellation {
        if fate < options.failed_percent + percent(cancellation.rate_percent) {
            record.outcome = Outcome::Cancelled { delay: cancellation.delay };
            record.ended = Stamp::from_nanos(written).plus(cancellation.delay);
        }
    } else if options.interrupted && number % 50 == 49 {
        record.outcome = Outcome::Abandoned;
    }
    (record, gaps)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
fn percent(rate: f64) -> u64 {
    rate as u64
}
