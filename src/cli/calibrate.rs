//! `phasor calibrate`.

use crate::cli::exit;
use crate::cli::profile::CpuList;
use crate::cli::say;
use crate::mock::Delay;
use crate::mock::Mock;
use crate::mock::MockOptions;
use crate::mock::Writes;
use crate::run::calibrate;
use crate::run::calibrate::CalibrateError;
use crate::run::calibrate::CalibrateOptions;
use crate::run::calibrate::Length;
use crate::run::calibrate::client_profile::CLIENT_PROFILE;
use crate::run::cores;
use crate::run::cores::CoreRequest;
use crate::run::interrupt;
use crate::time::Clock;
use anyhow::Context;
use clap::Args;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Arguments of `phasor calibrate`.
#[derive(Debug, Args)]
pub(super) struct CalibrateArguments {
    /// File for the figures; `phasor profile` looks for it under its default name
    #[arg(long, short = 'o', value_name = "FILE", default_value = CLIENT_PROFILE)]
    output: PathBuf,

    /// Cores: the first for the shard, the next for the server; default: the first two that there are
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// About 3 s instead of 20, with more noise in the figures
    #[arg(long)]
    quick: bool,
}

/// Measures, writes the file and shows the figures.
pub(super) fn calibrate(arguments: &CalibrateArguments) -> anyhow::Result<u8> {
    let clock = Clock::start();
    let available = cores::available()?;
    let named = arguments.cpus.as_ref().map(|list| list.0.clone());
    let first = named.as_ref().and_then(|cpus| cpus.first().copied());
    let request = CoreRequest { shards: Some(1), cpus: first.map(|cpu| vec![cpu]), mock: true };
    let mut assigned = cores::assign(&request, &available, 1)?;
    if let Some(&server) = named.as_ref().and_then(|cpus| cpus.get(1)) {
        let on_server = CoreRequest { shards: Some(1), cpus: Some(vec![server]), mock: false };
        let given = cores::assign(&on_server, &available, 1)?.shards.first().copied();
        assigned.mock = given.filter(|server| !assigned.shards.contains(server));
    }
    let cores = assigned;
    if cores.mock.is_none() {
        say(
            "There is no second core: the built-in server shares the shard's. Ceilings are counted over the \
             shard's own processor time and hold; floor and lateness include waiting for the server's turns.",
        );
    }
    let length = if arguments.quick { Length::Quick } else { Length::Full };
    let server_cpu = cores.mock.or_else(|| cores.shards.first().copied());
    let at_once = MockOptions {
        cpus: server_cpu.into_iter().collect(),
        writes: Writes::Whole,
        ..MockOptions::default()
    };
    let (first_token, between) = length.pace();
    let token_by_token = MockOptions {
        writes: Writes::PerMessage,
        ttft: Delay::Fixed(first_token),
        itl: Delay::Fixed(between),
        ..at_once.clone()
    };
    let whole = Mock::start(at_once).context("the built-in server did not start")?;
    let paced = Mock::start(token_by_token).context("the built-in server did not start")?;
    let interrupt = Arc::new(AtomicBool::new(false));
    interrupt::arm(&interrupt).context("cannot listen for Ctrl-C")?;
    let options =
        CalibrateOptions { cores, whole: whole.address(), paced: paced.address(), length, interrupt, clock };
    let profile = match calibrate::calibrate(&options) {
        Ok(profile) => profile,
        Err(error @ CalibrateError::Interrupted) => {
            say(&error.to_string());
            return Ok(exit::INTERRUPTED);
        }
        Err(error) => return Err(error.into()),
    };
    whole.stop().context("the built-in server failed")?;
    paced.stop().context("the built-in server failed")?;
    profile.save(&arguments.output)?;
    if let Some(doubt) = profile.doubt() {
        say(&format!("warning: {doubt}"));
    }
    let shown = format!("{}\nWritten to {}\n", profile.text(), arguments.output.display());
    // A reader that has gone away is nobody's fault.
    let _ = std::io::stdout().write_all(shown.as_bytes());
    Ok(0)
}
