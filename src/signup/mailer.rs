//! Sends mail through a command with the interface of `sendmail -i -t`, one mail at a time on a
//! separate thread.
//!
//! In: an address and a link. Out: a child process per mail, which is killed at a timeout; failures
//! are logged without the link.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::tokens::MAC_CHARS;
use crate::keys::KeyAddress;
use crate::observe::{LocalCounter, Log};

/// Length of the queue, without the mail being sent.
const QUEUE_MAX: usize = 64;
/// A local sendmail queues a mail within a second.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The smallest capacity of a pipe, so that a message is written before there is a child that reads it.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes read of the child's error output, of which the first line is logged.
const STDERR_BYTES_MAX: u64 = 300;

/// A queue of mails, and the thread that sends them. Once this is dropped, the thread sends the queued
/// mails and ends. No thread waits for it: at the end of the process queued mails are lost.
pub(crate) struct Mailer {
    queue: Sender<String>,
    /// Mails that the command did not accept.
    pub(super) failed: Arc<LocalCounter>,
}

impl Mailer {
    /// Starts the thread. The command, which is not blank, is split at spaces; `-i -t` is appended.
    pub(super) fn start(command: &str, log: Log, longest: Duration) -> io::Result<Mailer> {
        let words: Vec<String> = command.split_ascii_whitespace().map(String::from).collect();
        let (queue, mut mails) = channel::<String>(QUEUE_MAX);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let failed = Arc::new(LocalCounter::default());
        let counter = Arc::clone(&failed);
        let run = async move {
            while let Some(mail) = mails.recv().await {
                if let Err(problem) = send(&words, &mail, longest).await {
                    log.write(&format!("mail was not sent: {}: {problem}", words[0]));
                    counter.add(1);
                }
            }
        };
        let thread = thread::Builder::new().name("mailer".into());
        thread.spawn(move || runtime.block_on(run))?;
        Ok(Mailer { queue, failed })
    }

    /// Returns `true` if the queue is full. To be checked before each mail.
    pub(super) fn is_full(&self) -> bool {
        self.queue.capacity() == 0
    }

    /// Queues a mail with a link. Returns `false` if the queue is full or the thread has ended.
    pub(super) fn send(&self, to: &KeyAddress, base_url: &str, link: &str) -> bool {
        let message = message(to, base_url, link);
        self.queue.try_send(message).is_ok()
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

/// Runs the command with the message as its input.
async fn send(words: &[String], mail: &str, longest: Duration) -> Result<(), String> {
    // A socket pair, because a pipe is read to its end, which does not come while a grandchild has it
    // open.
    let (stderr, child_stderr) = UnixStream::pair().map_err(|error| error.to_string())?;
    let run = async {
        stderr.set_nonblocking(true)?;
        let (input, mut writer) = io::pipe()?;
        writer.write_all(mail.as_bytes())?;
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args(["-i", "-t"])
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(OwnedFd::from(child_stderr))
            .kill_on_drop(true)
            .spawn()?;
        drop(writer);
        child.wait().await
    };
    let problem = match timeout(longest, run).await {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => status.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("stopped after {} s", longest.as_secs()),
    };
    let mut output = Vec::new();
    // The socket does not block: reading fails after all that is available has been read.
    let _ = stderr.take(STDERR_BYTES_MAX).read_to_end(&mut output);
    Err(problem + &first_line(&output, mail))
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
