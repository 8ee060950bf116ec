//! Time from the start of a server to its first 200.

use std::path::Path;
use std::time::Instant;

use crate::common::http::found;
use crate::common::process::{Server, command};
use crate::common::stats::{largest, median};
use crate::common::{BINARY, Outcome};

/// Starts a server `count` times on a published directory, and prints the times.
pub(crate) fn measure(published: &Path, count: usize) -> Outcome<()> {
    let mut milliseconds = Vec::new();
    // The first start reads the files into the page cache, and does not count.
    for number in 0..=count {
        let begun = Instant::now();
        let mut serve = command(BINARY, None);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--published"]);
        serve.arg(published);
        let server = Server::start(serve)?;
        found(server.address, "/v1/islands?limit=1")?;
        if number > 0 {
            milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let least = milliseconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = largest(&milliseconds);
    println!(
        "start to first 200: {:.0} ms, median of {count} starts ({least:.0} to {most:.0}); goal 200",
        median(milliseconds)
    );
    Ok(())
}
