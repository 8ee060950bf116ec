//! From a dataset to the published form, and the opening of it.
//!
//! In: a [`crate::dataset::Dataset`] and the publish timestamp. Out: the history and the live
//! payload, as files in a directory or in memory, every answer already rendered. Knows nothing of
//! requests, clients or sockets. Start with `history`, then `render`.

mod creators;
#[cfg(test)]
mod damage_tests;
mod directory;
mod groups;
mod history;
mod live;
mod parallel;
mod render;
mod sample;
#[cfg(test)]
mod selection_tests;
mod text_index;
mod timeline;

pub use directory::{PublishError, check_published, nothing_published, open_published, publish};
pub use render::ENDPOINTS;
pub use sample::{SAMPLE_FILES, open_sample};
