//! Servers as processes: started, pinned, watched through `/proc`, stopped when dropped.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{LOAD_CORE, Outcome};

/// Nanoseconds in a tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
const TICK_NANOS: u64 = 10_000_000;
/// How long a server may take to end by itself.
const STOPPING: Duration = Duration::from_secs(2);

/// A temporary directory, removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Outcome<Scratch> {
        let path = env::temp_dir().join(format!("island-metrics-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server of ours, ended by handle when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Held open, so that the server may go on writing to it, until somebody reads it.
    stderr: Option<BufReader<ChildStderr>>,
}

impl Server {
    /// Starts a server and waits for the line that names its address.
    pub(crate) fn start(mut command: Command) -> Outcome<Server> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = spawned.stderr(Stdio::piped()).spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut all = String::new();
        let address = loop {
            let begun = all.len();
            if stderr.read_line(&mut all)? == 0 {
                break None;
            }
            if let Some(address) = all[begun..].trim_end().strip_prefix("listening on http://") {
                break address.parse().ok();
            }
        };
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("a server did not start: {all}").into());
        };
        Ok(Server {
            child,
            address,
            stderr: Some(stderr),
        })
    }

    /// Starts a server that says nothing, at an address that was chosen for it.
    pub(crate) fn start_silent(mut command: Command, address: SocketAddr) -> Outcome<Server> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Server {
            child: quiet.stderr(Stdio::null()).spawn()?,
            address,
            stderr: None,
        };
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            if begun.elapsed() > STOPPING || server.child.try_wait()?.is_some() {
                return Err("it did not start".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// It, and the processes it started.
    fn processes(&self) -> Vec<PathBuf> {
        let own = PathBuf::from(format!("/proc/{}", self.child.id()));
        let mut all = vec![own.clone()];
        for task in fs::read_dir(own.join("task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .map(|id| Path::new("/proc").join(id)),
            );
        }
        all
    }

    /// How long its threads and children were ready to run, but another process had the core; 0
    /// where the kernel does not count that.
    pub(crate) fn waited_nanos(&self) -> u64 {
        let processes = self.processes();
        processes.iter().filter_map(|one| schedstat(one, 1)).sum()
    }

    /// User and system time of all its threads and children.
    pub(crate) fn cpu_nanos(&self) -> Outcome<u64> {
        let times = self.processes();
        times.iter().map(|process| cpu_nanos(process)).sum()
    }

    /// What it says from now on; `None` for the second who asks.
    pub(crate) fn stderr(&mut self) -> Option<BufReader<ChildStderr>> {
        self.stderr.take()
    }

    /// Collects what it says from now on, until it ends.
    pub(crate) fn listen(&mut self) -> Outcome<JoinHandle<Vec<String>>> {
        let stderr = self.stderr().ok_or("somebody else listens")?;
        Ok(thread::spawn(move || {
            stderr.lines().map_while(Result::ok).collect()
        }))
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, named as `kill` does.
    pub(crate) fn signal(&self, name: &str) -> Outcome<()> {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{name}"))
            .arg(self.child.id().to_string());
        run(kill).map(drop)
    }

    /// Asks it to end, and waits until it has; says whether that was a good end.
    pub(crate) fn end(&mut self, within: Duration) -> Outcome<bool> {
        self.signal("TERM")?;
        let begun = Instant::now();
        while begun.elapsed() < within {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(false)
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(&self) -> Outcome<u64> {
        self.status_kib("VmRSS:")
    }

    /// The part of that which no file backs.
    pub(crate) fn anonymous_kib(&self) -> Outcome<u64> {
        self.status_kib("RssAnon:")
    }

    fn status_kib(&self, field: &str) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or(format!("no {field}"))?.parse()?)
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> Outcome<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has children is asked first, so that it ends them.
        if self.processes().len() > 1 {
            let id = self.child.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &id]).status();
            let begun = Instant::now();
            while begun.elapsed() < STOPPING && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A field of `schedstat` summed over a process's threads: 0 has the time on a core, 1 that of
/// waiting for one.
fn schedstat(process: &Path, field: usize) -> Option<u64> {
    let tasks = fs::read_dir(process.join("task")).ok()?;
    let nanos = tasks.map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').nth(field)?.parse::<u64>().ok()
    });
    nanos.sum()
}

/// A process's CPU time: to the nanosecond where the kernel keeps that, else in ticks.
fn cpu_nanos(process: &Path) -> Outcome<u64> {
    if let Some(nanos) = schedstat(process, 0)
        && nanos > 0
    {
        return Ok(nanos);
    }
    // After the command's name, which may hold anything: utime and stime are the 12th and 13th.
    let text = fs::read_to_string(process.join("stat"))?;
    let (_, fields) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    Ok(ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()? * TICK_NANOS)
}

/// A command on one core, where `taskset` exists, without the project's variables.
pub(crate) fn command(program: impl AsRef<OsStr>, core: Option<u32>) -> Command {
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

/// This program again, in another part: a reference server.
pub(crate) fn myself(flag: &str, captured: &Path, core: Option<u32>) -> Outcome<Command> {
    let mut command = command(env::current_exe()?, core);
    command.arg(flag).arg(captured);
    Ok(command)
}

/// Where a program is, if it is installed.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).map(|directory| directory.join(program));
    places.into_iter().find(|place| place.exists())
}

pub(crate) fn has_taskset() -> bool {
    // Not the cores left to this process, which is pinned to one of them.
    Path::new("/sys/devices/system/cpu/cpu1").exists() && installed("taskset").is_some()
}

/// Leaves the load's core to this process, before it has other threads; says so if it cannot.
pub(crate) fn pin_load() -> Outcome<&'static str> {
    if !has_taskset() {
        return Ok("nothing is pinned, for there is no taskset or one core: expect noise");
    }
    let id = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-p", "-c", &LOAD_CORE.to_string(), &id]);
    taskset.stdout(Stdio::null()).status()?;
    Ok("servers on core 0, load on core 1")
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}
