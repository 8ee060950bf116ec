//! Certificates that change while a server runs (CONTRACT section 10). The files are replaced as
//! certbot, lego and administrators do it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use tokio_rustls::rustls::ClientConfig;

use crate::prelude::*;
use crate::tls_pairs::{
    ECDSA, KeptConnection, NAMES, Pair, Scene, certificate, client_config, fetch, pair, presented,
    start, try_presented, without_tickets,
};

/// The time within which a new pair is in use: a second, and more on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until a server presents a certificate.
#[track_caller]
fn await_certificate(address: SocketAddr, config: &Arc<ClientConfig>, wanted: &[u8]) {
    wait_within(PATIENCE, "the certificate", || {
        presented(address, config) == wanted
    });
}

/// Writes over a file in place, as `cp` does.
fn overwrite(from: &Path, to: &Path) {
    write_bytes(to, &fs::read(from).unwrap());
}

#[test]
fn a_new_pair_is_used_in_whatever_order_and_way_its_files_are_written() {
    let Some(scene) = Scene::new() else { return };
    let of = |name: &str| scene.pair(name);
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
    let Some(scene) = Scene::new() else { return };
    let directory = &scene.directory;
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
    let Some(scene) = Scene::new() else { return };
    let directory = &scene.directory;
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
    let Some(scene) = Scene::new() else { return };
    let of = |name: &str| scene.pair(name);
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
    server.await_line("there is no such file");
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
fn a_fault_that_returns_after_it_was_mended_is_logged_again() {
    let Some(scene) = Scene::new() else { return };
    let used = &scene.pair;
    let (server, _) = scene.start(&[]);
    let is_complaint = |line: &&String| line.contains("there is no such file");
    let complaints = || server.lines().iter().filter(is_complaint).count();
    let kept = used.key.with_extension("kept");
    for count in 1..=2 {
        fs::rename(&used.key, &kept).unwrap();
        wait_within(PATIENCE, "a line in the log", || complaints() == count);
        fs::rename(&kept, &used.key).unwrap();
        // Several polls find the files that are in use.
        thread::sleep(Duration::from_secs(1));
        assert_eq!(complaints(), count);
    }
}

#[test]
fn the_expiry_of_the_certificate_in_use_is_a_metric() {
    let Some(scene) = Scene::new() else { return };
    let dates = words("-startdate 20260101000000Z -enddate 20390102030405Z");
    let pair = scene.pair_of("dated", ECDSA, &dates, NAMES);
    let (admin, port) = address();
    let (_server, address) = start(&pair, &["--admin", &port]);
    let expiry = metrics(admin)["island_metrics_tls_certificate_expiry_timestamp_seconds"];
    // `date -u -d '2039-01-02 03:04:05' +%s`
    assert!((expiry - 2_177_550_245.0).abs() < 0.5, "{expiry}");
    fetch(address, &client_config(&pair), "/v1");
    let full = metrics(admin)["island_metrics_tls_handshakes_total{result=\"full\"}"];
    assert!((full - 1.0).abs() < 0.1);
}

/// Ten minutes in the long form, with a new pair five times a second. The clients never pause: one keeps
/// its connection, one continues sessions, and one has full handshakes.
#[test]
#[expect(clippy::print_stderr, reason = "prints what was measured")]
fn switching_certificates_under_load_fails_no_request() {
    let Some(scene) = Scene::new() else { return };
    let pairs = ["b", "c", "d"].map(|name| scene.pair(name));
    let used = &scene.pair;
    let (_server, address) = scene.start(&["--workers", "2", "--connection-requests", "1000"]);
    let config = scene.client_config();
    let full = without_tickets(&config);
    let stop = AtomicBool::new(false);
    let repeat = |mut request: Box<dyn FnMut() -> bool>| {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            assert!(request());
            count += 1;
        }
        count
    };
    let is_ok = |response: String| response.starts_with("HTTP/1.1 200");
    let seconds = if is_slowest() { 600 } else { 5 };
    let (counts, switches) = thread::scope(|scope| {
        let clients = [
            scope.spawn(|| {
                let mut kept = KeptConnection::new(address, &config);
                repeat(Box::new(move || is_ok(kept.get("/v1/health"))))
            }),
            scope.spawn(|| repeat(Box::new(|| is_ok(fetch(address, &config, "/v1/health"))))),
            scope.spawn(|| repeat(Box::new(|| is_ok(fetch(address, &full, "/v1/health"))))),
        ];
        let (begun, mut switches) = (Instant::now(), 0);
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
        (clients.map(|client| client.join().unwrap()), switches)
    });
    let [kept, resumed, full]: [u64; 3] = counts;
    eprintln!(
        "{switches} switches in {seconds} s; 0 failed of {kept} requests on kept connections, {resumed} \
         with continued sessions, {full} with full handshakes"
    );
    assert!(kept.min(resumed).min(full) > 20);
}
