//! The end of the day, and clocks that jump, as seen by clients.
//!
//! The server's clock is set by libfaketime, from a file. Without it these tests print what to
//! install and pass.

use crate::prelude::*;

/// Directory of the library on Debian.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// The library, if it is installed; otherwise prints a line.
pub(crate) fn library() -> Option<&'static str> {
    let found = LIBRARIES
        .into_iter()
        .find(|path| PathBuf::from(path).exists());
    if found.is_none() {
        report_skipped("libfaketime, `apt-get install libfaketime`");
    }
    found
}

/// A state directory and a clock that stays at the time set.
pub(crate) struct Time {
    dir: TempDir,
    library: &'static str,
}

impl Time {
    pub(crate) fn new() -> Option<Time> {
        let library = library()?;
        Some(Time {
            dir: TempDir::new(),
            library,
        })
    }

    pub(crate) fn set(&self, moment: &str) {
        // Renamed, so that a server never reads an empty file.
        let new = self.dir.join("clock-new");
        write_file(&new, &format!("{moment}\n"));
        fs::rename(new, self.dir.join("clock")).unwrap();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The binary on this clock.
    pub(crate) fn command(&self) -> Command {
        let mut faked = command();
        faked
            .env("LD_PRELOAD", self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.dir.join("clock"))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("TZ", "UTC");
        faked
    }

    /// A server on this clock, whose anonymous clients have four requests a day.
    fn start(&self) -> Server {
        let state = self.state();
        let state = state.to_str().unwrap();
        let text = format!("--state {state} --limit-anonymous 4 --quota-clients 1000");
        Server::start_as(self.command(), &words(&text))
    }
}

/// Sends a request and checks the status, `Remaining` and `Reset`.
#[track_caller]
fn check(client: &mut Client, want: (u16, u32, u32)) {
    let reply = client.get("/v1");
    let (remaining, reset) = (reply.left(), reply.number("x-ratelimit-reset"));
    assert_eq!((reply.status, remaining, reset), want);
    if reply.status == 429 {
        assert_eq!(reply.number("retry-after"), reset);
    }
}

#[test]
fn a_spent_quota_is_whole_again_after_retry_after_and_no_sooner() {
    let Some(time) = Time::new() else { return };
    time.set("2026-11-20 23:59:57");
    let server = time.start();
    let mut client = server.connect();
    for remaining in (0..4).rev() {
        check(&mut client, (200, remaining, 3));
    }
    check(&mut client, (429, 0, 3));
    time.set("2026-11-20 23:59:59");
    check(&mut client, (429, 0, 1));
    time.set("2026-11-21 00:00:00");
    check(&mut client, (200, 3, 86_400));
    // Back before midnight: the new day continues.
    time.set("2026-11-20 23:59:58");
    check(&mut client, (200, 2, 86_400));
    time.set("2026-11-21 00:00:01");
    check(&mut client, (200, 1, 86_399));
}

#[test]
fn a_clock_jump_gives_no_client_a_second_quota() {
    let Some(time) = Time::new() else { return };
    time.set("2026-11-20 12:00:00");
    let server = time.start();
    let mut client = server.connect();
    check(&mut client, (200, 3, 43_200));
    time.set("2099-01-01 00:00:00");
    let reply = client.get("/v1");
    assert_eq!(reply.expect("x-ratelimit-remaining"), "2");
    // The monotonic clock has advanced by the duration of the test.
    let reset = reply.number("x-ratelimit-reset");
    assert!((43_100..=43_200).contains(&reset), "{reset}");
    time.set("1995-03-14 10:00:00");
    check(&mut client, (200, 1, 86_400));
    // A start with the wrong year does not either.
    assert!(server.terminate().success());
    let server = time.start();
    let mut client = server.connect();
    check(&mut client, (200, 0, 86_400));
    check(&mut client, (429, 0, 86_400));
    time.set("2026-11-20 23:30:00");
    check(&mut client, (429, 0, 1800));
    time.set("2026-11-21 00:00:00");
    check(&mut client, (200, 3, 86_400));
}

#[test]
fn a_machine_whose_clock_is_behind_serves_the_sample() {
    let Some(time) = Time::new() else { return };
    time.set("2001-01-01 00:00:00");
    let health = time.start().connect().get("/v1/health");
    assert_eq!(health.json()["status"], "ok");
}
