//! The servers of a case with one certificate, and their CPU time for each request.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::client::{Client, Target};
use crate::common::nginx;
use crate::common::prelude::*;
use crate::common::requests::Compared;

/// Argument that runs this program as the bare hyper over TLS; its certificate and key follow.
pub(crate) const HYPER: &str = "--bare-hyper-tls";
const CONNECTIONS: usize = 32;
/// Rounds for which connections are open: each has an address of its own, which may send 65,535
/// requests a day.
const ROUNDS_OPEN: u32 = 20;
/// The release server, which all others are compared with, and the others.
const OURS: &str = "island-metrics";
const PLAIN: &str = "without TLS";
const BARE: &str = "bare hyper";
const NGINX: &str = "nginx";

/// A certificate and its key.
pub(crate) struct Pair([PathBuf; 2]);

impl Pair {
    pub(crate) fn new(directory: &Path, name: &str, key: &[&str]) -> Outcome<Pair> {
        let [certificate, private] =
            ["pem", "key"].map(|kind| directory.join(format!("{name}.{kind}")));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey"]).args(key);
        openssl.args(["-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
        openssl.arg(&private).arg("-out").arg(&certificate);
        run(openssl)?;
        fs::set_permissions(&private, Permissions::from_mode(0o600))?;
        Ok(Pair([certificate, private]))
    }

    pub(crate) fn paths(&self) -> [&Path; 2] {
        self.0.each_ref().map(PathBuf::as_path)
    }
}

/// A server in a case, and its CPU time for each request, in microseconds, by round.
struct Contestant {
    name: &'static str,
    server: Arc<Server>,
    target: Target,
    request: Compared,
    micros: Vec<f64>,
}

impl Contestant {
    /// Adds a round. `load` returns the number of responses.
    fn measure(&mut self, load: impl FnOnce(Target, &Compared) -> Outcome<u64>) -> Outcome<()> {
        let load = || load(self.target, &self.request);
        self.micros.push(self.server.cpu_micros_each(load)?);
        Ok(())
    }
}

/// A case: servers that send the same response to the same load.
pub(crate) struct Case<'a> {
    client: &'a Client,
    contestants: Vec<Contestant>,
}

impl<'a> Case<'a> {
    /// Starts the other servers of a case in a directory of its own. They send the captured response
    /// of the release server with the certificate of that server.
    pub(crate) fn new(
        client: &'a Client,
        directory: &Path,
        (server, target): &(Arc<Server>, Target),
        pair: &Pair,
        request: &Compared,
    ) -> Outcome<Case<'a>> {
        let (captured, _) = client.fetch(*target, &request.request)?;
        let path = captured.save(directory)?;
        let mut case = Case {
            client,
            contestants: Vec::new(),
        };
        case.add(OURS, server, *target, request.clone());
        let mut hyper = reference(HYPER, &path, Some(SERVER_CORE))?;
        hyper.args(pair.paths());
        case.add_rival(BARE, Server::start(hyper)?, request.clone(), &captured)?;
        let (prefix, tls) = (directory.join("nginx"), Some(pair.paths()));
        if let Some((nginx, sent)) = nginx::start(&prefix, &captured, &request.request, false, tls)?
        {
            let mut request = request.clone();
            request.request = sent;
            case.add_rival(NGINX, nginx, request, &captured)?;
        }
        Ok(case)
    }

    fn add(&mut self, name: &'static str, server: &Arc<Server>, target: Target, request: Compared) {
        self.contestants.push(Contestant {
            name,
            server: Arc::clone(server),
            target,
            request,
            micros: Vec::new(),
        });
    }

    /// Adds another server, which must send the captured response.
    fn add_rival(
        &mut self,
        name: &'static str,
        server: Server,
        request: Compared,
        captured: &Response,
    ) -> Outcome<()> {
        let target = Target {
            address: server.address,
            is_tls: true,
        };
        let (sent, _) = self.client.fetch(target, &request.request)?;
        if let Some(difference) = captured.difference(&sent) {
            return Err(format!("{name}: {difference}").into());
        }
        self.add(name, &Arc::new(server), target, request);
        Ok(())
    }

    /// Adds the plain listener of the release server.
    pub(crate) fn add_plain(&mut self) {
        let ours = &self.contestants[0];
        let (server, request) = (Arc::clone(&ours.server), ours.request.clone());
        let target = Target {
            address: server.address,
            is_tls: false,
        };
        self.add(PLAIN, &server, target, request);
    }

    /// The version, suite and group that all servers choose. Fails if they differ.
    pub(crate) fn session(&self) -> Outcome<String> {
        let over_tls = self.contestants.iter().filter(|one| one.target.is_tls);
        let chosen = over_tls.map(|one| {
            let (_, stream) = self.client.fetch(one.target, &one.request.request)?;
            stream.negotiated()
        });
        let chosen = chosen.collect::<Outcome<Vec<String>>>()?;
        if chosen.iter().any(|choice| *choice != chosen[0]) {
            return Err(format!("the sessions differ: {chosen:?}").into());
        }
        Ok(chosen[0].clone())
    }

    /// Measures requests on open connections. The first round is discarded.
    pub(crate) fn measure_open(&mut self, rounds: u32, time: Duration) -> Outcome<()> {
        let client = self.client;
        let mut opened = Vec::new();
        for round in 0..=rounds {
            if round % ROUNDS_OPEN == 0 {
                let targets = self.contestants.iter().map(|contestant| contestant.target);
                let pools = targets.map(|target| client.open(target, CONNECTIONS));
                opened = pools.collect::<Outcome<Vec<_>>>()?;
            }
            for (contestant, pool) in self.contestants.iter_mut().zip(&mut opened) {
                contestant.measure(|_, request| {
                    let mut requests =
                        Requests::same(&request.request, request.depth, request.status);
                    Ok(closed(pool, &mut requests, time)?.0)
                })?;
                if round == 0 {
                    contestant.micros.clear();
                }
            }
        }
        Ok(())
    }

    pub(crate) fn measure_handshakes(&mut self, rounds: u32, time: Duration) -> Outcome<()> {
        let client = self.client;
        for _ in 0..rounds {
            for contestant in &mut self.contestants {
                contestant.measure(|target, request| {
                    client.load_new_connections(target, request, time)
                })?;
            }
        }
        Ok(())
    }

    /// A line of the table: the microseconds, and each ratio with the bounds of its median.
    pub(crate) fn row(&self, name: &str) -> String {
        let of = |name: &str| self.contestants.iter().find(|one| one.name == name);
        let ours = &self.contestants[0].micros;
        let mut row = format!("| {name} | {:.1} |", median(ours));
        for other in [PLAIN, BARE, NGINX] {
            if let Some(Contestant { micros, .. }) = of(other) {
                let ratios = ours.iter().zip(micros).map(|(a, b)| a / b);
                let [low, high] = median_bounds(ratios);
                let ratio = median_ratio(ours, micros);
                let _ = write!(row, " {ratio:.2} ({low:.2} to {high:.2}) |");
            } else {
                row += " |";
            }
        }
        row
    }
}

/// The bounds of the median's 95 % confidence interval: of the sorted values, those that are
/// `1.96 √n / 2` positions before and after the middle.
fn median_bounds(values: impl IntoIterator<Item = f64>) -> [f64; 2] {
    let values = sorted(values);
    let middle = values.len() / 2;
    let distance = (0.98 * (values.len() as f64).sqrt()).ceil() as usize;
    let at = |position: usize| values.get(position).copied().unwrap_or(f64::NAN);
    let last = values.len().saturating_sub(1);
    [
        at(middle.saturating_sub(distance)),
        at((middle + distance).min(last)),
    ]
}

/// The first two lines of the table.
pub(crate) const TABLE_HEAD: &str = "\
| case | µs | to itself without TLS | to bare hyper, tokio-rustls | to nginx |
| --- | ---: | ---: | ---: | ---: |";
