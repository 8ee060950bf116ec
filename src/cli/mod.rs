//! The person at the keyboard: commands, one table of flags, exit codes. Alone prints or exits.

mod arguments;
mod closest;
mod commands;
mod error;
mod flag;
mod flags;
mod help;
mod keys;
mod print_config;
mod progress;
mod serve;
mod validate;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use error::CliError;

/// Runs the command that the words name: data to stdout, words to stderr, exit codes of sysexits.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match commands::run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&format!("island-metrics: {failure}"));
            failure.exit_code()
        }
    }
}

/// A line for the person who runs the program, if anybody listens.
fn report(line: &str) {
    // A log that is full or gone is no reason to stop what the line is about.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Data for whoever reads stdout.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| CliError::io("stdout".as_ref(), &error))
}
