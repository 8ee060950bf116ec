//! A process run to its end: wall time, CPU time, peak memory.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Outcome;
use crate::common::process::{stat, status_kib};

/// Interval of samples.
const INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Run {
    pub(crate) wall_seconds: f64,
    /// User and system time.
    pub(crate) cpu_seconds: f64,
    /// Peak of resident memory.
    pub(crate) peak_bytes: f64,
}

/// Runs a process, which must succeed.
pub(crate) fn watch(mut command: Command) -> Outcome<Run> {
    let begun = Instant::now();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::inherit()).spawn()?;
    let process = format!("/proc/{}", child.id());
    let mut peak_kib = 0;
    // A zombie still has its times, but no longer its memory.
    let cpu_seconds = loop {
        if let ('Z', nanos) = stat(process.as_ref())? {
            break nanos as f64 / 1e9;
        }
        peak_kib = status_kib(&process, "VmHWM:").unwrap_or(peak_kib);
        thread::sleep(INTERVAL);
    };
    let wall_seconds = begun.elapsed().as_secs_f64();
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("{command:?} ended with {status}").into());
    }
    Ok(Run {
        wall_seconds,
        cpu_seconds,
        peak_bytes: peak_kib as f64 * 1024.0,
    })
}
