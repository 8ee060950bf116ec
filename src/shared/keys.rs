//! The keys of several servers: one server leads and stores its key file, the others follow.
//!
//! The store has one hash: the term and the name of the leader, and the key file with its revision. A new
//! leader begins a higher term, which is the upper half of the revisions that it writes. So revisions
//! only rise, and changes that a former leader made without the store never replace those of its
//! successor. A former leader that finds a higher term stops leading.
//!
//! Without the store, each server keeps the keys that it knows, and only a leader that has led before
//! can change them. When the store loses its data, the leader stores its file again.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::node::{connect, problem};
use super::settings::SharedQuotaSettings;
use crate::keys::{KeyFileVersion, KeyRole, KeyStore, SharedKeyFile};
use crate::observe::{DedupLog, Log};

/// Name of the hash. The number is the version of its fields.
const KEY: &str = "imq:1:keys";
const PUBLISH: &str = include_str!("publish_keys.lua");
const CLAIM: &str = include_str!("claim_keys.lua");
/// Between two looks at the store and at the key file.
const POLL: Duration = Duration::from_millis(250);
/// For one look, a key file of 100,000 keys included.
const EXCHANGE_MAX: Duration = Duration::from_secs(5);

/// Whether a server issues the keys of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySharing {
    /// It issues them.
    Lead,
    /// It takes them over.
    Follow,
}

/// The thread that shares the keys of a state directory.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedKeys {
    /// Sets the role of the state directory, and starts the thread. `name` is shown to those that change
    /// keys on a follower.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
        sharing: KeySharing,
        keys: KeyStore,
        name: String,
        log: Log,
    ) -> io::Result<SharedKeys> {
        let role = match (sharing, keys.role().map_err(io::Error::other)?) {
            (KeySharing::Lead, role @ (KeyRole::Leads { .. } | KeyRole::Deposed { .. }))
            | (KeySharing::Follow, role @ KeyRole::Follows { .. }) => role,
            (KeySharing::Lead, _) => KeyRole::Waits,
            (KeySharing::Follow, _) => KeyRole::Follows {
                leader: String::new(),
            },
        };
        keys.set_role(&role).map_err(io::Error::other)?;
        log.write(&format!("shared keys: {role}"));
        let mut service = Service {
            settings,
            keys,
            name,
            own: None,
            problems: DedupLog::new(log.clone()),
            log,
        };
        let (stop, mut stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-keys".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = service.run() => {}
                    _ = &mut stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(SharedKeys { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        // The thread has ended by itself only if it panicked.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// The fields of the hash, without the key file.
struct Stored {
    term: u32,
    revision: u64,
    leader: String,
}

struct Service {
    settings: SharedQuotaSettings,
    keys: KeyStore,
    name: String,
    /// This server's key file, and the version that it was read from.
    own: Option<(Option<KeyFileVersion>, SharedKeyFile)>,
    problems: DedupLog,
    log: Log,
}

impl Service {
    async fn run(&mut self) {
        let mut connection = None;
        loop {
            if let Err(problem) = self.exchange(&mut connection).await {
                connection = None;
                self.problems
                    .write(format!("shared keys: {problem}; the known keys stay valid"));
            } else {
                self.problems.reset();
            }
            sleep(POLL).await;
        }
    }

    async fn exchange(
        &mut self,
        connection: &mut Option<MultiplexedConnection>,
    ) -> Result<(), String> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(connect(&self.settings).await?.connection),
        };
        let exchanged = timeout(EXCHANGE_MAX, self.look(connection)).await;
        exchanged.map_err(|_| format!("no answer within {} s", EXCHANGE_MAX.as_secs()))?
    }

    /// Compares the store with this server's keys, and passes on or takes over what is newer.
    async fn look(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let stored = Service::stored(connection).await?;
        match self.keys.role().map_err(|error| error.to_string())? {
            KeyRole::Leads { term } if term >= stored.term => {
                let own = self.own_file()?;
                if term > stored.term || own.revision > stored.revision {
                    self.publish(connection, term).await?;
                }
                Ok(())
            }
            KeyRole::Leads { .. } => {
                let leader = stored.leader.clone();
                self.set_role(&KeyRole::Deposed { leader })?;
                self.take_over(connection, &stored).await
            }
            KeyRole::Waits => {
                self.take_over(connection, &stored).await?;
                self.claim(connection).await
            }
            KeyRole::Follows { leader } => {
                if leader != stored.leader {
                    let leader = stored.leader.clone();
                    self.set_role(&KeyRole::Follows { leader })?;
                }
                self.take_over(connection, &stored).await
            }
            KeyRole::Deposed { .. } => self.take_over(connection, &stored).await,
            // Another process has removed the role: nothing is shared until the next start.
            KeyRole::Alone => Err("the state directory has no role; restart the server".to_owned()),
        }
    }

    async fn stored(connection: &mut MultiplexedConnection) -> Result<Stored, String> {
        let mut command = redis::cmd("HMGET");
        command.arg(KEY).arg("term").arg("revision").arg("leader");
        let fields = command.query_async(connection).await;
        let (term, revision, leader): (Option<u32>, Option<u64>, Option<String>) =
            fields.map_err(|error| problem(&error))?;
        Ok(Stored {
            term: term.unwrap_or(0),
            revision: revision.unwrap_or(0),
            // One word: it is stored as such.
            leader: leader.unwrap_or_default().split_whitespace().collect(),
        })
    }

    /// The key file of this server, read again if it has changed.
    fn own_file(&mut self) -> Result<&SharedKeyFile, String> {
        let version = self.keys.version().map_err(|error| error.to_string())?;
        if self.own.as_ref().is_none_or(|(known, _)| *known != version) {
            let file = self.keys.shared_file().map_err(|error| error.to_string())?;
            self.own = Some((version, file));
        }
        let (_, file) = self.own.as_ref().expect("the file was read above");
        Ok(file)
    }

    async fn publish(
        &mut self,
        connection: &mut MultiplexedConnection,
        term: u32,
    ) -> Result<(), String> {
        let name = self.name.clone();
        let own = self.own_file()?;
        let mut command = redis::cmd("EVAL");
        command.arg(PUBLISH).arg(1).arg(KEY);
        command.arg(term).arg(own.revision).arg(name);
        command.arg(own.bytes.as_slice());
        // A higher term in the answer is found again by the next look.
        let answer: Result<u32, _> = command.query_async(connection).await;
        answer.map(|_| ()).map_err(|error| problem(&error))
    }

    async fn claim(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        // A term above that of the file, which the store may have lost.
        let smallest = (self.own_file()?.revision >> 32) + 1;
        let mut command = redis::cmd("EVAL");
        command
            .arg(CLAIM)
            .arg(1)
            .arg(KEY)
            .arg(smallest)
            .arg(&self.name);
        let term: u32 = command
            .query_async(connection)
            .await
            .map_err(|error| problem(&error))?;
        self.keys.lead(term).map_err(|error| error.to_string())?;
        self.log
            .write(&format!("shared keys: {}", KeyRole::Leads { term }));
        self.publish(connection, term).await
    }

    async fn take_over(
        &mut self,
        connection: &mut MultiplexedConnection,
        stored: &Stored,
    ) -> Result<(), String> {
        if stored.revision <= self.own_file()?.revision {
            return Ok(());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(KEY).arg("file");
        let (file,): (Option<Vec<u8>>,) = command
            .query_async(connection)
            .await
            .map_err(|error| problem(&error))?;
        let file = file.ok_or("the store has a revision without a key file")?;
        // The poller of the key file loads it.
        let taken = self.keys.take_over(&file);
        taken.map(|_| ()).map_err(|error| error.to_string())
    }

    fn set_role(&self, role: &KeyRole) -> Result<(), String> {
        self.keys
            .set_role(role)
            .map_err(|error| error.to_string())?;
        self.log.write(&format!("shared keys: {role}"));
        Ok(())
    }
}
