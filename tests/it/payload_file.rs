//! Payload files changed by tests, with correct checksums: what a publisher could write. Reads and writes them as the
//! fuzz target `snapshot` does.

#[expect(dead_code, reason = "the fuzz target draws changes")]
#[path = "../fuzz/src/payload.rs"]
mod payload;

use flate2::Compression;
use flate2::write::GzEncoder;
use payload::{BODY_REF_BYTES, Payload, word};
use zlib_rs::crc32::crc32;

use crate::prelude::*;

/// Ids of sections.
const BODIES: u32 = 1;
pub(crate) const ROW_END: u32 = 3;
pub(crate) const DAYS: u32 = 4;
pub(crate) const ROWS: u32 = 5;
const CODES: u32 = 6;
pub(crate) const TAG_NAMES: u32 = 9;
pub(crate) const CREATOR_ROWS: u32 = 21;
const CREATORS_BY_SLUG: u32 = 23;

/// The parts of a payload file of a published directory.
pub(crate) struct PayloadFile {
    published: PathBuf,
    /// Its member of the manifest.
    part: &'static str,
    pub(crate) payload: Payload,
}

pub(crate) fn manifest(published: &Path) -> Value {
    serde_json::from_slice(&fs::read(published.join("manifest.json")).unwrap()).unwrap()
}

impl PayloadFile {
    /// The file that the manifest names.
    pub(crate) fn read(published: &Path, part: &'static str) -> PayloadFile {
        let name = manifest(published)[part]["file"].clone();
        let file = fs::read(published.join(name.as_str().unwrap())).unwrap();
        PayloadFile {
            published: published.to_owned(),
            part,
            payload: Payload::of(&file),
        }
    }

    pub(crate) fn section(&mut self, id: u32) -> &mut Vec<u8> {
        let mut sections = self.payload.sections.iter_mut();
        &mut sections.find(|(other, _)| *other == id).unwrap().1
    }

    pub(crate) fn lengthen_last_text(&mut self, id: u32, bytes: usize) {
        let section = self.section(id);
        let last_bound = word(section, 0) as usize - 4;
        let end = u32::try_from(section.len() + bytes).unwrap();
        section[last_bound..last_bound + 4].copy_from_slice(&end.to_le_bytes());
        section.resize(section.len() + bytes, b' ');
    }

    /// The numbers of islands, creators and days.
    pub(crate) fn counts(&mut self) -> [usize; 3] {
        [(CODES, 8), (CREATORS_BY_SLUG, 4), (DAYS, 4)]
            .map(|(id, item_bytes)| self.section(id).len() / item_bytes)
    }

    /// The number of the body of the newest ranking, and of the newest day's new islands.
    pub(crate) fn newest_day_bodies(&mut self) -> [usize; 2] {
        let [islands, creators, days] = self.counts();
        let end = 2 * islands + creators + days;
        [end - 1, end + days - 1]
    }

    /// Replaces a body by `text` with `filler` so many times in front of its last bytes `end`.
    pub(crate) fn set_body(
        &mut self,
        number: usize,
        text: &str,
        filler: (&[u8], usize),
        end: &str,
    ) {
        let (offset, mut plain) = (self.payload.head.len() as u64, 0);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let mut plain_bytes = 0;
        let mut write = |bytes: &[u8]| {
            gzip.write_all(bytes).unwrap();
            plain = crc32(plain, bytes);
            plain_bytes += bytes.len();
        };
        write(text.as_bytes());
        // In large pieces, since there may be gigabytes.
        let (unit, count) = filler;
        let piece = unit.repeat(1 + (1 << 16) / unit.len().max(1));
        let mut left = unit.len() * count;
        while left > 0 {
            let bytes = left.min(piece.len());
            write(&piece[..bytes]);
            left -= bytes;
        }
        write(end.as_bytes());
        let gzip = gzip.finish().unwrap();
        let lengths = [plain_bytes, gzip.len()].map(|length| u32::try_from(length).unwrap());
        let checksums = [plain, crc32(0, &gzip)];
        let mut record = offset.to_le_bytes().to_vec();
        for number in lengths.into_iter().chain(checksums) {
            record.extend(number.to_le_bytes());
        }
        self.payload.head.extend(gzip);
        let bodies = self.section(BODIES);
        bodies[number * BODY_REF_BYTES..][..BODY_REF_BYTES].copy_from_slice(&record);
    }

    /// Replaces a body by another one, which is stored once.
    pub(crate) fn copy_body(&mut self, from: usize, to: usize) {
        let record = from * BODY_REF_BYTES..(from + 1) * BODY_REF_BYTES;
        self.section(BODIES)
            .copy_within(record, to * BODY_REF_BYTES);
    }

    /// Publishes the file in the place of the one that was read; returns its path.
    pub(crate) fn publish(&self) -> PathBuf {
        let (path, manifest) = self.write();
        replace_manifest(&self.published, &manifest);
        path
    }

    /// Writes the file; returns its path, and the manifest that names it.
    pub(crate) fn write(&self) -> (PathBuf, Value) {
        let file = self.payload.clone().sealed(false);
        let checksum = word(&file, file.len() - 12);
        let mut manifest = manifest(&self.published);
        let payload = &mut manifest[self.part];
        let name = format!("{}-{checksum:08x}.snap", self.part);
        payload["file"] = name.clone().into();
        payload["bytes"] = file.len().into();
        payload["checksum"] = format!("{checksum:08x}").into();
        let path = self.published.join(name);
        write_bytes(&path, &file);
        (path, manifest)
    }
}

pub(crate) fn replace_manifest(published: &Path, manifest: &Value) {
    let unfinished = published.join("manifest.json.new");
    write_bytes(&unfinished, manifest.to_string().as_bytes());
    fs::rename(unfinished, published.join("manifest.json")).unwrap();
}
