//! The command line: arguments into a run, a run's end into an exit code.
//!
//! It reads arguments and prints; what a config means and how a run goes is decided below.

mod calibrate;
mod config;
mod doctor;
mod explain;
mod flags;
mod mock;
mod profile;
mod sweep;
mod traffic;
mod validate;

use crate::config::CommandLine;
use crate::config::Diagnostics;
use crate::config::diagnostic::Colour;
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap::FromArgMatches as _;
use clap::Parser;
use clap::Subcommand;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

/// A load generator for LLM inference servers.
///
/// Runs named, multi-phase workflows (warmup, baseline, cancellation storm, recovery, ...) from the same
/// YAML that AIPerf 0.13 takes, and writes the same files.
#[derive(Debug, Parser)]
#[command(name = "phasor", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Try it without a server:\n  phasor profile --config examples/multi-phase.yaml --mock"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what this client can do on this machine, so that runs can be held against it
    Calibrate(calibrate::CalibrateArguments),
    /// Print completions for a shell, to be sourced by it
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Start a config from a template, print the schema of configs, expand a sweep
    Config(config::ConfigArguments),
    /// Check what this machine lacks for a good run, and name the command that sets it
    Doctor(doctor::DoctorArguments),
    /// Tell what a config would send: phases, rates, connections, time
    Explain(explain::ExplainArguments),
    /// Print the manual page, or write the pages of all commands
    Man {
        /// Directory for `phasor.1`, `phasor-profile.1` and the others; it must exist
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Serve the built-in inference server, for trying out phasor or any other client
    Mock(mock::MockArguments),
    /// Run the phases of a config against a server and write the results
    Profile(profile::ProfileArguments),
    /// Check configs and show everything that is wrong with them
    Validate(validate::ValidateArguments),
}

/// Exit codes (spec/runtime 20 with design 7).
mod exit {
    /// A wrong config, a run in which every request failed, or results that are not whole.
    pub(super) const FAILED: u8 = 1;
    /// Ended by a signal, results written.
    pub(super) const INTERRUPTED: u8 = 130;
}

/// The whole command line, with the flags that edit a config.
fn command() -> clap::Command {
    Arguments::command().mut_subcommand("profile", flags::with_flags)
}

/// The flags of a `profile` command line that edit its config; the first argument is the program's name.
///
/// # Errors
/// What keeps the line from being understood, with help and version among it.
pub fn flags_of_profile(typed: &[OsString]) -> Result<CommandLine, clap::Error> {
    let typed: Vec<OsString> = typed.iter().cloned().map(flags::spelled_out).collect();
    let matches = command().try_get_matches_from(&typed)?;
    Arguments::from_arg_matches(&matches)?;
    Ok(matches
        .subcommand_matches("profile")
        .map(|matches| flags::collect(matches, &typed))
        .unwrap_or_default())
}

/// Runs the program.
pub fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().map(flags::spelled_out).collect();
    let parsed = command().try_get_matches_from(&typed).and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches)?;
        Ok((matches, arguments))
    });
    let (matches, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are no errors; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::FAILED } else { 0 });
        }
    };
    let done = match arguments.command {
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut command(), "phasor", &mut std::io::stdout());
            Ok(0)
        }
        Command::Config(arguments) => config::config(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Explain(arguments) => Ok(explain::explain(&arguments)),
        Command::Man { dir } => manual(dir.as_deref()),
        Command::Mock(arguments) => mock::serve(&arguments),
        Command::Profile(arguments) => {
            let given = matches.subcommand_matches("profile").map(|matches| flags::collect(matches, &typed));
            profile::profile(&arguments, &given.unwrap_or_default())
        }
        Command::Validate(arguments) => Ok(validate::validate(&arguments)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Prints the main manual page, or writes one for each command.
fn manual(directory: Option<&Path>) -> anyhow::Result<u8> {
    if let Some(directory) = directory {
        clap_mangen::generate_to(command(), directory)
            .with_context(|| format!("cannot write manual pages into {}", directory.display()))?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        show(&String::from_utf8_lossy(&page));
    }
    Ok(0)
}

/// Diagnostics on stderr, in colour on a terminal.
fn say_all(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        say(&diagnostics.render(if terminal { Colour::Always } else { Colour::Never }));
    }
}

/// Prints results; a reader that has gone away is nobody's fault.
fn show(text: &str) {
    use std::io::Write as _;
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// A line on stderr.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}
