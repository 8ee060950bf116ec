//! Dumps written by tests into a published directory, and slow downloads.
//!
//! Depends on the layout of the directory only, not on how the program reads it.

use crate::http::read_head;
use crate::payload_file::{manifest, replace_manifest};
use crate::prelude::*;
use bitcoin_hashes::sha256;
use zlib_rs::crc32::crc32;

/// Publish time of the dumps of these tests, and the same as an HTTP date.
pub(crate) const TIME: &str = "2026-11-21T12:05:00Z";
pub(crate) const HTTP_TIME: &str = "Sat, 21 Nov 2026 12:05:00 GMT";

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A published directory without dumps.
pub(crate) fn published(dir: &TempDir) -> PathBuf {
    let to = World::random(1, 12).publish(dir);
    name_dumps(&to, &Value::Null);
    to
}

/// Bytes that differ by seed and position, so that a misplaced piece is detected.
pub(crate) fn pattern(seed: u64, length: u64) -> Vec<u8> {
    (0..length)
        .map(|at| {
            let mixed = (at + seed * 0x1_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed.to_be_bytes()[0]
        })
        .collect()
}

/// A few files of every kind, one of them of several pieces.
pub(crate) fn some_files() -> Files {
    [
        ("islands.csv", pattern(1, 5_000)),
        ("islands.csv.gz", pattern(2, 131_072)),
        ("islands.json", pattern(3, 131_073)),
        ("islands.json.gz", pattern(4, 1)),
        ("daily/2026-11-20.csv", pattern(5, 1_000_000)),
        ("live/1795262400.csv", pattern(6, 8_192)),
        ("notice", pattern(7, 20)),
        ("notice.txt", b"made up\n".to_vec()),
        ("empty.csv", Vec::new()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = sha256::hash(bytes).to_byte_array().into_iter();
    digest.fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

pub(crate) fn index(files: &Files) -> Vec<u8> {
    let entries: Vec<Value> = files
        .iter()
        .map(|(name, bytes)| {
            let (length, sha256) = (bytes.len(), sha256(bytes));
            json!({"file": name, "bytes": length, "sha256": sha256, "modified": TIME})
        })
        .collect();
    serde_json::to_vec_pretty(&json!({
        "generatedAt": TIME, "license": "CC-BY-4.0", "licenseUrl": "http://x.test/by",
        "credit": "x", "notice": "y", "files": entries,
    }))
    .unwrap()
}

pub(crate) fn place(published: &Path, bytes: &[u8]) -> PathBuf {
    published.join("dumps").join(sha256(bytes))
}

/// Writes files and their index, which is not published yet; returns its entry for the manifest.
pub(crate) fn write(published: &Path, name: &str, files: &Files, index: &[u8]) -> Value {
    for bytes in files.values() {
        write_bytes(&place(published, bytes), bytes);
    }
    write_bytes(&published.join(name), index);
    entry(name, index)
}

pub(crate) fn entry(name: &str, index: &[u8]) -> Value {
    let checksum = format!("{:08x}", crc32(0, index));
    json!({"file": name, "bytes": index.len(), "checksum": checksum, "generatedAt": TIME})
}

/// Sets the dumps in the manifest, atomically.
pub(crate) fn name_dumps(published: &Path, entry: &Value) {
    let mut manifest = manifest(published);
    manifest["dumps"] = entry.clone();
    replace_manifest(published, &manifest);
}

/// Writes dumps and publishes them.
pub(crate) fn install(published: &Path, name: &str, files: &Files) {
    let entry = write(published, name, files, &index(files));
    name_dumps(published, &entry);
}

/// A connection whose response is read piece by piece.
pub(crate) struct Slow(pub(crate) BufReader<TcpStream>);

impl Slow {
    /// Sends a request; nothing is read yet.
    pub(crate) fn send(address: SocketAddr, request: &[u8]) -> Slow {
        let mut stream = socket(address);
        stream.write_all(request).unwrap();
        Slow(BufReader::with_capacity(4_096, stream))
    }

    pub(crate) fn get(address: SocketAddr, target: &str) -> Slow {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x.test\r\n\r\n");
        Slow::send(address, request.as_bytes())
    }

    /// Reads the next head, without the body.
    pub(crate) fn head(&mut self) -> Reply {
        self.next_head().unwrap()
    }

    /// The same; `None` once the connection is closed.
    pub(crate) fn next_head(&mut self) -> Option<Reply> {
        read_head(&mut self.0, "HTTP/1.")
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the connection ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset ends it too.
        let _ = self.0.read_to_end(&mut bytes);
        bytes
    }
}
