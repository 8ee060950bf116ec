//! [`WorkerMetrics`]: the counters of one worker, without locks and without shared cache lines.
//!
//! Only the worker's own thread writes to them, so an increment is a load, an addition and a store.
//! A request costs two or three of them, and a batch of requests at least two more. The metrics page reads the
//! counters of all workers and adds them up.
//!
//! Responses are counted by endpoint and status code: a new status needs only an entry in
//! `STATUS_CODES`, before the last one.

use std::iter::repeat_with;
use std::time::Duration;

use super::exposition::{Metric, metrics};
use crate::model::named;
use crate::sync::{AtomicU64, Ordering};

/// A counter written by one thread and read by any.
#[derive(Debug, Default)]
pub struct LocalCounter(AtomicU64);

impl LocalCounter {
    /// Adds `count`. Only one thread may call this: concurrent additions can be lost.
    #[inline]
    pub fn add(&self, count: u64) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(count), Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The TLS handshake did not end in time.
    Handshake,
    /// The client sent no byte.
    FirstByte,
    /// The client sent no complete head in time.
    Head,
    /// The client sent no further request.
    Idle,
    /// The client read too slowly.
    Send,
    /// The connection was closed to free a permit for another one.
    Evicted,
}

// The label values of the metric.
named!(
    CloseReason:
    Handshake = "handshake",
    FirstByte = "first_byte",
    Head = "head",
    Idle = "idle",
    Send = "send",
    Evicted = "room",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeResult {
    Full,
    /// A session continued with a ticket.
    Resumed,
    /// Versions or ciphers did not fit, the client refused the certificate, or it left.
    Failed,
    /// The client did not speak TLS.
    NotTls,
}

named!(HandshakeResult: Full = "full", Resumed = "resumed", Failed = "failed", NotTls = "not_tls");

/// Upper bounds of the buckets of a [`Histogram`], in microseconds. The fastest responses take some
/// tens of microseconds.
const BOUNDS_MICROS: [u32; 18] = [
    50, 100, 200, 300, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Durations by bucket. Only one thread may write.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last bucket has no upper bound.
    pub buckets: [LocalCounter; BOUNDS_MICROS.len() + 1],
    pub sum_nanos: LocalCounter,
}

impl Histogram {
    /// Returns the upper bounds of the buckets, in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        let bounds = BOUNDS_MICROS.iter().map(|micros| f64::from(*micros) / 1e6);
        bounds.chain([f64::INFINITY])
    }

    pub fn observe(&self, duration: Duration) {
        let micros = duration.as_nanos().div_ceil(1000);
        let at = BOUNDS_MICROS.partition_point(|bound| u128::from(*bound) < micros);
        self.buckets[at].add(1);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.add(nanos);
    }
}

/// Status codes that are counted separately. All others are counted as the last one.
pub const STATUS_CODES: [u16; 19] = [
    200, 204, 206, 303, 304, 400, 401, 403, 404, 405, 409, 412, 413, 416, 429, 431, 500, 503, 0,
];

/// The callers that quota rejections are counted for: without a key, and the tiers of keys.
pub const CALLER_TIERS: [&str; 4] = ["anonymous", "free", "starter", "pro"];

#[inline]
fn code_index(status: u16) -> usize {
    let found = STATUS_CODES.iter().position(|code| *code == status);
    found.unwrap_or(STATUS_CODES.len() - 1)
}

/// Declares the counters without labels, one per row: a field of [`WorkerCounters`], and a row of the page of metrics.
macro_rules! worker_counters {
    ($($field:ident $name:literal $help:literal;)*) => {
        /// The counters without labels.
        #[derive(Debug, Default)]
        pub struct WorkerCounters {
            $(#[doc = $help] pub $field: LocalCounter,)*
        }

        pub(crate) const WORKER_COUNTERS: &[Metric<fn(&WorkerMetrics) -> &LocalCounter>] =
            metrics! { $(Counter $name $help |worker| &worker.counters.$field;)* };
    };
}

worker_counters! {
    sent_bytes "island_metrics_http_sent_bytes_total"
        "Bytes written to client sockets, including heads.";
    accepted "island_metrics_http_connections_accepted_total"
        "Accepted connections.";
    accept_errors "island_metrics_http_accept_errors_total"
        "Failed accepts, for example because no file descriptor is free.";
    panics "island_metrics_http_panics_total"
        "Connections that ended with a panic. Other connections are not affected.";
    unexpected_heads "island_metrics_http_unexpected_heads_total"
        "Connections that were closed because a response head had another form than expected.";
}

#[derive(Debug, Default)]
pub struct WorkerMetrics {
    pub counters: WorkerCounters,
    pub responses: Box<[[LocalCounter; STATUS_CODES.len()]]>,
    /// Body bytes by route and encoding: identity, gzip.
    pub body_bytes: Box<[[LocalCounter; 2]]>,
    /// Requests rejected because the quota is exhausted, by [`CALLER_TIERS`].
    pub quota_rejections: [LocalCounter; CALLER_TIERS.len()],
    /// Request heads that could not be parsed, by status code.
    pub parse_errors: [LocalCounter; STATUS_CODES.len()],
    /// Connections closed on accept because their address has too many.
    pub refused: LocalCounter,
    /// Times that the connection limit was reached.
    pub full: LocalCounter,
    pub handshakes: [LocalCounter; HandshakeResult::ALL.len()],
    /// Connections closed by the server, by [`CloseReason`].
    pub closed: [LocalCounter; CloseReason::ALL.len()],
    /// Time from reading a request to the last byte of its response.
    pub durations: Histogram,
    /// Completed batches: reads whose requests all have their responses.
    batches: LocalCounter,
}

/// One batch in 16 is timed: two clock reads cost more than all counters together.
const TIMED_OF: u64 = 16;

impl WorkerMetrics {
    pub fn new(routes: usize) -> WorkerMetrics {
        WorkerMetrics {
            responses: repeat_with(Default::default).take(routes).collect(),
            body_bytes: repeat_with(Default::default).take(routes).collect(),
            ..WorkerMetrics::default()
        }
    }

    #[inline]
    pub fn count_response(&self, route: usize, status: u16, body_bytes: u64, gzip: bool) {
        self.responses[route][code_index(status)].add(1);
        self.body_bytes[route][usize::from(gzip)].add(body_bytes);
    }

    pub fn count_parse_error(&self, status: u16) {
        self.parse_errors[code_index(status)].add(1);
    }

    /// Returns `true` if the next batch is to be timed.
    #[inline]
    pub fn times_next(&self) -> bool {
        self.batches.get() % TIMED_OF == TIMED_OF - 1
    }

    #[inline]
    pub fn count_batch(&self) {
        self.batches.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_whose_bound_is_not_below_it() {
        let histogram = Histogram::default();
        let nanos = [0, 50_000, 50_001, 99_999, 10_000_000_000, 10_000_000_001];
        for nanos in nanos {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let mut expected = [0; 19];
        (expected[0], expected[1], expected[17], expected[18]) = (2, 2, 1, 1);
        assert_eq!(
            histogram.buckets.each_ref().map(LocalCounter::get),
            expected
        );
        assert_eq!(histogram.sum_nanos.get(), nanos.iter().sum::<u64>());
    }

    #[test]
    fn responses_are_counted_by_route_and_status_and_unknown_ones_as_the_last() {
        let metrics = WorkerMetrics::new(2);
        for (route, status, bytes, gzip) in [
            (0, 200, 5, false),
            (0, 200, 7, true),
            (1, 404, 1, false),
            (1, 999, 2, false),
        ] {
            metrics.count_response(route, status, bytes, gzip);
        }
        let rows = metrics.responses.iter().map(|row| {
            let counted = row.iter().zip(STATUS_CODES);
            let counted = counted.filter(|(count, _)| count.get() > 0);
            counted.map(|(count, code)| (code, count.get())).collect()
        });
        let rows: Vec<Vec<(u16, u64)>> = rows.collect();
        assert_eq!(rows, [vec![(200, 2)], vec![(404, 1), (0, 1)]]);
        let bytes = metrics.body_bytes.as_flattened().iter();
        let bytes: Vec<u64> = bytes.map(LocalCounter::get).collect();
        assert_eq!(bytes, [5, 7, 3, 0]);
    }

    #[test]
    fn one_batch_in_sixteen_is_timed() {
        let metrics = WorkerMetrics::new(1);
        let is_timed = |_: &u32| {
            let is_timed = metrics.times_next();
            metrics.count_batch();
            is_timed
        };
        assert_eq!((0..1600).filter(is_timed).count(), 100);
    }
}
