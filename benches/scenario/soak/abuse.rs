//! Malformed and oversized requests, and guessed keys: none may be answered with 5xx.

use std::collections::BTreeMap;
use std::net::Shutdown;

use super::Stage;
use crate::common::prelude::*;
use crate::scenario::{floods, source};

/// Network of the source addresses.
const NETWORK: u8 = 6;
/// Requests of each kind in a burst.
const EACH: usize = 8;
/// Connections of each flood in a burst.
const FLOOD: usize = 64;

#[derive(Default)]
pub(crate) struct Abuse {
    sent: usize,
    random: Random,
    /// Number of responses by kind and status; the status is 0 without a response.
    responses: BTreeMap<(&'static str, u16), u64>,
}

impl Abuse {
    /// Sends requests of each kind, and a flood of each kind.
    pub(crate) fn burst(&mut self, stage: &Stage<'_>) -> Outcome<()> {
        let address = stage.subject.address;
        for _ in 0..EACH {
            let garbage: Vec<u8> = (0..200).map(|_| self.random.next() as u8).collect();
            let long = format!("x-long: {}\r\n", "a".repeat(24 * 1024));
            let mut body = get("/v1", "content-length: 5000000\r\n");
            body.extend(std::iter::repeat_n(b'a', 64 * 1024));
            let mut chunked = get("/v1", "transfer-encoding: chunked\r\n");
            chunked.extend_from_slice(b"ffffff\r\n");
            chunked.extend(std::iter::repeat_n(b'a', 64 * 1024));
            let guess = self.guess();
            let guess = format!("authorization: Bearer {guess}\r\n");
            let query = format!("/v1?key={}", self.guess());
            let kinds: [(&str, Vec<u8>); 6] = [
                ("garbage", garbage),
                ("oversized head", get("/v1", &long)),
                ("body", body),
                ("chunked body", chunked),
                ("guessed key", get("/v1", &guess)),
                ("guessed key in the query", get(&query, "")),
            ];
            for (kind, bytes) in kinds {
                let status = self.send(address, &bytes)?;
                *self.responses.entry((kind, status)).or_default() += 1;
                let fault = format_args!("the status of {kind} is {status}");
                stage.faults.require(status < 500, fault);
            }
        }
        floods::closing(address, FLOOD)?;
        floods::resetting(address, FLOOD)?;
        Ok(())
    }

    /// A well-formed key that was not issued.
    fn guess(&mut self) -> String {
        const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut digits = |count: usize| -> String {
            let digit = |_| char::from(DIGITS[self.random.next() % DIGITS.len()]);
            (0..count).map(digit).collect()
        };
        format!("im_live_{}_{}", digits(10), digits(38))
    }

    /// Sends bytes and returns the status of the response; 0 without one.
    fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> Outcome<u16> {
        self.sent += 1;
        let mut stream = connect(source(NETWORK, self.sent), to)?;
        // The server may close the connection before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut received = Vec::new();
        if let Err(error) = stream.read_to_end(&mut received)
            && error.kind() == io::ErrorKind::WouldBlock
        {
            return Err("the connection was not closed".into());
        }
        Ok(Head::read(&received).map_or(0, |head| head.status))
    }

    pub(crate) fn report(&self) {
        for ((kind, status), count) in &self.responses {
            println!("  {kind}: {count} times status {status}");
        }
    }
}
