//! What the real server serves: made up, published, and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{Server, command, run};
use super::{BINARY, Outcome, SERVER_CORE};

/// How large a made-up dataset is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) islands: u32,
    pub(crate) creators: u32,
    pub(crate) days: u32,
}

/// Makes a dataset up.
pub(crate) fn synthesize(dataset: &Path, size: Size) -> Outcome<()> {
    let mut synth = command(BINARY, None);
    synth.arg("synth").arg("--to").arg(dataset);
    let sizes = [
        ("--islands", size.islands),
        ("--creators", size.creators),
        ("--days", size.days),
    ];
    for (flag, number) in sizes {
        synth.arg(flag).arg(number.to_string());
    }
    run(synth).map(drop)
}

/// Publishes a dataset as of a moment.
pub(crate) fn publish(dataset: &Path, published: &Path, generated_at: &str) -> Outcome<()> {
    let mut publish = command(BINARY, None);
    publish.arg("publish").arg("--dataset").arg(dataset);
    publish.arg("--to").arg(published);
    run({
        publish.args(["--generated-at", generated_at]);
        publish
    })
    .map(drop)
}

/// Publishes a made-up dataset; says where.
pub(crate) fn published(scratch: &Path, size: Size) -> Outcome<PathBuf> {
    let (dataset, published) = (scratch.join("dataset"), scratch.join("published"));
    synthesize(&dataset, size)?;
    publish(&dataset, &published, "2026-11-21T12:05:00Z")?;
    fs::remove_dir_all(&dataset)?;
    Ok(published)
}

/// Issues a key that may ask without end; says its secret.
pub(crate) fn issue_key(state: &Path, address: &str) -> Outcome<String> {
    let mut issue = command(BINARY, None);
    issue.args(["keys", "issue", "--tier", "pro", "--address", address]);
    issue.arg("--state").arg(state);
    Ok(run(issue)?.trim().to_owned())
}

/// One worker, and limits that the load stays below.
const SERVE: [&str; 9] = [
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--workers",
    "1",
    "--limit-anonymous",
    "65535",
    "--limit-pro",
    "4000000000",
];

/// The real server as [`serve`] starts it, from a shell that runs `before` first, with more words.
pub(crate) fn serve_behind(before: &str, more: impl FnOnce(&mut Command)) -> Outcome<Server> {
    let mut outer = command("sh", None);
    outer.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]);
    let inner = command(BINARY, Some(SERVER_CORE));
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.args(SERVE);
    more(&mut outer);
    Server::start(outer)
}

/// The real server with one worker, and limits that the load stays below. Before it go the words
/// of `wrapper`, if any.
pub(crate) fn serve(published: &Path, state: Option<&Path>, wrapper: &[&str]) -> Outcome<Server> {
    let mut serve = match wrapper {
        [] => command(BINARY, Some(SERVER_CORE)),
        [program, words @ ..] => {
            let mut outer = command(program, None);
            let inner = command(BINARY, Some(SERVER_CORE));
            outer.args(words).arg(inner.get_program());
            outer.args(inner.get_args());
            outer
        }
    };
    serve.args(SERVE);
    serve.arg("--published").arg(published);
    if let Some(state) = state {
        serve.arg("--state").arg(state);
    }
    Server::start(serve)
}
