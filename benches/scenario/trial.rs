//! Self-test of the validator: it has to accept responses of two versions as received, and to reject
//! altered ones for the right reason. A failure ends the bench.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;

use super::load::Fault;
use super::targets::{Kind, Request, Target};
use super::validator::Validator;
use super::versions::Versions;
use super::{GZIP, Platform};
use crate::common::Outcome;
use crate::common::http::{Head, fetch, get};

/// A response as received.
#[derive(Clone)]
struct Sample {
    request: Request,
    raw: Vec<u8>,
}

/// Targets sampled: the first ones (hot targets, days, some islands), then one in so many.
const FIRST: usize = 40;
const THEN_EVERY: usize = 31;

/// Reasons of the validator.
const OUTDATED: &str = "or before, after a response of";
const OTHER_BYTES: &str = "came with other bytes before";
/// The samples of `/v1` and of the first page of islands; each target has two samples.
const NEWEST: usize = 0;
const LISTED: usize = 2 * 3;

/// Responses of the version that is served now.
fn samples(address: SocketAddr, targets: &[Target]) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        if number >= FIRST && !number.is_multiple_of(THEN_EVERY) {
            continue;
        }
        for (gzip, coding) in [(false, ""), (true, GZIP)] {
            let request = Request {
                target: number,
                gzip,
            };
            let raw = fetch(address, &get(&target.path, coding))?.raw;
            samples.push(Sample { request, raw });
        }
    }
    Ok(samples)
}

/// Publishes a second version and tests new validators with responses of both.
pub(super) fn run(platform: &mut Platform, address: SocketAddr, targets: &[Target]) -> Outcome<()> {
    let first = samples(address, targets)?;
    platform.publisher.advance(true)?;
    platform.publisher.settle(address)?;
    let second = samples(address, targets)?;
    let mut trial = Trial {
        versions: &platform.publisher.versions,
        targets,
        altered: 0,
    };
    let newest = &second[NEWEST];
    for (number, (old, new)) in first.iter().zip(&second).enumerate() {
        trial.accepts(&[old, old, new, newest, new])?;
        trial.mixed(OUTDATED, &[new, old])?;
        trial.mixed(OUTDATED, &[newest, old])?;
        trial.wrong_heads(old, new)?;
        trial.wrong_bodies(old)?;
        let other = &first[(number + 2) % first.len()];
        // Pages differ in limit and offset only, the two lists of days in nothing.
        let kind = |sample: &Sample| targets[sample.request.target].kind;
        let contains = |sample: &Sample| &targets[sample.request.target].contains;
        if kind(old) != Kind::Page && contains(old) != contains(other) {
            let swapped = old.with_raw(other.raw.clone());
            trial.mixed("it does not contain", &[&swapped])?;
        }
        match kind(old) {
            Kind::Page => trial.wrong_pages(old, new, &first[LISTED])?,
            Kind::Live => trial.wrong_live(old, new)?,
            _ => {}
        }
    }
    println!(
        "the validator accepts {} responses and rejects {} altered ones",
        first.len() + second.len(),
        trial.altered
    );
    Ok(())
}

struct Trial<'a> {
    versions: &'a Versions,
    targets: &'a [Target],
    /// Altered responses rejected.
    altered: usize,
}

impl Trial<'_> {
    /// Validates responses on one connection; the number of the first fault, and the fault.
    fn validate(&self, responses: &[&Sample]) -> Result<(), (usize, Fault)> {
        let mut validator = Validator::new(self.versions.clone(), self.targets, Vec::new(), 1);
        for (number, sample) in responses.iter().enumerate() {
            let valid = validator.check(0, sample.request, &sample.raw);
            valid.map_err(|fault| (number, fault))?;
        }
        Ok(())
    }

    fn accepts(&self, responses: &[&Sample]) -> Outcome<()> {
        let path = &self.targets[responses[0].request.target].path;
        let valid = self.validate(responses);
        valid.map_err(|fault| {
            format!("the validator rejects a response to {path}: {fault:?}").into()
        })
    }

    /// Requires the last response, and none before, to be rejected for a reason that contains `why`.
    fn mixed(&mut self, why: &str, responses: &[&Sample]) -> Outcome<()> {
        self.rejects(&Fault::Mixed(why.to_owned()), responses)
    }

    fn failed(&mut self, why: &str, responses: &[&Sample]) -> Outcome<()> {
        self.rejects(&Fault::Failed(why.to_owned()), responses)
    }

    fn rejects(&mut self, expected: &Fault, responses: &[&Sample]) -> Outcome<()> {
        self.altered += 1;
        let last = responses.len() - 1;
        let result = self.validate(responses);
        let is_rejected = match (&result, expected) {
            (Err((number, Fault::Mixed(reason))), Fault::Mixed(why))
            | (Err((number, Fault::Failed(reason))), Fault::Failed(why)) => {
                *number == last && reason.contains(why)
            }
            _ => false,
        };
        if is_rejected {
            return Ok(());
        }
        let path = &self.targets[responses[last].request.target].path;
        Err(format!("{path}: {result:?}, not {expected:?} of response {last}").into())
    }

    fn wrong_heads(&mut self, old: &Sample, new: &Sample) -> Outcome<()> {
        let tag = old.tag()?;
        let late = old.with_head("etag: \"6", "etag: \"7")?;
        self.mixed("is not of", &[&late])?;
        let foreign = new.with_head(&new.tag()?, &tag)?;
        self.mixed("is not of", &[&foreign])?;
        let mut sum = tag.clone().into_bytes();
        let digit = memchr::memchr(b'-', &sum).ok_or("no checksum")? + 1;
        sum[digit] = if sum[digit] == b'0' { b'1' } else { b'0' };
        let wrong = old.with_head(&tag, &String::from_utf8(sum)?)?;
        if self.targets[old.request.target].kind == Kind::Page {
            // The checksum of a page has to be that of the pages before.
            let mut before = old.clone();
            before.request.gzip = !before.request.gzip;
            before.raw = old.rebuilt(old.plain()?, before.request.gzip, None)?;
            self.mixed("its checksum", &[&before, &wrong])?;
        } else {
            self.mixed("its checksum", &[&wrong])?;
        }
        let refused = old.with_head("200 OK", "503 Service Unavailable")?;
        self.failed("status 503", &[&refused])?;
        if old.is_gzip() {
            let mut not_accepted = old.clone();
            not_accepted.request.gzip = false;
            self.failed("its coding", &[&not_accepted])?;
        }
        Ok(())
    }

    fn wrong_bodies(&mut self, old: &Sample) -> Outcome<()> {
        let cut = old.with_raw(old.raw[..old.raw.len() - 1].to_vec());
        self.failed(" bytes, not ", &[&cut])?;
        let mut torn = old.raw.clone();
        // Before the checksum at the end of gzip.
        let near_end = torn.len() - 12;
        torn[near_end] ^= 0x55;
        let torn = old.with_raw(torn);
        self.mixed(OTHER_BYTES, &[old, &torn])?;
        if old.is_gzip() {
            self.failed("its gzip", &[&torn])?;
        }
        let other = old.with_body(|plain| {
            let digit = memchr::memchr(b'0', plain).ok_or("no digit")?;
            plain[digit] = b'1';
            Ok(())
        })?;
        self.mixed(OTHER_BYTES, &[old, &other])?;
        if self.targets[old.request.target].kind != Kind::Page {
            // The reason depends on where the digit is.
            self.mixed("", &[&other])?;
        }
        Ok(())
    }

    /// Altered pages. The checksum in a page's tag is not its own.
    fn wrong_pages(&mut self, old: &Sample, new: &Sample, listed: &Sample) -> Outcome<()> {
        let stamp = |sample: &Sample| -> Outcome<String> {
            let text = String::from_utf8(sample.plain()?)?;
            let (_, rest) = text.split_once("\"generatedAt\":\"").ok_or("no stamp")?;
            Ok(rest.split('"').next().ok_or("no stamp")?.to_owned())
        };
        let (before, now) = (stamp(old)?, stamp(new)?);
        let stamped = old.with_body(|plain| replace(plain, &before, &now))?;
        self.mixed("is not of", &[&stamped])?;
        // The rest alters rows of islands.
        if old.request.target != listed.request.target {
            return Ok(());
        }
        let relabelled = stamped.with_head(&old.tag()?, &new.tag()?)?;
        self.mixed(" v0\", not \" v1\"", &[&relabelled])?;
        let mixed = old.with_body(|plain| replace(plain, " v0\"", " v1\""))?;
        self.mixed(" v1\", not \" v0\"", &[&mixed])?;
        let counted = old.with_body(|plain| {
            replace(plain, "\"recommendations\":1", "\"recommendations\":11")
                .or_else(|_| replace(plain, "\"recommendations\":", "\"recommendations\":1"))
        })?;
        self.mixed("recommendations, not a multiple of", &[&counted])?;
        let short = old.with_body(|plain| {
            let second = memmem::find(plain, b",{\"code\"").ok_or("no second row")?;
            let first = memmem::find(plain, b"{\"code\"").ok_or("no row")?;
            plain.drain(first..=second);
            Ok(())
        })?;
        self.mixed("rows, not", &[&short])
    }

    /// Altered bodies with a correct checksum.
    fn wrong_live(&mut self, old: &Sample, new: &Sample) -> Outcome<()> {
        let (before, now) = (old.plain()?, new.plain()?);
        let end = |plain: &[u8]| memmem::rfind(plain, b"\"meta\"").unwrap_or(plain.len());
        let mut relabelled = before[..end(&before)].to_vec();
        relabelled.extend_from_slice(&now[end(&now)..]);
        let relabelled = new.sealed(relabelled)?;
        self.mixed("its time is", &[&relabelled])?;
        let mut titled = now.clone();
        replace(&mut titled, " v1\"", " v0\"")?;
        let titled = new.sealed(titled)?;
        self.mixed(" v0\", not \" v1\"", &[&titled])?;
        self.accepts(&[&new.sealed(now)?])
    }
}

/// Replaces the first occurrence of a text.
fn replace(plain: &mut Vec<u8>, from: &str, to: &str) -> Outcome<()> {
    let at = memmem::find(plain, from.as_bytes()).ok_or_else(|| format!("no {from}"))?;
    plain.splice(at..at + from.len(), to.bytes());
    Ok(())
}

impl Sample {
    fn split(&self) -> Outcome<(&[u8], &[u8])> {
        let head = Head::read(&self.raw).ok_or("no head")?;
        Ok(self.raw.split_at(head.length))
    }

    fn is_gzip(&self) -> bool {
        memmem::find(&self.raw, b"\r\ncontent-encoding: gzip\r\n").is_some()
    }

    /// The entity tag with its quotes.
    fn tag(&self) -> Outcome<String> {
        let head = std::str::from_utf8(self.split()?.0)?;
        let (_, rest) = head.split_once("\r\netag: ").ok_or("no tag")?;
        Ok(rest.split("\r\n").next().ok_or("no tag")?.to_owned())
    }

    fn plain(&self) -> Outcome<Vec<u8>> {
        let body = self.split()?.1;
        if !self.is_gzip() {
            return Ok(body.to_vec());
        }
        let mut plain = Vec::new();
        GzDecoder::new(body).read_to_end(&mut plain)?;
        Ok(plain)
    }

    fn with_raw(&self, raw: Vec<u8>) -> Sample {
        Sample {
            request: self.request,
            raw,
        }
    }

    fn with_head(&self, from: &str, to: &str) -> Outcome<Sample> {
        let (head, body) = self.split()?;
        let mut raw = head.to_vec();
        replace(&mut raw, from, to)?;
        raw.extend_from_slice(body);
        Ok(self.with_raw(raw))
    }

    /// The same with another body; the tag stays.
    fn with_body(&self, change: impl FnOnce(&mut Vec<u8>) -> Outcome<()>) -> Outcome<Sample> {
        let mut plain = self.plain()?;
        change(&mut plain)?;
        let raw = self.rebuilt(plain, self.is_gzip(), None)?;
        Ok(self.with_raw(raw))
    }

    /// The same with another body, and its checksum in the tag.
    fn sealed(&self, plain: Vec<u8>) -> Outcome<Sample> {
        let checksum = crc32fast::hash(&plain);
        let raw = self.rebuilt(plain, self.is_gzip(), Some(checksum))?;
        Ok(self.with_raw(raw))
    }

    /// The response with another body, with gzip or without, and with another checksum in the tag
    /// if one is given.
    fn rebuilt(&self, plain: Vec<u8>, gzip: bool, checksum: Option<u32>) -> Outcome<Vec<u8>> {
        let (head, before) = self.split()?;
        let mut raw = head.to_vec();
        let tag = self.tag()?;
        let (time, old_checksum) = tag.split_once('-').ok_or("no checksum")?;
        let old_checksum = old_checksum.get(..8).ok_or("a short checksum")?;
        let checksum = checksum.map_or(old_checksum.to_owned(), |sum| format!("{sum:08x}"));
        let end = if gzip { "-gz" } else { "" };
        replace(&mut raw, &tag, &format!("{time}-{checksum}{end}\""))?;
        let body = if gzip {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&plain)?;
            packed.finish()?
        } else {
            plain
        };
        let coding = "content-encoding: gzip\r\n";
        let length = |coding: &str, bytes: usize| format!("{coding}content-length: {bytes}\r\n");
        if self.is_gzip() {
            replace(&mut raw, coding, "")?;
        }
        let coding = if gzip { coding } else { "" };
        replace(
            &mut raw,
            &length("", before.len()),
            &length(coding, body.len()),
        )?;
        raw.extend_from_slice(&body);
        Ok(raw)
    }
}
