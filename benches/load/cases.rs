//! The cases: the servers that take part in each, and their requests.

use std::rc::Rc;

use crate::common::nginx;
use crate::common::prelude::*;
use crate::common::requests::{Compared, PAGE, compared, pages, searches};
use crate::epoll;

/// Number of rounds. Full ones are many and short: the speed of a shared machine changes within a second.
pub(crate) fn round_count() -> usize {
    full_or_quick(25, 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Real,
    Hyper,
    Epoll,
    Axum,
    Actix,
    /// With the settings of its packages.
    Nginx,
    /// With all settings that make it faster here.
    NginxTuned,
    /// The release server with a page from its cache.
    Cached,
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Real,
        Kind::Hyper,
        Kind::Epoll,
        Kind::Axum,
        Kind::Actix,
        Kind::Nginx,
        Kind::NginxTuned,
        Kind::Cached,
    ];
    const NAMES: [&str; 8] = [
        "island-metrics",
        "bare hyper",
        "epoll loop",
        "axum",
        "actix-web",
        "nginx",
        "nginx, tuned",
        "page, cached",
    ];

    pub(crate) fn name(self) -> &'static str {
        Kind::NAMES[self as usize]
    }
}

pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    pub(crate) server: Rc<Server>,
    pub(crate) requests: Requests,
    /// Requests before the measured ones; `None` if they are the same.
    pub(crate) warm_up: Option<Requests>,
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Bytes of a response, head and body; of the first if they differ.
    pub(crate) bytes: usize,
    pub(crate) contestants: Vec<Contestant>,
    /// Batches a second of the open loop.
    pub(crate) rate: f64,
}

impl Case {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.rate * self.contestants[0].requests.depth as f64
    }
}

/// Inputs of the cases.
pub(crate) struct Maker<'a> {
    pub(crate) real: Rc<Server>,
    pub(crate) scratch: &'a Path,
    /// The program of axum and actix-web.
    pub(crate) rivals: Option<PathBuf>,
    pub(crate) key: String,
    /// Parts of the names of the requested cases; empty for all.
    pub(crate) chosen: &'a [String],
}

impl Maker<'_> {
    pub(crate) fn cases(&self) -> Outcome<Vec<Case>> {
        let is_chosen = |name: &&str| {
            self.chosen.is_empty() || self.chosen.iter().any(|part| name.contains(part))
        };
        let compared = compared(self.real.address, &self.key)?.into_iter();
        let compared = compared.filter(|compared| is_chosen(&compared.name));
        let uncached = ["page of 50, uncached", "search, uncached"].into_iter();
        let uncached = uncached.filter(is_chosen).map(|name| self.uncached(name));
        let all = compared.map(|compared| self.compared(&compared));
        all.chain(uncached).collect()
    }

    /// A case in which all send the response of the release server; a server that sends anything
    /// else is left out.
    fn compared(&self, compared: &Compared) -> Outcome<Case> {
        let (name, request) = (compared.name, &compared.request[..]);
        let (depth, status) = (compared.depth, compared.status);
        let captured = fetch(self.real.address, request)?;
        if captured.status != status {
            return Err(format!("{name}: status {}", captured.status).into());
        }
        let path = captured.save(&self.scratch.join(name.replace([' ', ','], "-")))?;
        let mut contestants = vec![Contestant {
            kind: Kind::Real,
            server: Rc::clone(&self.real),
            requests: Requests::same(request, depth, status),
            warm_up: None,
        }];
        for kind in Kind::ALL.into_iter().skip(1) {
            let (server, request) = match self.start(kind, &path, &captured, request) {
                Ok(Some(started)) => started,
                Ok(None) => continue,
                Err(error) => {
                    println!("{name}: no {}: {error}", kind.name());
                    continue;
                }
            };
            let sent = fetch(server.address, &request)?;
            if let Some(difference) = captured.difference(&sent) {
                println!("{name}: no {}: {difference}", kind.name());
                continue;
            }
            contestants.push(Contestant {
                kind,
                server: Rc::new(server),
                requests: Requests::same(&request, depth, status),
                warm_up: None,
            });
        }
        Ok(Case {
            name,
            bytes: captured.raw.len(),
            contestants,
            rate: 0.0,
        })
    }

    /// Starts another server, if it is available. Also returns the request to send to it.
    fn start(
        &self,
        kind: Kind,
        path: &Path,
        captured: &Response,
        request: &[u8],
    ) -> Outcome<Option<(Server, Vec<u8>)>> {
        let core = Some(SERVER_CORE);
        let server = match (kind, &self.rivals) {
            (Kind::Hyper, _) => Server::start(reference(bare::FLAG, path, core)?)?,
            (Kind::Epoll, _) => Server::start(reference(epoll::FLAG, path, core)?)?,
            (Kind::Axum | Kind::Actix, Some(program)) => {
                let mut rival = command(program, core);
                let framework = if kind == Kind::Axum { "axum" } else { "actix" };
                rival.arg(framework).arg(path);
                Server::start(rival)?
            }
            (Kind::Nginx | Kind::NginxTuned, _) => {
                let prefix = path.with_file_name(kind.name().replace(", ", "-"));
                let tuned = kind == Kind::NginxTuned;
                return nginx::start(&prefix, captured, request, tuned, None);
            }
            _ => return Ok(None),
        };
        Ok(Some((server, request.to_vec())))
    }

    /// A case of the release server only: distinct requests, in all rounds together, beside one page
    /// from its cache.
    fn uncached(&self, name: &'static str) -> Outcome<Case> {
        let (address, count) = (self.real.address, full_or_quick(120_000, 4_000));
        let requests = if name.starts_with("page") {
            pages(address, count)?
        } else {
            searches(address, count)?
        };
        let first = requests.first().ok_or("no requests")?;
        let bytes = fetch(address, first)?.raw.len();
        // A server is under load once to warm up, and twice in each round.
        let runs = 2 * round_count() + 1;
        let page = || Requests::same(&get(PAGE, ""), 1, 200);
        let contestants = [
            (Kind::Real, Requests::distinct(requests, runs)),
            (Kind::Cached, page()),
        ];
        let contestants = contestants.map(|(kind, requests)| Contestant {
            kind,
            server: Rc::clone(&self.real),
            requests,
            warm_up: Some(page()),
        });
        Ok(Case {
            name,
            bytes,
            contestants: contestants.into(),
            rate: 0.0,
        })
    }
}
