//! `collect` from an upstream over TLS: which certificates it accepts, and what it logs about others.

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::collect::{arguments, assert_days, assert_sound, paths};
use crate::fake_upstream::FakeUpstream;
use crate::prelude::*;
use crate::tls_pairs::{Pair, pair, pairs, text};

fn upstream(pair: &Pair) -> FakeUpstream {
    let certificate = CertificateDer::from_pem_file(&pair.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    FakeUpstream::over_tls(10, Arc::new(config))
}

/// An upstream with the certificate of an authority; `None` without openssl.
fn sound_upstream(directory: &TempDir) -> Option<(Pair, FakeUpstream)> {
    is_installed("openssl", "openssl").then(|| {
        let pair = pair(&directory.join("pki"), "sound");
        let upstream = upstream(&pair);
        (pair, upstream)
    })
}

#[test]
fn an_upstream_with_a_certificate_of_the_authority_is_collected_from() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let Some((pair, upstream)) = sound_upstream(&directory) else {
        return;
    };
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
    let [sound, other, expired, named] = pairs(&directory);
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

/// A proxy that connects to whatever is requested. Returns its port, and the hosts requested.
fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requested = Arc::new(Mutex::new(Vec::new()));
    let hosts = Arc::clone(&requested);
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = BufReader::new(client.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                client.read_line(&mut head).unwrap();
            }
            let host = head.split(' ').nth(1).unwrap().to_owned();
            assert!(head.starts_with("CONNECT "), "{head}");
            let server = TcpStream::connect(&host).unwrap();
            hosts.lock().unwrap().push(host);
            let client = client.into_inner();
            (&client).write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    (port, requested)
}

#[test]
fn a_proxy_of_the_environment_is_used_unless_the_host_is_excluded() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let Some((pair, upstream)) = sound_upstream(&directory) else {
        return;
    };
    let url = upstream.url();
    let authority = ["--once", "--ca-file", text(&pair.authority)];
    let (port, requested) = proxy();
    for (no_proxy, count) in [("example.com", 1), ("localhost", 1)] {
        let mut collector = command();
        collector.args(arguments(&paths, &url, &authority));
        // An empty variable does not hide the other.
        collector.env("HTTPS_PROXY", "");
        collector.env("https_proxy", format!("http://127.0.0.1:{port}"));
        collector.env("NO_PROXY", no_proxy);
        stderr_of(&collector.output().unwrap(), 0);
        assert_eq!(requested.lock().unwrap().len(), count, "{no_proxy}");
    }
    assert_eq!(
        requested.lock().unwrap()[0],
        url[8..].split('/').next().unwrap()
    );
    assert_days(&paths, 10);
    let mut collector = command();
    collector.args(arguments(&paths, &url, &authority));
    collector.env("HTTPS_PROXY", "socks5://127.0.0.1:1");
    let log = stderr_of(&collector.output().unwrap(), 78);
    assert!(
        log.contains("HTTPS_PROXY must be http://HOST:PORT"),
        "{log}"
    );
}
