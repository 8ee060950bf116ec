//! Checksums of a payload file, for tests of other modules.

use super::*;
use zlib_rs::crc32::crc32;

impl SnapshotFile {
    /// Returns a checksum of all sections and of the identity forms of all bodies: of the content, however well it is
    /// compressed.
    pub(crate) fn content_checksum(&self) -> u32 {
        let mut sum = 0;
        for (id, section) in &self.sections {
            sum = crc32(sum, &id.to_le_bytes());
            if *id == Section::Bodies as u32 {
                for record in section.as_chunks().0 {
                    let body = BodyRef::from_record(record);
                    sum = crc32(sum, &body.plain_crc.to_le_bytes());
                    sum = crc32(sum, &body.plain_bytes.to_le_bytes());
                }
            } else {
                sum = crc32(sum, section);
            }
        }
        sum
    }
}
