//! Key changes: an issued key is accepted within a second, a revoked one refused, and a restored one
//! accepted again.

use super::{KEY_ID, Stage};
use crate::common::BINARY;
use crate::common::prelude::*;
use crate::scenario::POLL;

/// Goal, and longest wait, for a change to be effective.
const WITHIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct KeyChanges {
    pub(crate) issued: usize,
    /// Milliseconds until each change was effective, in the order of [`CHANGES`].
    lags: [Vec<f64>; 3],
}

const CHANGES: [&str; 3] = ["issued", "revoked", "restored"];

impl KeyChanges {
    /// Issues, revokes and restores a key.
    pub(crate) fn turn(&mut self, stage: &Stage<'_>) -> Outcome<()> {
        self.issued += 1;
        let address = format!("soak{}@example.com", self.issued);
        let key = world::issue_key(stage.state, &address)?;
        stage.secrets.add(&key);
        self.wait(stage, 0, &key, true)?;
        for (change, at, accepted) in [("revoke", 1, false), ("restore", 2, true)] {
            let mut keys = command(BINARY, None);
            keys.args(["keys", change, &key[KEY_ID], "--state"]);
            keys.arg(stage.state);
            run(keys)?;
            self.wait(stage, at, &key, accepted)?;
        }
        Ok(())
    }

    fn wait(&mut self, stage: &Stage<'_>, change: usize, key: &str, accepted: bool) -> Outcome<()> {
        let begun = Instant::now();
        let address = stage.subject.address;
        let effective = || Ok((is_accepted(address, key)? == accepted).then_some(()));
        wait_for(WAIT_MAX, POLL, effective)?;
        let lag = begun.elapsed();
        self.lags[change].push(lag.as_secs_f64() * 1000.0);
        let (change, millis) = (CHANGES[change], lag.as_millis());
        let fault = format_args!("a key {change} was not effective for {millis} ms");
        stage.faults.require(lag <= WITHIN, fault);
        Ok(())
    }

    pub(crate) fn report(&self) {
        for (change, lags) in CHANGES.iter().zip(&self.lags) {
            println!(
                "  keys {change}: {}, effective after {:.0} ms (median), {:.0} at most; goal 1000",
                lags.len(),
                median(lags),
                largest(lags)
            );
        }
    }
}

fn is_accepted(to: SocketAddr, key: &str) -> Outcome<bool> {
    let bearer = format!("authorization: Bearer {key}\r\n");
    match fetch(to, &get("/v1/health", &bearer))?.status {
        200 => Ok(true),
        401 | 403 => Ok(false),
        status => Err(format!("a request with a key has the status {status}").into()),
    }
}
