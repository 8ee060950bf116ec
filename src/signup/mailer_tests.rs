use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::*;
use crate::durable;

const LINK: &str = "https://x.test/keys?pass=6a.0.0123456789abcdef0123456789abcdef.ann~40x.test";

struct Scene {
    directory: PathBuf,
    mailer: Mailer,
    lines: Receiver<String>,
}

/// A mailer whose command is a script; `$OUT` is its directory.
fn scene(name: &str, script: &str, timeout: Duration) -> Scene {
    let directory = std::env::temp_dir().join(format!("im-mailer-{name}-{}", std::process::id()));
    durable::create_private_directory(&directory).unwrap();
    let path = directory.join("sendmail");
    let script = format!("OUT={}\n{script}\n", directory.display());
    durable::replace(&path, script.as_bytes()).unwrap();
    // By its interpreter: a file that another test's child still has open cannot be executed.
    let (mailer, lines) = start(&format!("  sh  {} -f x ", path.display()), timeout);
    Scene {
        directory,
        mailer,
        lines,
    }
}

fn start(command: &str, timeout: Duration) -> (Mailer, Receiver<String>) {
    let (log, lines) = Log::received();
    let mailer = Mailer::start(command, log, timeout).unwrap();
    (mailer, lines)
}

impl Scene {
    fn send(&self) {
        let to = "ann@x.test".parse().unwrap();
        assert!(self.mailer.send(&to, "https://x.test", LINK));
    }

    /// Sends one mail and returns the log lines.
    fn log(self) -> Vec<String> {
        self.send();
        drop(self.mailer);
        let lines = lines_until_the_end(&self.lines);
        fs::remove_dir_all(self.directory).unwrap();
        lines
    }
}

/// The thread drops its end when it has sent what was waiting.
fn lines_until_the_end(receiver: &Receiver<String>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(Duration::from_secs(20)) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Disconnected) => return lines,
            Err(RecvTimeoutError::Timeout) => panic!("the thread does not end: {lines:?}"),
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_command_receives_the_message_and_nothing_is_logged() {
    let scene = scene(
        "sent",
        "echo \"$@\" > $OUT/arguments; cat > $OUT/message",
        TIMEOUT,
    );
    scene.send();
    drop(scene.mailer);
    assert_eq!(lines_until_the_end(&scene.lines), [""; 0]);
    assert_eq!(read(&scene.directory.join("arguments")), "-f x -i -t\n");
    let message = read(&scene.directory.join("message"));
    let (head, body) = message.split_once("\n\n").unwrap();
    assert_eq!(
        head,
        "To: ann@x.test\nSubject: Your link for API keys\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nAuto-Submitted: auto-generated"
    );
    assert_eq!(body.lines().filter(|line| *line == LINK).count(), 1);
    assert!(message.is_ascii() && !message.lines().any(|line| line == "."));
    fs::remove_dir_all(scene.directory).unwrap();
}

#[test]
fn a_failure_is_logged_with_the_first_line_of_the_error_output() {
    let lines = scene(
        "fails",
        "cat > /dev/null; printf '\\n no \\033 relay \\nmore' >&2; exit 75",
        TIMEOUT,
    )
    .log();
    assert_eq!(
        lines,
        ["mail was not sent: sh: exit status: 75: no ? relay"]
    );
    let lines = scene("silent", "cat > /dev/null; kill -TERM $$", TIMEOUT).log();
    assert_eq!(lines, ["mail was not sent: sh: signal: 15 (SIGTERM)"]);
    let (mailer, lines) = start("/nowhere/sendmail", TIMEOUT);
    let to = "ann@x.test".parse().unwrap();
    assert!(mailer.send(&to, "https://x.test", LINK));
    drop(mailer);
    let lines = lines_until_the_end(&lines);
    assert!(
        lines.len() == 1 && lines[0].starts_with("mail was not sent: /nowhere/sendmail: No such"),
        "{lines:?}"
    );
}

#[test]
fn error_output_with_the_link_is_not_logged() {
    for (name, script) in [
        ("line", "grep pass= >&2; exit 1"),
        ("code", "sed -n 's/.*pass=[^.]*.[^.]*.//p' >&2; exit 1"),
        ("joined", "tr '\\n' ' ' >&2; exit 1"),
    ] {
        let lines = scene(name, script, TIMEOUT).log().join("\n");
        let secret = ["pass=", "0123456789abcdef"];
        assert!(!secret.iter().any(|part| lines.contains(part)), "{lines}");
        assert!(lines.contains("exit status: 1"), "{lines}");
    }
    let disguised = LINK.replace(".ann~40x.test", &format!(".a~40{}.test", "b".repeat(32)));
    let logged = |line: &str| first_line(line.as_bytes(), &disguised);
    assert!(logged("0123456789abcdef0123456789abcdef").ends_with("is omitted"));
    assert!(logged("cut off: /keys?pass=6a.0.0123").ends_with("is omitted"));
    assert_eq!(logged("user unknown"), ": user unknown");
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    for (name, script) in [
        ("sleeps", "exec sleep 600"),
        ("shouts", "exec yes loud >&2"),
        // Its child has the error output open for longer than the timeout.
        ("leaves", "sleep 20 & exec sleep 600"),
    ] {
        let begun = Instant::now();
        let lines = scene(name, script, Duration::from_millis(300)).log();
        assert_eq!(lines.len(), 1, "{name}");
        let want = "mail was not sent: sh: stopped after 0 s";
        assert!(lines[0].starts_with(want), "{lines:?}");
        assert_eq!(lines[0].ends_with(": loud"), name == "shouts", "{lines:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{name}");
    }
}

#[test]
fn a_grandchild_that_outlives_the_command_delays_nothing() {
    let begun = Instant::now();
    let lines = scene("daemon", "cat > /dev/null; sleep 20 & exit 0", TIMEOUT).log();
    assert_eq!(lines, [""; 0]);
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[test]
fn the_queue_has_a_maximum_length() {
    let scene = scene(
        "full",
        "cat > /dev/null; while test ! -e $OUT/go; do sleep 0.02; done; echo >> $OUT/sent",
        TIMEOUT,
    );
    let mut count = 0;
    while !scene.mailer.is_full() {
        scene.send();
        count += 1;
    }
    // One may have left the queue.
    assert!((QUEUE_MAX..=QUEUE_MAX + 1).contains(&count), "{count}");
    durable::replace(&scene.directory.join("go"), b"").unwrap();
    let begun = Instant::now();
    while scene.mailer.is_full() {
        assert!(begun.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(2));
    }
    drop(scene.mailer);
    assert_eq!(lines_until_the_end(&scene.lines), [""; 0]);
    let sent = read(&scene.directory.join("sent")).len();
    assert_eq!(sent, count);
    fs::remove_dir_all(scene.directory).unwrap();
}

#[test]
fn the_longest_message_is_written_without_waiting() {
    let to: KeyAddress = format!("{}@{}.test", "+".repeat(64), "a".repeat(184))
        .parse()
        .unwrap();
    let message = message(&to, &"b".repeat(256), &"c".repeat(256 + 11 + 500));
    assert!(message.len() < MESSAGE_BYTES_MAX);
    assert!(message.lines().all(|line| line.len() < 900));
}
