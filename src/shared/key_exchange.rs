//! The exchange of keys with the store that several servers share. Every server issues and changes keys.
//!
//! The store has the record of each key, by its id. A server adds those of its records that the store lacks or has
//! in an older state, and merges those that have changed since its last exchange into its key file. Both
//! directions take the newer state of a key, and no key is removed: whichever copies are lost, or replaced by
//! old ones, what one server or the store knows reaches all of them.
//!
//! A change gets the next number. A server asks for the changes after the last number that it has seen. A
//! random generation is stored beside the records, so that a store that has lost keys is noticed: all servers
//! then compare all their records with it again, as they do with each new connection.
//!
//! The script also keeps the active free keys of each address, so that all servers together issue at most
//! [`FREE_KEYS_MAX`] by sign-up. Without the store, sign-up issues none.

use std::mem;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::key_view::{Answer, KeyView};
use super::node::NodeConnection;
use crate::keys::{
    KeyRecord, KeySharing, KeyStore, KeyStoreError, SharedKeysState, SignupSecret, hex, named_keys,
    parse_hex,
};
use crate::model::FREE_KEYS_MAX;
use crate::observe::{DedupLog, Log};
use crate::sync::{Mutex, lock};

/// Between two exchanges.
const POLL: Duration = Duration::from_millis(250);
/// For adding a key of sign-up.
const ADD_MAX: Duration = Duration::from_secs(3);
/// Time after which a secret is created if the store has none: a server that has one stores it before.
const SECRET_PAUSE: Duration = Duration::from_secs(2);

/// A key to be added, and the way back for `true` if it was.
struct Addition {
    record: KeyRecord,
    expires: Instant,
    result: mpsc::SyncSender<bool>,
}

/// Shares the keys of a state directory.
pub(crate) struct KeyExchange {
    keys: KeyStore,
    reload: Arc<dyn Fn() + Send + Sync>,
    state: Arc<Mutex<SharedKeysState>>,
    additions: UnboundedReceiver<Addition>,
    /// Dropped when the start of the server may continue: a server without keys would refuse valid ones.
    pub(super) started: Option<mpsc::Sender<()>>,
    /// Problems of an outage, of which each is logged once.
    problems: DedupLog,
    repairs: DedupLog,
    view: KeyView,
    has_signup: bool,
    /// Time since which neither this server nor the store has a secret, as far as is known.
    without_secret_since: Option<Instant>,
}

impl KeyExchange {
    /// Returns also what sign-up needs. `reload` is called when the keys have changed. `secret` is that of the state
    /// directory; only a server with sign-up needs one.
    pub(crate) fn new(
        keys: KeyStore,
        (has_signup, secret): (bool, Option<SignupSecret>),
        reload: impl Fn() + Send + Sync + 'static,
        log: Log,
    ) -> (KeyExchange, KeySharing) {
        let state = Arc::new(Mutex::new(SharedKeysState {
            is_up: false,
            has_exchanged: false,
            exchanged: Instant::now(),
            secret,
        }));
        let (sender, additions) = unbounded_channel();
        let exchange = KeyExchange {
            keys,
            reload: Arc::new(reload),
            state: Arc::clone(&state),
            additions,
            started: None,
            repairs: DedupLog::new(log.clone()),
            problems: DedupLog::new(log),
            view: KeyView::default(),
            has_signup,
            without_secret_since: None,
        };
        let shared = Arc::clone(&state);
        let add = move |record: &KeyRecord| {
            // During an outage no request waits.
            if !lock(&state).is_up {
                return None;
            }
            let (result, added) = mpsc::sync_channel(1);
            let addition = Addition {
                record: record.clone(),
                expires: Instant::now() + ADD_MAX,
                result,
            };
            sender.send(addition).ok()?;
            added.recv_timeout(ADD_MAX).ok()
        };
        let add = Arc::new(add);
        (exchange, KeySharing { state: shared, add })
    }

    /// Exchanges keys until the connection ends.
    pub(super) async fn serve(&mut self, node: &NodeConnection) -> ! {
        // The store may have lost keys since the last connection.
        self.view = KeyView::default();
        loop {
            let exchanged = self.exchange(node).await;
            self.report(exchanged);
            tokio::select! {
                () = sleep(POLL) => {}
                Some(addition) = self.additions.recv() => {
                    if let Err(problem) = self.answer(node, addition).await {
                        self.report(Err(problem));
                    }
                }
            }
        }
    }

    /// Logs an outage and its end, and sets the state that pages and metrics show. The first problem is not logged: the
    /// attempt after it shows the cause.
    pub(super) fn report(&mut self, exchanged: Result<(), String>) {
        self.started = None;
        let mut state = lock(&self.state);
        let was_up = mem::replace(&mut state.is_up, exchanged.is_ok());
        if let Err(problem) = exchanged {
            self.view = KeyView::default();
            if !was_up {
                let line = format!("shared keys: {problem}; the known keys stay valid");
                self.problems.write(line);
            }
            return;
        }
        (state.has_exchanged, state.exchanged) = (true, Instant::now());
        if self.problems.reset() {
            let line = "shared keys: exchanged with the store again";
            self.problems.log.write(line);
        }
    }

    /// Exchanges with the store what this server or the store lacks.
    async fn exchange(&mut self, node: &NodeConnection) -> Result<(), String> {
        let mut received = Vec::new();
        loop {
            let mut view = mem::take(&mut self.view);
            // On another thread: a comparison of many keys would delay answers to requests.
            let compared = self.with_keys(move |keys| {
                let lines = view.next_lines(keys.current()?);
                Ok((view, lines))
            });
            let (view, lines) = compared.await?;
            self.view = view;
            let answer = self.call(node, "", &lines).await?;
            received.extend(self.view.take(answer));
            if !self.view.is_incomplete() {
                break;
            }
        }
        if !received.is_empty() {
            self.merge(received).await?;
        }
        Ok(())
    }

    /// Calls the script with lines that it adds; at most one, and the limit of active keys, if that is given.
    async fn call(
        &mut self,
        node: &NodeConnection,
        free_max: &str,
        lines: &[String],
    ) -> Result<Answer, String> {
        let now = Instant::now();
        let since = self.without_secret_since.get_or_insert(now);
        let is_due = self.has_signup && now.duration_since(*since) >= SECRET_PAUSE;
        let known = lock(&self.state).secret;
        let secret = known.or_else(|| is_due.then(SignupSecret::random));
        let offered = secret.map(|secret| hex(&secret.0)).unwrap_or_default();
        let called = self.view.call(node, &offered, free_max, lines);
        let (answer, secret) = called.await?;
        if !["", &*answer.generation].contains(&&*self.view.generation) {
            return Err("the store has lost keys".to_owned());
        }
        if let Some(secret) = parse_hex(&secret).map(SignupSecret)
            && self.has_signup
            && known != Some(secret)
        {
            let store = move |keys: &KeyStore| secret.store(keys.directory());
            self.with_keys(move |keys| store(keys).map_err(KeyStoreError::Io))
                .await?;
            lock(&self.state).secret = Some(secret);
        }
        Ok(answer)
    }

    /// Merges the received records into the key file.
    async fn merge(&mut self, received: Vec<KeyRecord>) -> Result<(), String> {
        let reload = Arc::clone(&self.reload);
        let merged = self.with_keys(move |keys| {
            let others = keys.merge(&received)?;
            reload();
            Ok(others)
        });
        let others = merged.await?;
        if !others.is_empty() {
            self.view.repair(others.iter().copied());
            self.repairs.write(format!(
                "shared keys: the store had another key in place of {}, which this server stores again",
                named_keys(&others)
            ));
        }
        Ok(())
    }

    /// Adds a key of sign-up to the store, and answers whether it was added.
    async fn answer(&mut self, node: &NodeConnection, addition: Addition) -> Result<(), String> {
        // The store must know the keys that count.
        self.exchange(node).await?;
        if Instant::now() < addition.expires {
            let (limit, line) = (FREE_KEYS_MAX.to_string(), addition.record.to_shared_line());
            let answer = self.call(node, &limit, &[line]).await?;
            // The receiver may have stopped waiting. If the store has lost keys, it gets no answer. The next exchange
            // receives the record again, with all other changes.
            let _ = addition.result.try_send(!answer.is_refused);
        }
        Ok(())
    }

    /// Works with the key file on another thread, since it may have to wait for a lock and the disk.
    async fn with_keys<T: Send + 'static>(
        &self,
        work: impl FnOnce(&KeyStore) -> Result<T, KeyStoreError> + Send + 'static,
    ) -> Result<T, String> {
        let keys = self.keys.clone();
        let done = spawn_blocking(move || work(&keys)).await;
        let done = done.map_err(|_| "the thread that writes keys has ended".to_owned())?;
        done.map_err(|error| error.to_string())
    }
}
