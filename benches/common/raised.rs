//! This program again, with as many descriptors as may be had: a process cannot do that for itself without
//! calling into C.

use std::env;
use std::process::Command;

use super::Outcome;

/// Says that this process has been started with the limit raised.
pub(crate) const RAISED: &str = "--raised";
/// Starts what follows with as many descriptors as may be had.
pub(crate) const RAISE: [&str; 3] = [
    "sh",
    "-c",
    "ulimit -n \"$(ulimit -Hn)\"; exec \"$0\" \"$@\"",
];

/// Runs this program again, to its end; says whether that was a good one.
pub(crate) fn again() -> Outcome<bool> {
    let mut again = Command::new(RAISE[0]);
    again.args(&RAISE[1..]).arg(env::current_exe()?);
    let status = again.args(env::args_os().skip(1)).arg(RAISED).status()?;
    Ok(status.success())
}
