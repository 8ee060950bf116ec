//! The person at the keyboard: commands, one table of flags, exit codes. Alone prints or exits.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the room that talks to a person"
)]

mod arguments;
mod commands;
mod failure;
mod flags;
mod keys;
mod progress;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command that the words name: data to stdout, words to stderr, exit codes of sysexits.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match commands::run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("island-metrics: {failure}");
            failure.exit_code()
        }
    }
}

/// A line for the person who runs the server.
fn say(line: &str) {
    eprintln!("{line}");
}
