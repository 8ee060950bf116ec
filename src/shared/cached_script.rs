//! [`CachedScript`]: a script that the store runs, of which the text is sent only if the store does not know it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind};
use tokio::time::timeout;

use super::node::problem;

/// A store that has not answered for this long is away.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A script, and its SHA-1, by which the store knows it.
pub(super) struct CachedScript {
    text: String,
    hash: String,
}

impl CachedScript {
    pub(super) fn new(text: &str) -> CachedScript {
        let text = [include_str!("common.lua"), text].concat();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        CachedScript { text, hash }
    }

    /// Calls the script with the keys and arguments that `fill` adds. The error describes the problem.
    pub(super) async fn call<T: FromRedisValue>(
        &self,
        mut connection: MultiplexedConnection,
        keys: usize,
        fill: impl Fn(&mut Cmd),
    ) -> Result<T, String> {
        let command = |name, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys);
            fill(&mut command);
            command
        };
        let called = timeout(ANSWER_MAX, async {
            let known = command("EVALSHA", &self.hash);
            match known.query_async(&mut connection).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    let sent = command("EVAL", &self.text);
                    sent.query_async(&mut connection).await
                }
                other => other,
            }
        });
        let late = |_| format!("no answer within {} s", ANSWER_MAX.as_secs());
        called.await.map_err(late)?.map_err(problem)
    }
}
