//! Sends mail through a command with the interface of `sendmail -i -t`, one mail at a time on a
//! separate thread.
//!
//! In: an address and a link. Out: a child process per mail; failures are logged without the link.
//! Only this thread waits for the child, for a limited time.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::LogLine;
use super::tokens::MAC_CHARS;
use crate::keys::KeyAddress;
use crate::sync::{AtomicU32, Ordering};

/// Length of the queue, including the mail being sent.
const QUEUE_MAX: u32 = 64;
/// A local sendmail queues a mail within a second.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The smallest capacity of a pipe, so that writing a message does not wait for the child to read it.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes kept of the child's error output, of which the first line is logged.
const STDERR_BYTES_MAX: usize = 300;
/// Interval between two checks of a child. The first is short, because most children end soon.
const POLL_FIRST: Duration = Duration::from_millis(2);
const POLL_LAST: Duration = Duration::from_millis(50);

/// A queue of mails, and the thread that sends them. Once this is dropped, the thread sends the queued
/// mails and ends. No thread waits for it: at the end of the process queued mails are lost.
pub(super) struct Mailer {
    queue: Sender<String>,
    queued: Arc<AtomicU32>,
}

impl Mailer {
    /// Starts the thread. The command, which is not blank, is split at spaces; `-i -t` is appended.
    pub(super) fn start(command: &str, log: LogLine, timeout: Duration) -> io::Result<Mailer> {
        let words: Vec<String> = command.split_ascii_whitespace().map(String::from).collect();
        let (queue, mails) = channel::<String>();
        let queued = Arc::new(AtomicU32::new(0));
        let mailer = Mailer {
            queue,
            queued: Arc::clone(&queued),
        };
        let run = move || {
            for mail in mails {
                if let Err(problem) = send(&words, &mail, timeout) {
                    log(&format!("mail was not sent: {}: {problem}", words[0]));
                }
                queued.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = thread::Builder::new().name("mailer".into());
        thread.spawn(run)?;
        Ok(mailer)
    }

    /// Returns `true` if the queue is full. To be checked before each mail.
    pub(super) fn is_full(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= QUEUE_MAX
    }

    /// Queues a mail with a link. Returns `false` if the thread has ended.
    pub(super) fn send(&self, to: &KeyAddress, base_url: &str, link: &str) -> bool {
        let message = message(to, base_url, link);
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.queue.send(message).is_ok()
    }
}

/// The address and the link consist of characters without a meaning in a header or a line of text.
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
    // 254 for the address, twice 256 for the base URL, 500 for the token.
    assert!(message.len() <= MESSAGE_BYTES_MAX, "its parts are bounded");
    message
}

fn send(words: &[String], mail: &str, timeout: Duration) -> Result<(), String> {
    let mut stderr = Vec::new();
    let problem = match run(words, mail, timeout, &mut stderr) {
        Ok((Some(status), written)) if status.success() => match written {
            Ok(()) => return Ok(()),
            Err(error) => format!("it did not read the message: {error}"),
        },
        Ok((Some(status), _)) => status.to_string(),
        Ok((None, _)) => format!("stopped after {} s", timeout.as_secs()),
        Err(error) => error.to_string(),
    };
    Err(problem + &first_line(&stderr, mail))
}

/// Runs the command with the message as its input. Returns its exit status, `None` if it was killed at
/// the timeout, and the result of writing the message: a child that ends without reading it explains
/// that by its status.
fn run(
    words: &[String],
    message: &str,
    timeout: Duration,
    stderr: &mut Vec<u8>,
) -> io::Result<(Option<ExitStatus>, io::Result<()>)> {
    // A socket pair, because a pipe is read to its end, which does not come while a grandchild has it
    // open.
    let (ours, childs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .args(["-i", "-t"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(childs))
        .spawn()?;
    let mut stdin = child.stdin.take().expect("piped above");
    let written = stdin.write_all(message.as_bytes());
    drop(stdin);
    let ended = wait(&mut child, timeout, || drain(&ours, stderr))?;
    Ok((ended, written))
}

/// Waits for a child to end; kills it at the timeout and returns `None`. Calls `poll` repeatedly, and
/// once after the end.
fn wait(
    child: &mut Child,
    timeout: Duration,
    mut poll: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = POLL_FIRST;
    loop {
        let ended = child.try_wait()?;
        poll();
        if ended.is_some() {
            return Ok(ended);
        }
        if begun.elapsed() >= timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL_LAST);
    }
}

/// Reads all available output, so that the child does not block on writing it; keeps the beginning.
fn drain(from: &UnixStream, kept: &mut Vec<u8>) {
    let mut output = Vec::new();
    // More than a socket buffers; limited, so that the timeout also applies to endless output. Fails at
    // the end of what is available, and has read it by then.
    let _ = from.take(1 << 20).read_to_end(&mut output);
    output.truncate(STDERR_BYTES_MAX - kept.len());
    kept.append(&mut output);
}

/// Returns the first line of a command's error output in printable ASCII, for the log; not if it has
/// the link of the mail, or a part of it from which the rest can be derived.
fn first_line(stderr: &[u8], mail: &str) -> String {
    let stderr = stderr.trim_ascii_start();
    let first = stderr.split(|byte| *byte == b'\n').next();
    let first = first.unwrap_or_default().trim_ascii_end();
    let printable = first.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    });
    let text: String = printable.collect();
    // The token's MAC is one of these; a label of a domain may be another.
    let mut macs = mail.split('.').filter(|field| field.len() == MAC_CHARS);
    let has_link = text.contains("pass=") || macs.any(|field| text.contains(field));
    match (text.is_empty(), has_link) {
        (true, _) => String::new(),
        (false, true) => ": its error output contains the link and is omitted".into(),
        (false, false) => format!(": {text}"),
    }
}

#[cfg(test)]
#[path = "mailer_tests.rs"]
mod tests;
