//! The key file: a header line, followed by one line of JSON per key.
//!
//! The header contains the number of lines and their checksum, so that a truncated or changed file is
//! reported as damaged and not read as a file with fewer keys.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::records::{KeyRecord, KeyRecords};
use super::token::SecretDigest;
use crate::calendar::UnixSeconds;
use crate::durable::AtomicFile;
use crate::model::Tier;
use crate::regular_file;

/// Name of the key file in the state directory.
pub(super) const FILE: &str = "keys.jsonl";
const FORMAT: &str = "island-metrics keys 1";
const HEADER_BYTES_MAX: u64 = 512;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    revision: u64,
    next: u32,
    keys: usize,
    crc32: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line<'a> {
    number: u32,
    id: String,
    tier: &'a str,
    #[serde(borrow)]
    address: std::borrow::Cow<'a, str>,
    issued: i64,
    revoked: Option<i64>,
    sha256: String,
}

impl Header {
    /// Returns the checksum of the lines and of the header's other fields.
    fn checksum(&self, lines: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(format!("{} {} {}\n", self.revision, self.next, self.keys).as_bytes());
        crc.update(lines);
        crc.finalize()
    }
}

/// The key file cannot be used. Displays with the file and the line.
#[derive(Debug)]
pub enum KeyFileError {
    /// The file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file has been changed or truncated.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line number, starting at 1.
        line: usize,
        /// Description of the fault.
        problem: String,
    },
}

impl KeyFileError {
    /// Returns `true` if another process held the directory's lock until the timeout.
    pub fn is_busy(&self) -> bool {
        matches!(self, KeyFileError::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            KeyFileError::Damaged {
                path,
                line,
                problem,
            } => write!(f, "{}:{line}: {problem}", path.display()),
        }
    }
}

impl std::error::Error for KeyFileError {}

fn failed(path: &Path) -> impl Fn(io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |source| KeyFileError::Io {
        path: path.clone(),
        source,
    }
}

/// A version of the key file. Two versions differ if the file was changed; only its first line is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileVersion {
    header: Vec<u8>,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Returns the version of the file; `None` if it does not exist.
pub(super) fn version(directory: &Path) -> Result<Option<KeyFileVersion>, KeyFileError> {
    let path = directory.join(FILE);
    let Some(file) = regular_file::open(&path).map_err(failed(&path))? else {
        return Ok(None);
    };
    let found = file.metadata().map_err(failed(&path))?;
    let mut header = Vec::new();
    file.take(HEADER_BYTES_MAX)
        .read_to_end(&mut header)
        .map_err(failed(&path))?;
    Ok(Some(KeyFileVersion {
        header,
        bytes: found.len(),
        modified: found.modified().ok(),
    }))
}

/// Reads all records; none if the file does not exist.
pub(super) fn read(directory: &Path) -> Result<KeyRecords, KeyFileError> {
    let path = directory.join(FILE);
    let Some(mut file) = regular_file::open(&path).map_err(failed(&path))? else {
        return Ok(KeyRecords::default());
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed(&path))?;
    parse(&bytes).map_err(|(line, problem)| KeyFileError::Damaged {
        path,
        line,
        problem,
    })
}

fn parse(bytes: &[u8]) -> Result<KeyRecords, (usize, String)> {
    let fault = |line: usize, problem: &dyn fmt::Display| (line, problem.to_string());
    let end = memchr::memchr(b'\n', bytes).ok_or_else(|| fault(1, &"missing header line"))?;
    let (head, lines) = (&bytes[..end], &bytes[end + 1..]);
    let header: Header = serde_json::from_slice(head).map_err(|error| fault(1, &error))?;
    if header.format != FORMAT {
        return Err(fault(
            1,
            &format!("format must be {FORMAT:?}, got {:?}", header.format),
        ));
    }
    let mut records = Vec::with_capacity(header.keys.min(lines.len()));
    for (number, line) in (2..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
        records.push(record(line).map_err(|problem| (number, problem))?);
    }
    if records.len() != header.keys || lines.last().is_some_and(|byte| *byte != b'\n') {
        let problem = format!("expected {} keys, got {}", header.keys, records.len());
        return Err((records.len() + 1, problem));
    }
    if header.checksum(lines) != header.crc32 {
        return Err(fault(1, &"checksum mismatch"));
    }
    KeyRecords::stored(records, header.next, header.revision)
        .ok_or_else(|| fault(1, &"key numbers or ids are inconsistent"))
}

fn record(line: &[u8]) -> Result<KeyRecord, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let tier = Tier::parse(line.tier);
    Ok(KeyRecord {
        number: line.number,
        id: line.id.parse().map_err(|error| format!("id: {error}"))?,
        tier: tier
            .ok_or_else(|| format!("tier must be free, starter or pro, got {:?}", line.tier))?,
        address: line
            .address
            .parse()
            .map_err(|error| format!("address: {error}"))?,
        issued: UnixSeconds(line.issued),
        revoked: line.revoked.map(UnixSeconds),
        digest: digest(&line.sha256).ok_or("sha256 must be 64 hexadecimal digits")?,
    })
}

fn digest(hex: &str) -> Option<SecretDigest> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(SecretDigest(bytes))
}

/// Replaces the file. On return the records are durable: they survive a power failure.
pub(super) fn write(directory: &Path, records: &KeyRecords) -> Result<(), KeyFileError> {
    let path = directory.join(FILE);
    let mut lines = Vec::with_capacity(records.iter().len() * 224);
    for record in records.iter() {
        let sha256 = record.digest.0.iter().map(|byte| format!("{byte:02x}"));
        let line = Line {
            number: record.number,
            id: record.id.to_string(),
            tier: record.tier.as_str(),
            address: record.address.as_str().into(),
            issued: record.issued.0,
            revoked: record.revoked.map(|at| at.0),
            sha256: sha256.collect(),
        };
        serde_json::to_writer(&mut lines, &line).expect("strings and numbers serialize");
        lines.push(b'\n');
    }
    let mut header = Header {
        format: FORMAT.to_owned(),
        revision: records.revision,
        next: records.next,
        keys: records.iter().len(),
        crc32: 0,
    };
    header.crc32 = header.checksum(&lines);
    let mut head = serde_json::to_vec(&header).expect("strings and numbers serialize");
    head.push(b'\n');
    let replace = || {
        let mut file = AtomicFile::create_private(directory, FILE)?;
        file.write_all(&head)?;
        file.write_all(&lines)?;
        file.commit(&path)
    };
    replace().map_err(failed(&path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::keys::token::{KeyPrefix, NewKey};

    fn written(keys: u32) -> (KeyRecords, Vec<u8>) {
        let directory = std::env::temp_dir().join(format!(
            "im-keys-{}-{:?}-{keys}",
            std::process::id(),
            std::thread::current().id()
        ));
        fs::create_dir_all(&directory).unwrap();
        let mut records = KeyRecords::default();
        for number in 0..keys {
            let key = NewKey::random(&KeyPrefix::default());
            let address = format!("\"{number}\\@x.test").parse().unwrap();
            let tier = Tier::ALL[number as usize % 3];
            let parts = (key.id, key.digest());
            let now = UnixSeconds(1_800_000_000);
            records.issue(parts, address, tier, now).unwrap();
            if number % 2 == 1 {
                records.revoke(key.id, UnixSeconds(1_800_000_001)).unwrap();
            }
        }
        write(&directory, &records).unwrap();
        let bytes = fs::read(directory.join(FILE)).unwrap();
        assert_eq!(read(&directory).unwrap(), records);
        let before = version(&directory).unwrap();
        assert_eq!(before, version(&directory).unwrap());
        records.revision += 1;
        write(&directory, &records).unwrap();
        assert_ne!(before, version(&directory).unwrap());
        records.revision -= 1;
        fs::remove_dir_all(directory).unwrap();
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
