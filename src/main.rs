//! Runs one command and turns its result into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    island_metrics::cli::run(std::env::args_os().skip(1))
}
