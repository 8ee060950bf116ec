//! Every answer judged: is it whole, is all of it of one version, and has no connection seen a later one?

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::Read as _;
use std::time::Instant;

use flate2::bufread::GzDecoder;
use memchr::memmem;

use crate::common::http::Head;
use crate::common::judged::answer::Answer;
use crate::common::judged::ledger::{Ledger, Version};
use crate::common::judged::targets::{Ask, Target};

/// Answers to one request that are kept to compare others with: of the last version and the one before.
const KEPT: usize = 2;

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not there, not whole, or none.
    Failed(String),
    /// Its parts are of two versions, or it comes after a later one.
    Mixed(String),
}

/// An answer that has been judged. Another that is the same, byte for byte, is as good.
struct Known {
    tag: Vec<u8>,
    gzip: bool,
    body: Vec<u8>,
    version: usize,
}

/// An entity tag, taken apart.
struct Tag {
    published: i64,
    checksum: u32,
    gzip: bool,
}

pub(crate) struct Judge<'a> {
    ledger: Ledger,
    targets: &'a [Target],
    versions: Vec<Version>,
    /// Versions by their stamp.
    numbers: HashMap<String, usize>,
    /// Of each version, the next that has another history.
    next_history: Vec<usize>,
    known: Vec<[VecDeque<Known>; 2]>,
    /// What the tags of all list pages of a version say.
    pub(crate) page_sums: HashMap<usize, u32>,
    /// No answer to a connection may be of a version before this.
    lines: Vec<usize>,
    /// When each version was first seen.
    pub(crate) first_seen: HashMap<usize, Instant>,
    pub(crate) answers: u64,
}

impl Tag {
    /// `"TIME-CHECKSUM"`, or the same with `-gz`, both numbers hexadecimal.
    fn parse(text: &[u8]) -> Option<Tag> {
        let text = std::str::from_utf8(text).ok()?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        let (numbers, gzip) = match text.strip_suffix("-gz") {
            Some(numbers) => (numbers, true),
            None => (text, false),
        };
        let (published, checksum) = numbers.split_once('-')?;
        Some(Tag {
            published: i64::from_str_radix(published, 16).ok()?,
            checksum: u32::from_str_radix(checksum, 16).ok()?,
            gzip,
        })
    }
}

/// The value of a header line, which is named as `\r\nname: `.
fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = &head[memmem::find(head, name.as_bytes())? + name.len()..];
    Some(&rest[..memchr::memchr(b'\r', rest)?])
}

impl<'a> Judge<'a> {
    pub(crate) fn new(ledger: Ledger, targets: &'a [Target], lines: usize) -> Judge<'a> {
        Judge {
            ledger,
            targets,
            versions: Vec::new(),
            numbers: HashMap::new(),
            next_history: Vec::new(),
            known: targets.iter().map(|_| Default::default()).collect(),
            page_sums: HashMap::new(),
            lines: vec![0; lines],
            first_seen: HashMap::new(),
            answers: 0,
        }
    }

    /// Judges the answer that has come on a connection.
    pub(crate) fn judge(&mut self, line: usize, ask: Ask, answer: &[u8]) -> Result<(), Fault> {
        self.answers += 1;
        let failed = |reason: String| Err(Fault::Failed(reason));
        let Some(found) = Head::read(answer) else {
            return failed("it has no head".to_owned());
        };
        if found.status != 200 {
            let body = String::from_utf8_lossy(&answer[found.length..]);
            return failed(format!("status {}: {body}", found.status));
        }
        let (head, body) = answer.split_at(found.length);
        if body.len() != found.body_length {
            return failed(format!("{} bytes, not {}", body.len(), found.body_length));
        }
        let Some(tag) = header(head, "\r\netag: ") else {
            return failed("it has no entity tag".to_owned());
        };
        let gzip = match header(head, "\r\ncontent-encoding: ") {
            None => false,
            Some(b"gzip") if ask.gzip => true,
            Some(other) => {
                return failed(format!(
                    "its coding is {:?}",
                    other.escape_ascii().to_string()
                ));
            }
        };
        let known = &self.known[ask.target][usize::from(ask.gzip)];
        let version = match known.iter().find(|known| known.tag == tag) {
            Some(known) if known.gzip == gzip && known.body == body => known.version,
            Some(_) => {
                let tag = tag.escape_ascii();
                return Err(Fault::Mixed(format!(
                    "the tag {tag} came with other bytes before"
                )));
            }
            None => self.learn(ask, tag, gzip, body)?,
        };
        self.keep_order(line, ask, version)
    }

    /// Judges what has not come before.
    fn learn(&mut self, ask: Ask, tag: &[u8], gzip: bool, body: &[u8]) -> Result<usize, Fault> {
        let version = self.read(ask, tag, gzip, body)?;
        let known = &mut self.known[ask.target][usize::from(ask.gzip)];
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back(Known {
            tag: tag.to_vec(),
            gzip,
            body: body.to_vec(),
            version,
        });
        if !self.targets[ask.target].kind.is_history() {
            self.first_seen.entry(version).or_insert_with(Instant::now);
        }
        Ok(version)
    }

    /// The version of an answer, if all of it is of one.
    fn read(&mut self, ask: Ask, tag: &[u8], gzip: bool, body: &[u8]) -> Result<usize, Fault> {
        let plain = if gzip {
            inflated(body)?
        } else {
            Cow::Borrowed(body)
        };
        let answer: Answer = serde_json::from_slice(&plain)
            .map_err(|error| Fault::Failed(format!("its JSON: {error}")))?;
        let mixed = |reason: String| Err(Fault::Mixed(reason));
        let stamp = &answer.meta.generated_at;
        let Some(number) = self.number(stamp) else {
            return mixed(format!("nothing was published at {stamp}"));
        };
        let version = &self.versions[number];
        let target = &self.targets[ask.target];
        if memmem::find(&plain, target.says.as_bytes()).is_none() {
            return mixed(format!("it does not say {}", target.says));
        }
        let shown = tag.escape_ascii();
        let Some(found) = Tag::parse(tag).filter(|tag| tag.gzip == gzip) else {
            return mixed(format!("its tag {shown} is none, or of another form"));
        };
        if found.published != version.published {
            return mixed(format!("its tag {shown} is not of {stamp}"));
        }
        if target.kind.is_history() && !version.has_history {
            return mixed(format!("no history was published at {stamp}"));
        }
        let sum = match target.kind {
            crate::common::judged::targets::Kind::Page => {
                *self.page_sums.entry(number).or_insert(found.checksum)
            }
            _ => crc32fast::hash(&plain),
        };
        if found.checksum != sum {
            return mixed(format!("its tag is {shown}, its checksum {sum:08x}"));
        }
        let checked = answer.check(target.kind, version);
        checked.map_err(|reason| Fault::Mixed(format!("as of {stamp} {reason}")))?;
        Ok(number)
    }

    /// The number of the version of that stamp.
    fn number(&mut self, stamp: &str) -> Option<usize> {
        if !self.numbers.contains_key(stamp) {
            for version in self.ledger.since(self.versions.len()) {
                self.numbers
                    .insert(version.stamp.clone(), self.versions.len());
                self.versions.push(version);
            }
            // From the last one back.
            let mut next = usize::MAX;
            self.next_history = vec![next; self.versions.len()];
            for (number, version) in self.versions.iter().enumerate().rev() {
                self.next_history[number] = next;
                if version.has_history {
                    next = number;
                }
            }
        }
        self.numbers.get(stamp).copied()
    }

    /// Whether the connection has not seen a later version. A history tells that the publish that
    /// rendered it has been taken in, and the next that renders one has not.
    fn keep_order(&mut self, line: usize, ask: Ask, version: usize) -> Result<(), Fault> {
        let last = if self.targets[ask.target].kind.is_history() {
            self.next_history[version] - 1
        } else {
            version
        };
        let seen = self.lines[line];
        if last < seen {
            let [last, seen] = [last, seen].map(|number| &self.versions[number].stamp);
            let reason = format!("it is of {last} or before, after an answer of {seen}");
            return Err(Fault::Mixed(reason));
        }
        self.lines[line] = seen.max(version);
        Ok(())
    }

    /// Another connection takes the place of one.
    pub(crate) fn forget_line(&mut self, line: usize) {
        self.lines[line] = 0;
    }
}

/// All of a gzip body, which nothing follows.
fn inflated(body: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let mut plain = Vec::with_capacity(body.len() * 8);
    let mut decoder = GzDecoder::new(body);
    let read = decoder.read_to_end(&mut plain);
    if let Err(error) = read {
        return Err(Fault::Failed(format!("its gzip: {error}")));
    }
    let rest = decoder.into_inner().len();
    if rest > 0 {
        return Err(Fault::Failed(format!("{rest} bytes follow its gzip")));
    }
    Ok(Cow::Owned(plain))
}
