//! What tells one payload file from another.

use crate::calendar::UnixSeconds;

/// What a payload file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its table of contents.
    pub checksum: u32,
    /// Its publish timestamp.
    pub published: UnixSeconds,
}
