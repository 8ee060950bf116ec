//! Self-test of the validator: it has to accept responses of two versions as received, and to reject
//! altered ones for the right reason. A failure ends the bench.

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;
use zlib_rs::crc32::crc32;

use super::Platform;
use super::load::Fault;
use super::targets::{Kind, Request, Target};
use super::validator::{Tag, Validator};
use super::versions::Versions;
use crate::common::prelude::*;

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
const OUTDATED: &str = ", after a response of";
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
        trial.accepts(&[&old.with(|_| ())?])?;
        trial.mixed(OUTDATED, &[new, old])?;
        trial.mixed(OUTDATED, &[newest, old])?;
        trial.wrong_heads(old, new)?;
        trial.wrong_bodies(old)?;
        let other = &first[(number + 2) % first.len()];
        // Pages differ in limit and offset only, the two lists of days in nothing.
        let kind = |sample: &Sample| targets[sample.request.target].kind;
        let contains = |sample: &Sample| &targets[sample.request.target].contains;
        if kind(old) != Kind::Page && contains(old) != contains(other) {
            let swapped = old.with_raw(&other.raw);
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
        self.rejects(&Fault::mixed(why), responses)
    }

    fn failed(&mut self, why: &str, responses: &[&Sample]) -> Outcome<()> {
        self.rejects(&Fault::failed(why), responses)
    }

    fn rejects(&mut self, expected: &Fault, responses: &[&Sample]) -> Outcome<()> {
        self.altered += 1;
        let last = responses.len() - 1;
        let result = self.validate(responses);
        if let Err((number, fault)) = &result
            && (*number, fault.is_mixed) == (last, expected.is_mixed)
            && fault.reason.contains(&expected.reason)
        {
            return Ok(());
        }
        let path = &self.targets[responses[last].request.target].path;
        Err(format!("{path}: {result:?}, not {expected:?} of response {last}").into())
    }

    fn wrong_heads(&mut self, old: &Sample, new: &Sample) -> Outcome<()> {
        let tag = old.parts()?.tag;
        let late = old.with(|parts| parts.tag.published += 1)?;
        self.mixed("is not of", &[&late])?;
        let foreign = new.with(|parts| parts.tag = tag)?;
        self.mixed("is not of", &[&foreign])?;
        let wrong = old.with(|parts| parts.tag.checksum ^= 1)?;
        if self.targets[old.request.target].kind == Kind::Page {
            // The checksum of a page has to be that of the pages before.
            let gzip = !old.request.gzip;
            let mut before = old.with(|parts| parts.tag.gzip = gzip)?;
            before.request.gzip = gzip;
            self.mixed("its checksum", &[&before, &wrong])?;
        } else {
            self.mixed("its checksum", &[&wrong])?;
        }
        let refused = old.with(|parts| parts.status = 503)?;
        self.failed("status 503", &[&refused])?;
        if tag.gzip {
            let mut not_accepted = old.clone();
            not_accepted.request.gzip = false;
            self.failed("its coding", &[&not_accepted])?;
        }
        Ok(())
    }

    fn wrong_bodies(&mut self, old: &Sample) -> Outcome<()> {
        let cut = old.with_raw(&old.raw[..old.raw.len() - 1]);
        self.failed(" bytes, not ", &[&cut])?;
        let mut torn = old.clone();
        // Before the checksum at the end of gzip.
        let near_end = torn.raw.len() - 12;
        torn.raw[near_end] ^= 0x55;
        self.mixed(OTHER_BYTES, &[old, &torn])?;
        if old.parts()?.tag.gzip {
            self.failed("its gzip", &[&torn])?;
        }
        let other = old.altered(|parts| {
            let digit = memchr::memchr(b'0', &parts.plain).ok_or("no digit")?;
            parts.plain[digit] = b'1';
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
            let text = String::from_utf8(sample.parts()?.plain)?;
            let stamp = values(&text, "generatedAt").pop().ok_or("no stamp")?;
            Ok(stamp.to_owned())
        };
        let (before, now) = (stamp(old)?, stamp(new)?);
        let stamped = old.altered(|parts| parts.replace(&before, &now))?;
        self.mixed("is not of", &[&stamped])?;
        // The rest alters rows of islands.
        if old.request.target != listed.request.target {
            return Ok(());
        }
        let tag = new.parts()?.tag;
        let relabelled = stamped.with(|parts| parts.tag = tag)?;
        self.mixed(" v0\", not \" v1\"", &[&relabelled])?;
        let mixed = old.altered(|parts| parts.replace(" v0\"", " v1\""))?;
        self.mixed(" v1\", not \" v0\"", &[&mixed])?;
        let counted = old.altered(|parts| {
            let digit = |parts: &mut Parts, from| parts.replace(from, &format!("{from}1"));
            digit(parts, "\"recommendations\":1").or_else(|_| digit(parts, "\"recommendations\":"))
        })?;
        self.mixed("recommendations, not a multiple of", &[&counted])?;
        let short = old.altered(|parts| {
            let second = memmem::find(&parts.plain, b",{\"code\"").ok_or("no second row")?;
            let first = memmem::find(&parts.plain, b"{\"code\"").ok_or("no row")?;
            parts.plain.drain(first..=second);
            Ok(())
        })?;
        self.mixed("rows, not", &[&short])
    }

    /// Altered bodies with a correct checksum.
    fn wrong_live(&mut self, old: &Sample, new: &Sample) -> Outcome<()> {
        let before = old.parts()?.plain;
        let meta = |plain: &[u8]| memmem::rfind(plain, b"\"meta\"").unwrap_or(plain.len());
        let relabelled = new.with(|parts| {
            let rows = before[..meta(&before)].iter().copied();
            parts.plain.splice(..meta(&parts.plain), rows);
            parts.seal();
        })?;
        self.mixed("its time is", &[&relabelled])?;
        let titled = new.altered(|parts| {
            parts.replace(" v1\"", " v0\"")?;
            parts.seal();
            Ok(())
        })?;
        self.mixed(" v0\", not \" v1\"", &[&titled])
    }
}

impl Sample {
    fn with_raw(&self, raw: &[u8]) -> Sample {
        Sample {
            request: self.request,
            raw: raw.to_vec(),
        }
    }

    fn parts(&self) -> Outcome<Parts> {
        let response = Response::parse(self.raw.clone())?;
        let tag = response.header("etag").ok_or("no tag")?;
        let tag = Tag::parse(tag.as_bytes()).ok_or("a malformed tag")?;
        let mut plain = Vec::new();
        if tag.gzip {
            GzDecoder::new(response.body()).read_to_end(&mut plain)?;
        } else {
            plain = response.body().to_vec();
        }
        Ok(Parts {
            status: response.status,
            tag,
            plain,
        })
    }

    /// The same response with other parts.
    fn with(&self, set: impl FnOnce(&mut Parts)) -> Outcome<Sample> {
        self.altered(|parts| {
            set(parts);
            Ok(())
        })
    }

    /// The same by a change that may be impossible.
    fn altered(&self, change: impl FnOnce(&mut Parts) -> Outcome<()>) -> Outcome<Sample> {
        let mut parts = self.parts()?;
        change(&mut parts)?;
        Ok(self.with_raw(&parts.joined()?))
    }
}

/// The parts of a response that are validated. Its coding is that of its tag.
struct Parts {
    status: u16,
    tag: Tag,
    plain: Vec<u8>,
}

impl Parts {
    /// Replaces the first occurrence of a text in the body.
    fn replace(&mut self, from: &str, to: &str) -> Outcome<()> {
        let at = memmem::find(&self.plain, from.as_bytes()).ok_or_else(|| format!("no {from}"))?;
        self.plain.splice(at..at + from.len(), to.bytes());
        Ok(())
    }

    /// Sets the checksum to that of the body.
    fn seal(&mut self) {
        self.tag.checksum = crc32(0, &self.plain);
    }

    fn joined(self) -> Outcome<Vec<u8>> {
        let Tag {
            published,
            checksum,
            gzip,
        } = self.tag;
        let (end, coding, body) = if gzip {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&self.plain)?;
            ("-gz", "content-encoding: gzip\r\n", packed.finish()?)
        } else {
            ("", "", self.plain)
        };
        let head = format!(
            "HTTP/1.1 {} X\r\netag: \"{published:x}-{checksum:08x}{end}\"\r\n{coding}content-length: {}\r\n\r\n",
            self.status,
            body.len()
        );
        Ok([head.as_bytes(), &body].concat())
    }
}
