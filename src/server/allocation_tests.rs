//! Responding allocates nothing beyond what hyper allocates by itself.
//!
//! The real connection and a bare hyper that sends an empty response get the same requests, each
//! over a socket, and the allocations of this thread, which does all of it, are compared.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::calendar::Clock;
use crate::keys::{KeyPrefix, KeyRecords, KeyStore, KeyTable};
use crate::model::{Tier, TierLimits};
use crate::publish::open_sample;
use crate::quota::{AnonymousQuota, KeyedQuota, TableSize};
use crate::server::accept;
use crate::server::conn::context::ConnectionContext;
use crate::server::http::identity::QuotaGate;
use crate::server::http::worker_cache::ServedSnapshot;
use crate::server::web::request_context::Services;
use crate::site::SiteSettings;
use crate::sync::Replicated;

const REQUESTS: usize = 200;

fn worker(records: &KeyRecords) -> Arc<Worker> {
    let snapshot = open_sample(&SiteSettings::new("http://api.test")).unwrap();
    let clock = Arc::new(Clock::new(None, None));
    let keyed = KeyedQuota::new(None);
    keyed.places(0..9, &|_| {}).1.unwrap();
    let ring = KeyTable::new(KeyPrefix::default(), records.clone(), 0..);
    let gate = QuotaGate {
        keys: Replicated::new(ring).replica(),
        anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100))),
        keyed: Arc::new(keyed),
        leases: None,
        limits: TierLimits {
            anonymous: u16::MAX,
            pro: u32::MAX,
            ..TierLimits::SPECIFIED
        },
        proxies: Arc::default(),
    };
    Arc::new(Worker {
        served: ServedSnapshot::replica(&Replicated::new(snapshot), 1 << 20),
        services: Services::alone(gate).unwrap(),
        clock,
        registry: Arc::default(),
        #[cfg(feature = "tls")]
        tls: None,
    })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_io().build().unwrap()
}

/// Trials of which one must not be interrupted.
const TRIALS: usize = 5;

/// Sends empty responses, and returns the request's map to hyper as the real server does.
async fn serve_bare(stream: TcpStream) {
    let service = service_fn(|mut request: Request<Incoming>| {
        let mut headers = std::mem::take(request.headers_mut());
        headers.clear();
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.headers_mut() = headers;
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    connection.await.unwrap();
}

/// Sends requests one after the other and reads their responses, into memory that is allocated
/// already.
async fn request_all(stream: &TcpStream, request: &[u8], want: u16, buffer: &mut [u8]) {
    for _ in 0..REQUESTS {
        stream.writable().await.unwrap();
        assert_eq!(stream.try_write(request).unwrap(), request.len());
        let (mut received, mut whole) = (0, usize::MAX);
        while received < whole {
            stream.readable().await.unwrap();
            match stream.try_read(&mut buffer[received..]) {
                Ok(0) => panic!("the connection was closed"),
                Ok(count) => received += count,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            whole = whole_length(&buffer[..received]).unwrap_or(usize::MAX);
        }
        assert_eq!(received, whole);
        assert!(buffer[9..].starts_with(want.to_string().as_bytes()));
    }
}

/// The length of the response that begins here, once its head is complete.
fn whole_length(bytes: &[u8]) -> Option<usize> {
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let name = b"\r\ncontent-length: ";
    let Some(at) = memmem::find(&bytes[..head], name) else {
        return Some(head);
    };
    let digits = bytes[at + name.len()..]
        .iter()
        .take_while(|byte| **byte != b'\r');
    Some(head + digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

/// Allocations of [`REQUESTS`] responses on a connection that has sent as many.
fn allocations<F>(serve: impl FnOnce(TcpStream) -> F, request: &str, want: u16) -> u64
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = runtime();
    let stream = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
        tokio::spawn(serve(listener.accept().await.unwrap().0));
        stream.unwrap()
    });
    let mut buffer = vec![0; 1 << 20];
    let mut request_all =
        || runtime.block_on(request_all(&stream, request.as_bytes(), want, &mut buffer));
    request_all();
    allocation_counter::measure(request_all).count_total
}

#[test]
fn a_fixed_body_is_sent_without_an_allocation_of_ours() {
    let directory = std::env::temp_dir().join(format!("im-allocations-{}", std::process::id()));
    let store = KeyStore::new(&directory);
    let address = "a@x.test".parse().unwrap();
    let now = crate::calendar::UnixSeconds(0);
    let key = store.issue(&KeyPrefix::default(), &address, Tier::Pro, now);
    let key = key.unwrap().reveal().to_owned();
    let worker = worker(&store.read().unwrap());
    std::fs::remove_dir_all(&directory).unwrap();
    let get = |target: &str, lines: &str| {
        format!("GET {target} HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n{lines}\r\n")
    };
    let known = "if-none-match: *\r\n";
    let authorization = format!("authorization: Bearer {key}\r\n");
    for (target, lines, want) in [
        ("/v1", "", 200),
        ("/v1", "accept-encoding: gzip\r\n", 200),
        ("/v1", known, 304),
        ("/v1", &authorization, 200),
        (&format!("/v1?key={key}"), "", 200),
        ("/v1/health", "", 200),
        ("/v1/live", "", 200),
        ("/v1/live/intraday", "", 200),
        ("/v1/islands/2708-3623-7025", "", 200),
        ("/v1/islands/2708-3623-7025/ccu", "", 200),
        ("/v1/rankings/latest", "", 200),
        ("/v1/new", "", 200),
        ("/openapi.json", "", 200),
    ] {
        let request = get(target, lines);
        let by_hyper = allocations(serve_bare, &request, 200);
        let peer = IpAddr::from([198, 51, 100, 1]);
        let measure = || {
            allocations(
                |stream| {
                    let worker = Arc::clone(&worker);
                    let context = ConnectionContext::join(&worker.registry, None, false);
                    async move { accept::serve(&worker, stream, peer, &context).await }
                },
                &request,
                want,
            )
        };
        // A time slice that is over, as on a machine that pauses this thread, costs an allocation.
        let in_all = (0..TRIALS)
            .map(|_| measure())
            .find(|count| *count <= by_hyper);
        let in_all = in_all.unwrap_or_else(measure);
        assert!(
            in_all <= by_hyper,
            "{target} {lines}: {in_all}, {by_hyper} of them by hyper"
        );
    }
}
