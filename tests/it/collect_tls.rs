//! `collect` from an upstream over TLS: which certificates it accepts, and what it logs about others.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::collect::{arguments, assert_days, assert_sound, paths};
use crate::fake_upstream::FakeUpstream;
use crate::processes::{is_installed, stderr_of};
use crate::support::{TempDir, command, run};
use crate::tls_pairs::{ECDSA, EXPIRED, NAMES, Pair, VALID, pair, pair_of, text};

fn upstream(pair: &Pair) -> FakeUpstream {
    let certificate = CertificateDer::from_pem_file(&pair.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    FakeUpstream::over_tls(10, Arc::new(config))
}

#[test]
fn an_upstream_with_a_certificate_of_the_authority_is_collected_from() {
    if !is_installed("openssl", "openssl") {
        return;
    }
    let directory = TempDir::new();
    let paths = paths(&directory);
    let pair = pair(&directory.join("pki"), "sound");
    let upstream = upstream(&pair);
    let authority = ["--once", "--ca-file", text(&pair.authority)];
    let by_address = upstream.url().replace("localhost", "127.0.0.1");
    for url in [&upstream.url(), &by_address] {
        let output = run(&arguments(&paths, url, &authority));
        stderr_of(&output, 0);
    }
    assert_sound(&paths);
    assert_days(&paths, 10);
    upstream.assert_polite(200.0);
}

#[test]
fn other_certificates_are_refused_with_the_reason() {
    if !is_installed("openssl", "openssl") {
        return;
    }
    let directory = TempDir::new();
    let place = directory.join("pki");
    let sound = pair(&place, "sound");
    let other = pair(&directory.join("other"), "other");
    let expired = pair_of(&place, "expired", ECDSA, EXPIRED, NAMES);
    let named = pair_of(
        &place,
        "named",
        ECDSA,
        VALID,
        "subjectAltName=DNS:api.example",
    );
    for (presented, trusted, reason) in [
        (
            &sound,
            &other,
            "issued by an authority that is not trusted; --ca-file names others",
        ),
        (&expired, &sound, "certificate expired"),
        (&named, &sound, "not valid for name"),
    ] {
        let paths = paths(&directory);
        let upstream = upstream(presented);
        let url = upstream.url();
        let authority = ["--ca-file", text(&trusted.authority)];
        let mut collector = command();
        collector.args(arguments(&paths, &url, &authority));
        let mut child = collector.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = log.next().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.contains("the TLS handshake failed: "), "{line}");
        assert!(line.contains(reason), "{line}");
        assert!(upstream.seen().is_empty());
    }
}
