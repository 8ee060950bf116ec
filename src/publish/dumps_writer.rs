//! Writer of the dumps: each file is renamed to its SHA-256 when it is complete, and the index, written last, gives
//! the files their public names.
//!
//! Files that the plan keeps are only named again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::options::{PublishError, in_file};
use super::plan::Plan;
use super::render;
use crate::calendar::UnixSeconds;
use crate::dataset::{Cell, DatasetReader, FileKind, write_csv};
use crate::durable::{self, TEMP_SUFFIX};
use crate::snapshot::{DumpContent, DumpFile, DumpIndex, Dumps, HashingWriter};
use crate::sync::{Mutex, lock};

/// gzip level of CSV. A higher one takes twice the time for 5 % fewer bytes.
pub(super) const CSV_LEVEL: u32 = 2;
/// gzip level of JSON, whose repeated member names compress well at any level.
const JSON_LEVEL: u32 = 1;
/// Size of the buffer of rows in bytes.
const BUFFER: usize = 1 << 16;
/// Notice of a dataset that has none of its own (SPEC section 1).
const NOTICE: &str = "The underlying metrics are facts from a third-party public ecosystem interface. \
    This compilation is not affiliated with that third party.";

/// A dump that is being compressed.
pub(super) type GzipFile = GzEncoder<HashingWriter<Output>>;

pub(super) struct DumpsWriter<'a> {
    /// The folder of the published directory; `None` if the dumps are written to memory.
    folder: Option<PathBuf>,
    published: UnixSeconds,
    pub(super) plan: &'a Plan,
    /// Dumps of the previous publish, unless they are missing or damaged.
    before: Option<&'a Dumps>,
    /// The complete files by name, each with its content if it is in memory.
    files: Mutex<BTreeMap<String, (DumpFile, Bytes)>>,
}

impl<'a> DumpsWriter<'a> {
    /// Creates a writer to a folder, or to memory; `before` are the dumps of the previous publish.
    pub(super) fn new(
        folder: Option<PathBuf>,
        (plan, before): (&'a Plan, Option<&'a Dumps>),
        published: UnixSeconds,
    ) -> DumpsWriter<'a> {
        let kept = before.into_iter().flat_map(Dumps::files);
        let kept = kept.filter(|dump| plan.keeps_dump(&dump.file.file));
        let kept = kept.map(|dump| (dump.file.file.clone(), (dump.file.clone(), Bytes::new())));
        DumpsWriter {
            folder,
            published,
            plan,
            before,
            files: Mutex::new(kept.collect()),
        }
    }

    /// Returns the path of a file until it is complete.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.clone().unwrap_or_default();
        folder.join(name.replace('/', "-") + TEMP_SUFFIX)
    }

    fn create(&self, name: &str) -> io::Result<HashingWriter<Output>> {
        let output = if self.folder.is_some() {
            // Unbuffered, since writes are large.
            Output::File(File::create(self.path(name))?)
        } else {
            Output::Memory(Vec::new())
        };
        Ok(HashingWriter::new(output))
    }

    /// Creates a file that is one gzip member (RFC 1952): readers that stop after the first one lose nothing.
    pub(super) fn create_gzip(&self, name: &str, level: u32) -> io::Result<GzipFile> {
        Ok(GzEncoder::new(self.create(name)?, Compression::new(level)))
    }

    /// Completes a file: syncs and renames it, or keeps its content, and adds it to the index.
    pub(super) fn complete(&self, name: &str, file: HashingWriter<Output>) -> io::Result<()> {
        let (output, bytes, sha256) = file.finish();
        let content = match output {
            Output::File(synced) => {
                synced.sync_all()?;
                fs::rename(self.path(name), self.path(name).with_file_name(&sha256))?;
                Bytes::new()
            }
            Output::Memory(content) => content.into(),
        };
        let file = DumpFile {
            file: name.to_owned(),
            modified: self.modified(name, &sha256),
            bytes,
            sha256,
        };
        lock(&self.files).insert(name.to_owned(), (file, content));
        Ok(())
    }

    /// Writes the four dumps of a dataset file, unless they are kept: its rows as CSV, then as JSON.
    pub(super) fn write<'c>(
        &self,
        name: &str,
        kind: FileKind,
        rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>> + Clone,
    ) -> Result<(), PublishError> {
        if self.plan.keeps(name) {
            return Ok(());
        }
        let stem = name.strip_suffix(".csv").unwrap_or(name);
        self.write_pair(name, CSV_LEVEL, |out| write_csv(out, kind, rows.clone()))?;
        // An array of objects, one per line.
        self.write_pair(&format!("{stem}.json"), JSON_LEVEL, |out| {
            let (mut object, mut separator, mut end) = (Vec::new(), "[\n", "[]\n");
            for row in rows {
                object.clear();
                render::dump_row(&mut object, kind, row);
                out.write_all(separator.as_bytes())?;
                out.write_all(&object)?;
                (separator, end) = (",\n", "\n]\n");
            }
            out.write_all(end.as_bytes())
        })
    }

    pub(super) fn write_notice(&self, notice: &str) -> Result<(), PublishError> {
        let name = DatasetReader::NOTICE;
        let write_file = || {
            let mut file = self.create(name)?;
            writeln!(file, "{notice}")?;
            self.complete(name, file)
        };
        write_file().map_err(in_file(&self.path(name)))
    }

    /// Writes a file and its gzip form in one pass.
    fn write_pair(
        &self,
        name: &str,
        level: u32,
        write: impl FnOnce(&mut BufWriter<GzipTee>) -> io::Result<()>,
    ) -> Result<(), PublishError> {
        let write_files = || {
            let gzip_name = format!("{name}.gz");
            let (plain, gzip) = (self.create(name)?, self.create_gzip(&gzip_name, level)?);
            let mut out = BufWriter::with_capacity(BUFFER, GzipTee { plain, gzip });
            write(&mut out)?;
            let GzipTee { plain, gzip } = out.into_inner()?;
            self.complete(name, plain)?;
            self.complete(&gzip_name, gzip.finish()?)
        };
        write_files().map_err(in_file(&self.path(name)))
    }

    /// Returns the time of the last change of a file's bytes. Unchanged bytes keep their time even
    /// if their source was rewritten. Changed bytes always get a later time, whatever the publish
    /// timestamp is.
    fn modified(&self, file: &str, sha256: &str) -> String {
        let before = self.before.and_then(|before| before.find(file));
        if let Some(same) = before.filter(|before| before.file.sha256 == sha256) {
            return same.file.modified.clone();
        }
        let later = before.map(|before| UnixSeconds(before.modified.0 + 1));
        let later = later.filter(|later| later.has_text());
        later
            .map_or(self.published, |later| later.max(self.published))
            .to_string()
    }

    fn index(&self, (credit, notice): (&str, Option<&str>)) -> DumpIndex {
        let files = lock(&self.files);
        DumpIndex {
            generated_at: self.published.to_string(),
            license: "CC-BY-4.0".to_owned(),
            license_url: "https://creativecommons.org/licenses/by/4.0/".to_owned(),
            credit: credit.to_owned(),
            notice: notice.unwrap_or(NOTICE).to_owned(),
            files: files.values().map(|(file, _)| file.clone()).collect(),
        }
    }

    /// Returns the dumps that were written to memory, with a credit and the dataset's own notice.
    pub(super) fn into_memory(self, lines: (&str, Option<&str>)) -> Result<Dumps, String> {
        let index = self.index(lines);
        let (text, files) = (index.to_json(), lock(&self.files));
        let content_of = |name: &str| Some(DumpContent::Memory(files.get(name)?.1.clone()));
        Dumps::new(index, text, content_of)
    }

    /// Makes the names of the files durable, and returns the text of their index, with a credit and the dataset's own
    /// notice.
    pub(super) fn finish(self, lines: (&str, Option<&str>)) -> Result<Vec<u8>, PublishError> {
        if let Some(folder) = &self.folder {
            durable::sync_directory(folder).map_err(in_file(folder))?;
        }
        Ok(self.index(lines).to_json())
    }
}

/// A file and its gzip form.
struct GzipTee {
    plain: HashingWriter<Output>,
    gzip: GzipFile,
}

impl Write for GzipTee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.plain.write_all(bytes)?;
        self.gzip.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
