//! `Figures`: what the server knows of itself, and the page of metrics made of it.

use std::fmt::Display;
use std::sync::Arc;

use crate::keys::KeyTable;
use crate::observe::{
    AccessLog, AccessPen, Cut, Exposition, Histogram, Kind, ProcessFigures, Shape, Tally,
};
use crate::request::Template;
use crate::server::conn::registry::Roster;
use crate::server::http::identity::TIERS;
use crate::server::ops::dedup_log::Reloads;
use crate::server::ops::log::Log;
use crate::server::ops::poller::Prompt;
use crate::server::ops::state::Census;
use crate::server::settings::Build;
use crate::snapshot::Snapshot;
use crate::sync::{ArcSwap, AtomicU64, Ordering};

/// What is counted by route, status and tier.
pub(crate) const SHAPE: Shape = Shape {
    routes: &Template::TEXTS,
    codes: &[
        200, 204, 206, 304, 400, 401, 403, 404, 405, 412, 414, 416, 429, 431, 500, 503, 0,
    ],
    tiers: &TIERS,
};

/// Everything that metrics and readiness are made of.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) build: Build,
    pub(crate) tallies: Vec<Arc<Tally>>,
    pub(crate) rosters: Vec<Arc<Roster>>,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) reloads: Arc<Reloads>,
    /// Threads that look at keys and data, immediately when they are asked to.
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) keys: Arc<ArcSwap<KeyTable>>,
    pub(crate) census: Arc<Census>,
    pub(crate) clients_max: u64,
    pub(crate) log: Log,
    pub(crate) access: Option<AccessLog>,
    /// What each worker writes to that with.
    pub(crate) pens: Vec<Arc<AccessPen>>,
}

impl Figures {
    /// Connections that are open.
    pub(crate) fn connections(&self) -> u64 {
        self.rosters.iter().map(|roster| roster.size()).sum()
    }

    /// Answers given to requests that could be read.
    pub(crate) fn answers(&self) -> u64 {
        let routes = 0..SHAPE.routes.len();
        let pairs = routes.flat_map(|route| (0..SHAPE.codes.len()).map(move |code| (route, code)));
        pairs
            .map(|(route, code)| self.sum(|tally| tally.requests(route, code)))
            .sum()
    }

    fn sum(&self, figure: impl Fn(&Tally) -> u64) -> u64 {
        self.tallies.iter().map(|tally| figure(tally)).sum()
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let mut page = Exposition::default();
        self.requests(&mut page);
        self.connection_figures(&mut page);
        self.quotas(&mut page);
        self.data(&mut page);
        self.upkeep(&mut page);
        ProcessFigures::read().write(&mut page);
        page.into_text()
    }

    fn requests(&self, page: &mut Exposition) {
        page.family(
            "island_metrics_http_requests_total",
            Kind::Counter,
            "Answers, by the template of the path and the status.",
        );
        for (route, template) in SHAPE.routes.iter().enumerate() {
            for (at, code) in SHAPE.codes.iter().enumerate() {
                let count = self.sum(|tally| tally.requests(route, at));
                if count > 0 {
                    page.sample(&[("route", template), ("code", code)], count);
                }
            }
        }
        page.family(
            "island_metrics_http_response_body_bytes_total",
            Kind::Counter,
            "Bytes of bodies, by route and encoding.",
        );
        for (route, template) in SHAPE.routes.iter().enumerate() {
            for (gzip, encoding) in [(false, "identity"), (true, "gzip")] {
                let bytes = self.sum(|tally| tally.body_bytes(route, gzip));
                if bytes > 0 {
                    page.sample(&[("route", template), ("encoding", &encoding)], bytes);
                }
            }
        }
        page.family(
            "island_metrics_http_request_duration_seconds",
            Kind::Histogram,
            "From reading a request, or several that came together, to the last byte of the answers; one in 16 is timed.",
        );
        let bounds = Histogram::bounds().chain([f64::INFINITY]);
        let buckets = bounds
            .enumerate()
            .map(|(at, bound)| (bound, self.sum(|tally| tally.durations.bucket(at))));
        let sum = std::time::Duration::from_nanos(self.sum(|tally| tally.durations.sum_nanos()));
        page.histogram(buckets, sum.as_secs_f64());
        self.counter(
            page,
            "island_metrics_http_sent_bytes_total",
            "Bytes that sockets took, heads included.",
            |tally| tally.sent_bytes.get(),
        );
        page.family(
            "island_metrics_http_parse_errors_total",
            Kind::Counter,
            "Heads that could not be read, by the status that they were refused with.",
        );
        for (at, code) in SHAPE.codes.iter().enumerate() {
            let count = self.sum(|tally| tally.unreadable[at].get());
            if count > 0 || *code == 400 {
                page.sample(&[("code", code)], count);
            }
        }
    }

    fn connection_figures(&self, page: &mut Exposition) {
        page.single(
            "island_metrics_http_connections",
            Kind::Gauge,
            "Open connections.",
            self.connections(),
        );
        self.counter(
            page,
            "island_metrics_http_connections_accepted_total",
            "Connections accepted.",
            |tally| tally.accepted.get(),
        );
        page.family(
            "island_metrics_http_connections_refused_total",
            Kind::Counter,
            "Connections closed for their address's limit, and times that there was no room for one.",
        );
        let refused = self.sum(|tally| tally.refused.get());
        page.sample(&[("reason", &"address")], refused);
        page.sample(&[("reason", &"full")], self.sum(|tally| tally.full.get()));
        page.family(
            "island_metrics_http_connections_cut_total",
            Kind::Counter,
            "Connections ended by the server, by what it had waited for.",
        );
        for cut in Cut::ALL {
            let count = self.sum(|tally| tally.cuts[cut as usize].get());
            page.sample(&[("reason", &cut.label())], count);
        }
        self.counter(
            page,
            "island_metrics_http_accept_errors_total",
            "Times that accepting failed, as for want of descriptors.",
            |tally| tally.accept_errors.get(),
        );
        self.counter(
            page,
            "island_metrics_http_panics_total",
            "Connections that ended by a fault of the program; the others go on.",
            |tally| tally.panics.get(),
        );
    }

    fn quotas(&self, page: &mut Exposition) {
        page.family(
            "island_metrics_quota_rejections_total",
            Kind::Counter,
            "Requests refused for a spent quota, by tier.",
        );
        for (at, tier) in SHAPE.tiers.iter().enumerate() {
            let count = self.sum(|tally| tally.rejections[at].get());
            page.sample(&[("tier", tier)], count);
        }
        let (clients, overflow) = (&self.census.clients, &self.census.overflow);
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        page.single(
            "island_metrics_quota_clients",
            Kind::Gauge,
            "Addresses of today with a counter of their own, counted four times a minute.",
            load(clients),
        );
        page.single(
            "island_metrics_quota_clients_max",
            Kind::Gauge,
            "Addresses a day that the counters have room for.",
            self.clients_max,
        );
        page.single(
            "island_metrics_quota_overflow_clients",
            Kind::Gauge,
            "Counters in use that addresses share, since the table was full for them.",
            load(overflow),
        );
        let keys = self.keys.load_full().len();
        page.single(
            "island_metrics_keys",
            Kind::Gauge,
            "Keys in the key file, revoked ones too.",
            keys,
        );
    }

    fn data(&self, page: &mut Exposition) {
        let snapshot = self.snapshot.load_full();
        page.family(
            "island_metrics_snapshot_published_timestamp_seconds",
            Kind::Gauge,
            "When the payload that is served was published, in Unix seconds.",
        );
        for (payload, published) in ["history", "live"].iter().zip(snapshot.publishes()) {
            if let Some(published) = published {
                page.sample(&[("payload", payload)], published.0);
            }
        }
        page.single(
            "island_metrics_snapshot_generation",
            Kind::Gauge,
            "Publishes taken in since the start.",
            self.snapshot.generation(),
        );
        let sizes = snapshot.sizes();
        page.family(
            "island_metrics_snapshot_rows",
            Kind::Gauge,
            "What is served, by kind.",
        );
        for (kind, count) in [
            ("islands", sizes.islands),
            ("creators", sizes.creators),
            ("days", sizes.days),
        ] {
            page.sample(&[("kind", &kind)], count);
        }
        page.single(
            "island_metrics_snapshot_damaged_answers_total",
            Kind::Counter,
            "Answers that could not be sent, since the history that is served is damaged.",
            sizes.damaged_answers,
        );
    }

    fn upkeep(&self, page: &mut Exposition) {
        page.family(
            "island_metrics_reloads_total",
            Kind::Counter,
            "Publishes and key files taken in, and refused.",
        );
        for (what, reloads) in [("data", &*self.reloads), ("keys", &self.census.reloads)] {
            for (result, count) in [("ok", &reloads.taken), ("refused", &reloads.refused)] {
                page.sample(&[("what", &what), ("result", &result)], count.get());
            }
        }
        page.family(
            "island_metrics_poll_age_seconds",
            Kind::Gauge,
            "Time since a poll of the published directory, or of keys and the clock, was completed.",
        );
        for prompt in &self.prompts {
            page.sample(&[("what", &prompt.what)], prompt.age().as_secs_f64());
        }
        page.single(
            "island_metrics_access_log_dropped_total",
            Kind::Counter,
            "Lines of the access log that could not be written in time.",
            self.access.as_ref().map_or(0, AccessLog::dropped),
        );
        page.single(
            "island_metrics_log_dropped_total",
            Kind::Counter,
            "Lines of the log that nobody took.",
            self.log.dropped(),
        );
        page.family(
            "island_metrics_worker_heartbeat_age_seconds",
            Kind::Gauge,
            "Since when a worker has given no sign of life.",
        );
        for (at, roster) in self.rosters.iter().enumerate() {
            let silent = roster.silent_for().as_secs_f64();
            page.sample(&[("worker", &at)], silent);
        }
        page.family(
            "island_metrics_build_info",
            Kind::Gauge,
            "Which build this is; always 1.",
        );
        let Build { version, commit } = &self.build;
        let labels: [(&str, &dyn Display); 2] = [("version", version), ("commit", commit)];
        page.sample(&labels, 1);
    }

    fn counter(
        &self,
        page: &mut Exposition,
        name: &'static str,
        help: &str,
        figure: impl Fn(&Tally) -> u64,
    ) {
        page.single(name, Kind::Counter, help, self.sum(figure));
    }
}
