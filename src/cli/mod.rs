//! Command-line interface: commands, one table of flags, configuration and exit codes. The only
//! module that prints to stdout or stderr.
//!
//! - `flags`: the table of commands and flags; `help` prints it, and the settings of a server
//! - `arguments`: parses the command line and the environment; `closest` finds what was mistyped
//! - `commands`, `keys`, `serve`, `collect`, `healthcheck`: run the commands; `progress` draws their
//!   progress line
//! - `validate`: checks the settings of a server
//! - `error`: error messages and exit codes

mod arguments;
mod closest;
#[cfg(feature = "collect")]
mod collect;
mod commands;
mod error;
mod flags;
mod healthcheck;
mod help;
mod keys;
mod progress;
mod serve;
mod validate;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use error::CliError;

use crate::durable;
use crate::server::report_size_limit;

/// Runs the command that `words` select. Data goes to stdout, messages to stderr; exit codes are
/// those of sysexits.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    durable::report_waits(|path| {
        report(&format!(
            "waiting for the lock {}, which another process holds",
            path.display()
        ));
    });
    report_size_limit();
    match commands::run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("island-metrics: {}", error.message));
            ExitCode::from(error.code)
        }
    }
}

/// Writes a line to stderr. Errors are ignored: a full or closed log must not stop the program.
fn report(line: &str) {
    progress::clear();
    let _ = writeln!(io::stderr(), "{line}");
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| CliError::io("stdout".as_ref(), &error))
}
