//! Validation of a response: it is complete, all of it is of one version, and its connection has
//! seen no later version.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use flate2::bufread::GzDecoder;
use memchr::memmem;
use serde_json::Value;
use zlib_rs::crc32::crc32;

use super::body::{self, require};
use super::load::{Fault, Validate};
use super::targets::{Kind, Request, Target};
use super::versions::{Version, Versions};
use crate::common::prelude::*;

/// Bodies kept for each request, to compare others with: of the last version and the one before.
const KEPT: usize = 2;

/// A body found valid. Another with the same bytes is valid too.
struct Known {
    tag: Vec<u8>,
    gzip: bool,
    body: Vec<u8>,
    version: usize,
}

/// A parsed entity tag.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) published: i64,
    pub(crate) checksum: u32,
    pub(crate) gzip: bool,
}

impl Tag {
    /// Parses `"TIME-CHECKSUM"` or `"TIME-CHECKSUM-gz"`; both numbers are hexadecimal.
    pub(crate) fn parse(text: &[u8]) -> Option<Tag> {
        let text = std::str::from_utf8(text).ok()?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        let plain = text.strip_suffix("-gz");
        let (published, checksum) = plain.unwrap_or(text).split_once('-')?;
        Some(Tag {
            published: i64::from_str_radix(published, 16).ok()?,
            checksum: u32::from_str_radix(checksum, 16).ok()?,
            gzip: plain.is_some(),
        })
    }
}

pub(crate) struct Validator<'a> {
    log: Versions,
    targets: &'a [Target],
    /// The requests that the load sends, by number.
    order: Vec<Request>,
    versions: Vec<Version>,
    /// For each target, without and with gzip.
    known: Vec<[VecDeque<Known>; 2]>,
    /// Checksum in the tags of all list pages of a version.
    pub(crate) page_checksums: HashMap<usize, u32>,
    /// For each connection, the earliest version that its next response may be of.
    earliest: Vec<usize>,
    /// When a response of each version arrived first.
    pub(crate) first_seen: HashMap<usize, Instant>,
    pub(crate) responses: u64,
}

/// The value of a header line, given as `\r\nname: `.
fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = &head[memmem::find(head, name.as_bytes())? + name.len()..];
    Some(&rest[..memchr::memchr(b'\r', rest)?])
}

fn failed<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::failed(reason))
}

impl Validate for Validator<'_> {
    fn validate(&mut self, connection: usize, number: usize, response: &[u8]) -> Result<(), Fault> {
        self.check(connection, self.order[number], response)
    }

    fn replaced(&mut self, connection: usize) {
        self.earliest[connection] = 0;
    }
}

impl<'a> Validator<'a> {
    pub(crate) fn new(
        log: Versions,
        targets: &'a [Target],
        order: Vec<Request>,
        connections: usize,
    ) -> Validator<'a> {
        Validator {
            log,
            targets,
            order,
            versions: Vec::new(),
            known: targets.iter().map(|_| Default::default()).collect(),
            page_checksums: HashMap::new(),
            earliest: vec![0; connections],
            first_seen: HashMap::new(),
            responses: 0,
        }
    }

    /// Validates a response to `request`.
    pub(crate) fn check(
        &mut self,
        connection: usize,
        request: Request,
        response: &[u8],
    ) -> Result<(), Fault> {
        self.responses += 1;
        let found = Head::read(response).ok_or_else(|| Fault::failed("it has no head"))?;
        let (head, body) = response.split_at(found.length);
        if found.status != 200 {
            let body = String::from_utf8_lossy(body);
            return failed(format!("status {}: {body}", found.status));
        }
        if body.len() != found.body_length {
            return failed(format!("{} bytes, not {}", body.len(), found.body_length));
        }
        let tag = header(head, "\r\netag: ");
        let tag = tag.ok_or_else(|| Fault::failed("it has no entity tag"))?;
        let gzip = match header(head, "\r\ncontent-encoding: ") {
            None => false,
            Some(b"gzip") if request.gzip => true,
            Some(other) => return failed(format!("its coding is \"{}\"", other.escape_ascii())),
        };
        let known = &self.known[request.target][usize::from(request.gzip)];
        let version = match known.iter().find(|known| known.tag == tag) {
            Some(known) if known.gzip == gzip && known.body == body => known.version,
            Some(_) => {
                let tag = tag.escape_ascii();
                let reason = format!("the tag {tag} came with other bytes before");
                return Err(Fault::mixed(reason));
            }
            None => {
                let (tag, body) = (tag.to_vec(), body.to_vec());
                let received = Known {
                    tag,
                    gzip,
                    body,
                    version: 0,
                };
                self.learn(request, received)?
            }
        };
        self.check_order(connection, request, version)
    }

    /// Validates a body not received before.
    fn learn(&mut self, request: Request, mut received: Known) -> Result<usize, Fault> {
        let version = self.check_body(request, &received)?;
        received.version = version;
        let known = &mut self.known[request.target][usize::from(request.gzip)];
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back(received);
        if !self.targets[request.target].kind.is_history() {
            self.first_seen.entry(version).or_insert_with(Instant::now);
        }
        Ok(version)
    }

    /// Returns the number of the version that all of a body is of.
    fn check_body(&mut self, request: Request, received: &Known) -> Result<usize, Fault> {
        let plain = if received.gzip {
            inflate(&received.body)?
        } else {
            Cow::Borrowed(&received.body[..])
        };
        let parsed: Value = serde_json::from_slice(&plain)
            .map_err(|error| Fault::failed(format!("its JSON: {error}")))?;
        let stamp = parsed["meta"]["generatedAt"].as_str();
        let stamp = stamp.ok_or_else(|| Fault::failed("it has no generatedAt"))?;
        let Some(number) = self.number(stamp) else {
            return Err(Fault::mixed(format!("nothing was published at {stamp}")));
        };
        let checked = self.check_version(number, request, received, &plain, &parsed);
        checked.map_err(Fault::mixed)?;
        Ok(number)
    }

    fn check_version(
        &mut self,
        number: usize,
        request: Request,
        received: &Known,
        plain: &[u8],
        parsed: &Value,
    ) -> Result<(), String> {
        let (version, target) = (&self.versions[number], &self.targets[request.target]);
        let (stamp, contains) = (&version.stamp, &target.contains);
        let is_contained = memmem::find(plain, contains.as_bytes()).is_some();
        require!(is_contained, "it does not contain {contains}");
        let shown = received.tag.escape_ascii();
        let tag = Tag::parse(&received.tag).filter(|tag| tag.gzip == received.gzip);
        let tag =
            tag.ok_or_else(|| format!("its tag {shown} is malformed, or of another coding"))?;
        let is_of_version = tag.published == version.published;
        require!(is_of_version, "its tag {shown} is not of {stamp}");
        let is_published = version.has_history || !target.kind.is_history();
        require!(is_published, "no history was published at {stamp}");
        let checksum = match target.kind {
            Kind::Page => *self.page_checksums.entry(number).or_insert(tag.checksum),
            _ => crc32(0, plain),
        };
        let is_intact = tag.checksum == checksum;
        require!(is_intact, "its tag is {shown}, its checksum {checksum:08x}");
        body::check(parsed, target.kind, version).map_err(|reason| format!("of {stamp}: {reason}"))
    }

    /// The number of the version published at `stamp`.
    fn number(&mut self, stamp: &str) -> Option<usize> {
        let log = self.log.lock().expect("no thread panics with it");
        self.versions.extend_from_slice(&log[self.versions.len()..]);
        self.versions.iter().rposition(|one| one.stamp == stamp)
    }

    /// Checks that the connection has not seen a later version. A history is current until the next
    /// publish that renders one.
    fn check_order(
        &mut self,
        connection: usize,
        request: Request,
        version: usize,
    ) -> Result<(), Fault> {
        let earliest = &mut self.earliest[connection];
        let mut later = self.versions.iter().take(*earliest + 1).skip(version + 1);
        let is_history = self.targets[request.target].kind.is_history();
        if later.any(|later| later.has_history || !is_history) {
            let [of, seen] = [version, *earliest].map(|number| &self.versions[number].stamp);
            let reason = format!("it is of {of}, after a response of {seen}");
            return Err(Fault::mixed(reason));
        }
        *earliest = version.max(*earliest);
        Ok(())
    }
}

/// Inflates a gzip body. Bytes after its end are a fault.
fn inflate(body: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let mut plain = Vec::with_capacity(body.len() * 8);
    let mut decoder = GzDecoder::new(body);
    if let Err(error) = decoder.read_to_end(&mut plain) {
        return failed(format!("its gzip: {error}"));
    }
    match decoder.into_inner().len() {
        0 => Ok(Cow::Owned(plain)),
        rest => failed(format!("{rest} bytes follow its gzip")),
    }
}
