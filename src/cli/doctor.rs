//! `phasor doctor`.

use crate::cli::exit;
use crate::cli::profile::CpuList;
use crate::cli::profile::Shards;
use crate::cli::say;
use crate::config;
use crate::config::diagnostic::Colour;
use crate::run;
use crate::run::cores;
use crate::run::cores::CoreRequest;
use crate::run::doctor;
use crate::run::doctor::Demand;
use crate::run::doctor::Probe;
use crate::run::doctor::Question;
use crate::run::machine::Tree;
use crate::shard::sources::SourceRange;
use crate::shard::sources::Sources;
use clap::Args;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments of `phasor doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// A config whose needs are held against this machine
    #[arg(long, short = 'f', value_name = "FILE")]
    config: Option<PathBuf>,

    /// Number of shards, as in `phasor profile`
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    shards: Shards,

    /// Cores for the shards, as in `phasor profile`
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Addresses that connections come from, as in `phasor profile`
    #[arg(long, value_name = "ADDRESS")]
    source_ip: Vec<SourceRange>,

    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Examines this machine and tells the exit code.
pub(super) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<u8> {
    let config = match &arguments.config {
        None => None,
        Some(path) => match config::load(path) {
            Ok(loaded) => Some(loaded.config),
            Err(faults) => {
                say(&faults.render(Colour::Never));
                return Ok(exit::FAILED);
            }
        },
    };
    let useful = config.as_ref().map_or(u64::MAX, run::useful_shards);
    let demand = match &config {
        None => None,
        Some(config) => Some(Demand {
            peak: run::in_flight_peak(config),
            addresses: run::resolve(config)?,
            sources: Sources::new(arguments.source_ip.clone()),
        }),
    };
    let cpus = arguments.cpus.as_ref().map(|list| list.0.clone());
    let request = CoreRequest { shards: arguments.shards.0, cpus: cpus.clone(), mock: false };
    let chosen = match (cores::assign(&request, &cores::available()?, useful), cpus) {
        (Ok(cores), _) => cores.shards,
        // Cores that may not be used are a finding like any other.
        (Err(_), Some(cpus)) => cpus,
        (Err(error), None) => return Err(error.into()),
    };
    let question = Question { tree: Tree::here(), cpus: chosen, demand };
    let findings = doctor::examine(&question, &Probe::take());
    let shown =
        if arguments.json { format!("{:#}\n", doctor::json(&findings)) } else { doctor::text(&findings) };
    // A reader that has gone away is nobody's fault.
    let _ = std::io::stdout().write_all(shown.as_bytes());
    Ok(if doctor::is_fit(&findings) { 0 } else { exit::FAILED })
}
