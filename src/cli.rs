//! The command line: arguments into a run, a run's end into an exit code.
//!
//! It reads arguments and prints; what a config means and how a run goes is decided below.

mod calibrate;
mod doctor;
mod mock;
mod profile;

use clap::Parser;
use clap::Subcommand;
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
    /// Check what this machine lacks for a good run, and name the command that sets it
    Doctor(doctor::DoctorArguments),
    /// Serve the built-in inference server, for trying out phasor or any other client
    Mock(mock::MockArguments),
    /// Run the phases of a config against a server and write the results
    Profile(profile::ProfileArguments),
}

/// Exit codes (spec/runtime 20 with design 7).
mod exit {
    /// A wrong config, a run in which every request failed, or results that are not whole.
    pub(super) const FAILED: u8 = 1;
    /// Ended by a signal, results written.
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::FAILED } else { 0 });
        }
    };
    let done = match arguments.command {
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Mock(arguments) => mock::serve(&arguments),
        Command::Profile(arguments) => profile::profile(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// A line on stderr.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}
