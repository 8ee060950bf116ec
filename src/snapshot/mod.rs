//! The published form of the data: opening and lookup of everything that the API serves.
//!
//! In: the two payload files and the dumps of a publish, or payloads in memory. Out: response
//! bodies, list pages and their entity tags by route; dumps by name; the HTML of the home page and of
//! the reference. Only `service_bodies`, and `NO_ISLANDS` in `read`, name members of responses. Knows no sockets,
//! clients or quotas.
//!
//! A *payload* is a file, of which there are two: history and live. The `payloads` of `/v1/health` are
//! the parts of these files.
//!
//! In reading order:
//!
//! - The file: `format`, `layout`, `writer`, `file` (the reader), `storage` (the bytes behind it), `stored_body`
//!   (bodies, whole and in pieces), `manifest`.
//! - The lookup: `read` (opening, `Snapshot`), `lookup` (by route), `history`, `body`, `service_bodies`.
//! - The lists: `select` (the rows of a page), `condition` (filters), `row_set` and `search` behind these, and
//!   `list_page`.
//! - Beside these: `dumps`, `check` (verification of everything), `error`.

mod body;
mod check;
mod condition;
mod dumps;
mod error;
mod file;
mod format;
mod history;
mod layout;
mod list_page;
mod lookup;
mod manifest;
mod read;
mod row_set;
mod search;
mod select;
mod service_bodies;
mod storage;
mod stored_body;
mod writer;

pub(crate) use body::GzipSettings;
pub use body::{Body, Compressor, Content, Encoded, EntityTag, PackedBody};
pub use check::check_published;
pub use dumps::{Dump, DumpContent, DumpFile, DumpIndex, Dumps};
pub(crate) use dumps::{HashingWriter, media_type};
pub use error::{Missing, SnapshotError};
pub use file::Identity;
pub use format::Section;
pub use history::History;
#[cfg(test)]
pub(crate) use layout::SAMPLE_CHECKSUM;
pub(crate) use layout::{BodyCounts, CONTENT_VERSION, LAYOUT, Per};
pub use lookup::Found;
pub use manifest::{Manifest, Payload};
pub use read::{Live, Snapshot};
pub(crate) use search::TITLES;
pub use search::{SUFFIX_DEPTH, SUFFIX_STEP, common_key};
pub use select::SelectedRows;
pub use storage::Storage;
pub use stored_body::{BodyReader, SHORT_BYTES_MAX, StoredBody};
pub use writer::SnapshotWriter;
#[cfg(test)] // they are tested where what they read is written
pub(crate) use {condition::Condition, file::SnapshotFile, file::Texts, search::TextIndex};
