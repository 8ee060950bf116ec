//! The cases: for each the servers that take part, with the load that each gets.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::common::flow::Requests;
use crate::common::http::{Captured, fetch, found, get};
use crate::common::process::{Server, command, myself};
use crate::common::{Outcome, SERVER_CORE, bare};
use crate::requests::{PAGE, nearest, pages, searches};
use crate::settings::Settings;
use crate::{epoll, nginx};

/// Who is measured.
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
    /// The real server, asked for the same page from the cache.
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

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Real => "island-metrics",
            Kind::Hyper => "bare hyper",
            Kind::Epoll => "epoll loop",
            Kind::Axum => "axum",
            Kind::Actix => "actix-web",
            Kind::Nginx => "nginx",
            Kind::NginxTuned => "nginx, tuned",
            Kind::Cached => "page, cached",
        }
    }
}

/// A server under the load of a case.
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    pub(crate) server: Rc<Server>,
    pub(crate) requests: Requests,
}

/// What all its servers are asked for.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Bytes of an answer, head and body; of one of them where they differ.
    pub(crate) bytes: usize,
    pub(crate) contestants: Vec<Contestant>,
    /// Batches a second of the open loop; chosen by the slowest server.
    pub(crate) rate: f64,
}

/// What cases are made with.
pub(crate) struct Maker<'a> {
    pub(crate) real: Rc<Server>,
    pub(crate) scratch: &'a Path,
    pub(crate) rivals: Option<PathBuf>,
    /// The secret of a key, for `Authorization`.
    pub(crate) key: String,
    /// Requests that differ, in each case that wants them.
    pub(crate) distinct: usize,
    /// How often a server is put under load in a case, at most.
    pub(crate) runs: usize,
    /// Parts of the names of the cases that are wanted; all cases where there are none.
    pub(crate) chosen: Vec<String>,
    made: usize,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(
        real: Server,
        scratch: &'a Path,
        rivals: Option<PathBuf>,
        key: String,
        settings: &Settings,
    ) -> Maker<'a> {
        Maker {
            real: Rc::new(real),
            scratch,
            rivals,
            key,
            distinct: settings.distinct,
            // To warm up, and in each round twice.
            runs: 2 * settings.rounds + 1,
            chosen: settings.chosen.clone(),
            made: 0,
        }
    }

    pub(crate) fn cases(&mut self, say: &mut dyn FnMut(String)) -> Outcome<Vec<Case>> {
        let address = self.real.address;
        let sizes = nearest(address, &[300, 2_000, 20_000, 200_000])?;
        let [small, two, twenty, large] = &sizes[..] else {
            return Err("sizes are missing".into());
        };
        let page = found(address, PAGE)?;
        let tag = page.header("etag").ok_or("no entity tag")?;
        let known = format!("if-none-match: {tag}\r\n");
        let key = format!("authorization: Bearer {}\r\n", self.key);
        let gzip = "accept-encoding: gzip\r\n";
        let mut cases = Vec::new();
        for (name, target, headers, depth, status) in [
            ("300 B", small.as_str(), "", 1, 200),
            ("2 KB", two, "", 1, 200),
            ("20 KB", twenty, "", 1, 200),
            ("200 KB", large, "", 1, 200),
            ("page of 50, cached", PAGE, "", 1, 200),
            ("page of 50, gzip", PAGE, gzip, 1, 200),
            ("page of 50, 304", PAGE, known.as_str(), 1, 304),
            ("300 B, with a key", small, key.as_str(), 1, 200),
            ("300 B, 16 pipelined", small, "", 16, 200),
        ] {
            if !self.is_chosen(name) {
                continue;
            }
            let request = get(target, headers);
            cases.push(self.compared(name, &request, (depth, status), say)?);
        }
        let name = "page of 50, uncached";
        if self.is_chosen(name) {
            cases.push(self.alone(name, pages(address, self.distinct)?)?);
        }
        let name = "search, uncached";
        if self.is_chosen(name) {
            cases.push(self.alone(name, searches(address, self.distinct)?)?);
        }
        Ok(cases)
    }

    fn is_chosen(&self, name: &str) -> bool {
        self.chosen.is_empty() || self.chosen.iter().any(|part| name.contains(part))
    }

    /// A case in which all send what the real server sent; who sends anything else is left out.
    fn compared(
        &mut self,
        name: &'static str,
        request: &[u8],
        (depth, status): (usize, u16),
        say: &mut dyn FnMut(String),
    ) -> Outcome<Case> {
        let captured = fetch(self.real.address, request)?;
        if captured.status != status {
            return Err(format!("{name}: answered {}", captured.status).into());
        }
        self.made += 1;
        let directory = self.scratch.join(format!("case-{}", self.made));
        std::fs::create_dir_all(&directory)?;
        let path = directory.join("captured");
        File::create(&path)?.write_all(&captured.raw)?;
        let mut contestants = vec![Contestant {
            kind: Kind::Real,
            server: Rc::clone(&self.real),
            requests: Requests::same(request, depth, status),
        }];
        for kind in &Kind::ALL[1..] {
            let mut request = request.to_vec();
            let started = self.start(*kind, &path, &captured, &mut request);
            let server = match started {
                Ok(Some(server)) => server,
                Ok(None) => continue,
                Err(error) => {
                    say(format!("{name}: no {}: {error}", kind.name()));
                    continue;
                }
            };
            let sent = fetch(server.address, &request)?;
            if let Some(difference) = captured.difference(&sent) {
                say(format!("{name}: no {}: {difference}", kind.name()));
                continue;
            }
            contestants.push(Contestant {
                kind: *kind,
                server: Rc::new(server),
                requests: Requests::same(&request, depth, status),
            });
        }
        Ok(Case {
            name,
            bytes: captured.raw.len(),
            contestants,
            rate: 0.0,
        })
    }

    fn start(
        &self,
        kind: Kind,
        path: &Path,
        captured: &Captured,
        request: &mut Vec<u8>,
    ) -> Outcome<Option<Server>> {
        let core = Some(SERVER_CORE);
        let server = match (kind, &self.rivals) {
            (Kind::Hyper, _) => Server::start(myself(bare::FLAG, path, core)?)?,
            (Kind::Epoll, _) => Server::start(myself(epoll::FLAG, path, core)?)?,
            (Kind::Axum | Kind::Actix, Some(program)) => {
                let mut rival = command(program, core);
                let framework = if kind == Kind::Axum { "axum" } else { "actix" };
                rival.arg(framework).arg(path);
                Server::start(rival)?
            }
            (Kind::Nginx | Kind::NginxTuned, _) => {
                let prefix = path.with_file_name(kind.name().replace(", ", "-"));
                let tuned = kind == Kind::NginxTuned;
                let Some((server, tag)) = nginx::start(&prefix, captured, tuned)? else {
                    return Ok(None);
                };
                if captured.status == 304 {
                    *request = get(PAGE, &format!("if-none-match: {tag}\r\n"));
                }
                server
            }
            _ => return Ok(None),
        };
        Ok(Some(server))
    }

    /// A case of the real server only, beside the same server with one page from its cache.
    fn alone(&self, name: &'static str, requests: Vec<Vec<u8>>) -> Outcome<Case> {
        let first = requests.first().ok_or("no requests")?;
        let bytes = fetch(self.real.address, first)?.raw.len();
        let contestant = |kind, requests| Contestant {
            kind,
            server: Rc::clone(&self.real),
            requests,
        };
        let cached = Requests::same(&get(PAGE, ""), 1, 200);
        Ok(Case {
            name,
            bytes,
            contestants: vec![
                contestant(Kind::Real, Requests::list(requests, Some(self.runs), false)),
                contestant(Kind::Cached, cached),
            ],
            rate: 0.0,
        })
    }
}
