//! The servers under load: started, pinned, their CPU time read, killed when dropped.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::settings::{BINARY, Outcome, TICK_NANOS};

/// A temporary directory, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server of ours, killed by handle at the end.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) _stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Starts a server and waits for the line that names its address.
    pub(crate) fn start(mut command: Command) -> Outcome<Server> {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let mut all = String::new();
        let found = loop {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                break None;
            }
            all.push_str(&line);
            if let Some(address) = line.trim_end().strip_prefix("listening on http://") {
                break address.parse().ok();
            }
        };
        let Some(address) = found else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("a server did not start: {all}").into());
        };
        Ok(Server {
            child,
            address,
            _stderr: stderr,
        })
    }

    /// The CPU time of all its threads: to the nanosecond where the kernel keeps that.
    pub(crate) fn cpu_nanos(&self) -> Outcome<u64> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let precise = fs::read_dir(process.join("task"))?.map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        match precise.sum::<Option<u64>>() {
            Some(nanos) if nanos > 0 => Ok(nanos),
            _ => stat_nanos(&process, 11),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two neighbouring times in `/proc/PID/stat`, counted from after the command's name: 11 for the
/// process's own (utime and stime), 13 for those of its children it has waited for.
pub(crate) fn stat_nanos(process: &Path, first: usize) -> Outcome<u64> {
    let text = fs::read_to_string(process.join("stat"))?;
    let (_, fields) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks = fields
        .split_whitespace()
        .skip(first)
        .take(2)
        .map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? * TICK_NANOS)
}

/// A command on one core, where `taskset` exists, without the project's variables.
pub(crate) fn command(program: &OsStr, core: Option<u32>) -> Command {
    let mut command = match core {
        Some(core) if has_taskset() => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        _ => Command::new(program),
    };
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("ISLAND_METRICS_") {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn has_taskset() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let path = env::var_os("PATH").unwrap_or_default();
    // Once the load is pinned one core is left to it; the others are still there for a child.
    let several = cores > 1 || Path::new("/sys/devices/system/cpu/cpu1").exists();
    several && env::split_paths(&path).any(|directory| directory.join("taskset").exists())
}

/// Runs one command of the binary to its end.
pub(crate) fn run(words: &[&OsStr]) -> Outcome<()> {
    let output = command(BINARY.as_ref(), None)
        .args(words)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Makes a dataset up and publishes it; says how long publishing took, and its CPU time.
pub(crate) fn publish(
    scratch: &Path,
    name: &str,
    sizes: [&str; 3],
) -> Outcome<(PathBuf, Duration, u64)> {
    let dataset = scratch.join(format!("{name}-dataset"));
    let published = scratch.join(format!("{name}-published"));
    let mut words: Vec<&OsStr> = vec!["synth".as_ref(), "--to".as_ref(), dataset.as_ref()];
    for (flag, size) in ["--islands", "--creators", "--days"].iter().zip(sizes) {
        words.extend([OsStr::new(flag), OsStr::new(size)]);
    }
    run(&words)?;
    let (begun, before) = (Instant::now(), stat_nanos(Path::new("/proc/self"), 13)?);
    let words = [
        "publish".as_ref(),
        "--dataset".as_ref(),
        dataset.as_os_str(),
    ];
    run(&[&words[..], &["--to".as_ref(), published.as_ref()]].concat())?;
    let wall = begun.elapsed();
    let cpu = stat_nanos(Path::new("/proc/self"), 13)? - before;
    fs::remove_dir_all(&dataset)?;
    Ok((published, wall, cpu))
}
