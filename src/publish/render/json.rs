//! Writer of JSON objects, member by member.

use serde::Serialize;

use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile};
use crate::model::{CreatedIn, CreatorSlug, SortField};

/// A JSON object at the end of a buffer. Its members are in the order of the calls. Their names are
/// not escaped.
#[must_use = "an object must be ended"]
pub(super) struct Object<'o>(&'o mut Vec<u8>);

impl<'o> Object<'o> {
    /// Begins an object.
    pub(super) fn new(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object(out)
    }

    /// Ends the object.
    pub(super) fn end(self) {
        self.0.push(b'}');
    }

    /// Writes the last member of a response, `meta`, and ends the object.
    pub(super) fn end_with_meta(self, published: UnixSeconds) {
        let generated_at = published.to_string();
        let meta = |meta: Object<'_>| meta.member("generatedAt", generated_at).end();
        self.object("meta", b"{}", meta).end();
    }

    /// Writes a member.
    pub(super) fn member(mut self, name: &str, value: impl Serialize) -> Object<'o> {
        json(self.name(name), &value);
        self
    }

    /// Writes a member that is an object: the members of `first`, a complete object, then those
    /// that `more` writes. `more` ends the object.
    pub(super) fn object(
        mut self,
        name: &str,
        first: &[u8],
        more: impl FnOnce(Object<'_>),
    ) -> Object<'o> {
        let first = first.strip_suffix(b"}").expect("a complete object");
        let out = self.name(name);
        out.extend_from_slice(first);
        more(Object(out));
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

    /// Writes code, title, creator and tool of an island.
    pub(super) fn island(self, island: &Island) -> Object<'o> {
        self.member("code", island.code.text().as_str())
            .member("title", &island.title)
            .member("creator", island.creator.as_ref().map(CreatorSlug::as_str))
            .member("createdIn", island.created_in.map(CreatedIn::as_str))
    }

    /// Writes a creator's profile without its slug. All members are null without a profile.
    pub(super) fn profile(self, profile: Option<&Profile>) -> Object<'o> {
        let count = |count: fn(&Profile) -> Option<u64>| profile.and_then(count);
        self.member("name", profile.map(|profile| &profile.name))
            .member("followers", count(|profile| profile.followers))
            .member("following", count(|profile| profile.following))
            .member("lifetimePlays", count(|profile| profile.lifetime_plays))
    }

    /// Writes the nine metrics.
    pub(super) fn metrics(mut self, metrics: &Metrics) -> Object<'o> {
        for field in SortField::ALL {
            self = self.member(field.as_str(), metrics.count(field));
        }
        let minutes = metrics.average_minutes_per_player();
        self.member("averageMinutesPerPlayer", minutes)
            .member("retentionD1", metrics.retention_d1())
            .member("retentionD7", metrics.retention_d7())
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

/// Writes a value.
pub(super) fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("plain values serialize, and memory takes them");
}
