//! [`ServerState`]: what the threads of a running server share.

use std::sync::Arc;
use std::time::Duration;

use crate::keys::KeySharing;
use crate::observe::{LocalCounter, Log, LogBuffer, RateLimitedLog, WorkerMetrics, open_log};
#[cfg(feature = "tls")]
use crate::server::conn::handshake::TlsAcceptor;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::http::response::RequestIds;
use crate::server::http::worker_cache::ServedSnapshot;
#[cfg(feature = "tls")]
use crate::server::ops::certificate_reload;
use crate::server::ops::publish_reload;
use crate::server::ops::quota_poller;
use crate::server::ops::quota_state::QuotaState;
use crate::server::ops::reload::StateMetrics;
use crate::server::settings::{Settings, StartError};
use crate::server::web::rate_limiter::PageRateLimiter;
use crate::server::web::request_context::Services;
use crate::server::web::signup_handler::SignupHandler;
use crate::server::worker::Worker;
#[cfg(feature = "shared-quota")]
use crate::shared::{DayCounts, OwnKeys, SharedQuota};
#[cfg(feature = "shared-quota")]
use crate::signup::read_secret;
use crate::snapshot::Snapshot;
#[cfg(feature = "shared-quota")]
use crate::sync::{Mutex, lock};
use crate::sync::{PollTrigger, Replicated};

pub(crate) struct ServerState {
    pub(crate) log: Log,
    pub(crate) access_log: Option<Log>,
    pub(crate) snapshot: Arc<Replicated<Snapshot>>,
    pub(crate) quota: QuotaState,
    pub(crate) pollers: Vec<PollTrigger>,
    pub(crate) metrics: StateMetrics,
    pub(crate) workers: Vec<Arc<Worker>>,
    /// The exchange of keys, if several servers share them.
    pub(crate) shared_keys: Option<KeySharing>,
    /// Taken when the server stops.
    #[cfg(feature = "shared-quota")]
    pub(crate) shared_quota: Mutex<Option<SharedQuota>>,
}

impl ServerState {
    /// Opens everything that `settings` name, and creates the workers.
    pub(crate) fn open(
        settings: &Settings,
        base_url: &str,
        log: &Log,
    ) -> Result<ServerState, StartError> {
        let access_log = settings.access_log.as_deref().map(|path| {
            let failed = |error| {
                let path = path.display();
                StartError::Io(format!("cannot write the access log {path}: {error}"))
            };
            open_log(path, log).map_err(failed)
        });
        let access_log = access_log.transpose()?;
        let (metrics, mut pollers) = (StateMetrics::default(), Vec::new());
        let quota = quota_poller::start(settings, &metrics, &mut pollers, log)?;
        let snapshot = publish_reload::start(settings, base_url, &metrics, &mut pollers, log)?;
        #[cfg(feature = "tls")]
        let certificate = certificate_reload::start(settings, &metrics, &mut pollers, log)?;
        let page_limiter = Arc::new(PageRateLimiter::new());
        let complaints = Arc::new(RateLimitedLog::new(log.clone()));
        let downloads = Arc::new(settings.download_limiter());
        #[cfg(feature = "shared-quota")]
        let (shared_quota, shared_keys) = shared_quota(settings, &quota, &pollers[0], log)?;
        #[cfg(feature = "shared-quota")]
        let leases = shared_quota.as_ref().map(|shared| &shared.leases);
        #[cfg(not(feature = "shared-quota"))]
        let (leases, shared_keys) = (None, None::<KeySharing>);
        pollers.extend(shared_keys.iter().map(|keys| keys.exchange.clone()));
        let keys = (&quota.key_store, &pollers[0]);
        let signup = SignupHandler::start(settings, base_url, keys, shared_keys.clone(), log)?;
        let new_worker = |_| {
            Arc::new(Worker {
                served: ServedSnapshot::replica(&snapshot, settings.worker_cache_bytes()),
                services: Services {
                    gate: quota.gate(settings, leases),
                    page_limiter: Arc::clone(&page_limiter),
                    signup: signup.clone(),
                    complaints: Arc::clone(&complaints),
                    ids: RequestIds::default(),
                    downloads: Arc::clone(&downloads),
                },
                clock: Arc::clone(&quota.clock),
                registry: Arc::new(ConnectionRegistry::new(
                    settings.connections,
                    access_log.as_ref().map(LogBuffer::new),
                )),
                #[cfg(feature = "tls")]
                tls: certificate.as_ref().map(|certificate| {
                    TlsAcceptor::new(certificate.replica(), settings.handshakes_per_worker())
                }),
            })
        };
        Ok(ServerState {
            workers: (0..settings.workers).map(new_worker).collect(),
            shared_keys,
            log: log.clone(),
            access_log,
            snapshot,
            quota,
            pollers,
            metrics,
            #[cfg(feature = "shared-quota")]
            shared_quota: Mutex::new(shared_quota),
        })
    }

    /// Returns the sum of a counter over all workers.
    pub(crate) fn sum(&self, counter: impl Fn(&WorkerMetrics) -> &LocalCounter) -> u64 {
        let workers = self.workers.iter();
        workers
            .map(|worker| counter(&worker.registry.metrics).get())
            .sum()
    }

    pub(crate) fn status(&self) -> String {
        let snapshot = self.snapshot.current();
        match snapshot.published {
            None => "nothing is published".to_owned(),
            Some(published) => {
                let [(_, islands), ..] = snapshot.counts();
                format!("serving {islands} islands, published {published}")
            }
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.registry.size())
            .sum()
    }

    /// Returns the sources of the threads that must not end and have ended, as in metrics and log lines.
    pub(crate) fn ended_threads(&self) -> Vec<&'static str> {
        #[cfg(not(feature = "shared-quota"))]
        let shared = None;
        #[cfg(feature = "shared-quota")]
        let shared = lock(&self.shared_quota)
            .as_ref()
            .filter(|shared| shared.has_ended())
            .map(|_| "shared-quota");
        ended_pollers(&self.pollers).chain(shared).collect()
    }

    /// Returns why the process should be restarted, if it should: a worker has had no heartbeat for longer
    /// than `silence_max`, or another thread has ended.
    pub(crate) fn fault(&self, silence_max: Duration) -> Option<String> {
        let workers = self.workers.iter();
        let ages = workers.map(|worker| worker.registry.silent_for());
        fault(ages, &self.ended_threads(), silence_max)
    }
}

fn ended_pollers(pollers: &[PollTrigger]) -> impl Iterator<Item = &'static str> {
    let ended = pollers.iter().filter(|poller| poller.has_ended());
    ended.map(|poller| poller.source)
}

fn fault(
    ages: impl Iterator<Item = Duration>,
    ended: &[&str],
    silence_max: Duration,
) -> Option<String> {
    if let Some((number, age)) = ages.enumerate().find(|(_, age)| *age > silence_max) {
        let seconds = age.as_secs();
        return Some(format!(
            "worker {number} had no heartbeat for {seconds} seconds"
        ));
    }
    ended.first().map(|source| ended_thread(source))
}

/// Returns the message of a thread that has ended.
pub(crate) fn ended_thread(source: &str) -> String {
    format!("the thread of {source} has ended because of a fault of this program")
}

/// Connects to the store of shared limits, if there is one. Returns what sign-up needs if keys are shared too.
#[cfg(feature = "shared-quota")]
fn shared_quota(
    settings: &Settings,
    quota: &QuotaState,
    keys_poller: &PollTrigger,
    log: &Log,
) -> Result<(Option<SharedQuota>, Option<KeySharing>), StartError> {
    let Some(shared) = &settings.shared_quota else {
        return Ok((None, None));
    };
    let keys = match &quota.key_store {
        Some(store) if shared.has_keys => {
            let has_signup = settings.signup.is_some();
            let secret = has_signup.then(|| read_secret(store.directory()));
            let secret = secret.transpose().map_err(StartError::SignUp)?;
            Some(OwnKeys {
                store: store.clone(),
                loader: keys_poller.clone(),
                has_signup,
                secret: secret.flatten(),
            })
        }
        _ => None,
    };
    let counts = DayCounts {
        anonymous: Arc::clone(&quota.anonymous),
        keyed: Arc::clone(&quota.keyed),
    };
    let clock = Arc::clone(&quota.clock);
    let started = SharedQuota::start(shared.clone(), counts, clock, log.clone(), keys)?;
    Ok((Some(started.0), started.1))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_silent_worker_and_a_polling_thread_that_has_ended_are_faults() {
        let ages = || [0, 4, 6, 5].map(Duration::from_secs).into_iter();
        let found = |seconds, pollers: &[PollTrigger]| {
            let ended: Vec<&str> = ended_pollers(pollers).collect();
            fault(ages(), &ended, Duration::from_secs(seconds))
        };
        let keys = PollTrigger::start("keys", |_| {}).unwrap();
        let data = PollTrigger::start("data", |_| panic!("a poll that fails")).unwrap();
        while !data.has_ended() {
            thread::yield_now();
        }
        let silent = "worker 2 had no heartbeat for 6 seconds";
        assert_eq!(found(5, &[]).as_deref(), Some(silent));
        assert_eq!(found(6, std::slice::from_ref(&keys)), None);
        let ended = found(6, &[keys, data]).unwrap();
        assert!(ended.starts_with("the thread of data has ended"), "{ended}");
    }
}
