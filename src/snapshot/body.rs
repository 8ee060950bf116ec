//! Whole answers: identity and gzip, each with its entity tag.

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};

use super::error::SnapshotError;
use super::long_body::LongBody;
use crate::calendar::UnixSeconds;

/// A body made ready to be stored: both forms. `gzip` is empty where it would not be smaller.
#[derive(Clone, Debug)]
pub struct Packed {
    /// JSON, or a page.
    pub plain: Vec<u8>,
    /// The same behind gzip.
    pub gzip: Vec<u8>,
}

impl Packed {
    /// Compresses a body.
    pub fn new(plain: Vec<u8>) -> Packed {
        let mut gzip = gzip(&plain);
        if gzip.len() >= plain.len() {
            gzip = Vec::new();
        }
        Packed { plain, gzip }
    }
}

/// How hard bodies are compressed: at 2, series take a fifth more than at the usual 6, and half of the
/// time, which is most of what a publish takes.
const LEVEL: u32 = 2;
/// The base-2 logarithm of the bytes that a compressor looks back on, the most there is.
const WINDOW_BITS: u8 = 15;
/// What gzip adds to a body that cannot be compressed, besides the ninth bit of each literal.
const EXPANSION_BYTES_MAX: usize = 256;
/// Shorter bodies are left as they are: gzip's own 18 bytes would eat what it saves.
const WORTHWHILE_BYTES: usize = 128;

/// Compresses bodies, one after the other with one state.
#[derive(Debug)]
pub struct Packer(Compress);

impl Packer {
    /// A compressor that has its room already.
    pub fn new() -> Packer {
        Packer(Compress::new_gzip(Compression::new(LEVEL), WINDOW_BITS))
    }

    /// Compresses a body, unless its gzip form would not be smaller.
    pub fn pack(&mut self, plain: &[u8]) -> Packed {
        let mut gzip = Vec::new();
        if plain.len() >= WORTHWHILE_BYTES {
            // Where the room does not suffice, the gzip form would not be smaller.
            gzip.reserve_exact(plain.len());
            if self.compress(plain, &mut gzip) && gzip.len() < plain.len() {
                gzip.shrink_to_fit();
            } else {
                gzip = Vec::new();
            }
        }
        Packed {
            plain: plain.to_vec(),
            gzip,
        }
    }

    /// The gzip form of a body, whether it is smaller or not.
    pub fn gzip(&mut self, plain: &[u8]) -> Vec<u8> {
        // A literal takes nine bits at the most.
        let mut gzip = Vec::with_capacity(plain.len() / 8 * 9 + EXPANSION_BYTES_MAX);
        let is_whole = self.compress(plain, &mut gzip);
        assert!(is_whole, "any body fits into the room");
        gzip.shrink_to_fit();
        gzip
    }

    /// Compresses into the room that `gzip` has. Returns false if that does not suffice.
    fn compress(&mut self, plain: &[u8], gzip: &mut Vec<u8>) -> bool {
        self.0.reset();
        let ended = self.0.compress_vec(plain, gzip, FlushCompress::Finish);
        ended.expect("a state that was reset takes any bytes") == flate2::Status::StreamEnd
    }
}

impl Default for Packer {
    fn default() -> Packer {
        Packer::new()
    }
}

/// Compresses a body.
pub(crate) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(
        Vec::with_capacity(plain.len() / 4 + 64),
        Compression::default(),
    );
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    let mut gzip = written.expect("writing to memory does not fail");
    // Caches charge its length.
    gzip.shrink_to_fit();
    gzip
}

/// One form of a response body, with its entity tag.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The content.
    pub content: Content,
    /// The entity tag.
    pub etag: EntityTag,
    /// Whether the content is gzip.
    pub gzip: bool,
}

/// The response to a route: its body, and its links.
#[derive(Clone, Debug)]
pub struct Found {
    /// The body.
    pub body: Encoded,
    /// The value of the `Link` header, which list pages have.
    pub links: Option<Bytes>,
}

/// The content of a response body.
#[derive(Clone, Debug)]
pub enum Content {
    /// All of it, in memory.
    Whole(Bytes),
    /// A body of the payload file that is too long to be held in memory for each client.
    Long(LongBody),
    /// Nothing, since the response carries none; its length where that is known without making it.
    Omitted(Option<u64>),
}

impl Content {
    /// The content in memory. A long body is read whole, which waits for the disk.
    pub fn into_bytes(self) -> Result<Bytes, SnapshotError> {
        match self {
            Content::Whole(bytes) => Ok(bytes),
            Content::Long(body) => {
                let mut reader = body.open()?;
                let bytes =
                    usize::try_from(reader.left()).expect("lengths in a payload have 32 bits");
                reader.fill(vec![0; bytes])
            }
            Content::Omitted(_) => Ok(Bytes::new()),
        }
    }
}

impl Encoded {
    /// The same content with a reference count of its own, for one core to write to.
    #[must_use]
    pub fn with_own_refcount(&self) -> Encoded {
        let content = match &self.content {
            Content::Whole(bytes) => Content::Whole(Bytes::from_owner(bytes.clone())),
            other => other.clone(),
        };
        Encoded { content, ..*self }
    }
}

/// A strong entity tag, quotes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag {
    text: [u8; EntityTag::BYTES_MAX],
    length: u8,
}

impl EntityTag {
    /// Two quotes, sixteen digits, a hyphen, eight digits, `-gz`.
    const BYTES_MAX: usize = 30;

    /// The tag of one form: publish time, checksum of the JSON, encoding.
    ///
    /// Every body of the API carries its publish time, so two versions of one answer share a tag only if
    /// both their times and their checksums agree. Pages have none: one that is the same keeps its tag.
    pub fn new(published: UnixSeconds, plain_crc: u32, gzip: bool) -> EntityTag {
        let suffix = if gzip { "-gz" } else { "" };
        let mut text = [0; EntityTag::BYTES_MAX];
        let mut rest = &mut text[..];
        write!(rest, "\"{:x}-{plain_crc:08x}{suffix}\"", published.0)
            .expect("the longest tag fits");
        let length = EntityTag::BYTES_MAX - rest.len();
        EntityTag {
            text,
            length: u8::try_from(length).expect("thirty at most"),
        }
    }

    /// The tag as it stands in a header.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length.into()]
    }
}

/// A whole answer held in memory in both forms.
#[derive(Clone, Debug)]
pub struct Body {
    plain: Encoded,
    gzip: Option<Encoded>,
}

impl Body {
    /// From both forms and the moment they were published.
    pub fn new(packed: Packed, published: UnixSeconds) -> Body {
        let crc = crc32fast::hash(&packed.plain);
        let gzip = (!packed.gzip.is_empty()).then(|| Encoded {
            content: Content::Whole(packed.gzip.into()),
            etag: EntityTag::new(published, crc, true),
            gzip: true,
        });
        let plain = Encoded {
            content: Content::Whole(packed.plain.into()),
            etag: EntityTag::new(published, crc, false),
            gzip: false,
        };
        Body { plain, gzip }
    }

    /// The same with reference counts of its own, for one core to write to.
    #[must_use]
    pub fn with_own_refcount(&self) -> Body {
        Body {
            plain: self.plain.with_own_refcount(),
            gzip: self.gzip.as_ref().map(Encoded::with_own_refcount),
        }
    }

    /// The form to send: gzip where the client takes it and it is smaller.
    pub fn choose(&self, accepts_gzip: bool) -> Encoded {
        match &self.gzip {
            Some(gzip) if accepts_gzip => gzip.clone(),
            _ => self.plain.clone(),
        }
    }
}
