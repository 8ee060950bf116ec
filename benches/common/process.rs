//! Server processes: started, pinned to a core, measured through `/proc`, killed when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit, setrlimit};

use super::LOAD_CORE;
use crate::common::prelude::*;

/// Nanoseconds in a tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
const TICK_NANOS: u64 = 10_000_000;
/// Time a server has to start listening, or to exit after SIGTERM.
const STOPPING: Duration = Duration::from_secs(2);

/// Writes a file, and creates its directory if that is missing. A crash may lose it.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Outcome<()> {
    fs::create_dir_all(path.parent().ok_or("no directory")?)?;
    Ok(File::create(path)?.write_all(content.as_ref())?)
}

/// A temporary directory, removed when dropped.
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

/// Reads log lines into `all`, up to the one with an address of this scheme. Returns `None` if the log ends.
fn listening(
    log: &mut impl BufRead,
    scheme: &str,
    all: &mut String,
) -> Outcome<Option<SocketAddr>> {
    let beginning = format!("listening on {scheme}://");
    loop {
        let begun = all.len();
        if log.read_line(all)? == 0 {
            return Ok(None);
        }
        if let Some(address) = all[begun..].trim_end().strip_prefix(&beginning) {
            return Ok(address.parse().ok());
        }
    }
}

/// A server process, killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Kept open while unread, so that the server can go on writing to it.
    stderr: Option<BufReader<ChildStderr>>,
}

impl Server {
    /// Starts a server and waits for the log line with its address.
    pub(crate) fn start(mut command: Command) -> Outcome<Server> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = spawned.stderr(Stdio::piped()).spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut all = String::new();
        let address = listening(&mut stderr, "http", &mut all)?;
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

    /// Returns the address of its TLS listener, whose log line follows that of the plain one.
    #[cfg(feature = "tls")]
    pub(crate) fn tls_address(&mut self) -> Outcome<SocketAddr> {
        let stderr = self.stderr.as_mut().ok_or("the log is collected already")?;
        let mut all = String::new();
        let address = listening(stderr, "https", &mut all)?;
        address.ok_or_else(|| format!("no TLS listener: {all}").into())
    }

    /// Starts a server that logs no address, to listen on the given one.
    pub(crate) fn start_silent(mut command: Command, address: SocketAddr) -> Outcome<Server> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Server {
            child: quiet.stderr(Stdio::null()).spawn()?,
            address,
            stderr: None,
        };
        let listens = wait_for(STOPPING, Duration::from_millis(5), || {
            let is_running = server.child.try_wait()?.is_none();
            Ok(TcpStream::connect(address).ok().filter(|_| is_running))
        })?;
        listens.ok_or("it did not start")?;
        Ok(server)
    }

    /// `/proc` directories of the process and its children.
    fn processes(&self) -> Vec<PathBuf> {
        let own = PathBuf::from(format!("/proc/{}", self.child.id()));
        let mut all = vec![own.clone()];
        let tasks = fs::read_dir(own.join("task")).into_iter().flatten();
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let ids = children.split_whitespace();
            all.extend(ids.map(|id| Path::new("/proc").join(id)));
        }
        all
    }

    /// Time that its threads and children were runnable while another process had the core; 0
    /// where the kernel does not count it.
    pub(crate) fn waited_nanos(&self) -> u64 {
        let processes = self.processes();
        processes.iter().filter_map(|one| schedstat(one, 1)).sum()
    }

    /// User and system time of all its threads and children.
    pub(crate) fn cpu_nanos(&self) -> Outcome<u64> {
        let processes = self.processes();
        processes.iter().map(|process| cpu_nanos(process)).sum()
    }

    /// Microseconds of that time for each response to `load`, which returns their number.
    pub(crate) fn cpu_micros_each(&self, load: impl FnOnce() -> Outcome<u64>) -> Outcome<f64> {
        let before = self.cpu_nanos()?;
        let responses = load()?;
        Ok((self.cpu_nanos()? - before) as f64 / 1000.0 / responses as f64)
    }

    /// Collects its log lines from now until it exits. To be called once.
    pub(crate) fn collect_log(&mut self) -> Outcome<JoinHandle<Vec<String>>> {
        let stderr = self.stderr.take().ok_or("the log is collected already")?;
        Ok(thread::spawn(move || {
            stderr.lines().map_while(Result::ok).collect()
        }))
    }

    /// Lowers its limit of descriptors while it runs.
    pub(crate) fn limit_descriptors(&self, descriptors: u64) -> Outcome<()> {
        let limit = Rlimit {
            current: Some(descriptors),
            maximum: Some(descriptors),
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit)?;
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends SIGTERM and returns whether the process exits with success in time.
    pub(crate) fn terminate(&mut self, within: Duration) -> Outcome<bool> {
        self.signal(Signal::TERM)?;
        let exited = || Ok(self.child.try_wait()?);
        let status = wait_for(within, Duration::from_millis(10), exited)?;
        Ok(status.is_some_and(|status| status.success()))
    }

    pub(crate) fn usage(&self) -> Outcome<Usage> {
        let process = format!("/proc/{}", self.child.id());
        Ok(Usage {
            resident_kib: status_kib(&process, "VmRSS:")?,
            anonymous_kib: status_kib(&process, "RssAnon:")?,
            descriptors: fs::read_dir(format!("{process}/fd"))?.count(),
        })
    }
}

/// Resource usage of a process.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) resident_kib: u64,
    /// Resident memory that no file backs.
    pub(crate) anonymous_kib: u64,
    pub(crate) descriptors: usize,
}

/// A size in the `status` of a process, given as `/proc/ID`.
pub(crate) fn status_kib(process: &str, field: &str) -> Outcome<u64> {
    let status = fs::read_to_string(format!("{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or(format!("no {field}"))?.parse()?)
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM lets a server with children stop them.
        if self.processes().len() > 1 {
            let _ = self.terminate(STOPPING);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A field of `schedstat`, summed over a process's threads: 0 is the time on a core, 1 the time
/// waiting for one.
fn schedstat(process: &Path, field: usize) -> Option<u64> {
    let tasks = fs::read_dir(process.join("task")).ok()?;
    let nanos = tasks.map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').nth(field)?.parse::<u64>().ok()
    });
    nanos.sum()
}

/// CPU time of a process: from `schedstat` where the kernel has it, else in ticks.
fn cpu_nanos(process: &Path) -> Outcome<u64> {
    if let Some(nanos) = schedstat(process, 0)
        && nanos > 0
    {
        return Ok(nanos);
    }
    Ok(stat(process)?.1)
}

/// The state of a process, and its CPU time in nanoseconds.
pub(crate) fn stat(process: &Path) -> Outcome<(char, u64)> {
    let text = fs::read_to_string(process.join("stat"))?;
    // The command's name may contain anything; after it, utime and stime are fields 12 and 13.
    let (_, fields) = text.rsplit_once(") ").ok_or("no name in stat")?;
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    let state = fields.chars().next().ok_or("no state in stat")?;
    Ok((state, ticks * TICK_NANOS))
}

/// A command without the project's environment variables, pinned to a core if one is given and
/// `taskset` exists.
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

/// A free address of this machine. Its port is outside the range that the system takes ports of connections
/// from, so that it is still free when it is used.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let next = std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed) * 101;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 20_000 + (next % 12_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no port is free".into())
}

/// A command that runs this program as a reference server.
pub(crate) fn reference(flag: &str, captured: &Path, core: Option<u32>) -> Outcome<Command> {
    let mut command = command(env::current_exe()?, core);
    command.arg(flag).arg(captured);
    Ok(command)
}

pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // nginx is in the last one, which is not in the path of all users.
    let directories = env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut places = directories.map(|directory| directory.join(program));
    places.find(|place| place.exists())
}

pub(crate) fn has_taskset() -> bool {
    // Not `available_parallelism`: this process may be pinned to one core already.
    Path::new("/sys/devices/system/cpu/cpu1").exists() && installed("taskset").is_some()
}

/// Pins this process to the core of the load; to be called before it starts threads. Returns a
/// line for the output.
pub(crate) fn pin_load() -> Outcome<&'static str> {
    if !has_taskset() {
        return Ok("nothing is pinned (no taskset, or one core): expect noise");
    }
    let id = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-p", "-c", &LOAD_CORE.to_string(), &id]);
    taskset.stdout(Stdio::null()).status()?;
    Ok("servers on core 0, load on core 1")
}

/// Runs a command, which must succeed, and returns its stdout.
pub(crate) fn run(mut command: Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Raises the limit of descriptors of this process, and of all that it starts, to the hard limit.
pub(crate) fn raise_limit() -> Outcome<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
