//! Response bodies in memory: identity and gzip forms, each with its entity tag.

use std::io::{self, Write};

use bytes::Bytes;
use zlib_rs::crc32::crc32;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status, Strategy};

use super::stored_body::StoredBody;
use crate::calendar::UnixSeconds;

/// Compression level of published bodies and of list pages, since compression takes most of the time of a publish, and
/// of a page that is not cached. Level 2 makes CCU histories a fifth larger than level 6, in half of the time; and list
/// pages a sixth larger, in half of the time for 50 rows and a quarter for 200.
const LEVEL: i32 = 2;
/// The level of bodies in memory, which are compressed once for all clients.
const LEVEL_IN_MEMORY: i32 = 6;
/// Base-2 logarithm of the size of the compressor's window, the largest there is.
const WINDOW_BITS: i32 = 15;
/// Added to `window_bits`, it selects the gzip format.
const GZIP: i32 = 16;
/// Bytes of the gzip form that are written at a time.
const WRITE_BYTES: usize = 64 * 1024;
/// Shorter bodies are not compressed: gzip's own 18 bytes would outweigh the savings.
const GZIP_BYTES_MIN: usize = 128;

/// A body in the form in which a payload file stores it.
#[derive(Debug)]
pub struct PackedBody {
    /// The gzip form, or the identity form if gzip would not be smaller.
    pub(super) stored: Vec<u8>,
    pub(super) is_gzip: bool,
    pub(super) plain_bytes: usize,
    pub(super) plain_crc: u32,
}

/// The level, the base-2 logarithm of the distance up to which it looks for repetitions, and the strategy.
pub(crate) type GzipSettings = (i32, i32, Strategy);

/// A compressor to gzip, which reuses its state and its buffer.
pub struct Compressor {
    deflate: Deflate,
    buffer: Box<[u8]>,
}

impl Default for Compressor {
    /// That of published bodies and list pages.
    fn default() -> Compressor {
        Compressor::new((LEVEL, WINDOW_BITS, Strategy::Default))
    }
}

impl Compressor {
    pub(crate) fn new((level, window_bits, strategy): GzipSettings) -> Compressor {
        let config = DeflateConfig {
            level,
            window_bits: window_bits + GZIP,
            strategy,
            ..DeflateConfig::default()
        };
        Compressor {
            deflate: Deflate::new_with_config(config),
            buffer: vec![0; WRITE_BYTES].into(),
        }
    }

    /// Compresses a body, unless its gzip form would not be smaller.
    pub fn pack(&mut self, plain: &[u8]) -> PackedBody {
        let gzip = (plain.len() >= GZIP_BYTES_MIN).then(|| self.gzip(plain));
        let gzip = gzip.filter(|gzip| gzip.len() < plain.len());
        PackedBody {
            is_gzip: gzip.is_some(),
            stored: gzip.unwrap_or_else(|| plain.to_vec()),
            plain_bytes: plain.len(),
            plain_crc: crc32(0, plain),
        }
    }

    /// Returns the gzip form of a body, even if it is not smaller.
    pub fn gzip(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut gzip = Vec::new();
        let written = self.member(&mut gzip, |write| write(plain));
        written.expect("writing to memory does not fail");
        // Caches charge the length.
        gzip.shrink_to_fit();
        gzip
    }

    /// Writes one gzip member (RFC 1952) of all that `parts` passes to its argument.
    pub(crate) fn member(
        &mut self,
        out: &mut (impl Write + ?Sized),
        parts: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.deflate.reset();
        parts(&mut |part| self.compress(part, DeflateFlush::NoFlush, out))?;
        self.compress(&[], DeflateFlush::Finish, out)
    }

    /// Compresses all of a part, and writes what of it is complete.
    fn compress(
        &mut self,
        mut part: &[u8],
        flush: DeflateFlush,
        out: &mut (impl Write + ?Sized),
    ) -> io::Result<()> {
        let deflate = &mut self.deflate;
        loop {
            let (read, written) = (deflate.total_in(), deflate.total_out());
            let status = deflate.compress(part, &mut self.buffer, flush);
            let status = status.expect("a state that was reset takes any bytes");
            let length = |bytes: u64| usize::try_from(bytes).expect("the length of a slice");
            part = &part[length(deflate.total_in() - read)..];
            let filled = length(deflate.total_out() - written);
            out.write_all(&self.buffer[..filled])?;
            if status == Status::StreamEnd || filled < self.buffer.len() && part.is_empty() {
                return Ok(());
            }
        }
    }
}

/// One form of the response to a route.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub content: Content,
    pub etag: EntityTag,
    pub gzip: bool,
    /// The value of the `Link` header, for list pages unless it would be too long.
    pub links: Option<Bytes>,
    /// When newer content is due, if that is known.
    pub next_due: Option<UnixSeconds>,
    /// Whether it may cost more to make than to cache: a read, a compression, several filters.
    pub is_costly: bool,
}

#[derive(Clone, Debug)]
pub enum Content {
    Whole(Bytes),
    /// A body of the payload file that is too long to be in memory for each client.
    // In a box: the other forms are half as long, and pass through several functions by value.
    Long(Box<StoredBody>),
    /// No content, since the response has none; its length if that is known without making it.
    Omitted(Option<u64>),
}

impl Encoded {
    /// Creates a form that is not costly, without links.
    pub fn new(content: Content, etag: EntityTag, gzip: bool) -> Encoded {
        Encoded {
            content,
            etag,
            gzip,
            links: None,
            next_due: None,
            is_costly: false,
        }
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

    /// Creates the tag of one form: publish time, checksum of the identity form, encoding.
    ///
    /// Every body of the API contains its publish time, so two versions of one response share a tag
    /// only if both their times and their checksums agree. Pages have no time: an unchanged page
    /// keeps its tag.
    pub fn new(published: UnixSeconds, plain_crc: u32, gzip: bool) -> EntityTag {
        let suffix = if gzip { "-gz" } else { "" };
        let mut text = [0; EntityTag::BYTES_MAX];
        let mut rest = &mut text[..];
        write!(rest, "\"{:x}-{plain_crc:08x}{suffix}\"", published.0)
            .expect("the longest tag fits");
        let length = EntityTag::BYTES_MAX - rest.len();
        let length = u8::try_from(length).expect("at most 30");
        EntityTag { text, length }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }
}

/// A body in memory in both forms.
#[derive(Clone, Debug)]
pub struct Body {
    /// The form for clients that do not accept gzip, and the one for those that do.
    forms: [Encoded; 2],
}

impl Body {
    pub fn new(plain: Vec<u8>, published: UnixSeconds) -> Body {
        let mut compressor = Compressor::new((LEVEL_IN_MEMORY, WINDOW_BITS, Strategy::Default));
        let gzip = compressor.gzip(&plain);
        let gzip = (gzip.len() < plain.len()).then(|| gzip.into());
        Body::of_forms(plain.into(), gzip, published, None)
    }

    /// Creates a body from its identity form, its gzip form, if that is smaller, and the time at which newer content is
    /// due.
    pub(super) fn of_forms(
        plain: Bytes,
        gzip: Option<Bytes>,
        published: UnixSeconds,
        next_due: Option<UnixSeconds>,
    ) -> Body {
        let crc = crc32(0, &plain);
        let form = |content: Bytes, gzip| {
            let etag = EntityTag::new(published, crc, gzip);
            Encoded {
                next_due,
                ..Encoded::new(Content::Whole(content), etag, gzip)
            }
        };
        let plain = form(plain, false);
        let smaller = gzip.map_or_else(|| plain.clone(), |gzip| form(gzip, true));
        let forms = [plain, smaller];
        Body { forms }
    }

    /// Returns the form to send: gzip if the client accepts it and it is smaller.
    pub fn choose(&self, accepts_gzip: bool) -> &Encoded {
        &self.forms[usize::from(accepts_gzip)]
    }
}
