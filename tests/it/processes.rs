//! Other processes of tests: which are installed, how they end, and waits for what they do.

use std::process::ExitStatus;
use std::sync::Once;

use crate::prelude::*;

/// Measures times. A limit that the program keeps holds for `running`: it is not exceeded because the
/// machine stood still, as virtual machines do for seconds. Counts the ticks of a thread that sleeps.
pub(crate) struct Stopwatch {
    begun: Instant,
    begun_ticks: u32,
}

const TICK: Duration = Duration::from_millis(5);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            begun_ticks: ticks(),
            begun: Instant::now(),
        }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The same without pauses of the machine.
    pub(crate) fn running(&self) -> Duration {
        TICK * (ticks() - self.begun_ticks)
    }
}

fn ticks() -> u32 {
    static TICKS: AtomicU32 = AtomicU32::new(0);
    static THREAD: Once = Once::new();
    THREAD.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(TICK);
                TICKS.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    TICKS.load(Ordering::Relaxed)
}

/// Longest wait for a condition without another limit. Loaded machines are slow.
const PATIENCE: Duration = Duration::from_mins(1);

#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, condition);
}

/// The same for at most `longest`.
#[track_caller]
pub(crate) fn wait_within(longest: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Stopwatch::start();
    while !condition() {
        assert!(begun.running() < longest, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Random moments to interrupt a process, which takes longer on a busy machine: a moment that came too late
/// makes the next ones earlier, and any other makes them later.
pub(crate) struct Moments {
    end: Duration,
    in_time: u32,
    too_late: u32,
}

impl Moments {
    /// For a process that usually takes this long.
    pub(crate) fn of(usual: Duration) -> Self {
        Self {
            end: usual * 3 / 2,
            in_time: 0,
            too_late: 0,
        }
    }

    /// Anywhere until shortly after the usual end; one time in three just before that.
    pub(crate) fn next(&self, random: &mut Rng) -> Duration {
        let end = self.end.max(Duration::from_millis(1));
        if random.one_in(3) {
            return (end * 2 / 3).saturating_sub(Duration::from_micros(random.below(3_000)));
        }
        Duration::from_micros(random.below(end.as_micros().try_into().unwrap()))
    }

    /// Reports if the process had ended before the last moment.
    pub(crate) fn record(&mut self, was_too_late: bool) {
        if was_too_late {
            (self.too_late, self.end) = (self.too_late + 1, self.end * 3 / 4);
        } else {
            (self.in_time, self.end) = (self.in_time + 1, self.end * 4 / 3);
        }
    }

    #[track_caller]
    pub(crate) fn were_of_both_kinds(&self) {
        let Self {
            in_time, too_late, ..
        } = self;
        assert!(
            *in_time > 0 && *too_late > 0,
            "{in_time} moments in time, {too_late} too late"
        );
    }
}

/// Waits until a server serves the publish of this time.
#[track_caller]
pub(crate) fn shows(client: &mut Client, generated_at: &str) {
    shows_within(PATIENCE, client, generated_at);
}

/// The same for at most `longest`.
#[track_caller]
pub(crate) fn shows_within(longest: Duration, client: &mut Client, generated_at: &str) {
    wait_within(longest, generated_at, || {
        let reply = client.get("/v1");
        reply.status == 200 && reply.json()["meta"]["generatedAt"] == generated_at
    });
}

/// Sends a signal, such as `-TERM`, to a process.
#[track_caller]
pub(crate) fn signal(process: u32, signal: &str) {
    let process = process.to_string();
    let status = Command::new("kill").args([signal, &process]).status();
    assert!(status.unwrap().success(), "kill {signal} {process}");
}

/// A number in a file of `/proc/PID` (Linux).
pub(crate) fn figure(process: u32, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let figure = line.unwrap().trim();
    let number = figure.strip_suffix(" kB").unwrap_or(figure);
    number.parse().unwrap()
}

/// Waits until a process ends; kills it if it has not ended in time.
pub(crate) fn ends_within(longest: Duration, child: &mut Child) -> Option<ExitStatus> {
    let begun = Stopwatch::start();
    while begun.running() < longest {
        let status = child.try_wait().unwrap();
        if status.is_some() {
            return status;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// A process that is killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// Sets a flag when dropped, also by a panic, so that threads that run until then end.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn code_and_stderr(output: Output) -> (Option<i32>, String) {
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

/// The text on stderr of a process that must have ended with this code.
#[track_caller]
pub(crate) fn stderr_of(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Whether a program is installed. Otherwise reports that a test is skipped.
pub(crate) fn is_installed(program: &str, package: &str) -> bool {
    let mut command = Command::new(program);
    let found = command.arg("--version").stdin(Stdio::null()).output();
    if found.is_err() {
        report_skipped(&format!("{program}, `apt-get install {package}`"));
    }
    found.is_ok()
}

/// Reports that a test is skipped, and what it needs.
#[expect(
    clippy::print_stderr,
    reason = "shown to the person that runs the tests"
)]
pub(crate) fn report_skipped(needs: &str) {
    eprintln!("skipped: needs {needs}");
}
