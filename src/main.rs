//! The `island-metrics` binary; see `cli` for its commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    island_metrics::cli::run(std::env::args_os().skip(1))
}
