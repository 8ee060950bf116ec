//! The scene of these tests: one worker, its client, and what is published.

use std::path::PathBuf;
use std::sync::Arc;

use hyper::{HeaderMap, header::HeaderName};

use super::super::*;
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::dataset::Files;
use crate::keys::{KeyPrefix, KeyStore, KeyTable};
use crate::model::{Tier, TierLimits};
use crate::publish::{PublishOptions, open_sample, publish};
use crate::quota::{AnonymousQuota, KeyedQuota, TableSize};
use crate::regular_file::Directory;
use crate::server::conn::connection_state::TimeSlice;
use crate::server::http::identity::{ConnectionIdentity, QuotaGate};
use crate::server::http::request_head::RequestHead;
use crate::server::web::request_context::Services;
use crate::server::web::signup_handler::SignupHandler;
use crate::site::SiteSettings;
use crate::snapshot::{Manifest, Snapshot};
use crate::sync::Replicated;

const NOW: RequestTime = RequestTime {
    day: UtcDay(20_777),
    moment: UnixSeconds(UtcDay(20_777).end().0 - 1_000),
};
pub(super) const HOST: (&str, &str) = ("host", "x.test");

/// The header lines of a request.
pub(super) type Lines<'a> = &'a [(&'static str, &'a str)];

/// A worker with one client, who also has a free key and a revoked one.
pub(super) struct Scene {
    pub(super) services: Services,
    pub(super) snapshot: Snapshot,
    pub(super) cache: WorkerCache,
    identity: ConnectionIdentity,
    pub(super) key: String,
    pub(super) revoked: String,
    directory: PathBuf,
}

impl Scene {
    pub(super) fn new(name: &str, anonymous: u16, snapshot: Snapshot) -> Scene {
        let directory = directory(name);
        let store = KeyStore::new(&directory.join("state"));
        let issue = || {
            let address = "a@x.test".parse().unwrap();
            let now = UnixSeconds(0);
            let key = store.issue(&KeyPrefix::default(), &address, Tier::Free, now);
            key.unwrap().reveal().to_owned()
        };
        let (key, revoked) = (issue(), issue());
        let id = revoked.split('_').nth(2).unwrap().parse().unwrap();
        store.set_revoked(id, true, UnixSeconds(1)).unwrap();
        let table = KeyTable::new(KeyPrefix::default(), store.read().unwrap(), 0..);
        let keyed = KeyedQuota::new(None);
        keyed.places(0..9, &|_| {}).1.unwrap();
        let gate = QuotaGate {
            keys: Replicated::new(table).replica(),
            anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100))),
            keyed: Arc::new(keyed),
            leases: None,
            limits: TierLimits {
                anonymous,
                free: anonymous.into(),
                ..TierLimits::SPECIFIED
            },
            proxies: Arc::default(),
        };
        Scene {
            identity: gate.connect("198.51.100.1".parse().unwrap()),
            services: Services::alone(gate).unwrap(),
            snapshot,
            cache: WorkerCache::new(1 << 20),
            key,
            revoked,
            directory,
        }
    }

    pub(super) fn with_sample(name: &str, anonymous: u16) -> Scene {
        Scene::new(name, anonymous, open_sample(&site()).unwrap())
    }

    pub(super) fn with_sign_up(mut self) -> Scene {
        self.services.signup = Some(SignupHandler::in_directory(&self.directory));
        self
    }

    pub(super) fn send(&mut self, method: &Method, target: &str, lines: Lines<'_>) -> Handled {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let mut head = RequestHead::get(method, path, &headers);
        head.query = query;
        let context = RequestContext {
            services: &self.services,
            head: &head,
            now: NOW,
            identity: &self.identity,
            time_slice: &TimeSlice::default(),
            waited: None,
            is_logged: false,
            snapshot: &self.snapshot,
        };
        respond(&context, &mut self.cache)
    }

    pub(super) fn get(&mut self, target: &str) -> Handled {
        self.send(&Method::GET, target, &[HOST])
    }

    /// Requests that remain of the address.
    pub(super) fn left(&self) -> u32 {
        let gate = &self.services.gate;
        let client = gate.client(&self.identity, &HeaderMap::new());
        gate.remaining(Caller::Anonymous(client), NOW.day).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_dir_all(&self.directory);
    }
}

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("im-pipeline-{}-{name}", std::process::id()))
}

fn site() -> SiteSettings {
    SiteSettings::new("http://x.test")
}

pub(super) fn nothing_published() -> Snapshot {
    Snapshot::new(None, None, None, &site(), None)
}

/// A snapshot whose only day has so many new islands that their list is sent in pieces.
pub(super) fn with_a_long_body(name: &str) -> Snapshot {
    const ISLANDS: u32 = 1_000;
    let lines = |line: &dyn Fn(u32) -> String| (0..ISLANDS).map(line).collect::<String>();
    let title = "long ".repeat(100);
    let islands = lines(&|number| format!("1000-0000-{number:04},{title},,,\n"));
    let islands = format!("code,title,creator,createdIn,tags\n{islands}");
    let day = lines(&|number| format!("1000-0000-{number:04},1\n"));
    let day = format!("code,peakCCU\n{day}");
    let dataset = [
        ("islands.csv", islands.as_bytes()),
        ("ccu/2026-11-20.csv", day.as_bytes()),
    ];
    let directory = directory(name);
    let options = PublishOptions {
        directory: &directory,
        published: Some(UnixSeconds(1_795_262_700)),
        force: false,
        full: false,
        strict: false,
        credit: "",
    };
    publish(&Files::Embedded(&dataset), &options, &mut |_| ()).unwrap();
    let opened = Directory::open(&directory).unwrap();
    let manifest = Manifest::read(&opened).unwrap().unwrap();
    let snapshot = Snapshot::open((&opened, &manifest), &site(), None).unwrap();
    // The files stay open.
    std::fs::remove_dir_all(&directory).unwrap();
    snapshot
}
