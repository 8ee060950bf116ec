//! The table of all metrics of a server, and the page written from it.
//!
//! A metric is one row: its kind, name and help, and the function that writes its samples. Counters of workers
//! without labels are rows of `worker_counters!` (`observe/worker_metrics.rs`), which declares their fields too.
//! Counts by endpoint or status code need no row: `http_requests_total` has both as labels.

use std::fmt::Display;
use std::time::Duration;

use crate::keys::SharedKeysState;
use crate::observe::{
    CALLER_TIERS, CloseReason, Exposition, HandshakeResult, Histogram, LocalCounter, Log, Metric,
    STATUS_CODES, WORKER_COUNTERS, WorkerMetrics, metrics, process,
};
use crate::quota::{LeaseMetrics, LeaseTable};
use crate::request::Endpoint;
use crate::server::ops::reload::StateMetrics;
use crate::server::ops::state::ServerState;
use crate::sync::{AtomicU64, Ordering, lock};

type WriteSamples = fn(&ServerState, &mut Exposition);

/// Every metric except those of the process, in the order of the page.
const METRICS: &[Metric<WriteSamples>] = metrics! {
    Counter "island_metrics_http_requests_total"
        "Responses by route template and status code."
        |server, page| for (route, template) in Endpoint::LABELS.iter().enumerate() {
            for (at, code) in STATUS_CODES.iter().enumerate() {
                let count = server.sum(|worker| &worker.responses[route][at]);
                if count > 0 {
                    page.sample(&[("route", template), ("code", code)], count);
                }
            }
        };
    Counter "island_metrics_http_response_body_bytes_total"
        "Bytes of response bodies by route template and content encoding."
        |server, page| for (route, template) in Endpoint::LABELS.iter().enumerate() {
            for (at, encoding) in ["identity", "gzip"].iter().enumerate() {
                let bytes = server.sum(|worker| &worker.body_bytes[route][at]);
                if bytes > 0 {
                    page.sample(&[("route", template), ("encoding", encoding)], bytes);
                }
            }
        };
    Histogram "island_metrics_http_request_duration_seconds"
        "Time from reading a request, or several pipelined requests, to the last byte of the responses. One in 16 is measured."
        |server, page| {
            let count = |at: usize| server.sum(|worker| &worker.durations.buckets[at]);
            let nanos = server.sum(|worker| &worker.durations.sum_nanos);
            let sum_seconds = Duration::from_nanos(nanos).as_secs_f64();
            page.histogram(Histogram::bounds().zip((0..).map(count)), sum_seconds);
        };
    Counter "island_metrics_http_parse_errors_total"
        "Request heads that could not be parsed, by the status code of the response."
        |server, page| for (at, code) in STATUS_CODES.iter().enumerate() {
            let count = server.sum(|worker| &worker.parse_errors[at]);
            if count > 0 || *code == 400 {
                page.sample(&[("code", code)], count);
            }
        };
    Gauge "island_metrics_http_connections"
        "Open connections."
        |server, page| page.value(server.connections());
    Counter "island_metrics_http_connections_refused_total"
        "Connections closed because of the limit per address, and times that the limit of all connections was reached."
        |server, page| {
            let refused = server.sum(|worker| &worker.refused);
            let full = server.sum(|worker| &worker.full);
            labelled(page, "reason", ["address", "full"], [refused, full]);
        };
    Counter "island_metrics_http_connections_cut_total"
        "Connections closed by the server, by the timeout that expired. room: closed to admit other connections."
        |server, page| summed(server, page, "reason", CloseReason::NAMES, |worker| &worker.closed);
    Counter "island_metrics_quota_rejections_total"
        "Requests rejected because the quota is exhausted, by tier."
        |server, page| summed(server, page, "tier", CALLER_TIERS, |worker| &worker.quota_rejections);
    Gauge "island_metrics_quota_clients"
        "Addresses with a counter of their own today."
        |server, page| page.value(clients(server).0);
    Gauge "island_metrics_quota_clients_max"
        "Number of addresses per day that can have a counter of their own."
        |server, page| page.value(server.quota.anonymous.clients_max());
    Gauge "island_metrics_quota_overflow_clients"
        "Counters in use that several addresses share because the table is full."
        |server, page| page.value(clients(server).1);
    Gauge "island_metrics_keys"
        "Keys in the key file, including revoked ones."
        |server, page| page.value(server.quota.keys.current().count());
    Counter "island_metrics_signup_mails_failed_total"
        "Mails of sign-up that the mail command did not accept."
        |server, page| {
            let signup = server.workers[0].services.signup.as_ref();
            page.value(signup.map_or(0, |signup| signup.failed_mails.get()));
        };
    Gauge "island_metrics_snapshot_published_timestamp_seconds"
        "Publish time of each served payload, in Unix seconds."
        |server, page| {
            for (payload, identity) in server.snapshot.current().identities() {
                if let Some(identity) = identity {
                    page.sample(&[("payload", &payload)], identity.published.0);
                }
            }
        };
    Gauge "island_metrics_snapshot_generation"
        "Publishes loaded since the start."
        |server, page| page.value(server.metrics.data_reloads.ok.get());
    Gauge "island_metrics_snapshot_rows"
        "Served rows by kind."
        |server, page| {
            for (kind, count) in server.snapshot.current().counts() {
                page.sample(&[("kind", &kind)], count);
            }
        };
    Counter "island_metrics_snapshot_damaged_answers_total"
        "Responses that failed because a published file is damaged or cannot be read."
        |server, page| page.value(server.workers[0].services.complaints.count());
    Counter "island_metrics_reloads_total"
        "Reloads of publishes, key files and TLS certificates by result."
        |server, page| {
            let StateMetrics { data_reloads, key_reloads, certificate_reloads, .. } =
                &server.metrics;
            let certificate = ("certificate", certificate_reloads);
            for (what, reloads) in [("data", data_reloads), ("keys", key_reloads), certificate] {
                for (result, count) in [("ok", &reloads.ok), ("refused", &reloads.refused)] {
                    page.sample(&[("what", &what), ("result", &result)], count.get());
                }
            }
        };
    Gauge "island_metrics_poll_age_seconds"
        "Time since the last completed poll of the published directory (data), of the key file and the clock (keys), of the TLS certificate (certificate), or of the store of shared keys (shared-keys)."
        |server, page| {
            let pollers = server.pollers.iter();
            let ages = pollers.clone().map(|poller| poller.age().as_secs_f64());
            labelled(page, "what", pollers.map(|poller| poller.source), ages);
        };
    Counter "island_metrics_tls_handshakes_total"
        "TLS handshakes by result. resumed: continued a session; not_tls: the client did not send TLS but, for example, plain HTTP."
        |server, page| summed(server, page, "result", HandshakeResult::NAMES, |worker| &worker.handshakes);
    Gauge "island_metrics_tls_certificate_expiry_timestamp_seconds"
        "Time at which the TLS certificate in use expires, in Unix seconds."
        |server, page| {
            let expiry = server.metrics.certificate_expiry.load(Ordering::Relaxed);
            page.optional((expiry != 0).then_some(expiry));
        };
    Gauge "island_metrics_shared_quota_up"
        "1 while the store of shared quotas grants credits, 0 otherwise. No sample without a store."
        |server, page| page.optional(leases(server).map(|leases| u8::from(leases.state().grants())));
    Gauge "island_metrics_shared_quota_slow"
        "1 while the store of shared quotas takes more than 20 ms, so that no request waits for it, 0 otherwise."
        |server, page| store_count(server, page, |metrics| &metrics.slow);
    Gauge "island_metrics_shared_quota_store_memory_bytes"
        "Memory that the store of shared quotas uses."
        |server, page| store_count(server, page, |metrics| &metrics.store_bytes);
    Gauge "island_metrics_shared_quota_store_memory_max_bytes"
        "Memory that the store of shared quotas may use: its maxmemory, or the memory of its machine."
        |server, page| store_count(server, page, |metrics| &metrics.store_bytes_max);
    Gauge "island_metrics_shared_quota_clients" "Clients with credits at this server."
        |server, page| page.optional(leases(server).map(LeaseTable::clients));
    Counter "island_metrics_shared_quota_requests_total"
        "Requests to the store of shared quotas. late: a client waited 20 ms without an answer."
        |server, page| if let Some(leases) = leases(server) {
            let LeaseMetrics { answered, late, failed, .. } = &leases.metrics;
            let counts = [answered, late, failed].map(|count| count.load(Ordering::Relaxed));
            labelled(page, "result", ["answered", "late", "failed"], counts);
        };
    Counter "island_metrics_shared_quota_outages_total"
        "Times that the store of shared quotas was lost."
        |server, page| store_count(server, page, |metrics| &metrics.outages);
    Counter "island_metrics_shared_quota_shares_total"
        "Clients whose share of the quota this server used because the store did not answer."
        |server, page| store_count(server, page, |metrics| &metrics.shares);
    Counter "island_metrics_shared_quota_other_limits_total"
        "Answers of the store with a daily limit that differs from this server's."
        |server, page| store_count(server, page, |metrics| &metrics.other_limits);
    Gauge "island_metrics_shared_keys_up"
        "1 if the last exchange of keys with the store succeeded, 0 otherwise. No sample if keys are not shared."
        |server, page| page.optional(shared_keys(server).map(|keys| u8::from(keys.is_up)));
    Gauge "island_metrics_shared_keys_exchange_age_seconds"
        "Time since the last successful exchange of keys with the store, or since the start before the first one."
        |server, page| page.optional(
            shared_keys(server).map(|keys| keys.exchanged.elapsed().as_secs_f64()));
    Counter "island_metrics_access_log_dropped_total"
        "Lines of the access log that could not be written in time."
        |server, page| page.value(server.access_log.as_ref().map_or(0, Log::dropped));
    Counter "island_metrics_log_dropped_total"
        "Lines of the log that were dropped."
        |server, page| page.value(server.log.dropped());
    Gauge "island_metrics_worker_heartbeat_age_seconds"
        "Time since the last heartbeat of each worker."
        |server, page| {
            let ages = server.workers.iter().map(|worker| worker.registry.silent_for());
            labelled(page, "worker", 0.., ages.map(|age| age.as_secs_f64()));
        };
};

/// Writes a sample for each value of a label.
fn labelled<L: Display, V: Display>(
    page: &mut Exposition,
    name: &str,
    labels: impl IntoIterator<Item = L>,
    values: impl IntoIterator<Item = V>,
) {
    for (label, value) in labels.into_iter().zip(values) {
        page.sample(&[(name, &label)], value);
    }
}

/// Writes a sample for each value of a label: the sum of all workers' counters of that value.
fn summed<L: Display>(
    server: &ServerState,
    page: &mut Exposition,
    name: &str,
    labels: impl IntoIterator<Item = L>,
    counters: fn(&WorkerMetrics) -> &[LocalCounter],
) {
    let count = |at: usize| server.sum(|worker| &counters(worker)[at]);
    labelled(page, name, labels, (0..).map(count));
}

/// Returns the leases of this server, if it shares quotas.
fn leases(server: &ServerState) -> Option<&LeaseTable> {
    server.workers[0].services.gate.leases.as_deref()
}

/// Returns the state of the keys, if this server shares them.
pub(crate) fn shared_keys(server: &ServerState) -> Option<SharedKeysState> {
    let keys = server.shared_keys.as_ref();
    keys.map(|keys| *lock(&keys.state))
}

/// Writes a counter of the store's use, without a sample if there is no store.
fn store_count(server: &ServerState, page: &mut Exposition, of: fn(&LeaseMetrics) -> &AtomicU64) {
    let count = |leases: &LeaseTable| of(&leases.metrics).load(Ordering::Relaxed);
    page.optional(leases(server).map(count));
}

/// Returns the anonymous clients of today, and the counters that several of them share. Measured: 5 ms for five
/// million clients.
fn clients(server: &ServerState) -> (u64, u64) {
    let today = server.quota.clock.now().day;
    server.quota.anonymous.in_use(today)
}

pub(crate) fn page(server: &ServerState) -> String {
    let mut page = Exposition::default();
    page.families(METRICS, |write, page| write(server, page));
    page.families(WORKER_COUNTERS, |counter, page| {
        page.value(server.sum(counter));
    });
    page.families(process::METRICS, |write, page| write(page));
    page.into_text()
}
