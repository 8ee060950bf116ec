use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::*;
use crate::durable;

const LINK: &str = "https://x.test/keys?pass=6a.0.0123456789abcdef0123456789abcdef.ann~40x.test";

struct Scene {
    directory: PathBuf,
    mailer: Mailer,
    said: Receiver<String>,
}

/// A mailer whose command is a script; `$OUT` is its directory.
fn scene(name: &str, script: &str, patience: Duration) -> Scene {
    let directory = std::env::temp_dir().join(format!("im-mailer-{name}-{}", std::process::id()));
    durable::create_private_directory(&directory).unwrap();
    let path = directory.join("sendmail");
    let script = format!("OUT={}\n{script}\n", directory.display());
    durable::replace(&path, script.as_bytes()).unwrap();
    // By its interpreter: a file that another test's child still has open cannot be executed.
    let (mailer, said) = start(&format!("  sh  {} -f x ", path.display()), patience);
    Scene {
        directory,
        mailer,
        said,
    }
}

fn start(command: &str, patience: Duration) -> (Mailer, Receiver<String>) {
    let (tell, said) = channel();
    let say = Box::new(move |line: &str| {
        // The test may have ended.
        let _ = tell.send(line.to_owned());
    });
    let mailer = Mailer::start_patient(command, say, patience).unwrap();
    (mailer, said)
}

impl Scene {
    fn send(&self) {
        let to = "ann@x.test".parse().unwrap();
        assert!(self.mailer.send(&to, "https://x.test", LINK.to_owned()));
    }

    /// What is said of one mail, by a mailer that is soon done.
    fn say(self) -> Vec<String> {
        self.send();
        drop(self.mailer);
        let lines = said_until_the_end(&self.said);
        fs::remove_dir_all(self.directory).unwrap();
        lines
    }
}

/// The thread drops its end when it has sent what was waiting.
fn said_until_the_end(said: &Receiver<String>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match said.recv_timeout(Duration::from_secs(20)) {
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
fn the_command_is_given_the_message_and_nothing_is_said() {
    let scene = scene(
        "sent",
        "echo \"$@\" > $OUT/arguments; cat > $OUT/message",
        PATIENCE,
    );
    scene.send();
    drop(scene.mailer);
    assert_eq!(said_until_the_end(&scene.said), [""; 0]);
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
fn a_failure_is_told_with_the_first_line_of_what_the_command_says() {
    let said = scene(
        "fails",
        "cat > /dev/null; printf '\\n no \\033 relay \\nmore' >&2; exit 75",
        PATIENCE,
    )
    .say();
    assert_eq!(said, ["mail was not sent: sh: exit status: 75: no ? relay"]);
    let said = scene("silent", "cat > /dev/null; kill -TERM $$", PATIENCE).say();
    assert_eq!(said, ["mail was not sent: sh: signal: 15 (SIGTERM)"]);
    let (mailer, said) = start("/nowhere/sendmail", PATIENCE);
    let to = "ann@x.test".parse().unwrap();
    assert!(mailer.send(&to, "https://x.test", LINK.to_owned()));
    drop(mailer);
    let said = said_until_the_end(&said);
    assert!(
        said.len() == 1 && said[0].starts_with("mail was not sent: /nowhere/sendmail: No such"),
        "{said:?}"
    );
}

#[test]
fn what_quotes_the_link_is_not_told() {
    for (name, script) in [
        ("line", "grep pass= >&2; exit 1"),
        ("code", "sed -n 's/.*pass=[^.]*.[^.]*.//p' >&2; exit 1"),
        ("joined", "tr '\\n' ' ' >&2; exit 1"),
    ] {
        let said = scene(name, script, PATIENCE).say().join("\n");
        let secret = ["pass=", "0123456789abcdef"];
        assert!(!secret.iter().any(|part| said.contains(part)), "{said}");
        assert!(said.contains("exit status: 1"), "{said}");
    }
    let disguised = LINK.replace(".ann~40x.test", &format!(".a~40{}.test", "b".repeat(32)));
    let told = |line: &str| told(line.as_bytes(), &disguised);
    assert!(told("0123456789abcdef0123456789abcdef").ends_with("left out"));
    assert!(told("cut off: /keys?pass=6a.0.0123").ends_with("left out"));
    assert_eq!(told("user unknown"), ": user unknown");
}

#[test]
fn a_command_that_does_not_end_is_stopped_whatever_it_does() {
    for (name, script) in [
        ("sleeps", "exec sleep 600"),
        ("shouts", "exec yes loud >&2"),
        // Its child keeps what it wrote to open, for longer than anybody waits.
        ("leaves", "sleep 5 & exec sleep 600"),
    ] {
        let begun = Instant::now();
        let said = scene(name, script, Duration::from_millis(300)).say();
        assert_eq!(said.len(), 1, "{name}");
        let want = "mail was not sent: sh: stopped after 0 s";
        assert!(said[0].starts_with(want), "{said:?}");
        assert_eq!(said[0].ends_with(": loud"), name == "shouts", "{said:?}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{name}");
    }
}

#[test]
fn a_child_that_outlives_the_command_holds_nobody_up() {
    let begun = Instant::now();
    let said = scene("daemon", "cat > /dev/null; sleep 5 & exit 0", PATIENCE).say();
    assert_eq!(said, [""; 0]);
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[test]
fn as_many_mails_wait_as_there_is_room_for() {
    let scene = scene(
        "full",
        "cat > /dev/null; while test ! -e $OUT/go; do sleep 0.02; done; echo >> $OUT/sent",
        PATIENCE,
    );
    for _ in 0..WAITING_MAX {
        assert!(scene.mailer.has_room());
        scene.send();
    }
    // The one that the command has holds its place until it is done.
    assert!(!scene.mailer.has_room());
    durable::replace(&scene.directory.join("go"), b"").unwrap();
    let begun = Instant::now();
    while !scene.mailer.has_room() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(LOOK_FIRST);
    }
    drop(scene.mailer);
    assert_eq!(said_until_the_end(&scene.said), [""; 0]);
    let sent = read(&scene.directory.join("sent")).len();
    assert_eq!(sent, WAITING_MAX as usize);
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
    assert!(matches!(
        Mailer::start(" ", Box::new(|_| ())),
        Err(SignupError::NoCommand)
    ));
}
