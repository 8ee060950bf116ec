//! Synthetic datasets, published, and the release server started on them.

use super::BINARY;
use crate::common::prelude::*;

/// When most benches publish, by `--generated-at`.
pub(crate) const GENERATED_AT: &str = "2026-11-21T12:05:00Z";
/// The last day of synthetic datasets, a day before.
const LAST_DAY: &str = "2026-11-20";

/// Size of a dataset with bodies of all sizes, as arguments of `synth`: `/v1/live` has about 200 KB.
pub(crate) const MEDIUM: &str = "--islands 10000 --creators 3000 --days 90";

/// The highest daily limit of an address.
pub(crate) const LIMIT_MAX: u32 = 65_535;

/// Size of a dataset that is enough to show that a bench works, as arguments of `synth`.
pub(crate) const TINY: &str = "--islands 400 --creators 150 --days 3";

/// Writes a synthetic dataset of the size that the arguments of `synth` set.
pub(crate) fn synthesize(dataset: &Path, size: &str) -> Outcome<()> {
    let mut synth = command(BINARY, None);
    synth.arg("synth").arg("--to").arg(dataset);
    synth.args(["--until", LAST_DAY]);
    synth.args(size.split(' '));
    run(synth).map(drop)
}

pub(crate) fn publish_command(dataset: &Path, published: &Path, generated_at: &str) -> Command {
    let mut publish = command(BINARY, None);
    publish.arg("publish").arg("--dataset").arg(dataset);
    publish.arg("--to").arg(published);
    publish.args(["--generated-at", generated_at]);
    publish
}

/// Publishes a synthetic dataset and returns the published directory.
pub(crate) fn published(scratch: &Path, size: &str) -> Outcome<PathBuf> {
    let (dataset, published) = (scratch.join("dataset"), scratch.join("published"));
    synthesize(&dataset, size)?;
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

/// The release server with one worker, on the core of the servers.
pub(crate) fn serve_command(limit_anonymous: u32) -> Command {
    let mut serve = command(BINARY, Some(SERVER_CORE));
    serve.args(["serve", "--listen", "127.0.0.1:0", "--workers", "1"]);
    serve.args(["--limit-pro", "4000000000", "--limit-anonymous"]);
    serve.arg(limit_anonymous.to_string());
    serve
}

/// Starts the release server with limits above any load. `configure` adds arguments.
pub(crate) fn serve(configure: impl FnOnce(&mut Command)) -> Outcome<Server> {
    let mut serve = serve_command(LIMIT_MAX);
    configure(&mut serve);
    Server::start(serve)
}

/// Milliseconds from the start of a server to its first 200. The server serves a published
/// directory, or the sample dataset.
pub(crate) fn start_millis(published: Option<&Path>) -> Outcome<f64> {
    let mut serve = command(BINARY, None);
    serve.args(["serve", "--listen", "127.0.0.1:0"]);
    if let Some(published) = published {
        serve.arg("--published").arg(published);
    }
    let begun = Instant::now();
    let server = Server::start(serve)?;
    found(server.address, "/v1/islands?limit=1")?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
