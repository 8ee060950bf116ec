//! The request queue of the service and its thread. The service waits for locks and the disk, which
//! must not delay a worker.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::error::SignupError;
use super::service::{SignupRequest, SignupResponse, SignupResult, SignupService};
use crate::calendar::UnixSeconds;

/// Length of the queue. Listing keys takes some milliseconds at most, issuing as long as writing the
/// key file.
const QUEUE_MAX: usize = 64;
/// Requests that waited longer are rejected: most of these clients have disconnected, and a key for
/// them would be lost.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

struct Job {
    client: IpAddr,
    request: SignupRequest,
    now: UnixSeconds,
    queued: Instant,
    respond: Box<dyn FnOnce(SignupResult) + Send>,
}

/// A handle of the service's thread. The thread ends with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct SignupHandle {
    queue: SyncSender<Job>,
}

impl SignupHandle {
    /// Starts the thread. It calls `reload_keys` after each change and before the response, so that a
    /// key works when it is shown, and no longer when it is shown as revoked.
    pub(crate) fn start(
        mut service: SignupService,
        reload_keys: impl Fn() + Send + 'static,
    ) -> io::Result<SignupHandle> {
        let (queue, jobs) = sync_channel::<Job>(QUEUE_MAX);
        let run = move || {
            for job in jobs {
                let response = if job.queued.elapsed() > QUEUE_TIMEOUT {
                    Err(SignupError::Busy)
                } else {
                    service.handle(job.client, job.request, job.now)
                };
                if let Ok(SignupResponse::Keys {
                    issued, revoked, ..
                }) = &response
                    && (issued.is_some() || revoked.is_some())
                {
                    reload_keys();
                }
                (job.respond)(response);
            }
        };
        let thread = std::thread::Builder::new().name("signup".into());
        thread.spawn(run)?;
        Ok(SignupHandle { queue })
    }

    /// Queues a request. `respond` is called on the service's thread, or immediately if the queue is
    /// full; it is dropped if the thread has ended.
    pub(crate) fn submit(
        &self,
        client: IpAddr,
        request: SignupRequest,
        now: UnixSeconds,
        respond: impl FnOnce(SignupResult) + Send + 'static,
    ) {
        let job = Job {
            client,
            request,
            now,
            queued: Instant::now(),
            respond: Box::new(respond),
        };
        if let Err(TrySendError::Full(job)) = self.queue.try_send(job) {
            (job.respond)(Err(SignupError::Busy));
        }
    }
}
