//! Sends mail by a command that takes what `sendmail -i -t` takes, one at a time on a thread of its
//! own.
//!
//! In: an address and a link. Out: a child process for each; what goes wrong is told to the operator,
//! never with the link. Whatever the child does or leaves undone, nobody waits for it but this
//! thread, and that for a bounded time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Say;
use super::error::SignupError;
use super::pass::MAC_CHARS;
use crate::keys::KeyAddress;
use crate::sync::{AtomicU32, Ordering};

/// Mails that wait for a slow command, the one that it has among them.
const WAITING_MAX: u32 = 64;
/// A local sendmail queues a mail within a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// A pipe takes as much at once even where the system has cut it down to a page, so that to write a
/// message never waits for the child to read it.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Of what the child complains about, the first line is told, up to here.
const COMPLAINT_BYTES_MAX: usize = 300;
/// Between two looks at a child: the first is soon, since most are done soon.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(50);

struct Mail {
    message: String,
    link: String,
}

/// Sends mail, on a thread that ends after the last one once this is dropped. Nobody waits for it: when
/// the process ends, mails that wait are lost, and are asked for again.
pub struct Mailer {
    queue: Sender<Mail>,
    waiting: Arc<AtomicU32>,
}

impl Mailer {
    /// Sends by a command with arguments, split at spaces; `-i -t` is added.
    pub fn start(command: &str, say: Say) -> Result<Mailer, SignupError> {
        Mailer::start_patient(command, say, PATIENCE)
    }

    pub(super) fn start_patient(
        command: &str,
        say: Say,
        patience: Duration,
    ) -> Result<Mailer, SignupError> {
        let words: Vec<String> = command.split_ascii_whitespace().map(String::from).collect();
        if words.is_empty() {
            return Err(SignupError::NoCommand);
        }
        let (queue, mails) = channel();
        let waiting = Arc::new(AtomicU32::new(0));
        let sending = Sending {
            words,
            say,
            patience,
            waiting: Arc::clone(&waiting),
        };
        thread::Builder::new()
            .name("mailer".into())
            .spawn(move || sending.run(&mails))
            .map_err(SignupError::Thread)?;
        Ok(Mailer { queue, waiting })
    }

    /// Whether another mail may wait: to be asked before each is sent.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_MAX
    }

    /// Has a link mailed, sooner or later; whether there still is a thread that would.
    pub(super) fn send(&self, to: &KeyAddress, base_url: &str, link: String) -> bool {
        let message = message(to, base_url, &link);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.queue.send(Mail { message, link }).is_ok()
    }
}

/// The address and the link are of characters that mean nothing in a header or a line of text.
fn message(to: &KeyAddress, base_url: &str, link: &str) -> String {
    let message = format!(
        "To: {to}\n\
         Subject: Your link for API keys\n\
         MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\n\
         Auto-Submitted: auto-generated\n\
         \n\
         Someone asked for this link at\n\
         {base_url}\n\
         \n\
         Use it to create an API key, or to see and revoke the keys of this\n\
         e-mail address. It is valid for an hour:\n\
         \n\
         {link}\n\
         \n\
         Anyone who has the link can do so in your place: keep it to yourself.\n\
         If you did not ask for it, ignore this mail; nothing will happen.\n"
    );
    // 254 for the address, twice 256 for the beginning of links, 500 for the pass.
    assert!(message.len() <= MESSAGE_BYTES_MAX, "its parts are bounded");
    message
}

struct Sending {
    words: Vec<String>,
    say: Say,
    patience: Duration,
    waiting: Arc<AtomicU32>,
}

impl Sending {
    fn run(&self, mails: &Receiver<Mail>) {
        for mail in mails {
            if let Err(problem) = self.deliver(&mail) {
                (self.say)(&format!("mail was not sent: {}: {problem}", self.words[0]));
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn deliver(&self, mail: &Mail) -> Result<(), String> {
        // A pair of sockets rather than a pipe: it can be read without waiting for its end, which does
        // not come while a grandchild holds it open.
        let (mut complaints, childs) = UnixStream::pair().map_err(|error| error.to_string())?;
        complaints
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let mut child = Command::new(&self.words[0])
            .args(&self.words[1..])
            .args(["-i", "-t"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(OwnedFd::from(childs))
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut message = child.stdin.take().expect("it was asked for");
        // A child that ended without reading says why by its status.
        let written = message.write_all(mail.message.as_bytes());
        drop(message);
        let mut complaint = Vec::new();
        let ended = wait(&mut child, self.patience, || {
            drain(&mut complaints, &mut complaint);
        });
        let problem = match ended {
            Ok(Some(status)) if status.success() => match written {
                Ok(()) => return Ok(()),
                Err(error) => format!("it did not read the message: {error}"),
            },
            Ok(Some(status)) => status.to_string(),
            Ok(None) => format!("stopped after {} s", self.patience.as_secs()),
            Err(error) => error.to_string(),
        };
        Err(problem + &told(&complaint, &mail.link))
    }
}

/// Waits for a child to end, and ends it if it does not: `None`.
fn wait(
    child: &mut Child,
    patience: Duration,
    mut meanwhile: impl FnMut(),
) -> std::io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = LOOK_FIRST;
    loop {
        let ended = child.try_wait()?;
        // After the end too: what it said last.
        meanwhile();
        if ended.is_some() {
            return Ok(ended);
        }
        if begun.elapsed() >= patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK_LAST);
    }
}

/// Reads what is there, so that a child is never stopped by its complaints; keeps the beginning.
fn drain(from: &mut UnixStream, kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    // As much as a socket holds and more: a child that never stops is looked at by the clock.
    for _ in 0..1024 {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => {
                let room = COMPLAINT_BYTES_MAX - kept.len();
                kept.extend_from_slice(&piece[..length.min(room)]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The first line of a complaint for the operator, in printable ASCII; not if it holds the link or a
/// part of it by which the rest could be found.
fn told(complaint: &[u8], link: &str) -> String {
    let text = complaint.trim_ascii_start();
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let visible = first.trim_ascii_end().iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    });
    let said: String = visible.collect();
    // The pass's code is one of these; a label of a domain may be another.
    let mut long = link.split('.').filter(|field| field.len() == MAC_CHARS);
    let quotes = said.contains("pass=") || long.any(|field| said.contains(field));
    match (said.is_empty(), quotes) {
        (true, _) => String::new(),
        (false, true) => ": what it says quotes the link and is left out".into(),
        (false, false) => format!(": {said}"),
    }
}

#[cfg(test)]
#[path = "mailer_tests.rs"]
mod tests;
