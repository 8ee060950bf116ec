//! The format of the key file: a header line, followed by one line of JSON per key.
//!
//! The header contains the number of lines and their checksum, so that a truncated or changed file is
//! reported as damaged and not read as a file with fewer keys.

use std::array;
use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use zlib_rs::crc32::crc32;

use super::records::{KeyRecord, KeyRecords, TIME_MAX};
use crate::calendar::UnixSeconds;
use crate::model::Tier;

const FORMAT: &str = "island-metrics keys 1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    /// Of no use any more. Earlier versions counted changes.
    revision: u64,
    /// Of no use any more. Earlier versions refuse a file in which it is not above the numbers of all keys.
    next: usize,
    keys: usize,
    crc32: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line<'a> {
    /// Of no use any more. Earlier versions refuse a file in which numbers do not ascend. Left out in the store that
    /// servers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    id: String,
    tier: &'a str,
    #[serde(borrow)]
    address: Cow<'a, str>,
    issued: i64,
    revoked: Option<i64>,
    /// Left out of files if it is the time of issue or revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<i64>,
    sha256: String,
}

impl Header {
    /// Returns the checksum of the lines and of the header's other fields.
    fn checksum(&self, lines: &[u8]) -> u32 {
        let figures = format!("{} {} {}\n", self.revision, self.next, self.keys);
        crc32(crc32(0, figures.as_bytes()), lines)
    }
}

/// Parses a key file. An error is the number of a line, starting at 1, and its fault.
pub(super) fn parse(bytes: &[u8]) -> Result<KeyRecords, (usize, String)> {
    let header_fault = |problem: &dyn fmt::Display| (1, problem.to_string());
    let end = memchr::memchr(b'\n', bytes).ok_or_else(|| header_fault(&"missing header line"))?;
    let (header, lines) = (&bytes[..end], &bytes[end + 1..]);
    let header: Header = serde_json::from_slice(header).map_err(|error| header_fault(&error))?;
    if header.format != FORMAT {
        let problem = format!("format must be {FORMAT:?}, got {:?}", header.format);
        return Err((1, problem));
    }
    let mut records = Vec::new();
    for (number, line) in (2..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
        records.push(KeyRecord::parse_line(line).map_err(|problem| (number, problem))?);
    }
    if records.len() != header.keys || lines.last().is_some_and(|byte| *byte != b'\n') {
        let problem = format!("expected {} keys, got {}", header.keys, records.len());
        return Err((records.len() + 1, problem));
    }
    if header.checksum(lines) != header.crc32 {
        return Err(header_fault(&"checksum mismatch"));
    }
    KeyRecords::stored(records).ok_or_else(|| header_fault(&"two keys have one id"))
}

pub(crate) fn hex(bytes: &[u8; 32]) -> String {
    // To format each byte would be most of the work of writing a key file.
    let (halves, _) = bytes.as_chunks();
    let digits = |half: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*half));
    halves.iter().map(digits).collect()
}

pub(crate) fn parse_hex(hex: &str) -> Option<[u8; 32]> {
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two digits");
    is_hex.then(|| array::from_fn(byte))
}

impl KeyRecord {
    /// Returns the record as a line of the store that servers share.
    pub fn to_shared_line(&self) -> String {
        let line = Line {
            changed: Some(self.changed.0),
            ..self.line(None)
        };
        serde_json::to_string(&line).expect("strings and numbers serialize")
    }

    /// Parses a line of a key file, or of the store.
    pub fn parse_line(line: &[u8]) -> Result<KeyRecord, String> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let address = line.address.parse();
        let changed = line.changed.or(line.revoked).unwrap_or(line.issued);
        let times = [line.issued, changed, line.revoked.unwrap_or(0)];
        if let Some(time) = times
            .into_iter()
            .find(|time| !(0..=TIME_MAX).contains(time))
        {
            return Err(format!("times must be 0 to {TIME_MAX}, got {time}"));
        }
        Ok(KeyRecord {
            id: line.id.parse().map_err(|error| format!("id: {error}"))?,
            tier: Tier::parse(line.tier)
                .ok_or_else(|| format!("tier must be free, starter or pro, got {:?}", line.tier))?,
            address: address.map_err(|error| format!("address: {error}"))?,
            issued: UnixSeconds(line.issued),
            revoked: line.revoked.map(UnixSeconds),
            changed: UnixSeconds(changed),
            digest: parse_hex(&line.sha256).ok_or("sha256 must be 64 hexadecimal digits")?,
        })
    }

    fn line(&self, number: Option<usize>) -> Line<'_> {
        let is_usual = self.changed == self.revoked.unwrap_or(self.issued);
        Line {
            number,
            id: self.id.to_string(),
            tier: self.tier.as_str(),
            address: self.address.as_str().into(),
            issued: self.issued.0,
            revoked: self.revoked.map(|at| at.0),
            changed: (!is_usual).then_some(self.changed.0),
            sha256: hex(&self.digest),
        }
    }
}

impl KeyRecords {
    pub fn to_file(&self) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.as_slice().len() * 224);
        for (number, record) in self.as_slice().iter().enumerate() {
            serde_json::to_writer(&mut lines, &record.line(Some(number)))
                .expect("strings and numbers serialize");
            lines.push(b'\n');
        }
        let mut header = Header {
            format: FORMAT.to_owned(),
            revision: 0,
            next: self.as_slice().len(),
            keys: self.as_slice().len(),
            crc32: 0,
        };
        header.crc32 = header.checksum(&lines);
        let mut bytes = serde_json::to_vec(&header).expect("strings and numbers serialize");
        bytes.push(b'\n');
        bytes.append(&mut lines);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::token::KeyPrefix;

    fn written(keys: u32) -> (KeyRecords, Vec<u8>) {
        let mut records = KeyRecords::default();
        for number in 0..keys {
            let address = format!("\"{number}\\@x.test").parse().unwrap();
            let key = (&address, Tier::ALL[number as usize % 3]);
            let now = UnixSeconds(1_800_000_000);
            let (key, record) = KeyRecord::random(&KeyPrefix::default(), key, now);
            assert!(records.issue(record).unwrap());
            if number % 2 == 1 {
                let mut set = |is_revoked| {
                    let later = UnixSeconds(1_800_000_001);
                    records.set_revoked(key.id, is_revoked, later).unwrap();
                };
                set(true);
                if number % 4 == 3 {
                    set(false);
                }
            }
        }
        let bytes = records.to_file();
        (records, bytes)
    }

    #[test]
    fn records_read_back_as_written() {
        for keys in [0, 1, 7] {
            let (records, bytes) = written(keys);
            assert_eq!(parse(&bytes).unwrap(), records);
        }
    }

    #[test]
    fn no_truncated_file_is_accepted() {
        let (_, bytes) = written(4);
        for length in 0..bytes.len() {
            assert!(
                parse(&bytes[..length]).is_err(),
                "{length} of {} bytes",
                bytes.len()
            );
        }
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        let (records, bytes) = written(2);
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            // A space may become another kind of whitespace.
            let other = parse(&flipped);
            assert!(other.is_err() || other == Ok(records.clone()), "bit {at}");
        }
    }

    #[test]
    fn the_revision_and_the_numbers_of_an_earlier_version_are_ignored() {
        let (records, bytes) = written(2);
        let lines = &bytes[memchr::memchr(b'\n', &bytes).unwrap() + 1..];
        let lines = std::str::from_utf8(lines).unwrap();
        let gaps = lines.replace("\"number\":1,", "\"number\":4294967295,");
        let none = lines.replace("\"number\":1,", "");
        assert!(gaps.len() > lines.len() && none.len() < lines.len());
        for (revision, next, lines) in [
            (1, 2, lines),
            (u64::MAX, 4_294_967_295, &gaps),
            (0, 0, &none),
        ] {
            let mut header = Header {
                format: FORMAT.to_owned(),
                revision,
                next,
                keys: 2,
                crc32: 0,
            };
            header.crc32 = header.checksum(lines.as_bytes());
            let header = serde_json::to_string(&header).unwrap();
            let file = format!("{header}\n{lines}");
            assert_eq!(parse(file.as_bytes()).as_ref(), Ok(&records));
        }
    }

    #[test]
    fn earlier_versions_find_the_numbers_that_they_require() {
        let (_, bytes) = written(3);
        let text = String::from_utf8(bytes).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert_eq!(lines.next().unwrap()["next"], 3);
        assert!(
            lines
                .map(|line| line["number"].as_u64())
                .eq((0..3).map(Some))
        );
    }

    #[test]
    fn a_file_has_as_many_lines_as_its_header_says_and_ends_with_one() {
        let (_, bytes) = written(3);
        let problem = |keys: usize| format!("expected 3 keys, got {keys}");
        let last_line = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n');
        let shorter = &bytes[..=last_line.unwrap()];
        assert_eq!(parse(shorter).unwrap_err(), (3, problem(2)));
        let open = &bytes[..bytes.len() - 1];
        assert_eq!(parse(open).unwrap_err(), (4, problem(3)));
    }

    #[test]
    fn a_line_of_the_file_takes_few_allocations() {
        let (records, _) = written(1_000);
        let written = allocation_counter::measure(|| drop(records.to_file()));
        assert!(written.count_total < 10_000, "{written:?}");
    }

    #[test]
    fn a_digest_is_64_hexadecimal_digits() {
        assert_eq!(parse_hex(&"aB".repeat(32)), Some([0xab; 32]));
        let digest = array::from_fn(|at| 8 * u8::try_from(at).unwrap());
        assert_eq!(parse_hex(&hex(&digest)), Some(digest));
        for text in ["ab".repeat(31), "ab".repeat(33), "+b".repeat(32)] {
            assert_eq!(parse_hex(&text), None, "{text}");
        }
    }

    #[test]
    fn a_line_of_the_store_has_the_time_of_the_last_change_and_no_number() {
        let (records, _) = written(4);
        for record in records.as_slice() {
            let line: serde_json::Value = serde_json::from_str(&record.to_shared_line()).unwrap();
            assert_eq!(line["changed"], record.changed.0);
            assert_eq!(line.get("number"), None);
        }
    }

    #[test]
    fn faults_name_their_line() {
        let (_, bytes) = written(3);
        let text = String::from_utf8(bytes).unwrap();
        let fault = |from: &str, to: &str| parse(text.replacen(from, to, 1).as_bytes());
        let (line, problem) = fault("\"tier\":\"starter\"", "\"tier\":\"gold\"").unwrap_err();
        assert_eq!(
            (line, problem.as_str()),
            (3, "tier must be free, starter or pro, got \"gold\"")
        );
        assert_eq!(fault("keys 1", "keys 2").unwrap_err().0, 1);
        assert_eq!(fault("\"number\":2", "\"number\":").unwrap_err().0, 4);
        assert_eq!(
            parse(b"").unwrap_err(),
            (1, "missing header line".to_owned())
        );
    }
}
