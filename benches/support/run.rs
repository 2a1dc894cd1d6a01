//! The whole program on a config, records and files included.

use phasor::config;
use phasor::run::cores::{CoreRequest, assign, available};
use phasor::run::progress::Ui;
use phasor::run::telemetry::TelemetrySettings;
use phasor::run::tls::TlsOptions;
use phasor::run::{RunOptions, conduct};
use phasor::shard::driver::Idle;
use phasor::shard::sources::Sources;
use phasor::time::Clock;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Runs `yaml` with a shard on each of `cpus` and writes its files to `directory`. Gives the client report.
///
/// # Panics
/// When the run does not start, has a fault, or a request fails.
#[allow(dead_code, reason = "one bench always says what TLS needs")]
pub(crate) fn run(yaml: &str, cpus: &[usize], idle: Option<Idle>, directory: &Path) -> Value {
    run_with(yaml, cpus, idle, directory, (TlsOptions::default(), None))
}

/// As [`run`], with what TLS needs.
///
/// # Panics
/// As [`run`].
#[allow(dead_code, reason = "one bench speaks TLS")]
pub(crate) fn run_over(
    yaml: &str,
    cpus: &[usize],
    idle: Option<Idle>,
    directory: &Path,
    tls: TlsOptions,
) -> Value {
    run_with(yaml, cpus, idle, directory, (tls, None))
}

/// As [`run`], while the server's metrics are read.
///
/// # Panics
/// As [`run`].
#[allow(dead_code, reason = "one bench reads metrics")]
pub(crate) fn run_reading(
    yaml: &str,
    cpus: &[usize],
    idle: Option<Idle>,
    directory: &Path,
    telemetry: TelemetrySettings,
) -> Value {
    run_with(yaml, cpus, idle, directory, (TlsOptions::default(), Some(telemetry)))
}

fn run_with(
    yaml: &str,
    cpus: &[usize],
    idle: Option<Idle>,
    directory: &Path,
    (tls, telemetry): (TlsOptions, Option<TelemetrySettings>),
) -> Value {
    let mut config = config::parse("bench.yaml", yaml).unwrap().config;
    config.gpu_telemetry.enabled = false;
    config.server_metrics.enabled = telemetry.is_some();
    let traffic = phasor::run::traffic::Traffic::in_words(&config).unwrap();
    let shards = u16::try_from(cpus.len()).unwrap();
    let request = CoreRequest { shards: Some(shards), cpus: Some(cpus.to_vec()), mock: false };
    let options = RunOptions {
        tuning: phasor::plan::Tuning::default(),
        sockets: phasor::shard::socket::SocketOptions::default(),
        cores: assign(&request, &available().unwrap(), u64::from(shards)).unwrap(),
        idle,
        sources: Sources::default(),
        tls,
        calibration: None,
        telemetry: telemetry.unwrap_or_default(),
        ui: Ui::None,
        console_width: phasor::artifact::console::WIDTH,
        directory: directory.to_owned(),
        cli_command: "bench".to_owned(),
        server_inside: true,
        interrupt: Arc::default(),
        clock: Clock::start(),
    };
    let outcome = conduct(&config, &traffic, &options).unwrap();
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let report = std::fs::read(directory.join("client_report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(number(&report, "/total/failed"), 0, "{report}");
    report
}

/// A whole number of a report.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}
