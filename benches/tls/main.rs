//! The release server over TLS, beside itself without TLS and others. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

mod client;
#[path = "../common/mod.rs"]
mod common;
mod contestants;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::client::{Client, Target};
use crate::common::prelude::*;
use crate::common::requests::{Compared, compared};
use crate::contestants::{Case, HYPER, Pair, TABLE_HEAD};

const IDLE: usize = 500;

/// Starts the release server with a TLS listener beside the plain one.
fn start(published: &Path, state: &Path, pair: &Pair) -> Outcome<(Arc<Server>, Target)> {
    let [certificate, key] = pair.paths();
    let mut server = world::serve(|serve| {
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

/// Measures the cases whose names contain one of `chosen`; all cases, handshakes and idle connections
/// if there is none.
fn benchmark(quick: bool, chosen: &[String]) -> Outcome<()> {
    // Many short rounds: the speed of a shared machine changes within a second.
    let (rounds, millis) = if quick { (1, 20) } else { (121, 50) };
    let time = Duration::from_millis(millis);
    let (handshake_rounds, handshake_time) = if quick { (1, time) } else { (21, time * 8) };
    let scratch = Scratch::new()?;
    let ecdsa = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let ecdsa = Pair::new(scratch.path(), "ecdsa", &ecdsa)?;
    let rsa = Pair::new(scratch.path(), "rsa", &["rsa:2048"])?;
    let client = Client::new(&[ecdsa.paths()[0], rsa.paths()[0]])?;
    let published = world::published(scratch.path(), if quick { TINY } else { MEDIUM })?;
    println!("{}\n", pin_load()?);
    let state = scratch.path().join("state");
    let key = world::issue_key(&state, "bench@example.com")?;
    let ours = start(&published, &state, &ecdsa)?;
    let mut sessions = Vec::new();
    println!("{TABLE_HEAD}");
    let mut small = None;
    for (at, compared) in compared(ours.0.address, &key)?.into_iter().enumerate() {
        let directory = scratch.path().join(format!("case-{at}"));
        small.get_or_insert_with(|| compared.clone());
        let is_chosen = |part: &String| compared.name.contains(part.as_str());
        if !chosen.is_empty() && !chosen.iter().any(is_chosen) {
            continue;
        }
        let mut case = Case::new(&client, &directory, &ours, &ecdsa, &compared)?;
        case.add_plain();
        case.measure_open(rounds, time)?;
        println!("{}", case.row(compared.name));
        sessions.push(case.session()?);
    }
    let small = small.ok_or("no cases")?;
    let pairs = [("ECDSA P-256", &ecdsa), ("RSA-2048", &rsa)];
    for (name, pair) in pairs.into_iter().filter(|_| chosen.is_empty()) {
        let directory = scratch.path().join(name.replace(' ', "-"));
        let ours = start(&published, &state, pair)?;
        let mut case = Case::new(&client, &directory, &ours, pair, &small)?;
        case.measure_handshakes(handshake_rounds, handshake_time)?;
        let name = format!("full handshake and a request, {name}");
        println!("{}", case.row(&name));
        sessions.push(case.session()?);
    }
    let idle = if quick { 10 } else { IDLE };
    println!("\nMedians of {rounds} rounds, with their 95 % bounds.");
    sessions.dedup();
    println!("All sessions: {}.", sessions.join(", "));
    if chosen.is_empty() {
        measure_idle(&client, &ours, &small, idle)?;
    }
    Ok(())
}

/// Prints the memory of an idle connection.
fn measure_idle(
    client: &Client,
    (server, target): &(Arc<Server>, Target),
    request: &Compared,
    connections: usize,
) -> Outcome<()> {
    let before = server.usage()?.resident_kib;
    let opened = (0..connections).map(|_| client.fetch(*target, &request.request));
    let opened = opened.collect::<Outcome<Vec<_>>>()?;
    thread::sleep(Duration::from_millis(200));
    let with = server.usage()?.resident_kib;
    drop(opened);
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
    bare::serve(captured, Some(&Arc::new(config).into()))
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [flag, captured, certificate, key] if flag == HYPER => {
            serve_bare(captured.as_ref(), certificate.as_ref(), key.as_ref())
        }
        _ => {
            let is_name = |word: &&String| !word.starts_with("--");
            let chosen: Vec<String> = arguments.iter().filter(is_name).cloned().collect();
            benchmark(is_quick(), &chosen)
        }
    }
}
