//! Whether a payload file is still what was written, without holding it: piece by piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::file::{ENTRY_BYTES, MAGIC, TRAILER_BYTES, contents_checksum};
use super::views::{u32_at, u64_at};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 18;

/// The checksum that identifies a file, if its table of contents and all its sections are sound.
/// Bodies are left alone: there may be gigabytes of them, and each is checked when it is read.
pub(crate) fn sound_checksum(file: &File) -> io::Result<Option<u32>> {
    let bytes = file.metadata()?.len();
    let Some(trailer_offset) = bytes.checked_sub(TRAILER_BYTES as u64) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_offset)?;
    let contents = u64_at(&trailer, 1);
    let table_bytes = trailer_offset.checked_sub(contents);
    let counted = u64::from(u32_at(&trailer, 4)) * ENTRY_BYTES as u64;
    let Some(table_bytes) = table_bytes.filter(|bytes| *bytes == counted) else {
        return Ok(None);
    };
    let mut table = vec![0; usize::try_from(table_bytes).map_err(io::Error::other)?];
    file.read_exact_at(&mut table, contents)?;
    let checksum = contents_checksum(&table, &trailer[..20]);
    if trailer[24..] != MAGIC || u32_at(&trailer, 5) != checksum {
        return Ok(None);
    }
    for entry in table.chunks_exact(ENTRY_BYTES) {
        let (offset, length) = (u64_at(entry, 1), u64_at(entry, 2));
        if sum(file, offset, length)? != u32_at(entry, 1) {
            return Ok(None);
        }
    }
    Ok(Some(checksum))
}

fn sum(file: &File, mut offset: u64, mut length: u64) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    while length > 0 {
        let count = usize::try_from(length).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.read_exact_at(&mut piece[..count], offset)?;
        crc.update(&piece[..count]);
        offset += count as u64;
        length -= count as u64;
    }
    Ok(crc.finalize())
}
