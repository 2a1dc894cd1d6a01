//! The phasor command.

use std::process::ExitCode;

fn main() -> ExitCode {
    phasor::cli::main()
}
