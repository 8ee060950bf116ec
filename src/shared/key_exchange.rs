//! The keys of several servers: one server leads and stores its key file, the others follow.
//!
//! The store has one hash: the term, the name and the base URL of the leader, and the key file with its
//! revision. A new leader begins a higher term, which is the upper half of the revisions that it writes.
//! So revisions only rise, and changes that a former leader made without the store never replace those
//! of its successor: they are dropped and logged. A former leader that finds a higher term stops leading.
//!
//! Each start of a leader begins a term. So if a state directory is copied and both servers lead, the
//! one that starts last leads, and the other one stops leading.
//!
//! Without the store, each server keeps the keys that it knows, and only a leader that has led before
//! can change them. When the store loses its data, the leader stores its file again.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::node::{NodeConnection, connect, problem};
use super::outage_log::OutageLog;
use super::settings::SharedQuotaSettings;
use crate::keys::{KeyRecords, KeyRole, KeyStore, SharedKeysState, StoredKeys};
use crate::observe::Log;
use crate::request::is_base_url;
use crate::sync::ArcSwap;

/// Name of the hash. The number is the version of its fields.
const KEY: &str = "imq:1:keys";
const PUBLISH: &str = include_str!("publish_keys.lua");
const CLAIM: &str = include_str!("claim_keys.lua");
/// Between two comparisons of the store with the key file.
const POLL: Duration = Duration::from_millis(250);
/// For one comparison, which may transfer a key file of 100,000 keys.
const EXCHANGE_MAX: Duration = Duration::from_secs(5);

/// The thread that shares the keys of a state directory.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    /// The result of the last exchange with the store.
    pub(super) state: Arc<ArcSwap<SharedKeysState>>,
    first_exchange: mpsc::Receiver<()>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedKeys {
    /// Sets the role of the state directory, `first` unless it has a later one of that kind, and starts the
    /// thread. `name` and the base URL `url` tell users of followers where keys are changed.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
        first: KeyRole,
        keys: KeyStore,
        (name, url): (String, Option<String>),
        log: Log,
    ) -> io::Result<SharedKeys> {
        let role = match (&first, keys.role().map_err(io::Error::other)?) {
            (KeyRole::Waits, role @ (KeyRole::Leads { .. } | KeyRole::Deposed { .. }))
            | (KeyRole::Follows { .. }, role @ KeyRole::Follows { .. }) => role,
            _ => first,
        };
        keys.set_role(&role).map_err(io::Error::other)?;
        log.write(&format!("shared keys: {role}"));
        let state = Arc::new(ArcSwap::new(SharedKeysState {
            role,
            leader_url: None,
            is_up: false,
            exchanged: Instant::now(),
        }));
        let random = getrandom::u64().expect("the system gives random numbers");
        let mut service = Service {
            settings,
            keys,
            name,
            url: url.unwrap_or_default(),
            start: random.to_string(),
            own: StoredKeys::default(),
            leader_url: None,
            state: Arc::clone(&state),
            outage: OutageLog::new(log),
        };
        let (stop, mut stopped) = oneshot::channel();
        let (exchanged, first_exchange) = mpsc::sync_channel(1);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-keys".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = service.run(exchanged) => {}
                    _ = &mut stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(SharedKeys {
            state,
            first_exchange,
            stop,
            thread,
        })
    }

    /// Waits for the first exchange with the store, or its failure, for so long: a server without keys
    /// would refuse valid ones.
    pub(super) fn await_first_exchange(&self, longest: Duration) {
        // An error means that the time has passed; the server starts all the same.
        let _ = self.first_exchange.recv_timeout(longest);
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
    /// The number of the leader's start.
    start: String,
}

struct Service {
    settings: SharedQuotaSettings,
    keys: KeyStore,
    name: String,
    /// The base URL of this server, or an empty text.
    url: String,
    /// A random number. Two servers with copies of one state directory have different ones.
    start: String,
    /// This server's key file.
    own: StoredKeys,
    /// The base URL of the leader, as found in the store.
    leader_url: Option<String>,
    state: Arc<ArcSwap<SharedKeysState>>,
    outage: OutageLog,
}

impl Service {
    async fn run(&mut self, first_exchange: mpsc::SyncSender<()>) {
        let mut connection = None;
        loop {
            let exchanged = self.exchange(&mut connection).await;
            self.set_state(exchanged.is_ok());
            // The receiver reads only the first message.
            let _ = first_exchange.try_send(());
            if let Err(problem) = exchanged {
                connection = None;
                let line =
                    |problem: &str| format!("shared keys: {problem}; the known keys stay valid");
                self.outage.report(&problem, line);
            } else if self.outage.end() {
                let line = "shared keys: exchanged with the store again";
                self.outage.log.write(line);
            }
            sleep(POLL).await;
        }
    }

    /// Sets the state that pages and metrics show.
    fn set_state(&self, is_up: bool) {
        let known = self.state.load_full();
        let role = self.keys.role();
        self.state.swap(SharedKeysState {
            role: role.unwrap_or_else(|_| known.role.clone()),
            leader_url: self.leader_url.clone(),
            is_up,
            exchanged: if is_up {
                Instant::now()
            } else {
                known.exchanged
            },
        });
    }

    async fn exchange(&mut self, connection: &mut Option<NodeConnection>) -> Result<(), String> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(connect(&self.settings).await?),
        };
        let comparison = self.compare(&mut connection.connection);
        let late = |_| Err(format!("no answer within {} s", EXCHANGE_MAX.as_secs()));
        let exchanged = timeout(EXCHANGE_MAX, comparison).await.unwrap_or_else(late);
        exchanged.map_err(|problem| format!("{}: {problem}", connection.node))
    }

    /// Compares the store with this server's keys, and passes on or takes over what is newer.
    async fn compare(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let stored = self.stored(connection).await?;
        let role = self.keys.role().map_err(|error| error.to_string())?;
        match &role {
            KeyRole::Leads { term } if *term < stored.term && stored.start != self.start => {
                let leader = stored.leader.clone();
                self.replace_role(&role, &KeyRole::Deposed { leader })?;
                self.take_over(connection, &stored).await
            }
            // A higher term: the store has lost its data.
            KeyRole::Leads { term }
                if *term > stored.term || *term == stored.term && stored.start == self.start =>
            {
                let own = self.own_keys()?.revision();
                if *term > stored.term || own > stored.revision {
                    self.publish(connection, *term).await?;
                }
                Ok(())
            }
            // The first exchange since the start, or the answer to its claim was lost.
            KeyRole::Leads { .. } | KeyRole::Waits => {
                self.take_over(connection, &stored).await?;
                self.claim(connection).await
            }
            KeyRole::Follows { leader } | KeyRole::Deposed { leader } => {
                // Without a name, the store has lost its data.
                if *leader != stored.leader && !stored.leader.is_empty() {
                    let leader = stored.leader.clone();
                    let new = match role {
                        KeyRole::Follows { .. } => KeyRole::Follows { leader },
                        _ => KeyRole::Deposed { leader },
                    };
                    self.replace_role(&role, &new)?;
                }
                self.take_over(connection, &stored).await?;
                self.check_leader(&stored)
            }
            // Another process has removed the role: nothing is shared until the next start.
            KeyRole::Alone => Err("the state directory has no role; restart the server".to_owned()),
        }
    }

    async fn stored(&mut self, connection: &mut MultiplexedConnection) -> Result<Stored, String> {
        type Text = Option<String>;
        let mut command = redis::cmd("HMGET");
        command.arg(KEY).arg("term").arg("revision");
        command.arg("leader").arg("url").arg("start");
        let fields = command.query_async(connection).await;
        let (term, revision, leader, url, start): (Option<u32>, Option<u64>, Text, Text, Text) =
            fields.map_err(problem)?;
        // It is shown as a link.
        self.leader_url = url.filter(|url| is_base_url(url));
        Ok(Stored {
            term: term.unwrap_or(0),
            revision: revision.unwrap_or(0),
            // One word: it is stored as such.
            leader: leader.unwrap_or_default().split_whitespace().collect(),
            start: start.unwrap_or_default(),
        })
    }

    /// The keys of this server, read again if they have changed.
    fn own_keys(&mut self) -> Result<&KeyRecords, String> {
        let changed = self.keys.read_changed(&self.own);
        if let Some(changed) = changed.map_err(|error| error.to_string())? {
            self.own = changed;
        }
        Ok(&self.own.records)
    }

    async fn publish(
        &mut self,
        connection: &mut MultiplexedConnection,
        term: u32,
    ) -> Result<(), String> {
        let (name, url, start) = (self.name.clone(), self.url.clone(), self.start.clone());
        let own = self.own_keys()?;
        let mut command = redis::cmd("EVAL");
        command.arg(PUBLISH).arg(1).arg(KEY);
        command.arg(term).arg(own.revision()).arg(name);
        command.arg(url).arg(start).arg(own.to_file());
        // A higher term in the answer is found again by the next comparison.
        let answer: Result<u32, _> = command.query_async(connection).await;
        answer.map(|_| ()).map_err(problem)
    }

    async fn claim(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        // A term above that of the file, which the store may have lost.
        let smallest = self.own_keys()?.term() + 1;
        let mut command = redis::cmd("EVAL");
        command.arg(CLAIM).arg(1).arg(KEY).arg(smallest);
        command.arg(&self.name).arg(&self.url).arg(&self.start);
        let term: u32 = command.query_async(connection).await.map_err(problem)?;
        self.keys.lead(term).map_err(|error| error.to_string())?;
        let role = KeyRole::Leads { term };
        self.outage.log.write(&format!("shared keys: {role}"));
        self.publish(connection, term).await
    }

    async fn take_over(
        &mut self,
        connection: &mut MultiplexedConnection,
        stored: &Stored,
    ) -> Result<(), String> {
        if stored.revision <= self.own_keys()?.revision() {
            return Ok(());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(KEY).arg("file");
        let (file,): (Option<Vec<u8>>,) = command.query_async(connection).await.map_err(problem)?;
        let file = file.ok_or("the store has a revision without a key file")?;
        // The poller of the key file loads it.
        let taken = self.keys.take_over(&file);
        let dropped = taken.map_err(|error| error.to_string())?;
        if !dropped.is_empty() {
            self.outage.log.write(&format!("shared keys: {dropped}"));
        }
        Ok(())
    }

    /// Fails if the leader has begun without keys that this server has: the store and the leader have lost
    /// them.
    fn check_leader(&mut self, stored: &Stored) -> Result<(), String> {
        let own = self.own_keys()?.term();
        if stored.leader.is_empty() || own <= u64::from(stored.term) {
            return Ok(());
        }
        let (leader, term) = (&stored.leader, stored.term);
        Err(format!(
            "the leader, {leader}, is in term {term} and lacks the keys of term {own}, which this server \
             has; restart this server with --shared-keys lead to lead with them"
        ))
    }

    fn replace_role(&self, known: &KeyRole, role: &KeyRole) -> Result<(), String> {
        let replaced = self.keys.replace_role(known, role);
        if replaced.map_err(|error| error.to_string())? {
            self.outage.log.write(&format!("shared keys: {role}"));
        }
        Ok(())
    }
}
