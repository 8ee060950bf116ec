//! Answers told apart by version, and judged: each is one version's, byte for byte, and no
//! connection is thrown back to a version gone by.

use std::net::SocketAddr;

use crate::common::Outcome;
use crate::common::http::{Captured, found};

/// What the load asks for: fixed bodies, islands, list pages of several orders, a search.
pub(crate) fn targets(address: SocketAddr) -> Outcome<Vec<String>> {
    let listed = String::from_utf8(found(address, "/v1/islands?limit=20")?.body)?;
    let mut targets: Vec<String> = [
        "/v1",
        "/v1/islands",
        "/v1/islands?sort=plays&offset=100",
        "/v1/islands?sort=favorites&order=asc",
        "/v1/islands?createdIn=uefn&limit=20",
        "/v1/islands?q=red&limit=10",
        "/v1/creators?limit=10",
        "/v1/rankings/latest",
        "/v1/live/intraday",
    ]
    .map(str::to_owned)
    .into();
    for code in listed.split("\"code\":\"").skip(1) {
        let code = code.split('"').next().ok_or("cut short")?;
        targets.push(format!("/v1/islands/{code}"));
    }
    Ok(targets)
}

/// The answers to each target in both versions.
pub(crate) struct Expected {
    pub(crate) targets: Vec<String>,
    versions: [Vec<Known>; 2],
}

struct Known {
    tag: Vec<u8>,
    body: Vec<u8>,
}

impl Expected {
    pub(crate) fn new(
        targets: &[String],
        first: Vec<Captured>,
        second: Vec<Captured>,
    ) -> Outcome<Expected> {
        let known = |answers: Vec<Captured>| -> Outcome<Vec<Known>> {
            let known = answers.into_iter().map(|answer| {
                let tag = answer.header("etag").ok_or("no entity tag")?;
                Ok(Known {
                    tag: format!("\r\netag: {tag}\r\n").into_bytes(),
                    body: answer.body,
                })
            });
            known.collect()
        };
        let versions = [known(first)?, known(second)?];
        let same = |(a, b): (&Known, &Known)| a.body == b.body || a.tag == b.tag;
        if versions[0].iter().zip(&versions[1]).any(same) {
            return Err("two versions have an answer in common".into());
        }
        Ok(Expected {
            targets: targets.to_vec(),
            versions,
        })
    }

    /// The version that an answer is of, in head and body.
    fn version(&self, number: usize, answer: &[u8]) -> Option<usize> {
        let is_of = |known: &Known| {
            let head = answer.strip_suffix(known.body.as_slice());
            head.is_some_and(|head| {
                head.ends_with(b"\r\n\r\n") && memchr::memmem::find(head, &known.tag).is_some()
            })
        };
        self.versions
            .iter()
            .position(|version| is_of(&version[number]))
    }
}

/// What one run saw.
pub(crate) struct Seen {
    /// Each connection's last version, and how often it changed.
    lines: Vec<(Option<usize>, usize)>,
    answers: usize,
}

impl Seen {
    pub(crate) fn new(connections: usize) -> Seen {
        Seen {
            lines: vec![(None, 0); connections],
            answers: 0,
        }
    }

    /// Judges one answer.
    pub(crate) fn check(
        &mut self,
        expected: &Expected,
        line: usize,
        number: usize,
        answer: &[u8],
    ) -> Outcome<()> {
        let Some(version) = expected.version(number, answer) else {
            let target = &expected.targets[number];
            return Err(format!("an answer to {target} is of neither version").into());
        };
        let (last, changes) = &mut self.lines[line];
        if last.is_some_and(|last| last != version) {
            *changes += 1;
        }
        *last = Some(version);
        self.answers += 1;
        Ok(())
    }

    /// A connection may change its version once for each publish: more would be going back.
    pub(crate) fn judge(&self, publishes: usize) -> Outcome<()> {
        if self.changes() > publishes {
            let changes = self.changes();
            return Err(format!("{changes} changes of version by {publishes} publishes").into());
        }
        Ok(())
    }

    /// Changes on the connection that saw the most.
    pub(crate) fn changes(&self) -> usize {
        let changes = self.lines.iter().map(|(_, changes)| *changes);
        changes.max().unwrap_or(0)
    }

    pub(crate) fn answers(&self) -> usize {
        self.answers
    }
}
