//! The judge on trial: real answers of two versions, as they are and doctored. One that lets a wrong
//! answer pass, or refuses a right one, ends the bench before it begins.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;

use crate::common::Outcome;
use crate::common::http::{Head, fetch, get};
use crate::common::judged::judge::{Fault, Judge};
use crate::common::judged::ledger::Ledger;
use crate::common::judged::targets::{Ask, Kind, Target};

/// An answer as it came.
#[derive(Clone)]
pub(crate) struct Sample {
    ask: Ask,
    raw: Vec<u8>,
}

/// Of so many targets an answer in each form: all hot ones, days, some islands, then every so many.
const FIRST: usize = 40;
const THEN_EVERY: usize = 31;

/// Reasons that the judge has.
const AFTER: &str = "or before, after an answer of";
const OTHER_BYTES: &str = "came with other bytes before";
/// Among the samples, `/v1` and the first page of islands: two samples to a target.
const NEWEST: usize = 0;
const LISTED: usize = 2 * 3;

/// Answers of the version that is served now.
pub(crate) fn samples(address: SocketAddr, targets: &[Target]) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        if number >= FIRST && !number.is_multiple_of(THEN_EVERY) {
            continue;
        }
        for (gzip, coding) in [(false, ""), (true, "accept-encoding: gzip\r\n")] {
            let ask = Ask {
                target: number,
                gzip,
            };
            let raw = fetch(address, &get(&target.path, coding))?.raw;
            samples.push(Sample { ask, raw });
        }
    }
    Ok(samples)
}

/// Who is to judge what.
struct Trial<'a> {
    ledger: &'a Ledger,
    targets: &'a [Target],
    doctored: usize,
}

/// Tries a new judge with answers of the first version and of the second; says how many doctored
/// answers it caught.
pub(crate) fn check(
    ledger: &Ledger,
    targets: &[Target],
    first: &[Sample],
    second: &[Sample],
) -> Outcome<usize> {
    let mut trial = Trial {
        ledger,
        targets,
        doctored: 0,
    };
    let newest = &second[NEWEST];
    for (number, (old, new)) in first.iter().zip(second).enumerate() {
        trial.passes(&[old, old, new, newest, new])?;
        trial.mixed(AFTER, &[new, old])?;
        trial.mixed(AFTER, &[newest, old])?;
        trial.wrong_heads(old, new)?;
        trial.wrong_bodies(old)?;
        let other = &first[(number + 2) % first.len()];
        // Pages are told apart by their limit and offset only, both lists of days not at all.
        let kind = |sample: &Sample| targets[sample.ask.target].kind;
        let says = |sample: &Sample| &targets[sample.ask.target].says;
        if kind(old) != Kind::Page && says(old) != says(other) {
            let swapped = old.with_raw(&other.raw);
            trial.mixed("it does not say", &[&swapped])?;
        }
        match kind(old) {
            Kind::Page => trial.wrong_pages(old, new, &first[LISTED])?,
            Kind::Live => trial.wrong_live(old, new)?,
            _ => {}
        }
    }
    Ok(trial.doctored)
}

impl Trial<'_> {
    fn judged(&self, answers: &[&Sample]) -> Result<(), (usize, Fault)> {
        let mut judge = Judge::new(self.ledger.clone(), self.targets, 1);
        for (number, answer) in answers.iter().enumerate() {
            let judged = judge.judge(0, answer.ask, &answer.raw);
            judged.map_err(|fault| (number, fault))?;
        }
        Ok(())
    }

    fn passes(&self, answers: &[&Sample]) -> Outcome<()> {
        let path = &self.targets[answers[0].ask.target].path;
        let judged = self.judged(answers);
        judged.map_err(|fault| {
            format!("the judge refuses a right answer to {path}: {fault:?}").into()
        })
    }

    /// The last of some answers, and none before, must be refused, and for a reason that says `why`.
    fn mixed(&mut self, why: &str, answers: &[&Sample]) -> Outcome<()> {
        self.refused(&Fault::Mixed(why.to_owned()), answers)
    }

    fn failed(&mut self, why: &str, answers: &[&Sample]) -> Outcome<()> {
        self.refused(&Fault::Failed(why.to_owned()), answers)
    }

    fn refused(&mut self, wanted: &Fault, answers: &[&Sample]) -> Outcome<()> {
        self.doctored += 1;
        let last = answers.len() - 1;
        let judged = self.judged(answers);
        let is_caught = match (&judged, wanted) {
            (Err((number, Fault::Mixed(reason))), Fault::Mixed(why))
            | (Err((number, Fault::Failed(reason))), Fault::Failed(why)) => {
                *number == last && reason.contains(why)
            }
            _ => false,
        };
        if is_caught {
            return Ok(());
        }
        let path = &self.targets[answers[last].ask.target].path;
        Err(format!(
            "{path}: {judged:?}, where the last of {} is {wanted:?}",
            answers.len()
        )
        .into())
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
        if self.targets[old.ask.target].kind == Kind::Page {
            // One page alone shows no fault: what its checksum should be, the pages before it say.
            let mut before = old.clone();
            before.ask.gzip = !before.ask.gzip;
            before.raw = old.raw_in(before.ask.gzip)?;
            self.mixed("its checksum", &[&before, &wrong])?;
        } else {
            self.mixed("its checksum", &[&wrong])?;
        }
        let refused = old.with_head("200 OK", "503 Service Unavailable")?;
        self.failed("status 503", &[&refused])?;
        if old.is_gzip() {
            let mut unasked = old.clone();
            unasked.ask.gzip = false;
            self.failed("its coding", &[&unasked])?;
        }
        Ok(())
    }

    fn wrong_bodies(&mut self, old: &Sample) -> Outcome<()> {
        let cut = old.with_raw(&old.raw[..old.raw.len() - 1]);
        self.failed(" bytes, not ", &[&cut])?;
        let mut torn = old.raw.clone();
        // Before the checksum that gzip ends with.
        let near_end = torn.len() - 12;
        torn[near_end] ^= 0x55;
        let torn = old.with_raw(&torn);
        self.mixed(OTHER_BYTES, &[old, &torn])?;
        if old.is_gzip() {
            self.failed("its gzip", &[&torn])?;
        }
        let other = old.with_body(|plain| {
            let digit = plain
                .iter()
                .position(|byte| *byte == b'0')
                .ok_or("no digit")?;
            plain[digit] = b'1';
            Ok(())
        })?;
        self.mixed(OTHER_BYTES, &[old, &other])?;
        if self.targets[old.ask.target].kind != Kind::Page {
            // Whether it is in the stamp, in the rest or in what the target has to say.
            self.mixed("", &[&other])?;
        }
        Ok(())
    }

    /// No checksum of a page's own tells what is wrong with it.
    fn wrong_pages(&mut self, old: &Sample, new: &Sample, listed: &Sample) -> Outcome<()> {
        let stamp = |sample: &Sample| -> Outcome<String> {
            let text = String::from_utf8(sample.plain()?)?;
            let (_, rest) = text.split_once("\"generatedAt\":\"").ok_or("no stamp")?;
            Ok(rest.split('"').next().ok_or("no stamp")?.to_owned())
        };
        let (before, now) = (stamp(old)?, stamp(new)?);
        let stamped = old.with_body(|plain| replace(plain, &before, &now))?;
        self.mixed("is not of", &[&stamped])?;
        // What follows wants rows of islands.
        if old.ask.target != listed.ask.target {
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
        self.mixed("recommendations, not of", &[&counted])?;
        let short = old.with_body(|plain| {
            let second = memmem::find(plain, b",{\"code\"").ok_or("no second row")?;
            let first = memmem::find(plain, b"{\"code\"").ok_or("no row")?;
            plain.drain(first..=second);
            Ok(())
        })?;
        self.mixed("rows, not", &[&short])
    }

    /// With checksums that are right, only what is said can be wrong.
    fn wrong_live(&mut self, old: &Sample, new: &Sample) -> Outcome<()> {
        let of = |sample: &Sample| -> Outcome<Vec<u8>> { sample.plain() };
        let (before, now) = (of(old)?, of(new)?);
        let end = |plain: &[u8]| memmem::rfind(plain, b"\"meta\"").unwrap_or(plain.len());
        let mut relabelled = before[..end(&before)].to_vec();
        relabelled.extend_from_slice(&now[end(&now)..]);
        let relabelled = new.sealed(&relabelled)?;
        self.mixed("its time is", &[&relabelled])?;
        let mut titled = now.clone();
        replace(&mut titled, " v1\"", " v0\"")?;
        let titled = new.sealed(&titled)?;
        self.mixed(" v0\", not \" v1\"", &[&titled])?;
        self.passes(&[&new.sealed(&now)?])
    }
}

/// Puts one text in place of another, where it stands first.
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

    fn with_raw(&self, raw: &[u8]) -> Sample {
        Sample {
            ask: self.ask,
            raw: raw.to_vec(),
        }
    }

    fn with_head(&self, from: &str, to: &str) -> Outcome<Sample> {
        let (head, body) = self.split()?;
        let mut raw = head.to_vec();
        replace(&mut raw, from, to)?;
        raw.extend_from_slice(body);
        Ok(self.with_raw(&raw))
    }

    /// The same with another body, its length told; the tag stays.
    fn with_body(&self, change: impl FnOnce(&mut Vec<u8>) -> Outcome<()>) -> Outcome<Sample> {
        let mut plain = self.plain()?;
        change(&mut plain)?;
        let body = if self.is_gzip() {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(&plain)?;
            gzip.finish()?
        } else {
            plain
        };
        let (head, before) = self.split()?;
        let mut raw = head.to_vec();
        let length = |bytes: usize| format!("content-length: {bytes}\r\n");
        replace(&mut raw, &length(before.len()), &length(body.len()))?;
        raw.extend_from_slice(&body);
        Ok(self.with_raw(&raw))
    }

    /// The same with another body, and the tag of that.
    fn sealed(&self, plain: &[u8]) -> Outcome<Sample> {
        let tag = self.tag()?;
        let (time, rest) = tag.split_once('-').ok_or("no checksum")?;
        let end = &rest[8..];
        let changed = self.with_body(|body| {
            plain.clone_into(body);
            Ok(())
        })?;
        let sum = crc32fast::hash(plain);
        changed.with_head(&tag, &format!("{time}-{sum:08x}{end}"))
    }

    /// The answer in the one form or the other, with its tag.
    fn raw_in(&self, gzip: bool) -> Outcome<Vec<u8>> {
        let plain = self.plain()?;
        let (head, before) = self.split()?;
        let mut raw = head.to_vec();
        let coding = "content-encoding: gzip\r\n";
        let body = if gzip {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&plain)?;
            packed.finish()?
        } else {
            plain
        };
        let tag = self.tag()?;
        let bare = tag.trim_end_matches('"').trim_end_matches("-gz");
        let other = format!("{bare}{}\"", if gzip { "-gz" } else { "" });
        replace(&mut raw, &tag, &other)?;
        if self.is_gzip() && !gzip {
            replace(&mut raw, coding, "")?;
        }
        if gzip && !self.is_gzip() {
            replace(
                &mut raw,
                "content-length: ",
                &format!("{coding}content-length: "),
            )?;
        }
        let length = |bytes: usize| format!("content-length: {bytes}\r\n");
        replace(&mut raw, &length(before.len()), &length(body.len()))?;
        raw.extend_from_slice(&body);
        Ok(raw)
    }
}
