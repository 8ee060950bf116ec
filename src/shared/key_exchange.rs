//! The exchange of keys with the store that several servers share. Every server issues and changes keys.
//!
//! The store has the record of each key, by its id. A server adds those of its records that the store lacks or has
//! in an older state, and merges those that have changed since its last exchange in memory. The loader of keys
//! writes them to the key file. Both directions take the newer state of a key, and no key is removed: whichever copies are lost, or
//! replaced by old ones, what one server or the store knows reaches all of them. The script stores records only of a server that
//! has received all changes, so sign-up can check its limits by the records of all servers. Otherwise the server
//! receives the changes first, and compares its records again. Without the store, sign-up issues no key.
//!
//! A change gets the next number. A server asks for the changes after the last number that it has seen. A
//! random generation is stored beside the records, so that a store that may have lost keys is noticed: all servers
//! then compare all their records with it again, as they do with each new connection.
//!
//! A thread polls the store, with a connection of its own: the key file and the comparison of many keys take time, for
//! which no request for credits may wait.

use std::io;
use std::mem;
use std::slice;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::key_view::{Answer, KeyView};
use super::node::{NodeConnection, connect};
use super::outage_log::{OutageLog, PROBLEMS_MAX};
use super::settings::SharedQuotaSettings;
use crate::keys::{
    CheckRecords, KeyRecord, KeySharing, KeyStore, SharedKeysState, SignupSecret, hex, parse_hex,
};
use crate::observe::{DedupLog, Log};
use crate::sync::{Mutex, PollTrigger, lock};

/// Longest wait until changed keys of other servers are loaded. After it, they are valid a moment later.
const LOADED_MAX: Duration = Duration::from_secs(2);
/// Time after which no new attempt to add a key begins.
const ADD_MAX: Duration = Duration::from_secs(3);
/// Time in which other servers put into a new store what they have: their keys, and the secret of sign-up.
const OTHERS_PAUSE: Duration = Duration::from_secs(2);

/// A write that a full node accepts, as it accepts the script of keys.
const KEY_PROBE: [&str; 3] = ["HDEL", "imq:probe", "run"];

/// The keys of a state directory.
pub(crate) struct OwnKeys {
    pub(crate) store: KeyStore,
    /// The thread that loads keys which have changed.
    pub(crate) loader: PollTrigger,
    /// Only a server with sign-up needs the secret.
    pub(crate) has_signup: bool,
    /// The secret of the state directory.
    pub(crate) secret: Option<SignupSecret>,
}

/// Shares the keys of a state directory.
pub(super) struct KeyExchange {
    own: OwnKeys,
    settings: SharedQuotaSettings,
    runtime: Runtime,
    /// A connection, and what is known of the store since it began: the store may have lost keys before.
    connected: Option<(Arc<NodeConnection>, KeyView)>,
    state: Arc<Mutex<SharedKeysState>>,
    /// Dropped when the start of the server may continue: a server without keys would refuse valid ones.
    started: Option<mpsc::Sender<()>>,
    outage: OutageLog,
    repairs: DedupLog,
    /// The first exchange that succeeded.
    first_exchange: Option<Instant>,
}

impl KeyExchange {
    /// Starts the thread, which ends when all clones of the returned value are dropped.
    pub(super) fn start(
        own: OwnKeys,
        settings: SharedQuotaSettings,
        started: mpsc::Sender<()>,
        log: Log,
    ) -> io::Result<KeySharing> {
        let state = Arc::new(Mutex::new(SharedKeysState {
            is_up: false,
            has_exchanged: false,
            exchanged: Instant::now(),
            secret: own.secret,
        }));
        let exchange = KeyExchange {
            own,
            settings,
            runtime: Builder::new_current_thread().enable_all().build()?,
            connected: None,
            state: Arc::clone(&state),
            started: Some(started),
            repairs: DedupLog::new(log.clone(), PROBLEMS_MAX),
            outage: OutageLog::new(
                log,
                ("shared keys: ", "; the known keys stay valid".to_owned()),
            ),
            first_exchange: None,
        };
        let exchange = Arc::new(Mutex::new(exchange));
        // A weak reference: a runtime must not be dropped on a thread of another runtime.
        let (adding, state_of_adding) = (Arc::downgrade(&exchange), Arc::clone(&state));
        let poll = move |_| {
            let mut exchange = lock(&exchange);
            let exchanged = exchange.exchange();
            exchange.report(exchanged);
        };
        let add = move |record: &KeyRecord, check: CheckRecords<'_>| {
            let latest = Instant::now() + ADD_MAX;
            // During an outage no request waits. Limits cannot be checked before the keys are known.
            let state = *lock(&state_of_adding);
            let may_add = state.is_up && state.has_exchanged;
            let Some(exchange) = adding.upgrade().filter(|_| may_add) else {
                return false;
            };
            let mut exchange = lock(&exchange);
            // An outage may have begun meanwhile.
            let Some(connected) = exchange.connected.take() else {
                return false;
            };
            let added = exchange.add(connected, record, check, latest);
            let added = added.or_else(|problem| {
                // The store has the key if only its answer was lost. A client that waits longer may have gone.
                if Instant::now() >= latest || exchange.exchange().is_err() {
                    return Err(problem);
                }
                Ok(exchange.own.store.known().as_slice().contains(record))
            });
            exchange.report(added) == Some(true)
        };
        Ok(KeySharing {
            state,
            add: Arc::new(add),
            exchange: PollTrigger::start("shared-keys", poll)?,
        })
    }

    /// Logs an outage and its end, and sets the state that pages and metrics show.
    fn report<T>(&mut self, exchanged: Result<T, String>) -> Option<T> {
        self.started = None;
        // First, since it may wait for a key file to be read.
        let has_keys = !self.own.store.known().as_slice().is_empty();
        let mut state = lock(&self.state);
        state.is_up = exchanged.is_ok();
        let failed = |problem: String| self.outage.down(&problem);
        let exchanged = exchanged.map_err(failed).ok()?;
        state.exchanged = Instant::now();
        let first = *self.first_exchange.get_or_insert(state.exchanged);
        state.has_exchanged |= has_keys || first.elapsed() >= OTHERS_PAUSE;
        if let Some(again) = self.outage.up().filter(|again| !again.is_empty()) {
            let line = format!("shared keys: exchanged with the store{again}");
            self.outage.problems.log.write(&line);
        }
        Some(exchanged)
    }

    /// Exchanges with the store what this server or the store lacks.
    fn exchange(&mut self) -> Result<(), String> {
        // If a call fails, the connection is closed, and the store sends all its records again.
        let (node, mut view) = if let Some(connected) = self.connected.take() {
            connected
        } else {
            let node = self.runtime.block_on(connect(&self.settings, &KEY_PROBE))?;
            (node, KeyView::default())
        };
        let mut received = Vec::new();
        let secret = loop {
            // The loader reports a file that cannot be read. A revocation must arrive all the same.
            let own = self.own.store.current();
            let lines = view.next_lines(own.unwrap_or_else(|_| self.own.store.known()));
            let mut answer = self.call(&node, &view, &lines)?;
            let secret = mem::take(&mut answer.secret);
            received.extend(view.take(answer));
            if !view.is_incomplete() {
                break secret;
            }
        };
        self.merge(&mut view, &received);
        self.connected = Some((node, view));
        // The loader also writes them to the key file, and reports a full disk, which is no fault of the store.
        if !received.is_empty() {
            let _ = self.own.loader.poll_now().recv_timeout(LOADED_MAX);
        }
        if let Some(secret) = parse_hex(&secret).map(SignupSecret)
            && self.own.has_signup
            && lock(&self.state).secret != Some(secret)
        {
            let stored = secret.store(self.own.store.directory());
            stored.map_err(|error| error.to_string())?;
            lock(&self.state).secret = Some(secret);
        }
        Ok(())
    }

    /// Adds a key of sign-up to the store if `check` accepts the records of all servers. If others change them
    /// meanwhile, they are checked again, until a time. Returns `true` if the key was added: all servers accept a key
    /// that the store has. Sign-up has the loader load it, and write it to the key file.
    fn add(
        &mut self,
        (node, mut view): (Arc<NodeConnection>, KeyView),
        key: &KeyRecord,
        check: CheckRecords<'_>,
        latest: Instant,
    ) -> Result<bool, String> {
        let line = (key.id.to_string(), key.to_shared_line());
        let mut is_added = false;
        // A client that waits longer may have gone.
        while !is_added && Instant::now() < latest && check(&self.own.store.known()) {
            let answer = self.call(&node, &view, slice::from_ref(&line))?;
            is_added = answer.is_stored;
            // The added key, or what others have changed before.
            let received = view.take(answer);
            self.merge(&mut view, &received);
        }
        self.connected = Some((node, view));
        Ok(is_added)
    }

    /// Calls the script with ids and lines to be stored.
    fn call(
        &self,
        node: &NodeConnection,
        view: &KeyView,
        lines: &[(String, String)],
    ) -> Result<Answer, String> {
        let first = self.first_exchange.filter(|_| self.own.has_signup);
        let is_due = first.is_some_and(|first| first.elapsed() >= OTHERS_PAUSE);
        let known = lock(&self.state).secret;
        let secret = known.or_else(|| is_due.then(SignupSecret::random));
        let offered = secret.map(|secret| hex(&secret.0)).unwrap_or_default();
        let called = view.call(node, &offered, lines);
        self.runtime.block_on(called)
    }

    /// Merges received records into the known ones. Where the store has another key in place of an own one, the own one
    /// is sent again.
    fn merge(&mut self, view: &mut KeyView, received: &[KeyRecord]) {
        if received.is_empty() {
            return;
        }
        let merged = self.own.store.merge(received);
        // There is no room for the rest the next time either.
        let ignored = merged.unwrap_or_else(|error| {
            let line = format!("shared keys: the store has keys that are refused here: {error}");
            self.repairs.write(line);
            Vec::new()
        });
        if let Some(id) = ignored.first() {
            let count = ignored.len();
            self.repairs.write(format!(
                "shared keys: the store had another key in place of {id}, which this server stores again ({count} in all)"
            ));
        }
        view.repair(ignored);
    }
}
