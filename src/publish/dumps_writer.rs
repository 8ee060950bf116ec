//! Writer of the dumps: a directory of files that is renamed into place when it is complete.
//!
//! A file whose rows did not change since the previous publish is hard-linked instead of written
//! again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::options::{PublishError, at};
use super::render;
use crate::calendar::UnixSeconds;
use crate::dataset::{Cell, FileKind, WHOLE_FILES, write_csv_header, write_csv_row};
use crate::durable::{self, TEMP_SUFFIX};
use crate::regular_file::Directory;
use crate::snapshot::{DumpContent, DumpDirectory, DumpFile, DumpIndex, Dumps};
use crate::sync::{Mutex, lock};

/// Prefix of dump directory names.
pub(super) const DUMPS_PREFIX: &str = "dumps-";
/// Suffix of a dump directory name that already exists.
pub(super) const REPEAT_SUFFIX: &str = "-again";
const FOLDERS: [&str; 3] = ["daily", "ccu", "live"];
/// gzip level of CSV. A higher one takes twice the time for 5 % fewer bytes.
const CSV_LEVEL: u32 = 2;
/// gzip level of JSON, whose repeated member names compress well at any level.
const JSON_LEVEL: u32 = 1;
/// Size of the buffer of rows in bytes.
const BUFFER: usize = 1 << 16;
/// Notice about the origin of the data (SPEC section 1).
const NOTICE: &str = "The underlying metrics are facts from a third-party public ecosystem interface. \
    This compilation is not affiliated with that third party.";

/// Dumps that are being written.
pub(super) struct DumpsWriter {
    /// The unfinished directory; `None` if the dumps are written to memory.
    directory: Option<PathBuf>,
    published: UnixSeconds,
    /// Dumps of the previous publish, unless they are missing or damaged.
    before: Option<DumpDirectory>,
    files: Mutex<Vec<DumpFile>>,
    /// The content of files in memory.
    contents: Mutex<HashMap<String, Bytes>>,
    tables: usize,
    kept_tables: usize,
}

impl DumpsWriter {
    /// Creates the unfinished directory below `root`; `before` are the dumps of the previous
    /// publish.
    pub(super) fn begin(
        root: &Directory,
        before: Option<&Dumps>,
        published: UnixSeconds,
    ) -> Result<DumpsWriter, PublishError> {
        let directory = root.path().join(format!("dumps{TEMP_SUFFIX}"));
        durable::remove(&directory).map_err(at(&directory))?;
        fs::create_dir(&directory).map_err(at(&directory))?;
        for folder in FOLDERS.map(|folder| directory.join(folder)) {
            fs::create_dir(&folder).map_err(at(&folder))?;
        }
        let before = before.and_then(|named| DumpDirectory::open(root, named).ok());
        let mut dumps = DumpsWriter::in_memory(published);
        (dumps.directory, dumps.before) = (Some(directory), before);
        Ok(dumps)
    }

    /// Creates a writer to memory.
    pub(super) fn in_memory(published: UnixSeconds) -> DumpsWriter {
        DumpsWriter {
            directory: None,
            published,
            before: None,
            files: Mutex::default(),
            contents: Mutex::default(),
            tables: 0,
            kept_tables: 0,
        }
    }

    /// Returns the path of a file, or its name in memory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.clone().unwrap_or_default();
        directory.join(name)
    }

    pub(super) fn create(&self, name: &str) -> io::Result<HashingWriter<Output>> {
        let output = if self.directory.is_some() {
            let path = self.path(name);
            // The name may be a hard link to a file of the previous dumps, which must not change.
            durable::remove(&path)?;
            // Unbuffered, since writes are large.
            Output::File(File::create_new(path)?)
        } else {
            Output::Memory(Vec::new())
        };
        Ok(HashingWriter::new(output))
    }

    /// Completes a file: syncs it, or keeps its content, and adds it to the index.
    pub(super) fn complete(&self, name: &str, file: HashingWriter<Output>) -> io::Result<()> {
        let (output, bytes, sha256) = file.finish();
        let file = name.to_owned();
        match output {
            Output::File(file) => file.sync_all()?,
            Output::Memory(content) => {
                lock(&self.contents).insert(file.clone(), content.into());
            }
        }
        lock(&self.files).push(DumpFile {
            modified: self.modified(name, &sha256),
            file,
            bytes,
            sha256,
        });
        Ok(())
    }

    /// Links the dumps of a table that is the same as before, given as the names of its dataset
    /// files. Returns false, and adds none to the index, if one of them is unusable or the table
    /// `is_same` no longer.
    pub(super) fn keep<'n>(&mut self, is_same: bool, names: impl Iterator<Item = &'n str>) -> bool {
        let is_kept = is_same && self.link(names.flat_map(dumps_of));
        self.tables += 1;
        self.kept_tables += usize::from(is_kept);
        is_kept
    }

    /// Links the files with the rows of many days. Returns false if they must be written.
    pub(super) fn keep_whole(&self) -> bool {
        self.link(WHOLE_FILES.iter().map(|file| file.name.to_owned()))
    }

    /// Links files of the previous publish that have their recorded lengths, and adds them to the
    /// index. Returns false if one of them is unusable.
    fn link(&self, names: impl Iterator<Item = String>) -> bool {
        let link = |name: String| {
            let dump = self.before.as_ref()?.find(&name)?;
            dump.open().ok()?;
            fs::hard_link(dump.path(), self.path(&name)).ok()?;
            Some(dump.file.clone())
        };
        let linked: Option<Vec<DumpFile>> = names.map(link).collect();
        linked.is_some_and(|files| {
            lock(&self.files).extend(files);
            true
        })
    }

    /// Returns the number of tables whose dumps were kept and of all tables.
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.kept_tables, self.tables)
    }

    /// Writes the four dumps of a dataset file: its rows as CSV, then as JSON.
    pub(super) fn write<'c>(
        &self,
        name: &str,
        kind: FileKind,
        rows: &(impl Iterator<Item: IntoIterator<Item = Cell<'c>>> + Clone),
    ) -> Result<(), PublishError> {
        let [csv, csv_gzip, json, json_gzip] = dumps_of(name);
        self.write_pair([&csv, &csv_gzip], CSV_LEVEL, |files| {
            write_csv_header(&mut files.rows, kind)?;
            rows.clone().try_for_each(|row| {
                write_csv_row(&mut files.rows, row)?;
                files.write_rows(BUFFER)
            })
        })?;
        // An array of objects, one per line.
        self.write_pair([&json, &json_gzip], JSON_LEVEL, |files| {
            let mut is_empty = true;
            for row in rows.clone() {
                let separator = if is_empty { b"[\n" } else { b",\n" };
                is_empty = false;
                files.rows.extend_from_slice(separator);
                render::dump_row(&mut files.rows, kind, row);
                files.write_rows(BUFFER)?;
            }
            let end: &[u8] = if is_empty { b"[]\n" } else { b"\n]\n" };
            files.rows.extend_from_slice(end);
            Ok(())
        })
    }

    /// Writes a file and its gzip form.
    fn write_pair(
        &self,
        [name, gzip_name]: [&str; 2],
        level: u32,
        write: impl FnOnce(&mut GzipTee) -> io::Result<()>,
    ) -> Result<(), PublishError> {
        let write_files = || {
            let mut files = GzipTee {
                rows: Vec::with_capacity(BUFFER + BUFFER / 4),
                gzip: GzEncoder::new(self.create(gzip_name)?, Compression::new(level)),
                plain: self.create(name)?,
            };
            write(&mut files)?;
            files.write_rows(0)?;
            self.complete(name, files.plain)?;
            self.complete(gzip_name, files.gzip.finish()?)
        };
        write_files().map_err(at(&self.path(name)))
    }

    /// Returns the time of the last change of a file's bytes. Unchanged bytes keep their time even
    /// if their source was rewritten. Changed bytes always get a later time, whatever the publish
    /// timestamp is.
    fn modified(&self, file: &str, sha256: &str) -> String {
        let before = self.before.as_ref().and_then(|before| before.find(file));
        if let Some(before) = before
            && before.file.sha256 == sha256
        {
            return before.file.modified.clone();
        }
        let later = before.map(|before| UnixSeconds(before.modified.0 + 1));
        let later = later.filter(|later| later.has_text());
        later
            .map_or(self.published, |later| later.max(self.published))
            .to_string()
    }

    fn index(&self, credit: &str) -> DumpIndex {
        let mut files = std::mem::take(&mut *lock(&self.files));
        files.sort_unstable_by(|one, other| one.file.cmp(&other.file));
        DumpIndex {
            generated_at: self.published.to_string(),
            license: "CC-BY-4.0".to_owned(),
            license_url: "https://creativecommons.org/licenses/by/4.0/".to_owned(),
            credit: credit.to_owned(),
            notice: NOTICE.to_owned(),
            files,
        }
    }

    /// Returns the dumps that were written to memory.
    pub(super) fn into_memory(self, credit: &str) -> Result<DumpDirectory, String> {
        let index = self.index(credit);
        let (text, contents) = (index.to_json(), lock(&self.contents));
        let content_of = |name: &str| contents.get(name).cloned().map(DumpContent::Memory);
        DumpDirectory::new(index, text, content_of)
    }

    /// Writes the index, syncs everything and renames the directory into place.
    pub(super) fn finish(self, root: &Path, credit: &str) -> Result<Dumps, PublishError> {
        let text = self.index(credit).to_json();
        let path = self.path(DumpIndex::FILE);
        durable::replace(&path, &text).map_err(at(&path))?;
        for folder in FOLDERS.map(|folder| self.path(folder)) {
            durable::sync_directory(&folder).map_err(at(&folder))?;
        }
        let checksum = format!("{:08x}", crc32fast::hash(&text));
        let mut name = format!("{DUMPS_PREFIX}{}-{checksum}", self.published.compact());
        // Dumps of this name have the same content, but may have lost a file since, and may be open
        // in readers.
        while root.join(&name).symlink_metadata().is_ok() {
            name.push_str(REPEAT_SUFFIX);
        }
        let path = root.join(&name);
        fs::rename(self.path(""), &path).map_err(at(&path))?;
        durable::sync_directory(root).map_err(at(root))?;
        Ok(Dumps {
            directory: name,
            checksum,
            generated_at: self.published.to_string(),
        })
    }
}

/// Removes the unfinished directory if the publish fails.
impl Drop for DumpsWriter {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // Best effort: the next publish removes leftovers.
            let _ = durable::remove(directory);
        }
    }
}

/// Returns the names of the four dumps of a dataset file such as `daily/2026-11-20.csv`.
fn dumps_of(name: &str) -> [String; 4] {
    let stem = name.strip_suffix(".csv").unwrap_or(name);
    [".csv", ".csv.gz", ".json", ".json.gz"].map(|extension| format!("{stem}{extension}"))
}

/// A file and its gzip form, written in one pass.
struct GzipTee {
    /// Rows that are not written yet.
    rows: Vec<u8>,
    plain: HashingWriter<Output>,
    gzip: GzEncoder<HashingWriter<Output>>,
}

impl GzipTee {
    /// Writes the rows if they have at least so many bytes.
    fn write_rows(&mut self, bytes_min: usize) -> io::Result<()> {
        if self.rows.len() >= bytes_min {
            self.plain.write_all(&self.rows)?;
            self.gzip.write_all(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }
}

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
