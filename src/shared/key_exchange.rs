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

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{mpsc as channel, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::key_script::Call;
use super::key_view::{Answer, KeyView};
use super::node::{NodeConnection, connect, problem};
use super::outage_log::OutageLog;
use super::settings::SharedQuotaSettings;
use crate::keys::{
    KeyRecord, KeySharing, KeyStore, KeyStoreError, SharedKeysState, SignupSecret, named_keys,
};
use crate::model::FREE_KEYS_MAX;
use crate::observe::Log;
use crate::sync::Replicated;

/// Between two exchanges.
const POLL: Duration = Duration::from_millis(250);
/// For one call, which transfers at most a few hundred records.
const CALL_MAX: Duration = Duration::from_secs(1);
/// For adding a key of sign-up.
const ADD_MAX: Duration = Duration::from_secs(3);
/// Records that are merged at once: the key file is written each time.
const MERGED_MAX: usize = 1 << 15;
/// Losses in one exchange after which it is given up.
const LOSSES_MAX: u32 = 3;
/// Time after which a secret is created if the store has none: a server that has one stores it before.
const SECRET_PAUSE: Duration = Duration::from_secs(2);

/// A key to be added, and what the store says: whether it was.
struct Addition {
    record: KeyRecord,
    expires: Instant,
    result: mpsc::SyncSender<Option<bool>>,
}

/// The thread that shares the keys of a state directory.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    /// The result of the last exchange with the store.
    pub(super) state: Arc<Replicated<SharedKeysState>>,
    additions: channel::UnboundedSender<Addition>,
    first_exchange: mpsc::Receiver<()>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedKeys {
    /// Starts the thread. `reload` is called when the keys have changed. `secret` is that of the state
    /// directory; only a server with sign-up needs one.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
        keys: KeyStore,
        (has_signup, secret): (bool, Option<SignupSecret>),
        reload: impl Fn() + Send + Sync + 'static,
        log: Log,
    ) -> io::Result<SharedKeys> {
        let state = Arc::new(Replicated::new(SharedKeysState {
            is_up: false,
            has_exchanged: false,
            exchanged: Instant::now(),
            secret,
        }));
        let (stop, mut stopped) = oneshot::channel();
        let (additions, received) = channel::unbounded_channel();
        let (exchanged, first_exchange) = mpsc::sync_channel(1);
        let mut service = Service {
            settings,
            keys,
            reload: Arc::new(reload),
            state: Arc::clone(&state),
            outage: OutageLog::new(log),
            connection: None,
            view: KeyView::default(),
            secret,
            has_signup,
            without_secret_since: None,
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-keys".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = service.run(received, exchanged) => {}
                    _ = &mut stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(SharedKeys {
            state,
            additions,
            first_exchange,
            stop,
            thread,
        })
    }

    /// Returns what sign-up needs.
    pub(crate) fn sharing(&self) -> KeySharing {
        let (state, additions) = (Arc::clone(&self.state), self.additions.clone());
        let add = move |record: &KeyRecord| {
            let (result, added) = mpsc::sync_channel(1);
            let addition = Addition {
                record: record.clone(),
                expires: Instant::now() + ADD_MAX,
                result,
            };
            additions.send(addition).ok()?;
            added.recv_timeout(ADD_MAX).ok()?
        };
        KeySharing {
            state: Arc::clone(&state),
            // During an outage no request waits.
            add: Arc::new(move |record| state.current().is_up.then(|| add(record))?),
        }
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

struct Service {
    settings: SharedQuotaSettings,
    keys: KeyStore,
    reload: Arc<dyn Fn() + Send + Sync>,
    state: Arc<Replicated<SharedKeysState>>,
    outage: OutageLog,
    connection: Option<NodeConnection>,
    view: KeyView,
    secret: Option<SignupSecret>,
    has_signup: bool,
    /// Time since which neither this server nor the store has a secret, as far as is known.
    without_secret_since: Option<Instant>,
}

impl Service {
    async fn run(
        &mut self,
        mut additions: channel::UnboundedReceiver<Addition>,
        first_exchange: mpsc::SyncSender<()>,
    ) {
        loop {
            let exchanged = self.exchange().await;
            self.report(exchanged);
            // The receiver reads only the first message.
            let _ = first_exchange.try_send(());
            tokio::select! {
                () = sleep(POLL) => {}
                Some(addition) = additions.recv() => self.answer(addition).await,
            }
        }
    }

    /// Logs an outage and its end, and sets the state that pages and metrics show. A failure ends the
    /// connection.
    fn report(&mut self, exchanged: Result<(), String>) {
        let known = self.state.current();
        let mut state = SharedKeysState {
            is_up: exchanged.is_ok(),
            secret: self.secret,
            ..SharedKeysState::clone(&known)
        };
        if let Err(problem) = exchanged {
            let node = self.connection.take().map(|it| format!("{}: ", it.node));
            self.view.forget();
            let problem = node.unwrap_or_default() + &problem;
            let line = |problem: &str| format!("shared keys: {problem}; the known keys stay valid");
            self.outage.report(&problem, line);
        } else {
            (state.has_exchanged, state.exchanged) = (true, Instant::now());
            if self.outage.end() {
                let line = "shared keys: exchanged with the store again";
                self.outage.log.write(line);
            }
        }
        self.state.replace(state);
    }

    /// Exchanges with the store what this server or the store lacks.
    async fn exchange(&mut self) -> Result<(), String> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.settings).await?);
        }
        let own = self.with_keys(KeyStore::current).await?;
        self.view.set_own(own);
        let (mut losses, mut lines) = (0, self.view.next_call().unwrap_or_default());
        loop {
            let answer = self.call("", &lines).await?;
            losses += u32::from(!self.view.take(answer));
            if losses > LOSSES_MAX {
                return Err("the store has lost the keys again and again".to_owned());
            }
            if self.view.received.len() >= MERGED_MAX {
                self.merge().await?;
            }
            match self.view.next_call() {
                Some(next) => lines = next,
                None => break,
            }
        }
        self.merge().await
    }

    /// Calls the script with lines that it adds; at most one, and the limit of active keys, if that is given.
    async fn call(&mut self, free_max: &str, lines: &[String]) -> Result<Answer, String> {
        let connection = self.connection.as_mut().ok_or("no connection")?;
        let now = Instant::now();
        let since = self.without_secret_since.get_or_insert(now);
        let is_due = self.has_signup && now.duration_since(*since) >= SECRET_PAUSE;
        let secret = self.secret.or_else(|| is_due.then(SignupSecret::random));
        let hex = |secret: SignupSecret| secret.0.map(|byte| format!("{byte:02x}")).concat();
        let call = Call {
            view: &self.view,
            secret: &secret.map(hex).unwrap_or_default(),
            free_max,
            lines,
        };
        let late = |_| format!("no answer within {} s", CALL_MAX.as_secs());
        let called = timeout(CALL_MAX, call.send(&mut connection.connection)).await;
        let (answer, secret) = called.map_err(late)?.map_err(problem)?;
        self.take_secret(&secret).await?;
        Ok(answer)
    }

    /// Stores the secret of all servers.
    async fn take_secret(&mut self, hex: &str) -> Result<(), String> {
        let byte = |at: usize| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..SignupSecret::BYTES).map(byte).collect();
        let secret = bytes.and_then(|bytes| Some(SignupSecret(bytes.try_into().ok()?)));
        if let Some(secret) =
            secret.filter(|secret| self.has_signup && Some(*secret) != self.secret)
        {
            let store = move |keys: &KeyStore| secret.store(keys.directory());
            self.with_keys(move |keys| store(keys).map_err(KeyStoreError::Io))
                .await?;
            self.secret = Some(secret);
        }
        Ok(())
    }

    /// Merges the received records into the key file.
    async fn merge(&mut self) -> Result<(), String> {
        if self.view.received.is_empty() {
            return Ok(());
        }
        let (received, reload) = (self.view.received.clone(), Arc::clone(&self.reload));
        let merged = self.with_keys(move |keys| {
            let (is_changed, others) = keys.merge(&received)?;
            if is_changed {
                reload();
            }
            Ok(others)
        });
        let others = merged.await?;
        self.view.received.clear();
        let repaired = self.view.repair(others, Instant::now());
        if !repaired.is_empty() {
            let line = format!(
                "shared keys: the store had another key in place of {}, which this server stores again",
                named_keys(&repaired)
            );
            self.outage.log.write(&line);
        }
        Ok(())
    }

    /// Adds a key of sign-up to the store, and answers whether it was added.
    async fn answer(&mut self, addition: Addition) {
        let is_late = || Instant::now() >= addition.expires;
        let mut result = None;
        // Again if the store has lost keys meanwhile.
        for _ in 0..2 {
            if is_late() || result.is_some() {
                break;
            }
            let added = self.add(&addition.record).await;
            match added {
                Ok(added) => result = added,
                Err(problem) => return self.report(Err(problem)),
            }
        }
        // The receiver may have stopped waiting.
        let _ = addition.result.try_send(result);
    }

    /// Adds a key; `None` if the store has lost keys.
    async fn add(&mut self, record: &KeyRecord) -> Result<Option<bool>, String> {
        if !self.view.is_complete() {
            self.exchange().await?;
        }
        let limit = FREE_KEYS_MAX.to_string();
        let answer = self.call(&limit, &[record.to_shared_line()]).await?;
        let is_refused = answer.is_refused;
        Ok(self.view.take(answer).then_some(!is_refused))
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
