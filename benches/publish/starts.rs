//! How long a server takes from its start to its first 200.

use std::path::Path;
use std::time::Instant;

use crate::common::http::found;
use crate::common::process::{Server, command};
use crate::common::stats::median;
use crate::common::{BINARY, Outcome};

/// Starts a server so many times on what is published, and prints how long it took.
pub(crate) fn measure(published: &Path, count: usize) -> Outcome<()> {
    let mut milliseconds = Vec::new();
    // The first one has the system read the file, and does not count.
    for number in 0..=count {
        let begun = Instant::now();
        let mut serve = command(BINARY, None);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--published"]);
        let server = Server::start({
            serve.arg(published);
            serve
        })?;
        found(server.address, "/v1/islands?limit=1")?;
        if number > 0 {
            milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let least = milliseconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = milliseconds.iter().copied().fold(0.0, f64::max);
    println!(
        "start to first 200: {:.0} ms, median of {count} starts ({least:.0} to {most:.0}); goal 200",
        median(milliseconds)
    );
    Ok(())
}
