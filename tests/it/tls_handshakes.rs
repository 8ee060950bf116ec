//! TLS handshakes that stop half-way, their limits, and a server that stops meanwhile.

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, Stream};

use crate::admin::address as admin_address;
use crate::http::socket_from;
use crate::prelude::*;
use crate::tls_pairs::{
    KeptConnection, LAST, NAMES, Pair, RSA, Scene, VALID, client_config, fetch, start, text,
    without_tickets,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn plain_http_on_a_tls_port_gets_a_400_that_names_https() {
    let Some(scene) = Scene::new() else { return };
    let log = scene.directory.join("access.log");
    let (server, address) = scene.start(&["--access-log", text(&log)]);
    let reply = Client::connect(address).get("/v1");
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "bad_request");
    assert!(reply.text().contains("https://"), "{}", reply.text());
    assert!(server.terminate().success());
    let logged = fs::read_to_string(log).unwrap();
    assert_eq!(logged.matches("status=400").count(), 1, "{logged}");
    // The client has read all of it.
    assert!(!logged.contains("cut="), "{logged}");
}

/// The beginning of a handshake.
#[derive(Clone, Copy)]
enum Half {
    /// Nothing.
    Silent,
    /// The header of a record of 512 bytes, and a little of it.
    Record,
    /// The same, a byte a second; so many were sent.
    Dripped(usize),
    /// All that the server needs for its own part, the signature included.
    Hello,
}

const KINDS: [Half; 4] = [Half::Silent, Half::Record, Half::Dripped(1), Half::Hello];
const RECORD: [u8; 8] = [22, 3, 1, 2, 0, 1, 0, 1];

/// A client hello, as a client of this configuration sends it.
fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// Opens half handshakes of all kinds. An address may have 1,024 connections, so 500 come from each.
fn half_handshakes(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    numbers: impl IntoIterator<Item = usize>,
) -> Vec<(Half, TcpStream)> {
    let hello = hello(config);
    let open = |number: usize| {
        let source = format!("127.9.0.{}", 1 + number / 500);
        let mut socket = socket_from(&source, address, None);
        let kind = KINDS[number % KINDS.len()];
        let begin: &[u8] = match kind {
            Half::Silent => &[],
            Half::Record => &RECORD,
            Half::Dripped(sent) => &RECORD[..sent],
            Half::Hello => &hello,
        };
        // The server may have closed it.
        let _ = socket.write_all(begin);
        (kind, socket)
    };
    numbers.into_iter().map(open).collect()
}

#[test]
fn half_handshakes_keep_no_client_out() {
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&["--connections", "400", "--workers", "2"]);
    let config = scene.client_config();
    let before = server.open_files().len();
    let flood = half_handshakes(address, &config, 0..390);
    for _ in 0..20 {
        let begun = Stopwatch::start();
        assert!(fetch(address, &config, "/v1").starts_with("HTTP/1.1 200"));
        assert!(begun.running() < 5 * SECOND);
    }
    // An eighth of all connections is left of them, and a few that are being closed.
    wait_within(5 * SECOND, "closed handshakes", || {
        server.open_files().len() <= before + 50 + 5
    });
    drop(flood);
}

/// One worker has at most one handshake under way: the oldest is closed for the next.
#[test]
fn the_handshake_that_has_waited_longest_is_closed_for_a_new_one() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&["--connections", "16", "--workers", "1"]);
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..3 {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&RECORD).unwrap();
        held.push(socket);
        thread::sleep(SECOND / 5);
    }
    // An eighth of 16 connections are two.
    for (mut socket, is_open) in held.into_iter().zip([false, true, true]) {
        let patience = if is_open { SECOND / 5 } else { 5 * SECOND };
        socket.set_read_timeout(Some(patience)).unwrap();
        let is_closed = matches!(uninterrupted(|| socket.read(&mut [0; 9])), Ok(0));
        assert_eq!(is_closed, !is_open);
    }
}

#[test]
fn a_handshake_that_never_ends_is_cut_and_a_dripped_one_too() {
    if !is_slow() {
        return;
    }
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&[]);
    let begun = Stopwatch::start();
    let mut silent = TcpStream::connect(address).unwrap();
    let mut dripped = TcpStream::connect(address).unwrap();
    // One byte a second of a record that is never complete.
    for byte in RECORD.into_iter().chain([0; 400]) {
        thread::sleep(SECOND);
        if dripped.write_all(&[byte]).is_err() {
            break;
        }
    }
    let took = (begun.elapsed(), begun.running());
    assert!(took.0 > 9 * SECOND && took.1 < 15 * SECOND, "{took:?}");
    assert_eq!(silent.read(&mut [0; 9]).unwrap_or(0), 0);
}

/// Requests until `stop`, each through `request`, with a pause before the next. A failed one panics.
fn repeat(name: &str, stop: &AtomicBool, pause: Duration, mut request: impl FnMut()) {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(pause);
        let begun = Instant::now();
        request();
        took.push(begun.elapsed());
    }
    took.sort();
    let median = took[took.len() / 2];
    assert!(median < SECOND / 2, "{name}: {median:?}");
}

/// Honest clients of a server, until `stop`: one has full handshakes, two keep their connections.
fn honest_clients(server: &Server, address: SocketAddr, pair: &Pair, stop: &AtomicBool) {
    let config = client_config(pair);
    let full = without_tickets(&config);
    let pause = SECOND / 200;
    thread::scope(|scope| {
        scope.spawn(|| {
            repeat("full handshake and request", stop, 10 * pause, || {
                let response = fetch(address, &full, "/v1/health");
                assert!(response.starts_with("HTTP/1.1 200"), "{response}");
            });
        });
        scope.spawn(|| {
            let mut client = KeptConnection::new(address, &config);
            repeat("request over TLS", stop, pause, || {
                assert!(client.get("/v1/health").starts_with("HTTP/1.1 200"));
            });
        });
        scope.spawn(|| {
            let mut client = server.connect();
            repeat("request without TLS", stop, pause, || {
                assert_eq!(client.get("/v1/health").status, 200);
            });
        });
    });
}

/// Half handshakes in waves, twice a second; those that drip send a byte a second. `closed` returns how
/// many the server has closed, which must be all of them in the end.
fn attack(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    (waves, wave): (usize, usize),
    closed: impl Fn() -> usize,
) {
    let (mut held, mut next) = (Vec::new(), Instant::now() + SECOND);
    let mut drip = |held: &mut Vec<(Half, TcpStream)>| {
        if Instant::now() < next {
            return;
        }
        next += SECOND;
        for (kind, socket) in held {
            if let Half::Dripped(sent) = kind {
                let _ = socket.write_all(&RECORD[*sent..][..1]);
                *sent = (*sent + 1).min(RECORD.len() - 1);
            }
        }
    };
    for number in 0..waves {
        let numbers = number * wave..(number + 1) * wave;
        held.extend(half_handshakes(address, config, numbers));
        thread::sleep(SECOND / 2);
        drip(&mut held);
    }
    // Those of the last wave have ten seconds, and one more until that is noticed.
    wait_within(20 * SECOND, "closed handshakes", || {
        thread::sleep(SECOND / 5);
        drip(&mut held);
        closed() >= held.len()
    });
    assert_eq!(closed(), held.len());
}

/// 15,000 half handshakes in the long form, of all kinds, with an RSA key, beside honest clients: none of
/// their requests fails, and each attacker's connection is closed and counted.
#[test]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts"
)]
fn a_flood_of_half_handshakes_fails_no_request() {
    let Some(scene) = Scene::new() else { return };
    let pair = scene.pair_of("rsa", RSA, VALID, NAMES);
    let (admin, port) = admin_address();
    let (server, address) = start(&pair, &["--workers", "1", "--admin", &port]);
    let stop = AtomicBool::new(false);
    let closed = || {
        let metrics = metrics(admin);
        let reasons = ["handshake", "room"].map(|reason| {
            metrics[&format!("island_metrics_http_connections_cut_total{{reason=\"{reason}\"}}")]
        });
        reasons.iter().sum::<f64>() as usize
    };
    let sizes = if is_slow() { (30, 500) } else { (2, 200) };
    thread::scope(|scope| {
        scope.spawn(|| honest_clients(&server, address, &pair, &stop));
        let _stopping = SetOnDrop(&stop);
        attack(address, &client_config(&pair), sizes, closed);
    });
}

#[test]
fn a_shutdown_does_not_wait_for_a_stalled_handshake() {
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&[]);
    let flood = half_handshakes(address, &scene.client_config(), 0..50);
    thread::sleep(SECOND / 3);
    let begun = Stopwatch::start();
    assert!(server.terminate().success());
    assert!(begun.running() < 5 * SECOND, "{:?}", begun.running());
    drop(flood);
}

#[test]
fn a_handshake_under_way_at_a_shutdown_ends_and_its_request_is_answered() {
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&[]);
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(scene.client_config(), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    client.write_tls(&mut socket).unwrap();
    // The server has answered, so it has begun.
    client.read_tls(&mut socket).unwrap();
    client.process_new_packets().unwrap();
    server.ask_to_stop();
    server.await_line("stopping");
    let mut response = String::new();
    let mut stream = Stream::new(&mut client, &mut socket);
    stream.write_all(LAST.as_bytes()).unwrap();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(server.ended().success());
}
