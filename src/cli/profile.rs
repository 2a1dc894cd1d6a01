//! `phasor profile`.

use crate::artifact;
use crate::artifact::calibration::Calibration;
use crate::cli::exit;
use crate::cli::say;
use crate::cli::say_all;
use crate::cli::show;
use crate::cli::sweep;
use crate::cli::traffic;
use crate::config;
use crate::config::CommandLine;
use crate::config::Config;
use crate::config::Diagnostics;
use crate::config::Loaded;
use crate::mock::Delay;
use crate::mock::Mock;
use crate::mock::MockOptions;
use crate::mock::Speaks;
use crate::plan::AtCapacity;
use crate::run;
use crate::run::RunOptions;
use crate::run::calibrate::client_profile::CLIENT_PROFILE;
use crate::run::calibrate::client_profile::ClientProfile;
use crate::run::calibrate::client_profile::ClientProfileError;
use crate::run::cores;
use crate::run::cores::CoreRequest;
use crate::run::environment::Environment;
use crate::run::machine::Machine;
use crate::run::machine::Tree;
use crate::run::progress::Ui;
use crate::run::sweep::Resume;
use crate::run::telemetry::TelemetrySettings;
use crate::run::tls::TlsOptions;
use crate::shard::driver::Idle;
use crate::shard::sources::SourceRange;
use crate::shard::sources::Sources;
use crate::time::Clock;
use anyhow::Context;
use clap::Args;
use clap::ValueEnum;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Arguments of `phasor profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArguments {
    /// The YAML file with model, endpoint, dataset and phases; `-` is standard input
    #[arg(long, short = 'f', value_name = "FILE")]
    config: Option<PathBuf>,

    /// Number of shards, each with a core, an executor and connections of its own
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    shards: Shards,

    /// Cores for the shards, such as 2,3 or 2-5; default: all that this process may use but one
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// What a shard does while it has nothing to do: `spin` keeps its core busy and reacts soonest
    #[arg(long, value_enum, default_value_t = IdleChoice::Auto)]
    idle: IdleChoice,

    /// What becomes of an arrival of an open loop that finds `concurrency` requests in flight
    #[arg(long, value_enum, default_value_t = AtCapacityChoice::Drop)]
    at_capacity: AtCapacityChoice,

    /// Address of this machine that connections come from, also 127.0.0.2-127.0.0.9 or 127.0.0.0/8; may be
    /// given again, and all of them are used in turn
    #[arg(long, value_name = "ADDRESS")]
    source_ip: Vec<SourceRange>,

    /// Authorities that sign the server's certificate, in PEM, in place of those of this machine; may be given
    /// again
    #[arg(long, value_name = "FILE")]
    ca_file: Vec<PathBuf>,

    /// Certificate that phasor shows to servers which ask for one, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// Key of that certificate, in PEM, without a password
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// Figures of `phasor calibrate` for this machine; default: `client_profile.json` of the current
    /// directory, if there is one
    #[arg(long, value_name = "FILE")]
    client_profile: Option<PathBuf>,

    /// Take runs of a sweep, or trials, that an earlier command finished in the same directory from their files
    #[arg(long)]
    resume: bool,

    /// Start the built-in server inside this process and send the load there instead
    #[arg(long)]
    mock: bool,

    /// The built-in server speaks TLS, and its certificate is trusted
    #[arg(long, requires = "mock")]
    mock_tls: bool,

    /// The built-in server's time to first token, such as 20ms, exp:20ms or lognormal:20ms,0.5
    #[arg(long, value_name = "DELAY", requires = "mock")]
    mock_ttft: Option<Delay>,

    /// The built-in server's time between tokens
    #[arg(long, value_name = "DELAY", requires = "mock")]
    mock_itl: Option<Delay>,

    /// Requests per second that the built-in server works off, one after the other; default: any number at once
    #[arg(long, value_name = "PER_SECOND", requires = "mock", value_parser = crate::cli::mock::capacity)]
    mock_capacity: Option<f64>,

    /// Log of the built-in server's arrivals, one line per request
    #[arg(long, value_name = "FILE", requires = "mock")]
    mock_log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AtCapacityChoice {
    /// It is dropped and counted
    Drop,
    /// It waits, and its wait is part of its response latency
    Queue,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum IdleChoice {
    /// Spin if every shard has a core to itself, else sleep
    Auto,
    /// Wait in the kernel, spin only for the last stretch before a due time
    Sleep,
    /// Never wait in the kernel while requests are in flight
    Spin,
}

/// `auto` or a number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shards(pub(super) Option<u16>);

impl FromStr for Shards {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(shards @ 1..=SHARDS_MAX) => Ok(Self(Some(shards))),
            Ok(_) | Err(_) => Err(format!("expected `auto` or a number from 1 to {SHARDS_MAX}")),
        }
    }
}

/// Most shards of one run.
const SHARDS_MAX: u16 = 1_024;

/// Cores by number: `0,2-4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(pub(super) Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let bounds = low.trim().parse::<usize>().ok().zip(high.trim().parse::<usize>().ok());
            match bounds {
                Some((low, high)) if low <= high && high < CPUS_MAX => cpus.extend(low..=high),
                Some(_) | None => {
                    return Err(format!(
                        "`{part}` is no core or range of cores: expected a list such as 2,3 or 2-5"
                    ));
                }
            }
        }
        match (1..cpus.len()).find(|position| cpus[..*position].contains(&cpus[*position])) {
            Some(position) => Err(format!("core {} is named twice", cpus[position])),
            None => Ok(Self(cpus)),
        }
    }
}

/// Cores are numbered below this.
const CPUS_MAX: usize = 8_192;

/// Variables that name a proxy to other programs.
const PROXY_VARIABLES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// The variables that name a proxy here.
fn proxies() -> Option<String> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names: Vec<&str> = PROXY_VARIABLES.into_iter().filter(is_set).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Runs a config and tells the exit code.
pub(super) fn profile(arguments: &ProfileArguments, given: &CommandLine) -> anyhow::Result<u8> {
    let clock = Clock::start();
    let Some(Loaded { mut config, mut variations, expander, .. }) = load(arguments, given) else {
        return Ok(exit::FAILED);
    };
    let several = variations.len() > 1 || config.multi_run.runs > 1 || expander.is_some();

    let environment =
        Environment::read(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }))?;
    if let Some(warning) = environment.warning() {
        say(&format!("warning: {warning}"));
    }
    if let Some(proxies) = proxies() {
        say(&format!("note: proxies are not used ({proxies}): the load goes straight to the server"));
    }
    let request = CoreRequest {
        shards: arguments.shards.0,
        cpus: arguments.cpus.as_ref().map(|list| list.0.clone()),
        mock: arguments.mock,
    };
    let useful = variations.iter().map(|variation| run::useful_shards(&variation.config)).max();
    // How far a search goes is not known yet; each of its runs takes as many shards as it can keep busy.
    let useful = if expander.is_some() { Some(u64::MAX) } else { useful };
    let cores = cores::assign(&request, &cores::available()?, useful.unwrap_or(1))?;
    if cores.shards.iter().collect::<BTreeSet<_>>().len() < cores.shards.len() {
        say(&format!(
            "warning: {} shards share cores, and each waits for the others' turns: lateness will show it; lower \
             --shards or name more cores with --cpus",
            cores.shards.len()
        ));
    }
    let traffic = if several { None } else { Some(traffic::prepare(&config, clock)?) };
    let directory = artifact::directory_name(variations.first().map_or(&config, |first| &first.config));
    run::make_directory(&directory)?;
    let mock = arguments.mock.then(|| start_mock(arguments, &mut config, cores.mock)).transpose()?;
    if let Some(mock) = &mock {
        for variation in &mut variations {
            turn_to(mock, &mut variation.config);
        }
    }

    let sources = Sources::new(arguments.source_ip.clone());
    if let Some(shortage) = run::port_shortage(&config, &sources)? {
        say(&format!("warning: {shortage}"));
    }

    let interrupt = Arc::new(AtomicBool::new(false));
    run::interrupt::arm(&interrupt).context("cannot listen for Ctrl-C")?;
    let options = RunOptions {
        cores,
        tuning: environment.tuning(match arguments.at_capacity {
            AtCapacityChoice::Drop => AtCapacity::Drop,
            AtCapacityChoice::Queue => AtCapacity::Queue,
        }),
        sockets: environment.sockets,
        idle: match arguments.idle {
            IdleChoice::Auto => None,
            IdleChoice::Sleep => Some(Idle::Sleep),
            IdleChoice::Spin => Some(Idle::Spin),
        },
        sources,
        tls: tls_options(arguments, &config, &environment, mock.as_ref()),
        calibration: calibration(arguments)?,
        telemetry: TelemetrySettings { asked_for: config.names_telemetry(), ..environment.telemetry.clone() },
        ui: match config.runtime.ui {
            Some(config::Ui::None) => Ui::None,
            Some(config::Ui::Dashboard | config::Ui::Simple) | None => Ui::Simple,
        },
        console_width: environment.console_width.unwrap_or(artifact::console::WIDTH),
        directory,
        cli_command: given.text.clone(),
        server_inside: arguments.mock,
        interrupt,
        clock,
    };
    let Some(traffic) = traffic else {
        let resume = if arguments.resume { Resume::Finished } else { Resume::Afresh };
        let mut build = |config: &Config| traffic::prepare(config, clock).map_err(|error| error.to_string());
        let code = match &expander {
            None => sweep::run(&config, &variations, &options, &mut build, resume),
            Some(expander) => {
                let turn = |config: &mut Config| mock.iter().for_each(|mock| turn_to(mock, config));
                sweep::search(expander, &turn, &options, &mut build, resume)
            }
        };
        stop(mock)?;
        return code;
    };
    let outcome = run::conduct(&config, &traffic, &options)?;
    stop(mock)?;
    show(&outcome.console);
    for fault in &outcome.faults {
        say(&format!("error: {fault}"));
    }
    Ok(if outcome.interrupted && outcome.faults.is_empty() {
        exit::INTERRUPTED
    } else if outcome.ok == 0 {
        say("error: no request of a profiling phase succeeded");
        exit::FAILED
    } else if outcome.faults.is_empty() {
        0
    } else {
        exit::FAILED
    })
}

fn stop(mock: Option<Mock>) -> anyhow::Result<()> {
    mock.map_or(Ok(()), |mock| mock.stop().context("the built-in server's log is not whole"))
}

/// Loads the config, or prints everything that is wrong with it.
fn load(arguments: &ProfileArguments, given: &CommandLine) -> Option<Loaded> {
    match config::load_with(arguments.config.as_deref(), Some(given)) {
        Ok(loaded) => {
            say_all(&loaded.warnings);
            let unsupported = config::support::unsupported(&loaded.config);
            say_all(&unsupported);
            // What a variation adds is found before the first run, not when its turn comes.
            let varied = loaded.variations.iter().map(|variation| &variation.config);
            let refused = varied.map(config::support::unsupported).find(Diagnostics::has_errors);
            if let (Some(refused), false) = (&refused, unsupported.has_errors()) {
                say_all(refused);
            }
            (!unsupported.has_errors() && refused.is_none()).then_some(loaded)
        }
        Err(faults) => {
            say_all(&faults);
            None
        }
    }
}

/// What this machine can do: a file of another machine, and one by chance of that name, are no reason not to
/// run; one that was named and cannot be read is.
fn calibration(arguments: &ProfileArguments) -> anyhow::Result<Option<Calibration>> {
    let (path, named) = match &arguments.client_profile {
        Some(path) => (path.as_path(), true),
        None => (Path::new(CLIENT_PROFILE), false),
    };
    if !named && !path.exists() {
        return Ok(None);
    }
    match ClientProfile::load(path, &Machine::read(&Tree::here())) {
        Ok(profile) => Ok(Some(profile.calibration())),
        Err(error @ ClientProfileError::Foreign { .. }) => {
            say(&format!("warning: {error}"));
            Ok(None)
        }
        Err(error) if named => Err(error.into()),
        Err(error) => {
            say(&format!("warning: {error}"));
            Ok(None)
        }
    }
}

/// What TLS needs; says on stderr what is to be said about it.
fn tls_options(
    arguments: &ProfileArguments,
    config: &Config,
    environment: &Environment,
    mock: Option<&Mock>,
) -> TlsOptions {
    let options = TlsOptions {
        ca_files: arguments.ca_file.clone(),
        built_in: mock.and_then(Mock::authority).map(str::to_owned),
        client_cert: arguments.client_cert.clone(),
        client_key: arguments.client_key.clone(),
        verification: environment.verification,
    };
    for warning in options.warnings(config) {
        say(&format!("warning: {warning}"));
    }
    options
}

/// Turns the load of a config to the built-in server.
fn turn_to(mock: &Mock, config: &mut Config) {
    match mock.authority() {
        None => config.redirect(mock.address()),
        Some(_) => config.redirect_tls(mock.address()),
    }
}

/// Starts the built-in server and turns the load to it.
fn start_mock(arguments: &ProfileArguments, config: &mut Config, cpu: Option<usize>) -> anyhow::Result<Mock> {
    let defaults = MockOptions::default();
    let mock = Mock::start(MockOptions {
        cpus: cpu.into_iter().collect(),
        ttft: arguments.mock_ttft.unwrap_or(defaults.ttft),
        itl: arguments.mock_itl.unwrap_or(defaults.itl),
        arrival_log: arguments.mock_log.clone(),
        capacity_per_s: arguments.mock_capacity,
        speaks: if arguments.mock_tls { Speaks::Https } else { Speaks::Http },
        ..defaults
    })
    .context("the built-in server did not start")?;
    turn_to(&mock, config);
    say(&format!("The load goes to the built-in server on {}", mock.address()));
    Ok(mock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_numbers_and_ranges() {
        assert_eq!("2,4-6".parse(), Ok(CpuList(vec![2, 4, 5, 6])));
        for wrong in ["", "a", "3-1", "1,,2", "-1", "1,1", "0-99999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_are_auto_or_a_number_above_zero() {
        assert_eq!("auto".parse(), Ok(Shards(None)));
        assert_eq!("4".parse(), Ok(Shards(Some(4))));
        for wrong in ["0", "-1", "many", "70000"] {
            assert!(wrong.parse::<Shards>().is_err(), "{wrong}");
        }
    }
}
