//! Writer of JSON objects, member by member.

use serde::{Serialize, Serializer};

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
            match cell {
                // Digits need no search for characters to escape.
                Cell::Code(code) => {
                    let out = self.name(name);
                    out.push(b'"');
                    out.extend_from_slice(code.text().as_bytes());
                    out.push(b'"');
                }
                cell => self = self.member(name, cell),
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

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Code(code) => code.text().as_str().serialize(to),
            Cell::Text(text) => text.serialize(to),
            Cell::Tags(tags) => to.collect_seq(tags.split_terminator('|')),
            Cell::Count(count) => count.serialize(to),
            Cell::Decimal(decimal) => decimal.serialize(to),
            Cell::Time(time) => time.0.serialize(to),
        }
    }
}

pub(super) fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("plain values serialize, and memory takes them");
}
