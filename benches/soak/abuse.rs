//! Requests that are none, or too much: each has an answer that says so or none, and never one of a fault of
//! the server's own.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::common::http::{Head, get};
use crate::common::{Outcome, floods};
use crate::stage::Stage;

const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 6, 0, 1);
/// Connections from one address before the next.
const PER_ADDRESS: u32 = 300;
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections of each kind in a burst.
const EACH: usize = 8;
/// Connections of each kind of flood in a burst.
const FLOOD: usize = 64;

/// What was answered to whom, by kind and status; 0 is no answer.
#[derive(Default)]
pub(crate) struct Abuse {
    sent: u32,
    seed: u64,
    pub(crate) answers: BTreeMap<(&'static str, u16), u64>,
}

impl Abuse {
    /// One of each kind, and a flood.
    pub(crate) fn burst(&mut self, stage: &Stage) -> Outcome<()> {
        for _ in 0..EACH {
            let garbage: Vec<u8> = (0..200).map(|_| self.random() as u8).collect();
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
                let status = self.send(stage.address, &bytes)?;
                *self.answers.entry((kind, status)).or_default() += 1;
                if status >= 500 {
                    stage.wrong(format!("{kind} is answered {status}"));
                }
            }
        }
        floods::closing(stage.address, FLOOD)?;
        floods::breaking(stage.address, FLOOD)?;
        Ok(())
    }

    fn random(&mut self) -> u64 {
        // A step of Weyl's sequence, mixed: any bytes will do.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ self.seed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    }

    /// A key of the right form that nobody has.
    fn guess(&mut self) -> String {
        const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut digits = |count: usize| -> String {
            let digit = |_| char::from(DIGITS[self.random() as usize % DIGITS.len()]);
            (0..count).map(digit).collect()
        };
        format!("im_live_{}_{}", digits(10), digits(38))
    }

    /// Sends bytes and takes an answer; 0 if there is none.
    fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> Outcome<u16> {
        self.sent += 1;
        let from = Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + self.sent / PER_ADDRESS);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect_timeout(&to.into(), PATIENCE)?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // The server may have ended it before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let (mut held, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => held.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err("neither an answer nor an end came".into());
                }
                Err(_) => break,
            }
        }
        Ok(Head::read(&held).map_or(0, |head| head.status))
    }

    pub(crate) fn report(&self) {
        for ((kind, status), count) in &self.answers {
            let answer = match status {
                0 => "no answer".to_owned(),
                status => status.to_string(),
            };
            println!("  {kind}: {count} times {answer}");
        }
    }
}
