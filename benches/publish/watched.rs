//! A process run to its end: wall time, CPU time, peak memory.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Outcome;
use crate::common::process::status_kib;

/// Interval of samples.
const INTERVAL: Duration = Duration::from_millis(5);
/// Ticks of `/proc/PID/stat` in a second, on every Linux.
const TICKS: f64 = 100.0;

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
        let stat = fs::read_to_string(format!("{process}/stat"))?;
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
            break ticks / TICKS;
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
