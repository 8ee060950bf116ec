//! A connection that sends many requests at once takes turns with the others of its worker.

use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Builder;

use super::*;
use crate::keys::KeyRecords;
use crate::sync::{AtomicU64, Ordering};

const REQUESTS: usize = 400;

/// Returns how often the runtime polls for events while a client that sends [`REQUESTS`] at once gets their responses.
fn turns_of_others(request: &str) -> u64 {
    let worker = tests::worker(&KeyRecords::default());
    let turns = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&turns);
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let sent = request.repeat(REQUESTS);
        let (mut client, socket) = duplex(1 << 23);
        client.write_all(sent.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        // This task is woken only after the runtime has polled for events.
        tokio::spawn(async move {
            loop {
                tokio::task::yield_now().await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let serving = async move {
            let context = ConnectionContext::join(&worker.registry, None, false);
            let peer = IpAddr::from([198, 51, 100, 1]);
            let served = worker.serve_io(TokioIo::new(socket), peer, 0, &context);
            assert!(served.await.is_ok());
        };
        tokio::spawn(serving).await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        let responses = memmem::find_iter(&received, b"HTTP/1.1 ");
        assert_eq!(responses.count(), REQUESTS);
    });
    turns.load(Ordering::Relaxed)
}

#[test]
fn others_get_a_turn_after_sixteen_requests_of_any_kind() {
    let long = "%41".repeat(2400);
    for line in [
        "GET /v1/health".to_owned(),
        format!("GET /v1/health?{long}"),
        format!("GET /v1/{long}"),
        "OPTIONS /v1".to_owned(),
    ] {
        let turns = turns_of_others(&format!("{line} HTTP/1.1\r\nhost: a.test\r\n\r\n"));
        // After the last sixteen, the connection ends.
        assert!(turns >= REQUESTS as u64 / 16 - 1, "{line:.20}: {turns}");
    }
}
