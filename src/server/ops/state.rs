//! [`ServerState`]: what the threads of a running server share.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "shared-quota")]
use crate::keys::{KeyRole, KeyStore};
use crate::observe::{AccessLog, LocalCounter, Log, RateLimitedLog, WorkerMetrics};
use crate::request::Endpoint;
#[cfg(feature = "tls")]
use crate::server::conn::handshake::TlsAcceptor;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::http::response::RequestIds;
use crate::server::http::worker_cache::WorkerCache;
#[cfg(feature = "tls")]
use crate::server::ops::certificate_reload;
use crate::server::ops::publish_reload::PublishReloader;
use crate::server::ops::quota_state::{self, QuotaState};
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::server::web::pages::Pages;
use crate::server::web::request_context::Worker;
use crate::server::web::signup_handler::SignupHandler;
#[cfg(feature = "shared-quota")]
use crate::shared::{SharedKeys, SharedQuota};
use crate::site::SiteSettings;
use crate::snapshot::{Snapshot, join};
#[cfg(feature = "shared-quota")]
use crate::sync::Mutex;
use crate::sync::{ArcSwap, ArcSwapCache, PollTrigger};

/// Longest wait of a start until the shared keys are loaded.
#[cfg(feature = "shared-quota")]
const KEYS_LOADED_MAX: Duration = Duration::from_secs(2);

/// The state of a running server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) log: Log,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) quota: QuotaState,
    pub(crate) pollers: Vec<PollTrigger>,
    pub(crate) metrics: StateMetrics,
    pub(crate) workers: Vec<Arc<Worker>>,
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
        let access_log = open_access_log(settings, log)?;
        let service = settings.service(base_url);
        let metrics = StateMetrics::default();
        // In parallel, since each reads large files.
        let (quota, data) = join(
            || quota_state::start(settings, &metrics, log),
            || open_data(settings, &service, &metrics, log),
        );
        let ((quota, key_poller), (snapshot, data_poller)) = (quota?, data?);
        let mut pollers = vec![key_poller];
        pollers.extend(data_poller);
        #[cfg(feature = "tls")]
        let certificate = certificate_reload::start(settings, &metrics, &mut pollers, log)?;
        let signup = SignupHandler::start(settings, base_url, &pollers[0], log)?;
        let pages = Pages::new(service);
        let complaints = Arc::new(RateLimitedLog::new(log.clone()));
        let downloads = Arc::new(settings.download_limiter());
        #[cfg(feature = "shared-quota")]
        let shared_quota = shared_quota(settings, &quota, &pollers[0], log)?;
        #[cfg(feature = "shared-quota")]
        let (leases, shared_keys) = shared_quota.as_ref().map(SharedQuota::shared).unzip();
        #[cfg(not(feature = "shared-quota"))]
        let (leases, shared_keys) = (None, None::<Option<_>>);
        let new_worker = |_| {
            let cache = RefCell::new(WorkerCache::new(settings.worker_cache_bytes()));
            Arc::new(Worker {
                snapshot: ArcSwapCache::with_state(Arc::clone(&snapshot), cache),
                gate: quota.gate(settings, leases),
                pages: pages.with_own_refcount(),
                signup: signup.clone(),
                shared_keys: shared_keys.clone().flatten(),
                clock: Arc::clone(&quota.clock),
                registry: Arc::new(ConnectionRegistry::new(settings.connections)),
                complaints: Arc::clone(&complaints),
                limits: settings.connections,
                metrics: Arc::new(WorkerMetrics::new(Endpoint::LABELS.len())),
                ids: RequestIds::default(),
                downloads: Arc::clone(&downloads),
                access: access_log.as_ref().map(|log| Arc::new(log.buffer())),
                #[cfg(feature = "tls")]
                tls: certificate.as_ref().map(|certificate| {
                    let certificate = ArcSwapCache::new(Arc::clone(certificate));
                    TlsAcceptor::new(certificate, settings.handshakes_per_worker())
                }),
            })
        };
        Ok(ServerState {
            workers: (0..settings.workers).map(new_worker).collect(),
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
        workers.map(|worker| counter(&worker.metrics).get()).sum()
    }

    /// Returns the number of responses since the start.
    pub(crate) fn responses(&self) -> u64 {
        let counters = self.workers.iter().map(|worker| &worker.metrics.responses);
        let counters = counters.flat_map(|rows| rows.as_flattened());
        counters.map(LocalCounter::get).sum()
    }

    /// Returns the served data in one line.
    pub(crate) fn status(&self) -> String {
        let snapshot = self.snapshot.load_full();
        match snapshot.published {
            None => "nothing is published".to_owned(),
            Some(published) => {
                let [(_, islands), ..] = snapshot.counts();
                format!("serving {islands} islands, published {published}")
            }
        }
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.registry.size())
            .sum()
    }

    /// Returns a worker without a heartbeat for longer than `max`, and for how long.
    pub(crate) fn stalled_worker(&self, max: Duration) -> Option<(usize, Duration)> {
        let ages = self
            .workers
            .iter()
            .map(|worker| worker.registry.silent_for());
        ages.enumerate().find(|(_, age)| *age > max)
    }
}

fn open_access_log(settings: &Settings, log: &Log) -> Result<Option<AccessLog>, StartError> {
    let Some(path) = &settings.access_log else {
        return Ok(None);
    };
    let opened = AccessLog::open(path, log).map_err(|error| {
        let path = path.display();
        StartError::Io(format!("cannot write the access log {path}: {error}"))
    });
    opened.map(Some)
}

/// Connects to the store of shared limits, if there is one.
#[cfg(feature = "shared-quota")]
fn shared_quota(
    settings: &Settings,
    quota: &QuotaState,
    keys_poller: &PollTrigger,
    log: &Log,
) -> Result<Option<SharedQuota>, StartError> {
    let keys = shared_keys(settings, log)?;
    let Some(shared) = &settings.shared_quota else {
        return Ok(None);
    };
    let clock = Arc::clone(&quota.clock);
    let started = SharedQuota::start(shared.clone(), clock, log.clone(), keys)?;
    // The keys that were taken over; after the timeout they are valid a moment later.
    let _ = keys_poller.poll_now().recv_timeout(KEYS_LOADED_MAX);
    Ok(Some(started))
}

/// Starts to share the keys of the state directory, or makes them this server's own.
#[cfg(feature = "shared-quota")]
fn shared_keys(settings: &Settings, log: &Log) -> Result<Option<SharedKeys>, StartError> {
    let Some(directory) = &settings.state else {
        return Ok(None);
    };
    let keys = KeyStore::new(directory);
    let shared = settings.shared_quota.as_ref();
    let Some((shared, first)) = shared.and_then(|shared| Some((shared, shared.keys.clone()?)))
    else {
        if keys.role().map_err(StartError::Keys)? != KeyRole::Alone {
            keys.set_role(&KeyRole::Alone).map_err(StartError::Keys)?;
        }
        return Ok(None);
    };
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    // The default base URL leads to the machine of the client.
    let leader = (name, settings.base_url.clone());
    let started = SharedKeys::start(shared.clone(), first, keys, leader, log.clone())?;
    Ok(Some(started))
}

/// Opens what is published and starts the poller of the published directory. The sample has no poller.
fn open_data(
    settings: &Settings,
    service: &SiteSettings,
    metrics: &StateMetrics,
    log: &Log,
) -> Result<(Arc<ArcSwap<Snapshot>>, Option<PollTrigger>), StartError> {
    let memory_bytes = settings.snapshot_cache_bytes();
    let Some(directory) = &settings.published else {
        let sample = (settings.open_sample)(memory_bytes, service);
        let sample = sample.map_err(|error| {
            StartError::Internal(format!("cannot serve the sample dataset: {error}"))
        })?;
        return Ok((Arc::new(ArcSwap::new(sample)), None));
    };
    log.write(&format!("watching {}", directory.display()));
    let snapshot = Arc::new(ArcSwap::new(Snapshot::new(None, None, service)));
    let status = ReloadStatus::new(log, &metrics.data_reloads);
    let trigger = PublishReloader::start((directory, service), memory_bytes, &snapshot, status)?;
    Ok((snapshot, Some(trigger)))
}
