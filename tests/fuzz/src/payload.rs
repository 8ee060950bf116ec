//! Payload files that are parsed, changed and written with correct checksums, so that the code after the
//! checksum checks is reached. Follows the format in `src/snapshot/format.rs` and shares no code with it.

use island_metrics::snapshot::Section;
use zlib_rs::crc32::crc32;

const MAGIC_BYTES: usize = 8;
const ENTRY_BYTES: usize = 12;
const TRAILER_BYTES: usize = 32;
/// Bytes of the trailer in front of its checksum.
const CHECKED_BYTES: usize = 20;
pub(crate) const BODY_REF_BYTES: usize = 24;
/// Offset of the content in a gzip file of one stored block: after two headers.
const STORED_AT: usize = 15;
/// Bytes of a change in an input: a kind, a section, a position (two bytes), and a value (four bytes).
pub(crate) const CHANGE_BYTES: usize = 8;

/// The parts of a payload file.
#[derive(Clone)]
pub(crate) struct Payload {
    /// The magic, then the bodies.
    pub(crate) head: Vec<u8>,
    /// By id, in the order of the file.
    pub(crate) sections: Vec<(u32, Vec<u8>)>,
    /// Changed bytes of the table of contents and of the trailer: position and value.
    in_table: Vec<(usize, u32)>,
    in_trailer: Vec<(usize, u32)>,
    published: u64,
    /// Whether the gzip forms contain the other forms, at [`STORED_AT`].
    is_stored: bool,
}

impl Payload {
    /// Parses a valid file.
    pub(crate) fn of(file: &[u8]) -> Payload {
        let (front, trailer) = file.split_at(file.len() - TRAILER_BYTES);
        let (mut start, count) = (long(trailer, 0), word(trailer, 16) as usize);
        let (head, table) = (&file[..start], &front[front.len() - count * ENTRY_BYTES..]);
        let section = |entry: &[u8]| {
            let end = start + long(entry, 0);
            let bytes = file[start..end].to_vec();
            start = end;
            (word(entry, 8), bytes)
        };
        Payload {
            head: head.to_vec(),
            sections: table.chunks_exact(ENTRY_BYTES).map(section).collect(),
            in_table: Vec::new(),
            in_trailer: Vec::new(),
            published: long(trailer, 8) as u64,
            is_stored: false,
        }
    }

    /// The same with one short body instead of all, which makes the file many times smaller.
    pub(crate) fn with_one_body(mut self) -> Payload {
        let plain = [b'.'; 40];
        // Its gzip form of one stored block (RFC 1951 section 3.2.4, RFC 1952).
        let mut gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x28\0\xd7\xff".to_vec();
        assert_eq!(gzip.len(), STORED_AT);
        gzip.extend(plain);
        gzip.extend(crc32(0, &plain).to_le_bytes());
        gzip.extend(40_u32.to_le_bytes());
        self.is_stored = true;
        self.head.truncate(MAGIC_BYTES);
        self.head.extend(&gzip);
        let mut record = (MAGIC_BYTES as u64).to_le_bytes().to_vec();
        record.extend(40_u32.to_le_bytes());
        record.extend(u32::try_from(gzip.len()).expect("short").to_le_bytes());
        record.extend(crc32(0, &plain).to_le_bytes());
        record.extend(crc32(0, &gzip).to_le_bytes());
        for (_, bytes) in self.sections.iter_mut().filter(|(id, _)| is_of_bodies(*id)) {
            let count = bytes.len() / BODY_REF_BYTES;
            *bytes = record.repeat(count);
        }
        self
    }

    pub(crate) fn change(&mut self, change: [u8; CHANGE_BYTES]) {
        let [what, which, at0, at1, value @ ..] = change;
        let at = usize::from(u16::from_le_bytes([at0, at1]));
        let value = u32::from_le_bytes(value);
        let count = self.sections.len();
        if count == 0 {
            return;
        }
        let which = usize::from(which) % count;
        match what % 20 {
            16 => self.in_table.push((at, value)),
            17 => self.in_trailer.push((at, value)),
            18 => {
                let at = at % self.head.len();
                self.head[at] = value.to_le_bytes()[0];
            }
            19 => {
                self.sections.remove(which);
            }
            15 => {
                let other = value as usize % count;
                let (one, other) = (which.min(other), which.max(other));
                if one < other {
                    let (low, high) = self.sections.split_at_mut(other);
                    std::mem::swap(&mut low[one].1, &mut high[0].1);
                }
            }
            14 => self.sections[which].0 = value % 64,
            what => change_section(&mut self.sections[which].1, what, at, value),
        }
    }

    /// The file with correct checksums; those of the bodies only on request.
    pub(crate) fn sealed(mut self, seal_bodies: bool) -> Vec<u8> {
        if seal_bodies {
            let (head, is_stored) = (&self.head, self.is_stored);
            let of_bodies = self.sections.iter_mut().filter(|(id, _)| is_of_bodies(*id));
            for (_, bytes) in of_bodies {
                // Most records are the same.
                let mut last: Option<([u8; 16], [u8; BODY_REF_BYTES])> = None;
                for record in bytes.chunks_exact_mut(BODY_REF_BYTES) {
                    let place: [u8; 16] = record[..16].try_into().expect("sixteen bytes");
                    match &last {
                        Some((same, sealed)) if *same == place => record.copy_from_slice(sealed),
                        _ => {
                            let is_sealed = seal_body(record, head, is_stored);
                            let sealed = (&*record).try_into().expect("a record");
                            last = is_sealed.then_some((place, sealed));
                        }
                    }
                }
            }
        }
        let start = self.head.len();
        let (mut file, mut table) = (self.head, Vec::new());
        for (id, bytes) in &self.sections {
            table.extend((bytes.len() as u64).to_le_bytes());
            table.extend(id.to_le_bytes());
            file.extend(bytes);
        }
        write_over(&mut table, &self.in_table);
        let mut trailer = (start as u64).to_le_bytes().to_vec();
        trailer.extend(self.published.to_le_bytes());
        let count = u32::try_from(self.sections.len()).expect("a few dozen");
        trailer.extend(count.to_le_bytes());
        write_over(&mut trailer, &self.in_trailer);
        assert_eq!(trailer.len(), CHECKED_BYTES);
        file.extend(&table);
        file.extend(trailer);
        let sum = crc32(0, &file[start..]);
        file.extend(sum.to_le_bytes());
        file.extend_from_within(..MAGIC_BYTES);
        file
    }
}

fn is_of_bodies(id: u32) -> bool {
    id == Section::Bodies as u32
}

/// Changes of whole values of a section (words of four and eight bytes, records of 24) reach more code
/// than others.
fn change_section(bytes: &mut Vec<u8>, what: u8, at: usize, value: u32) {
    let words = bytes.len() / 4;
    let longs = bytes.len() / 8;
    let unit = [1, 4, 8, BODY_REF_BYTES][at % 4];
    let place = |of: usize| if of == 0 { 0 } else { at % of };
    let word_at = place(words) * 4;
    let long_at = place(longs) * 8;
    match what {
        0 if words > 0 => put(bytes, word_at, &value.to_le_bytes()),
        1 if words > 0 => {
            let from = value as usize % words * 4;
            let copied = word(bytes, from).to_le_bytes();
            put(bytes, word_at, &copied);
        }
        2 if words > 0 => {
            let other = value as usize % words * 4;
            let (one, two) = (word(bytes, word_at), word(bytes, other));
            put(bytes, word_at, &two.to_le_bytes());
            put(bytes, other, &one.to_le_bytes());
        }
        3 if words > 0 => {
            let step = (value.cast_signed() % 16).cast_unsigned();
            let sum = word(bytes, word_at).wrapping_add(step);
            put(bytes, word_at, &sum.to_le_bytes());
        }
        4 if longs > 0 => put(bytes, long_at, &u64::from(value).to_le_bytes()),
        5 if longs > 0 => put(
            bytes,
            long_at,
            &u64::MAX.wrapping_sub(value.into()).to_le_bytes(),
        ),
        6 if longs > 0 => {
            let from = value as usize % longs * 8;
            let copied: [u8; 8] = bytes[from..from + 8].try_into().expect("eight bytes");
            put(bytes, long_at, &copied);
        }
        7 if longs > 0 => {
            let step = i64::from(value.cast_signed() % 16).cast_unsigned();
            let old = u64::from_le_bytes(bytes[long_at..long_at + 8].try_into().expect("eight"));
            put(bytes, long_at, &old.wrapping_add(step).to_le_bytes());
        }
        8 if !bytes.is_empty() => {
            let at = place(bytes.len());
            bytes[at] = value.to_le_bytes()[0];
        }
        9 => bytes.truncate(bytes.len().saturating_sub(unit * (value as usize % 64))),
        10 => bytes.extend(vec![value.to_le_bytes()[3]; unit * (value as usize % 64)]),
        11 => bytes.truncate(unit * (value as usize % 8)),
        12 if bytes.len() >= unit => {
            let from = value as usize % (bytes.len() / unit) * unit;
            bytes.drain(from..from + unit);
        }
        13 if bytes.len() >= unit => {
            let from = value as usize % (bytes.len() / unit) * unit;
            let copied = bytes[from..from + unit].to_vec();
            bytes.splice(from..from, copied);
        }
        _ => {}
    }
}

/// Sets the checksums of a body record to those of the bytes at its position. Returns `false` if there are none.
fn seal_body(record: &mut [u8], head: &[u8], is_stored: bool) -> bool {
    let (offset, plain, gzip) = (long(record, 0), word(record, 8), word(record, 12));
    if gzip > 0 && !is_stored {
        return false;
    }
    let part = |at: usize, length: u32| {
        let start = offset.saturating_add(at);
        head.get(start..start.saturating_add(length as usize))
    };
    // If there is a gzip form, it contains the other form.
    let plain_at = if gzip == 0 { 0 } else { STORED_AT };
    let (Some(plain), Some(gzip)) = (part(plain_at, plain), part(0, gzip)) else {
        return false;
    };
    put(record, 16, &crc32(0, plain).to_le_bytes());
    put(record, 20, &crc32(0, gzip).to_le_bytes());
    true
}

fn write_over(bytes: &mut [u8], changes: &[(usize, u32)]) {
    for (at, value) in changes {
        let at = at % (bytes.len() / 4).max(1) * 4;
        if at + 4 <= bytes.len() {
            put(bytes, at, &value.to_le_bytes());
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> usize {
    let long = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    usize::try_from(long).unwrap_or(usize::MAX)
}
