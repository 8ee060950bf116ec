//! HTTP/1.1 as far as the load needs it: requests as bytes, answers by their length.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use memchr::memmem;

use super::{Outcome, STALL};

/// What servers may set as they like: the moment, their name, and what HTTP/1.1 implies anyway.
const OWN_HEADERS: [&str; 3] = ["date", "server", "connection"];

pub(crate) fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

/// What the head of an answer says of it.
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Its own length, the empty line included.
    pub(crate) length: usize,
    pub(crate) body_length: usize,
}

impl Head {
    /// Reads the head that `bytes` begin with; `None` while it is unfinished.
    pub(crate) fn read(bytes: &[u8]) -> Option<Head> {
        let length = memmem::find(bytes, b"\r\n\r\n")? + 4;
        let status = number(bytes.get(9..12)?);
        // "Content-Length" and "content-length": both are in use. A 304 has no body.
        let name = b"ength: ";
        let body_length = match memmem::find(&bytes[..length], name) {
            Some(at) if status != 304 => number(&bytes[at + name.len()..length]),
            _ => 0,
        };
        Some(Head {
            status: u16::try_from(status).ok()?,
            length,
            body_length,
        })
    }
}

/// The number that some bytes begin with.
fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}

/// One answer, taken apart.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) raw: Vec<u8>,
    pub(crate) status: u16,
    /// Names in lower case, in the order sent.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Captured {
    pub(crate) fn parse(raw: Vec<u8>) -> Outcome<Captured> {
        let head = Head::read(&raw).ok_or("an answer without a head")?;
        let text = std::str::from_utf8(&raw[..head.length])?;
        let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        let headers = lines
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let body = raw[head.length..].to_vec();
        Ok(Captured {
            status: head.status,
            headers,
            body,
            raw,
        })
    }

    pub(crate) fn read(path: &Path) -> Outcome<Captured> {
        Captured::parse(fs::read(path)?)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(held, _)| held == name)?;
        Some(value)
    }

    /// What another server's answer has otherwise; `None` when it is the same answer.
    pub(crate) fn difference(&self, other: &Captured) -> Option<String> {
        if self.status != other.status {
            return Some(format!("status {}, not {}", other.status, self.status));
        }
        if self.body != other.body {
            return Some(format!("another body of {} bytes", other.body.len()));
        }
        let (ours, theirs) = (self.counted(), other.counted());
        let all = ours.keys().chain(theirs.keys());
        let mut differing = all.filter(|line| ours.get(*line) != theirs.get(*line));
        let (name, value) = differing.next()?;
        Some(format!("header \"{name}: {value}\" differs"))
    }

    /// How often each header line stands there.
    fn counted(&self) -> BTreeMap<&(String, String), u32> {
        let mut counts = BTreeMap::new();
        for header in &self.headers {
            if !OWN_HEADERS.contains(&header.0.as_str()) {
                *counts.entry(header).or_default() += 1;
            }
        }
        counts
    }
}

/// Asks once, on a connection of its own.
pub(crate) fn fetch(address: SocketAddr, request: &[u8]) -> Outcome<Captured> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(STALL))?;
    stream.write_all(request)?;
    let (mut held, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        held.extend_from_slice(&chunk[..count]);
        if let Some(head) = Head::read(&held)
            && held.len() >= head.length + head.body_length
        {
            return Captured::parse(held);
        }
    }
}

/// Asks with GET for what must be there.
pub(crate) fn found(address: SocketAddr, target: &str) -> Outcome<Captured> {
    let answer = fetch(address, &get(target, ""))?;
    if answer.status == 200 {
        Ok(answer)
    } else {
        Err(format!("{target} is answered {}", answer.status).into())
    }
}
