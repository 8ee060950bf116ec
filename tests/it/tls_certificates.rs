//! Certificates and keys that are unusual or cannot work (CONTRACT section 10).

use crate::prelude::*;
use crate::tls_pairs::{
    ECDSA, NAMES, Pair, RSA, Scene, VALID, arguments, chain_pair, curl, openssl, pairs, start, text,
};

/// Exit code of curl where it does not trust a certificate.
const UNTRUSTED: Option<i32> = Some(60);

#[test]
fn settings_that_cannot_work_stop_the_start_with_a_line() {
    let Some(scene) = Scene::new() else { return };
    let tls = scene.directory.join("tls");
    let with_key = |name: &str| Pair {
        certificate: scene.pair.certificate.clone(),
        key: tls.join(name),
        authority: scene.pair.authority.clone(),
    };
    let (mixed, open, missing) = (scene.pair("b"), scene.pair("c"), with_key("none"));
    let mixed = with_key(text(&mixed.key));
    set_mode(&open.key, 0o644);
    // The formats PKCS #8 and SEC1.
    let into = ["-aes256", "-passout", "pass:x", "-in", "a.key", "-out"];
    openssl(&[&["pkey"], &into[..], &["d.key"]].concat(), &tls);
    openssl(&[&["ec"], &into[..], &["e.key"]].concat(), &tls);
    let (encrypted, sec1) = (with_key("d.key"), with_key("e.key"));
    openssl(
        &["ecparam", "-name", "secp256k1", "-genkey", "-out", "f.key"],
        &tls,
    );
    let (unusual, pipe) = (with_key("f.key"), with_key("pipe"));
    let made = Command::new("mkfifo").arg(&pipe.key).status();
    assert!(made.unwrap().success());
    for key in [&encrypted.key, &sec1.key, &unusual.key] {
        set_mode(key, 0o600);
    }
    let swapped = Pair {
        certificate: scene.pair.key.clone(),
        ..with_key("a.key")
    };
    let listen = ["serve", "--listen-tls", "127.0.0.1:0"];
    for (pair, part) in [
        (&mixed, "does not belong to the certificate"),
        (&open, "must be 640 or less, got 644"),
        (&encrypted, "is encrypted; decrypt it with"),
        (&sec1, "is encrypted; decrypt it with"),
        (&unusual, "the private key cannot be used"),
        (&pipe, "is not a regular file"),
        (&swapped, "must contain a certificate in PEM, got none"),
        (&missing, "there is no such file"),
    ] {
        let output = run(&[&listen[..], &arguments(pair)].concat());
        let stderr = stderr_of(&output, 78);
        assert!(
            stderr.contains(part) && stderr.lines().count() <= 2,
            "{stderr}"
        );
    }
}

/// Asserts that the log has a line, that a client refuses the certificate, with this in its error, and that
/// one which verifies nothing is served.
#[track_caller]
fn assert_warned_and_refused(pair: &Pair, line: &str, refusal: &str) {
    let (server, address) = start(pair, &[]);
    let log = server.lines().join("\n");
    assert!(log.contains(line), "{line}: {log}");
    let refused = curl(address, pair, &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), UNTRUSTED, "{stderr}");
    assert!(stderr.contains(refusal), "{stderr}");
    assert!(curl(address, pair, &["-k"]).status.success());
}

/// The server does not know its names; the client does.
#[test]
fn certificates_that_clients_refuse_are_served_with_a_line() {
    let Some(scene) = Scene::new() else { return };
    let dates = words("-startdate 20400101000000Z -enddate 20400201000000Z");
    let early = scene.pair_of("early", ECDSA, &dates, NAMES);
    let [.., expired, named] = pairs(&scene.directory);
    for (pair, line, refusal) in [
        (
            expired,
            "the TLS certificate expired at 2024-02-01T00:00:00Z",
            "expired",
        ),
        (
            early,
            "the TLS certificate is not valid before 2040-01-01T00:00:00Z",
            "not yet valid",
        ),
        (
            named,
            "TLS certificate loaded, valid until ",
            "subject name",
        ),
    ] {
        assert_warned_and_refused(&pair, line, refusal);
    }
}

#[test]
fn an_rsa_key_is_served_with_a_warning() {
    let Some(scene) = Scene::new() else { return };
    let pair = scene.pair_of("rsa", RSA, VALID, NAMES);
    let (server, address) = start(&pair, &[]);
    let log = server.lines().join("\n");
    has(
        &log,
        "is an RSA key; a handshake with an ECDSA key takes a sixth",
    );
    assert!(curl(address, &pair, &[]).status.success());
}

#[test]
fn a_certificate_without_its_chain_is_refused_by_clients_and_one_with_it_is_not() {
    let Some(scene) = Scene::new() else { return };
    let pair = chain_pair(&scene.directory.join("chain"));
    let (leaf, both) = (pair.certificate.clone(), scene.directory.join("both.pem"));
    assert_warned_and_refused(
        &pair,
        "has no intermediate certificate",
        "issuer certificate",
    );
    let intermediate = fs::read(leaf.with_file_name("middle.pem")).unwrap();
    write_bytes(&both, &[fs::read(&leaf).unwrap(), intermediate].concat());
    let whole = Pair {
        certificate: both,
        ..pair
    };
    let (server, address) = start(&whole, &[]);
    let log = server.lines().join("\n");
    assert!(!log.contains("intermediate"), "{log}");
    assert!(curl(address, &whole, &[]).status.success());
}
