//! The published form: one immutable state of everything the API can answer.
//!
//! In: the two payload files that `publish` wrote, or the same bytes in memory, and the index of the
//! dumps. Out: whole bodies, list pages and their entity tags; dumps by name. Only
//! `service_bodies` names members of responses: the text around the rows of list pages comes out of the file.
//! Knows no sockets, clients or quotas.

mod bodies;
mod body;
mod damage;
mod dumps;
mod error;
mod file;
mod groups;
mod history;
mod identity;
mod inflate;
mod links;
mod list_page;
mod long_body;
mod lookup;
mod manifest;
mod pace;
mod page;
mod published;
mod read;
mod read_context;
mod resident;
mod response_cache;
mod row_set;
mod search;
mod select;
mod service_bodies;
mod storage;
mod verify;
mod views;
mod write;

pub use body::{Body, Content, Encoded, EntityTag, Found, Packed, Packer};
pub use damage::Damage;
pub use dumps::{Dump, DumpDirectory, DumpFile, DumpFormat, DumpIndex};
pub use error::SnapshotError;
pub use file::Section;
pub use history::{History, Stamp};
pub use identity::Identity;
pub use long_body::{LongBody, LongBodyReader, LongBodyVerifier};
pub use lookup::Missing;
pub use manifest::{Dumps, Manifest, Payload};
pub use pace::{both, work_in_background};
pub use published::OpenError;
pub use read::{Live, Sizes, Snapshot};
pub use read_context::ReadContext;
pub(crate) use search::{IndexSections, SLUGS, TITLES};
pub use search::{SUFFIX_DEPTH, SUFFIX_STEP, common_key};
pub use select::Selection;
pub use service_bodies::Readiness;
pub use storage::Storage;
pub use views::BodyRef;
pub use write::{SnapshotWriter, Written};
#[cfg(test)] // the index is tested where it is written
pub(crate) use {file::SnapshotFile, search::TextIndex};
