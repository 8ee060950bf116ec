//! Keys that come and go: an issued one is accepted within a second, a revoked one refused, a restored one
//! accepted again.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::http::{fetch, get};
use crate::common::process::{command, run};
use crate::common::stats::median;
use crate::common::{BINARY, Outcome, world};
use crate::stage::Stage;

const WITHIN: Duration = Duration::from_secs(1);
const GIVEN_UP: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Where the number of a key stands in it.
const NUMBER: std::ops::Range<usize> = 8..18;

/// How long each change took to be seen, in milliseconds.
#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) issued: usize,
    lags: [Vec<f64>; 3],
}

/// The changes, in the order of `lags`.
const CHANGES: [&str; 3] = ["issued", "revoked", "restored"];

impl Keys {
    /// Takes a key through its life.
    pub(crate) fn turn(&mut self, stage: &Stage) -> Outcome<()> {
        self.issued += 1;
        let address = format!("soak{}@example.com", self.issued);
        let key = world::issue_key(&stage.state, &address)?;
        stage.hide(&key);
        self.seen(stage, 0, &key, true)?;
        for (change, at, accepted) in [("revoke", 1, false), ("restore", 2, true)] {
            let mut keys = command(BINARY, None);
            keys.args(["keys", change, &key[NUMBER], "--state"]);
            run({
                keys.arg(&stage.state);
                keys
            })?;
            self.seen(stage, at, &key, accepted)?;
        }
        Ok(())
    }

    /// Waits until the server has seen a change.
    fn seen(&mut self, stage: &Stage, change: usize, key: &str, accepted: bool) -> Outcome<()> {
        let begun = Instant::now();
        while is_accepted(stage.address, key)? != accepted && begun.elapsed() < GIVEN_UP {
            thread::sleep(LOOK);
        }
        let lag = begun.elapsed();
        if lag > WITHIN {
            let (what, millis) = (CHANGES[change], lag.as_millis());
            stage.wrong(format!(
                "a key that was {what} was not seen so for {millis} ms"
            ));
        }
        self.lags[change].push(lag.as_secs_f64() * 1000.0);
        Ok(())
    }

    pub(crate) fn report(&self) {
        for (change, lags) in CHANGES.iter().zip(&self.lags) {
            let longest = lags.iter().copied().fold(0.0, f64::max);
            println!(
                "  keys {change}: {}, seen after {:.0} ms (median), {longest:.0} at the latest; goal 1000",
                lags.len(),
                median(lags.iter().copied())
            );
        }
    }
}

fn is_accepted(to: SocketAddr, key: &str) -> Outcome<bool> {
    let bearer = format!("authorization: Bearer {key}\r\n");
    let answer = fetch(to, &get("/v1/health", &bearer))?;
    match answer.status {
        200 => Ok(true),
        401 | 403 => Ok(false),
        status => Err(format!("a request with a key is answered {status}").into()),
    }
}
