//! The release server over TLS, beside itself without TLS, a bare hyper over tokio-rustls, and nginx
//! with the same certificate and bytes.
//!
//! In: the release binary with the feature `tls`, a synthetic dataset, certificates made with
//! `openssl`. Out: CPU time per request and per full handshake, and the memory of an idle connection.
//! `benches/README.md` describes this bench.
#![expect(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

mod client;
#[path = "../common/mod.rs"]
mod common;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::client::{Client, Target};
use crate::common::http::{found, get};
use crate::common::process::{Scratch, Server, command, pin_load, run};
use crate::common::requests::nearest;
use crate::common::stats::{median, median_ratio};
use crate::common::world::{Size, TINY};
use crate::common::{Outcome, SERVER_CORE, bare, is_quick, nginx, world};

/// Argument that runs this program as the bare hyper over TLS; its certificate and key follow.
const HYPER: &str = "--bare-hyper-tls";
const CONNECTIONS: usize = 32;
const IDLE: usize = 500;
const SIZE: Size = Size {
    islands: 10_000,
    creators: 3_000,
    days: 90,
};

/// A certificate and its key.
struct Pair([PathBuf; 2]);

impl Pair {
    fn new(directory: &Path, name: &str, key: &[&str]) -> Outcome<Pair> {
        let [certificate, private] =
            ["pem", "key"].map(|kind| directory.join(format!("{name}.{kind}")));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey"]).args(key);
        openssl.args(["-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
        openssl.arg(&private).arg("-out").arg(&certificate);
        run(openssl)?;
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600))?;
        Ok(Pair([certificate, private]))
    }

    fn paths(&self) -> [&Path; 2] {
        self.0.each_ref().map(PathBuf::as_path)
    }
}

/// A server in a case, and its CPU time for each request, in microseconds, by round.
struct Contestant {
    name: &'static str,
    server: Arc<Server>,
    target: Target,
    micros: Vec<f64>,
}

impl Contestant {
    fn new(name: &'static str, server: &Arc<Server>, target: Target) -> Contestant {
        Contestant {
            name,
            server: Arc::clone(server),
            target,
            micros: Vec::new(),
        }
    }

    /// Adds a round. `load` returns the number of requests.
    fn measure(&mut self, load: impl FnOnce(Target) -> Outcome<u64>) -> Outcome<()> {
        let before = self.server.cpu_nanos()?;
        let requests = load(self.target)?;
        let nanos = self.server.cpu_nanos()? - before;
        self.micros.push(nanos as f64 / 1000.0 / requests as f64);
        Ok(())
    }
}

/// Starts the release server with a TLS listener beside the plain one.
fn start(published: &Path, state: &Path, pair: &Pair) -> Outcome<(Arc<Server>, Target)> {
    let [certificate, key] = pair.paths();
    let mut server = world::serve("true", |serve| {
        serve.arg("--published").arg(published);
        serve.arg("--state").arg(state);
        serve.args(["--listen-tls", "127.0.0.1:0", "--tls-certificate"]);
        serve.arg(certificate).arg("--tls-key").arg(key);
    })?;
    let target = Target {
        address: server.tls_address()?,
        is_tls: true,
    };
    Ok((Arc::new(server), target))
}

/// Fails unless all of the contestants that speak TLS choose the same version, suite and group.
fn check_same(client: &Client, contestants: &[Contestant]) -> Outcome<String> {
    let targets = contestants.iter().map(|contestant| contestant.target);
    let targets = targets.filter(|target| target.is_tls);
    let chosen = targets.map(|target| client.negotiated(target));
    let chosen = chosen.collect::<Outcome<Vec<String>>>()?;
    if chosen.iter().any(|choice| *choice != chosen[0]) {
        return Err(format!("they differ: {chosen:?}").into());
    }
    Ok(chosen[0].clone())
}

/// Starts the bare hyper and nginx on a captured response.
fn rivals(scratch: &Path, name: &str, captured: &Path, pair: &Pair) -> Outcome<Vec<Contestant>> {
    let [certificate, key] = pair.paths();
    let mut hyper = command(std::env::current_exe()?, Some(SERVER_CORE));
    hyper.arg(HYPER).arg(captured).arg(certificate).arg(key);
    let hyper = Arc::new(Server::start(hyper)?);
    let of = |server: &Server| Target {
        address: server.address,
        is_tls: true,
    };
    let target = of(&hyper);
    let mut rivals = vec![Contestant::new("hyper, tokio-rustls", &hyper, target)];
    let response = common::http::Response::read(captured)?;
    let prefix = scratch.join(format!("nginx-{name}"));
    let tls = Some(pair.paths());
    if let Some((nginx, _)) = nginx::start(&prefix, &response, false, tls)? {
        let target = of(&nginx);
        rivals.push(Contestant::new("nginx", &Arc::new(nginx), target));
    }
    Ok(rivals)
}

fn print(title: &str, contestants: &[Contestant]) {
    println!("\n{title}");
    println!(
        "  {:<20}{:>10}{:>20}{:>18}",
        "", "CPU us", "island-metrics ÷ it", "(quartiles)"
    );
    for contestant in contestants {
        let ours = contestants[0].micros.iter();
        let mut ratios: Vec<f64> = ours.zip(&contestant.micros).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let [low, high] = [1, 3].map(|at| ratios[(ratios.len() - 1) * at / 4]);
        let ratio = median_ratio(&contestants[0].micros, &contestant.micros);
        let micros = median(contestant.micros.iter().copied());
        let name = contestant.name;
        println!("  {name:<20}{micros:>10.2}{ratio:>20.2}{low:>12.2} {high:.2}");
    }
}

fn benchmark(quick: bool) -> Outcome<()> {
    // Many short rounds: the speed of a shared machine changes within a second.
    let (rounds, millis) = if quick { (1, 20) } else { (61, 80) };
    let time = Duration::from_millis(millis);
    let (handshake_rounds, handshake_time) = if quick { (1, time) } else { (9, time * 6) };
    let scratch = Scratch::new()?;
    let ecdsa = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let ecdsa = Pair::new(scratch.path(), "ecdsa", &ecdsa)?;
    let rsa = Pair::new(scratch.path(), "rsa", &["rsa:2048"])?;
    let client = Client::new(&[ecdsa.paths()[0], rsa.paths()[0]])?;
    let published = world::published(scratch.path(), if quick { TINY } else { SIZE })?;
    println!("{}", pin_load()?);
    let state = scratch.path().join("state");
    let key = world::issue_key(&state, "bench@example.com")?;
    let key = format!("authorization: Bearer {key}\r\n");
    let (ours, target) = start(&published, &state, &ecdsa)?;
    let plain = Target {
        address: ours.address,
        is_tls: false,
    };
    let sizes = [300, 2_000, 20_000, 200_000];
    let paths = nearest(ours.address, &sizes)?;
    let mut first = None;
    for (size, path) in sizes.iter().zip(&paths) {
        let captured = scratch.path().join(format!("captured-{size}"));
        File::create(&captured)?.write_all(&found(ours.address, path)?.raw)?;
        first.get_or_insert_with(|| captured.clone());
        let mut contestants = vec![
            Contestant::new("island-metrics", &ours, target),
            Contestant::new("without TLS", &ours, plain),
        ];
        contestants.extend(rivals(
            scratch.path(),
            &size.to_string(),
            &captured,
            &ecdsa,
        )?);
        let chosen = check_same(&client, &contestants)?;
        let request = get(path, &key);
        measure_open(&client, &mut contestants, &request, (rounds, time))?;
        print(
            &format!("{size} B, requests on open connections, {chosen}"),
            &contestants,
        );
    }
    let captured = first.ok_or("no body")?;
    let request = get(&paths[0], &key);
    for (name, pair) in [("ECDSA P-256", &ecdsa), ("RSA-2048", &rsa)] {
        let (ours, target) = start(&published, &state, pair)?;
        let mut contestants = vec![Contestant::new("island-metrics", &ours, target)];
        let directory = name.replace(' ', "-");
        contestants.extend(rivals(scratch.path(), &directory, &captured, pair)?);
        let chosen = check_same(&client, &contestants)?;
        for _ in 0..handshake_rounds {
            for contestant in &mut contestants {
                contestant
                    .measure(|target| client.load_anew(target, &request, 8, handshake_time))?;
            }
        }
        print(
            &format!("full handshake and one request, {name}, {chosen}"),
            &contestants,
        );
    }
    let idle = if quick { 10 } else { IDLE };
    measure_idle(&client, &ours, target, &request, idle)
}

/// Measures requests on open connections. The first round is discarded.
fn measure_open(
    client: &Client,
    contestants: &mut [Contestant],
    request: &[u8],
    (rounds, time): (u32, Duration),
) -> Outcome<()> {
    let opened = contestants.iter();
    let opened = opened.map(|contestant| client.open(contestant.target, CONNECTIONS));
    let mut opened = opened.collect::<Outcome<Vec<_>>>()?;
    for round in 0..=rounds {
        for (contestant, connections) in contestants.iter_mut().zip(&mut opened) {
            contestant.measure(|_| client.load(connections, request, time))?;
            if round == 0 {
                contestant.micros.clear();
            }
        }
    }
    Ok(())
}

/// Prints the memory of an idle connection.
fn measure_idle(
    client: &Client,
    server: &Server,
    target: Target,
    request: &[u8],
    connections: usize,
) -> Outcome<()> {
    let resident = || Ok(server.usage()?.resident_kib);
    let before = resident()?;
    let with = client.idle(target, request, connections, resident)?;
    let each = with.saturating_sub(before) as f64 / connections as f64;
    println!("\nan idle TLS connection after one response: {each:.1} KiB (goal: at most 24)");
    Ok(())
}

fn serve_bare(captured: &Path, certificate: &Path, key: &Path) -> Outcome<()> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
    // Like those of the release server. nginx sends two.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    bare::serve_with(captured, Some(&Arc::new(config).into()))
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [flag, captured, certificate, key] if flag == HYPER => {
            serve_bare(captured.as_ref(), certificate.as_ref(), key.as_ref())
        }
        _ => benchmark(is_quick()),
    }
}
