//! Synthetic datasets, published, and the release server started on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{Server, command, run};
use super::{BINARY, Outcome, SERVER_CORE};

/// When most benches publish, by `--generated-at`.
pub(crate) const GENERATED_AT: &str = "2026-11-21T12:05:00Z";

/// Size of a synthetic dataset.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) islands: u32,
    pub(crate) creators: u32,
    pub(crate) days: u32,
}

/// Enough to show that a bench works.
pub(crate) const TINY: Size = Size {
    islands: 400,
    creators: 150,
    days: 3,
};

/// Writes a synthetic dataset. `more` are further arguments of `synth`.
pub(crate) fn synthesize(dataset: &Path, size: Size, more: &[(&str, u32)]) -> Outcome<()> {
    let mut synth = command(BINARY, None);
    synth.arg("synth").arg("--to").arg(dataset);
    let sizes = [
        ("--islands", size.islands),
        ("--creators", size.creators),
        ("--days", size.days),
    ];
    for (flag, number) in sizes.iter().chain(more) {
        synth.arg(flag).arg(number.to_string());
    }
    run(synth).map(drop)
}

/// A command that publishes a dataset.
pub(crate) fn publish_command(dataset: &Path, published: &Path, generated_at: &str) -> Command {
    let mut publish = command(BINARY, None);
    publish.arg("publish").arg("--dataset").arg(dataset);
    publish.arg("--to").arg(published);
    publish.args(["--generated-at", generated_at]);
    publish
}

/// Publishes a synthetic dataset and returns the published directory.
pub(crate) fn published(scratch: &Path, size: Size) -> Outcome<PathBuf> {
    let (dataset, published) = (scratch.join("dataset"), scratch.join("published"));
    synthesize(&dataset, size, &[])?;
    run(publish_command(&dataset, &published, GENERATED_AT))?;
    fs::remove_dir_all(&dataset)?;
    Ok(published)
}

/// Issues a key of the largest tier and returns it.
pub(crate) fn issue_key(state: &Path, address: &str) -> Outcome<String> {
    let mut issue = command(BINARY, None);
    issue.args(["keys", "issue", "--tier", "pro", "--address", address]);
    issue.arg("--state").arg(state);
    Ok(run(issue)?.trim().to_owned())
}

/// Starts the release server with one worker and limits above any load, from a shell that first
/// runs `before`, such as `ulimit`. `configure` adds arguments.
pub(crate) fn serve(before: &str, configure: impl FnOnce(&mut Command)) -> Outcome<Server> {
    let mut serve = command("sh", None);
    serve.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]);
    let server = command(BINARY, Some(SERVER_CORE));
    serve.arg(server.get_program()).args(server.get_args());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--workers", "1"]);
    serve.args(["--limit-anonymous", "65535", "--limit-pro", "4000000000"]);
    configure(&mut serve);
    Server::start(serve)
}
