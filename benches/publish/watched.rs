//! A process run to its end, and what it took: time, cores' time, memory at most.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Outcome;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(5);
/// Ticks of `/proc/PID/stat` in a second, on every Linux.
const TICKS: f64 = 100.0;

/// What a process took.
pub(crate) struct Run {
    pub(crate) wall_seconds: f64,
    /// User and system time.
    pub(crate) cpu_seconds: f64,
    /// Resident memory at most.
    pub(crate) peak_bytes: f64,
}

/// Runs a process, which must succeed.
pub(crate) fn watch(mut command: Command) -> Outcome<Run> {
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    let place = format!("/proc/{}", child.id());
    let mut peak_kib = 0.0_f64;
    // A process that has ended and is not waited for still tells its time, but no longer its memory.
    let cpu_seconds = loop {
        let stat = fs::read_to_string(format!("{place}/stat"))?;
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
            break ticks / TICKS;
        }
        let status = fs::read_to_string(format!("{place}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        peak_kib = kib.map_or(Ok(peak_kib), str::parse)?;
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
        peak_bytes: peak_kib * 1024.0,
    })
}
