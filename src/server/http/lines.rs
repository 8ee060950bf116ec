//! Header lines, written as text.

use crate::snapshot::Encoded;

/// A line. Values are of our own making: entity tags and percent-encoded links are visible ASCII.
pub(in crate::server) fn line(lines: &mut Vec<u8>, start: &str, value: &[u8]) {
    lines.extend_from_slice(start.as_bytes());
    lines.extend_from_slice(value);
    lines.extend_from_slice(b"\r\n");
}

/// A line with a number.
pub(in crate::server) fn figure(lines: &mut Vec<u8>, start: &str, number: u32) {
    line(lines, start, itoa::Buffer::new().format(number).as_bytes());
}

/// What a body is known by, and how long it may be kept.
pub(in crate::server) fn found(lines: &mut Vec<u8>, body: &Encoded, age: &str) {
    line(lines, "etag: ", body.etag.as_bytes());
    lines.extend_from_slice(age.as_bytes());
}
