//! Writer of the dumps: a directory of files that is renamed into place when it is complete.
//!
//! A file whose rows did not change since the previous publish is hard-linked instead of written again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::error::{PublishError, at};
use super::render::DumpJsonWriter;
use crate::calendar::UnixSeconds;
use crate::dataset::{CsvWriter, FileKind, RowWriter};
use crate::durable::{self, TEMP_SUFFIX};
use crate::regular_file::Directory;
use crate::snapshot::{DumpFile, DumpIndex, Dumps, SnapshotError};
use crate::sync::{Mutex, cores, in_order, lock};

/// Prefix of dump directory names.
pub(super) const DUMPS_PREFIX: &str = "dumps-";
/// Suffix of a dump directory name that already exists.
pub(super) const REPEAT_SUFFIX: &str = "-again";
/// gzip level of CSV. A higher one takes twice the time for 5 % fewer bytes.
const CSV_LEVEL: u32 = 2;
/// gzip level of JSON, whose repeated member names compress well at any level.
const JSON_LEVEL: u32 = 1;
/// Size of the read buffer in bytes.
const PIECE_BYTES: usize = 1 << 17;
/// Extensions of the four files of a dump.
const EXTENSIONS: [&str; 4] = [".csv", ".csv.gz", ".json", ".json.gz"];
/// Notice about the origin of the data (SPEC section 1).
const NOTICE: &str = "The underlying metrics are facts from a third-party public ecosystem interface. \
    This compilation is not affiliated with that third party.";

/// A dump directory that is being written.
pub(crate) struct DumpsWriter {
    directory: PathBuf,
    published: UnixSeconds,
    before: HashMap<String, DumpFile>,
    before_directory: Option<Directory>,
    files: Mutex<Vec<DumpFile>>,
}

impl DumpsWriter {
    /// Creates the unfinished directory below `root`; `before` are the dumps of the previous publish.
    pub(crate) fn begin(
        root: &Path,
        before: Option<&Dumps>,
        published: UnixSeconds,
    ) -> Result<DumpsWriter, PublishError> {
        let directory = root.join(format!("dumps{TEMP_SUFFIX}"));
        durable::remove(&directory).map_err(at(&directory))?;
        for folder in ["", "daily", "ccu", "live"] {
            let folder = directory.join(folder);
            fs::create_dir(&folder).map_err(at(&folder))?;
        }
        // Missing or damaged dumps are all written again.
        let before = before.and_then(|named| {
            let published = Directory::open(root).ok()?;
            let directory = published.subdirectory(&named.directory).ok()?;
            let files = DumpIndex::read(&directory, named).ok()?.files;
            Some((directory, files))
        });
        let (before_directory, files) = before.unzip();
        let files = files.unwrap_or_default();
        Ok(DumpsWriter {
            directory,
            published,
            before: files
                .into_iter()
                .map(|file| (file.file.clone(), file))
                .collect(),
            before_directory,
            files: Mutex::default(),
        })
    }

    /// Links the files of some dumps from the previous publish. Returns false, and links none, if one of
    /// them is unusable.
    pub(crate) fn keep(&self, stems: &[String]) -> bool {
        let names = stems
            .iter()
            .flat_map(|stem| EXTENSIONS.map(|end| format!("{stem}{end}")));
        let kept: Option<Vec<DumpFile>> = names.map(|name| self.link(&name)).collect();
        let Some(kept) = kept else { return false };
        self.record(kept);
        true
    }

    /// Links a file of the previous publish if it has its recorded length.
    fn link(&self, name: &str) -> Option<DumpFile> {
        let file = self.before.get(name)?;
        let from = self.before_directory.as_ref()?;
        if from.file(name).ok()?.metadata().ok()?.len() != file.bytes {
            return None;
        }
        fs::hard_link(from.path().join(name), self.directory.join(name)).ok()?;
        Some(file.clone())
    }

    /// Writes the four files of a dump. `rows` is called twice: for the CSV file and for the JSON file.
    pub(crate) fn write(
        &self,
        stem: &str,
        kind: FileKind,
        rows: impl Fn(&mut dyn RowWriter) -> io::Result<()>,
    ) -> Result<(), PublishError> {
        let path = |end: &str| self.directory.join(format!("{stem}{end}"));
        let csv_files = GzipTee::write(&path(EXTENSIONS[0]), CSV_LEVEL, |pair| {
            let mut file = CsvWriter::begin(kind, pair)?;
            rows(&mut file)?;
            file.finish()
        })?;
        let json_files = GzipTee::write(&path(EXTENSIONS[2]), JSON_LEVEL, |pair| {
            let mut file = DumpJsonWriter::begin(pair);
            rows(&mut file)?;
            file.finish()
        })?;
        let files = csv_files.into_iter().chain(json_files).zip(EXTENSIONS);
        let files = files.map(|((bytes, sha256), end)| {
            let file = format!("{stem}{end}");
            let modified = self.modified(&file, &sha256);
            DumpFile {
                file,
                bytes,
                sha256,
                modified,
            }
        });
        self.record(files.collect());
        Ok(())
    }

    /// Returns the time of the last change of a file's bytes. Unchanged bytes keep their time even if
    /// their source was rewritten. Changed bytes always get a later time, whatever the publish timestamp
    /// is.
    fn modified(&self, file: &str, sha256: &str) -> String {
        let Some(before) = self.before.get(file) else {
            return self.published.to_string();
        };
        if before.sha256 == sha256 {
            return before.modified.clone();
        }
        let later = UnixSeconds::parse(&before.modified)
            .map(|time| UnixSeconds(time.0 + 1))
            .filter(|time| time.has_text());
        later
            .map_or(self.published, |later| later.max(self.published))
            .to_string()
    }

    fn record(&self, files: Vec<DumpFile>) {
        let mut recorded = lock(&self.files);
        recorded.extend(files);
    }

    /// Writes the index, syncs everything and renames the directory into place.
    pub(crate) fn finish(self, root: &Path, credit: &str) -> Result<Dumps, PublishError> {
        let mut files = std::mem::take(&mut *lock(&self.files));
        files.sort_unstable_by(|one, other| one.file.cmp(&other.file));
        let index = DumpIndex {
            generated_at: self.published.to_string(),
            license: "CC-BY-4.0".to_owned(),
            license_url: "https://creativecommons.org/licenses/by/4.0/".to_owned(),
            credit: credit.to_owned(),
            notice: NOTICE.to_owned(),
            files,
        };
        let text = index.to_json();
        let path = self.directory.join(DumpIndex::FILE);
        durable::replace(&path, &text).map_err(at(&path))?;
        for folder in ["daily", "ccu", "live"] {
            let folder = self.directory.join(folder);
            durable::sync_directory(&folder).map_err(at(&folder))?;
        }
        let checksum = format!("{:08x}", crc32fast::hash(&text));
        let mut name = format!("{DUMPS_PREFIX}{}-{checksum}", self.published.compact());
        // Dumps of this name have the same content, but may have lost a file since, and may be open in
        // readers.
        while root.join(&name).symlink_metadata().is_ok() {
            name.push_str(REPEAT_SUFFIX);
        }
        let place = root.join(&name);
        fs::rename(&self.directory, &place).map_err(at(&place))?;
        durable::sync_directory(root).map_err(at(root))?;
        Ok(Dumps {
            directory: name,
            checksum,
            generated_at: self.published.to_string(),
        })
    }
}

/// Verifies the SHA-256 of every file of a dump directory against its index.
pub(crate) fn verify(published: &Directory, named: &Dumps) -> Result<(), PublishError> {
    let path = published.path().join(&named.directory);
    let directory = published.subdirectory(&named.directory);
    let directory = directory.map_err(at(&path))?;
    let path = path.join(DumpIndex::FILE);
    let files = DumpIndex::read(&directory, named).map_err(at(&path))?.files;
    let sum = |(): &mut (), number: usize| -> io::Result<String> {
        let mut sha256 = hmac_sha256::Hash::new();
        let mut file = directory.file(&files[number].file)?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(hexadecimal(&sha256.finalize())),
                count => sha256.update(&piece[..count]),
            }
        }
    };
    in_order(
        (cores(), files.len()),
        || (),
        sum,
        |number, found| {
            let file = &files[number];
            let path = directory.path().join(&file.file);
            let found = found.map_err(at(&path))?;
            if found == file.sha256 {
                return Ok(());
            }
            let problem = format!(
                "its SHA-256 must be {}, as in the index, got {found}",
                file.sha256
            );
            let source = SnapshotError::malformed("the file", problem);
            Err(PublishError::Snapshot { path, source })
        },
    )
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let digit = |value: u8| char::from_digit(value.into(), 16).expect("below sixteen");
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// Removes the unfinished directory if the publish fails.
impl Drop for DumpsWriter {
    fn drop(&mut self) {
        // Best effort: the next publish removes leftovers.
        let _ = durable::remove(&self.directory);
    }
}

/// Writer of a file and its gzip form in one pass.
struct GzipTee {
    plain: HashingFile,
    gzip: GzEncoder<HashingFile>,
}

impl GzipTee {
    /// Writes both files. Returns the length and the SHA-256 of each.
    fn write(
        path: &Path,
        level: u32,
        fill: impl FnOnce(&mut GzipTee) -> io::Result<()>,
    ) -> Result<[(u64, String); 2], PublishError> {
        let written = || -> io::Result<[(u64, String); 2]> {
            let mut gzip_path = path.as_os_str().to_owned();
            gzip_path.push(".gz");
            let gzip = HashingFile::create(Path::new(&gzip_path))?;
            let mut pair = GzipTee {
                plain: HashingFile::create(path)?,
                gzip: GzEncoder::new(gzip, Compression::new(level)),
            };
            fill(&mut pair)?;
            Ok([pair.plain.finish()?, pair.gzip.finish()?.finish()?])
        };
        written().map_err(at(path))
    }
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

/// File that computes the SHA-256 of its content. It is unbuffered, since writes are large.
struct HashingFile {
    out: File,
    sha256: hmac_sha256::Hash,
    bytes: u64,
}

impl HashingFile {
    fn create(path: &Path) -> io::Result<HashingFile> {
        // The name may be a hard link to a file of the previous dumps, which must not change.
        durable::remove(path)?;
        Ok(HashingFile {
            out: File::create_new(path)?,
            sha256: hmac_sha256::Hash::new(),
            bytes: 0,
        })
    }

    /// Syncs the file. Returns its length and its SHA-256.
    fn finish(self) -> io::Result<(u64, String)> {
        self.out.sync_all()?;
        Ok((self.bytes, hexadecimal(&self.sha256.finalize())))
    }
}

impl Write for HashingFile {
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
