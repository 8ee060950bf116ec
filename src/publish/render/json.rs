//! Writer of JSON objects, member by member.

use serde::Serialize;

use crate::dataset::{Cell, FileKind, Metrics};

/// A JSON object at the end of a buffer. Its members are in the order of the calls. Their names are
/// not escaped.
#[must_use = "an object must be ended"]
pub(super) struct Object<'o>(&'o mut Vec<u8>);

impl<'o> Object<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object(out)
    }

    pub(super) fn end(self) {
        self.0.push(b'}');
    }

    pub(super) fn member(mut self, name: &str, value: impl Serialize) -> Object<'o> {
        json(self.name(name), &value);
        self
    }

    /// Writes a member that is an object: the members of `first`, a complete object, then those
    /// that `more` writes.
    pub(super) fn object(
        mut self,
        name: &str,
        first: &[u8],
        more: impl FnOnce(Object<'_>) -> Object<'_>,
    ) -> Object<'o> {
        let first = first.strip_suffix(b"}").expect("a complete object");
        let out = self.name(name);
        out.extend_from_slice(first);
        more(Object(out)).end();
        self
    }

    /// Writes a member that is an array, each of whose items `write` writes.
    pub(super) fn array<T>(
        mut self,
        name: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) -> Object<'o> {
        let out = self.name(name);
        out.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write(out, item);
        }
        out.push(b']');
        self
    }

    /// Writes members of a row by the names of their columns.
    pub(super) fn members<'c>(
        mut self,
        columns: &[&str],
        cells: impl IntoIterator<Item = Cell<'c>>,
    ) -> Object<'o> {
        for (name, cell) in columns.iter().zip(cells) {
            let out = self.name(name);
            // Numbers, which are most of a publish, need no serializer, and digits no search for characters to escape.
            match cell {
                Cell::Code(code) => {
                    out.push(b'"');
                    out.extend_from_slice(&code.text());
                    out.push(b'"');
                }
                Cell::Count(Some(count)) => {
                    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
                }
                Cell::Decimal(Some(decimal)) => {
                    out.extend_from_slice(zmij::Buffer::new().format_finite(decimal).as_bytes());
                }
                Cell::Count(None) | Cell::Decimal(None) => out.extend_from_slice(b"null"),
                Cell::Text(text) => json(out, &text),
                Cell::Tags(tags) => json(out, &tags.split_terminator('|').collect::<Vec<_>>()),
                Cell::Time(time) => json(out, &time.0),
            }
        }
        self
    }

    pub(super) fn metrics(self, metrics: &Metrics) -> Object<'o> {
        self.members(&FileKind::Daily.columns().0[1..], metrics.metric_cells())
    }

    /// Writes the name of the next member. Returns the buffer, for its value.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0
    }
}

pub(super) fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("plain values serialize, and memory takes them");
}
