//! [`HashingWriter`], which computes the SHA-256 of what it writes, and [`Output`], where dumps are
//! written to.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};

/// Writer that computes the SHA-256 of what it writes.
pub(super) struct HashingWriter<W> {
    out: W,
    sha256: hmac_sha256::Hash,
    bytes: u64,
}

impl<W> HashingWriter<W> {
    pub(super) fn new(out: W) -> HashingWriter<W> {
        HashingWriter {
            out,
            sha256: hmac_sha256::Hash::new(),
            bytes: 0,
        }
    }

    /// Returns the underlying writer, the length, and the SHA-256 in hexadecimal.
    pub(super) fn finish(self) -> (W, u64, String) {
        let mut text = String::with_capacity(64);
        for byte in self.sha256.finalize() {
            write!(text, "{byte:02x}").expect("writing to memory does not fail");
        }
        (self.out, self.bytes, text)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.sha256.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A dump that is being written.
pub(super) enum Output {
    File(File),
    Memory(Vec<u8>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Memory(content) => content.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
