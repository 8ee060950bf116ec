//! A store over TLS: the certificates that servers accept, and the log lines about others.

use crate::prelude::*;
use crate::shared_quota::TARGET;
use crate::store::{Peer, Store, password_file, program};
use crate::tls_pairs::{Pair, pair, pairs, text};

const PASSWORD: &str = "sesame";

/// Whether the store can use TLS. Prints what to install if not.
fn has_tls() -> bool {
    // It stops at the first setting that it does not accept.
    let words = ["--port", "0", "--tls-port", "0", "--loglevel", "none"];
    let Ok(output) = Command::new(program()).args(words).output() else {
        report_skipped("redis-server, `apt-get install redis-server`");
        return false;
    };
    let refused = [output.stdout, output.stderr].concat();
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert!(
        refused.contains("loglevel") || refused.contains("tls-port"),
        "{refused}"
    );
    let has_tls = !refused.contains("tls-port");
    if !has_tls {
        report_skipped("a redis-server that was built with TLS");
    }
    has_tls
}

/// Starts a store with this certificate. Returns its TLS port; only the user `ann` may use it.
fn start(pair: &Pair) -> (Store, u16) {
    let port = address().0.port();
    let paths = [&pair.certificate, &pair.key, &pair.authority].map(|path| text(path));
    let [certificate, key, authority] = paths;
    let flags = format!(
        "--tls-port {port} --tls-cert-file {certificate} --tls-key-file {key} \
         --tls-ca-cert-file {authority} --tls-auth-clients no \
         --user ann on >{PASSWORD} +@all ~imq:* --user default off"
    );
    (Store::start(&words(&flags)).unwrap(), port)
}

/// The arguments of a peer that knows the password, and trusts the certificates of a file.
struct Arguments(Vec<String>);

impl Arguments {
    fn new(directory: &TempDir, ca_file: Option<&Path>) -> Arguments {
        let password = password_file(directory, PASSWORD);
        let mut words = vec!["--shared-quota-password-file", text(&password)];
        words.push("--shared-keys");
        if let Some(file) = ca_file {
            words.extend(["--shared-quota-ca-file", text(file)]);
        }
        Arguments(words.into_iter().map(str::to_owned).collect())
    }

    fn words(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

#[test]
fn a_store_with_a_certificate_of_the_authority_is_used() {
    if !is_installed("openssl", "openssl") || !has_tls() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("pki"), "store");
    let (_store, port) = start(&pair);
    let arguments = Arguments::new(&directory, Some(&pair.authority));
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("rediss://ann@{host}:{port}");
        let peer = Peer::start(&url, &directory.join(host), 1, &arguments.words());
        peer.await_up(true);
        wait_for("keys", || peer.keys_metric("up").eq(&1.0));
        wait_for("a lease", || {
            peer.connect().get(TARGET);
            peer.metric("requests_total{result=\"answered\"}") >= 1.0
        });
    }
    // The certificates of the system are those of a variable, if it is set.
    let mut command = command();
    command.env("SSL_CERT_FILE", &pair.authority);
    let arguments = Arguments::new(&directory, None);
    let (url, state) = (
        format!("rediss://ann@localhost:{port}"),
        directory.join("variable"),
    );
    let peer = Peer::start_as(command, &url, &state, 1, &arguments.words());
    peer.await_up(true);
}

/// The reasons that are logged about an untrusted certificate, an expired one, one for another name, and a missing file.
const REASONS: &str = "
the TLS handshake failed: the certificate was issued by an authority that is not trusted; --shared-quota-ca-file names others
the certificate expired;
not valid for name
missing.pem: there is no such file
";

#[test]
fn other_certificates_are_logged_once_and_requests_are_served() {
    if !is_installed("openssl", "openssl") || !has_tls() {
        return;
    }
    let directory = TempDir::new();
    let [sound, other, expired, named] = pairs(&directory);
    let missing = directory.join("missing.pem");
    let all = [
        ("untrusted", &sound, &other.authority),
        ("expired", &expired, &sound.authority),
        ("named", &named, &sound.authority),
        ("missing", &sound, &missing),
    ];
    for ((name, presented, trusted), reason) in all.into_iter().zip(REASONS.trim().lines()) {
        let (_store, port) = start(presented);
        let url = format!("rediss://ann@localhost:{port}");
        let arguments = Arguments::new(&directory, Some(trusted));
        let peer = Peer::start(&url, &directory.join(name), 1, &arguments.words());
        let ends = ["; until it grants credits", "; the known keys stay valid"];
        // On a loaded machine, handshakes may be late at first.
        let lines = |end: &str| -> Vec<String> {
            let mut lines = peer.server.lines();
            lines.retain(|line| line.contains(end) && !line.contains("no answer within"));
            lines
        };
        for end in ends {
            wait_for(end, || !lines(end).is_empty());
        }
        // More attempts to connect follow.
        thread::sleep(Duration::from_secs(1));
        for end in ends {
            let lines = lines(end);
            assert_eq!(lines.len(), 1, "{lines:?}");
            let start = format!("rediss://localhost:{port}: ");
            assert!(
                lines[0].contains(&start) && lines[0].contains(reason),
                "{lines:?}"
            );
        }
        peer.await_up(false);
        assert_eq!(peer.connect().get(TARGET).status, 200);
    }
}

#[test]
fn a_scheme_that_does_not_fit_the_store_is_named() {
    if !is_installed("openssl", "openssl") || !has_tls() {
        return;
    }
    let directory = TempDir::new();
    let (store, tls_port) = start(&pair(&directory.join("pki"), "store"));
    for (name, url, hint) in [
        (
            "plain",
            store.url().replace("redis://", "rediss://ann@"),
            "; if it does not use TLS, write redis://; until it grants credits",
        ),
        (
            "tls",
            format!("redis://ann@localhost:{tls_port}"),
            "; if it uses TLS, write rediss://; until it grants credits",
        ),
    ] {
        let arguments = Arguments::new(&directory, None);
        let peer = Peer::start(&url, &directory.join(name), 1, &arguments.words());
        peer.await_any_line(hint);
    }
}
