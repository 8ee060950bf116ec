//! The script that exchanges keys in the store, and its arguments and answers.

use std::sync::LazyLock;

use redis::RedisError;
use redis::aio::MultiplexedConnection;

use super::cached_script::CachedScript;
use super::key_view::{Answer, KeyView, PAGE};

/// The records; the numbers of their changes; the active free keys of each address. The number in the names is
/// the version of their format.
const KEYS: [&str; 3] = ["imq:2:keys", "imq:2:keys:changes", "imq:2:keys:free"];
static SCRIPT: LazyLock<CachedScript> =
    LazyLock::new(|| CachedScript::new(include_str!("exchange_keys.lua")));

pub(super) struct Call<'a> {
    pub(super) view: &'a KeyView,
    /// The secret of sign-up in hexadecimal, or nothing.
    pub(super) secret: &'a str,
    /// The most active free keys of an address, if a key is to be added only below it; or nothing.
    pub(super) free_max: &'a str,
    /// The records to be stored. With `free_max`, the one that is to be added.
    pub(super) lines: &'a [String],
}

impl Call<'_> {
    /// Returns the answer, and the secret in the store.
    pub(super) async fn send(
        &self,
        connection: MultiplexedConnection,
    ) -> Result<(Answer, String), RedisError> {
        let random = getrandom::u64().expect("the system gives random numbers");
        let generation = format!("{random:016x}");
        let reply = SCRIPT.call(connection, KEYS.len(), |command| {
            command.arg(&KEYS);
            command.arg(&self.view.generation).arg(self.view.number);
            command.arg(&generation).arg(self.secret).arg(self.free_max);
            command.arg(self.view.seen).arg(PAGE).arg(self.lines);
        });
        let (generation, number, secret, is_refused, seen, records) = reply.await?;
        let answer = Answer {
            generation,
            number,
            seen,
            is_refused,
            records,
        };
        Ok((answer, secret))
    }
}

#[cfg(test)]
#[path = "key_script_tests.rs"]
mod tests;
