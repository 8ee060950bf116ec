//! Checksums of a payload file, for tests of other modules.

use super::*;

impl SnapshotFile {
    /// Returns a checksum of all sections and of the identity forms of all bodies: of the content, however well it is
    /// compressed.
    pub(crate) fn content_checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for (id, section) in &self.sections {
            hasher.update(&id.to_le_bytes());
            if *id == Section::Bodies as u32 {
                for record in section.as_chunks().0 {
                    let body = BodyRef::from_record(record);
                    hasher.update(&body.plain_crc.to_le_bytes());
                    hasher.update(&body.plain_bytes.to_le_bytes());
                }
            } else {
                hasher.update(section);
            }
        }
        hasher.finalize()
    }
}
