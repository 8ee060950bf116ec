//! Certificates that change while a server runs (CONTRACT section 10). The files are replaced as
//! certbot, lego and administrators do it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::ClientConfig;

use crate::admin::{address, metrics};
use crate::support::{TempDir, is_slow, run, write_bytes};
use crate::tls_pairs::{
    ECDSA, EXPIRED, NAMES, Pair, RSA, arguments, certificate, client_config, curl, fetch,
    has_openssl, openssl, pair, pair_of, presented, set_mode, start, text, try_presented,
};

/// The time within which a new pair is in use: a second, and more on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until a server presents a certificate.
#[track_caller]
fn await_certificate(address: SocketAddr, config: &Arc<ClientConfig>, wanted: &[u8]) {
    let begun = Instant::now();
    while presented(address, config) != wanted {
        assert!(begun.elapsed() < PATIENCE, "the old one is still in use");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writes over a file in place, as `cp` does.
fn overwrite(from: &Path, to: &Path) {
    write_bytes(to, &fs::read(from).unwrap());
}

#[test]
fn a_new_pair_is_used_in_whatever_order_and_way_its_files_are_written() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let of = |name: &str| pair(&directory.join("tls"), name);
    let (used, first, second) = (of("used"), of("first"), of("second"));
    let (_server, address) = start(&used, &[]);
    let config = client_config(&used);
    let gap = || thread::sleep(Duration::from_millis(600));
    let renamed = |from: &Path, to: &Path| {
        let beside = to.with_extension("new");
        fs::copy(from, &beside).unwrap();
        fs::rename(&beside, to).unwrap();
    };
    for at in 0..4 {
        let new = if at % 2 == 0 { &first } else { &second };
        let mut steps = [(&new.certificate, &used.certificate), (&new.key, &used.key)];
        if at >= 2 {
            steps.reverse();
        }
        for (from, to) in steps {
            if at % 2 == 0 {
                overwrite(from, to);
            } else {
                renamed(from, to);
            }
            gap();
        }
        set_mode(&used.key, 0o640);
        await_certificate(address, &config, &certificate(&new.certificate));
    }
}

#[test]
fn links_that_are_switched_as_by_certbot_are_followed() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let (archive, live) = (directory.join("archive"), directory.join("live"));
    let (first, second) = (pair(&archive, "one"), pair(&archive, "two"));
    fs::create_dir_all(&live).unwrap();
    let (certificate_link, key_link) = (live.join("fullchain.pem"), live.join("privkey.pem"));
    symlink(&first.certificate, &certificate_link).unwrap();
    symlink(&first.key, &key_link).unwrap();
    let (by_link, authority) = (certificate_link.clone(), first.authority.clone());
    let used = Pair {
        certificate: by_link,
        key: key_link.clone(),
        authority,
    };
    let (_server, address) = start(&used, &[]);
    let config = client_config(&used);
    for (target, link) in [
        (&second.certificate, &certificate_link),
        (&second.key, &key_link),
    ] {
        fs::remove_file(link).unwrap();
        thread::sleep(Duration::from_millis(300));
        symlink(target, link).unwrap();
    }
    await_certificate(address, &config, &certificate(&second.certificate));
}

#[test]
fn the_hook_installs_what_certbot_and_lego_have_renewed() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let (of_certbot, of_lego) = (directory.join("live/a"), directory.join("lego"));
    let (first, second) = (pair(&of_certbot, "fullchain"), pair(&of_lego, "second"));
    fs::rename(&first.key, of_certbot.join("privkey.pem")).unwrap();
    let installed = directory.join("etc/tls");
    let group = Command::new("id").arg("-gn").output().unwrap();
    let group = String::from_utf8(group.stdout).unwrap();
    let hook = |variables: &[(&str, &Path)]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tls/deploy-hook");
        let mut command = Command::new("sh");
        command
            .arg(script)
            .env("TLS_DIRECTORY", &installed)
            .env("TLS_GROUP", group.trim());
        command
            .envs(variables.iter().copied())
            .output()
            .unwrap()
            .status
    };
    assert_eq!(hook(&[]).code(), Some(64));
    assert!(hook(&[("RENEWED_LINEAGE", &of_certbot)]).success());
    let used = Pair {
        certificate: installed.join("certificate.pem"),
        key: installed.join("key.pem"),
        authority: first.authority,
    };
    let (_server, address) = start(&used, &[]);
    let (by_first, by_second) = (client_config(&used), client_config(&second));
    await_certificate(address, &by_first, &certificate(&first.certificate));
    let (chain, key) = (second.certificate.as_path(), second.key.as_path());
    assert!(hook(&[("LEGO_CERT_PATH", chain), ("LEGO_CERT_KEY_PATH", key)]).success());
    let begun = Instant::now();
    // Another authority: until it is used, the handshake fails.
    while try_presented(address, &by_second).as_deref() != Some(&certificate(chain)[..]) {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
    let mode = fs::metadata(&used.key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_pair_that_cannot_be_used_is_logged_once_and_the_old_one_stays() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let of = |name: &str| pair(&directory.join("tls"), name);
    let (used, other) = (of("used"), of("other"));
    let (admin, port) = address();
    let (server, address) = start(&used, &["--admin", &port]);
    let config = client_config(&used);
    let before = presented(address, &config);
    let refused = |count: f64| {
        let name = "island_metrics_reloads_total{what=\"certificate\",result=\"refused\"}";
        assert!((metrics(admin)[name] - count).abs() < 0.1, "{count}");
    };
    let kept = fs::read(&used.key).unwrap();
    overwrite(&other.key, &used.key);
    server.await_line("does not belong to the certificate");
    write_bytes(&used.key, b"no key");
    server.await_line("must contain a private key in PEM, got none");
    fs::remove_file(&used.key).unwrap();
    server.await_line("No such file");
    write_bytes(&used.key, &kept);
    set_mode(&used.key, 0o604);
    server.await_line("must be 640 or less, got 604");
    thread::sleep(Duration::from_secs(2));
    refused(4.0);
    assert_eq!(presented(address, &config), before);
    set_mode(&used.key, 0o600);
    overwrite(&other.certificate, &used.certificate);
    overwrite(&other.key, &used.key);
    await_certificate(address, &config, &certificate(&other.certificate));
    let lines = server.lines();
    let complaints = lines.iter().filter(|line| line.contains("stays in use"));
    assert_eq!(complaints.count(), 4, "{lines:#?}");
}

#[test]
fn the_expiry_of_the_certificate_in_use_is_a_metric() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let dates = [
        "-startdate",
        "20260101000000Z",
        "-enddate",
        "20390102030405Z",
    ];
    let pair = pair_of(&directory.join("tls"), "a", ECDSA, &dates, NAMES);
    let (admin, port) = address();
    let (_server, address) = start(&pair, &["--admin", &port]);
    let expiry = metrics(admin)["island_metrics_tls_certificate_expiry_seconds"];
    // `date -u -d '2039-01-02 03:04:05' +%s`
    assert!((expiry - 2_177_550_245.0).abs() < 0.5, "{expiry}");
    fetch(address, &client_config(&pair), "/v1");
    let full = metrics(admin)["island_metrics_tls_handshakes_total{result=\"full\"}"];
    assert!((full - 1.0).abs() < 0.1);
}

/// Ten minutes in the long form, with a new pair five times a second.
#[test]
fn switching_certificates_under_load_fails_no_request() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let tls = directory.join("tls");
    let pairs: Vec<Pair> = ["a", "b", "c"]
        .iter()
        .map(|name| pair(&tls, name))
        .collect();
    let used = pair(&tls, "used");
    let (server, address) = start(&used, &["--workers", "2", "--limit-anonymous", "65535"]);
    let config = client_config(&used);
    let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let seconds = if is_slow() { 600 } else { 5 };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let response = fetch(address, &config, "/v1/health");
                    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let begun = Instant::now();
        let mut switches = 0;
        while begun.elapsed() < Duration::from_secs(seconds) {
            let new = &pairs[switches % pairs.len()];
            overwrite(&new.certificate, &used.certificate);
            thread::sleep(Duration::from_millis(100));
            overwrite(&new.key, &used.key);
            switches += 1;
            if switches % 10 == 0 {
                await_certificate(address, &config, &certificate(&new.certificate));
            }
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(requests.load(Ordering::Relaxed) > 100);
    let lines = server.lines();
    assert!(
        !lines.iter().any(|line| line.contains("panicked")),
        "{lines:?}"
    );
    // A client that trusts another authority is refused by itself, not by the server.
    openssl(
        &[
            "verify",
            "-CAfile",
            text(&used.authority),
            text(&used.certificate),
        ],
        &tls,
    );
}

#[test]
fn settings_that_cannot_work_stop_the_start_with_a_line() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let of = |name: &str| pair(&directory.join("tls"), name);
    let (good, mixed, open, locked) = (of("a"), of("b"), of("c"), of("d"));
    let mixed = Pair {
        key: good.key.clone(),
        ..mixed
    };
    set_mode(&open.key, 0o644);
    let encrypt = [
        "pkey", "-aes256", "-passout", "pass:x", "-in", "d.key", "-out", "e.key",
    ];
    openssl(&encrypt, &directory.join("tls"));
    let encrypted = Pair {
        key: directory.join("tls/e.key"),
        ..locked
    };
    set_mode(&encrypted.key, 0o600);
    let swapped = Pair {
        certificate: good.key.clone(),
        ..of("f")
    };
    let missing = Pair {
        key: directory.join("none"),
        ..of("g")
    };
    let listen = ["serve", "--listen-tls", "127.0.0.1:0"];
    for (pair, part) in [
        (&mixed, "does not belong to the certificate"),
        (&open, "must be 640 or less, got 644"),
        (&encrypted, "is encrypted; decrypt it with"),
        (&swapped, "must contain a certificate in PEM, got none"),
        (&missing, "No such file"),
    ] {
        let output = run(&[&listen[..], &arguments(pair)].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        assert!(said.contains(part) && said.lines().count() <= 2, "{said}");
    }
    for (words, part) in [
        (&listen[..], "--listen-tls requires --tls-certificate PATH"),
        (
            &["serve", "--tls-key", "x"],
            "--tls-key requires --tls-certificate PATH",
        ),
        (
            &["serve", "--tls-certificate", "x"],
            "--tls-certificate requires --tls-key PATH",
        ),
    ] {
        let output = run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_log_warns_of_an_rsa_key_a_missing_chain_and_dates_and_serves() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair_of(
        &directory.join("tls"),
        "a",
        RSA,
        EXPIRED,
        "subjectAltName=DNS:other",
    );
    let (server, address) = start(&pair, &[]);
    let log = server.lines().join("\n");
    for part in [
        "TLS certificate loaded, valid until 2024-02-01T00:00:00Z",
        "the TLS certificate expired at 2024-02-01T00:00:00Z",
        "has no intermediate certificate",
        "is an RSA key",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    // Clients refuse it; those that verify nothing are served.
    let refused = curl(address, &pair, &[]);
    assert_eq!(refused.status.code(), Some(60));
    assert!(curl(address, &pair, &["-k"]).status.success());
}
