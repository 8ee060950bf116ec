//! `ReadContext`: the parts of a request that a lookup in the snapshot depends on.

use std::fmt;

use super::body::EntityTag;

/// The parts of a request that a lookup depends on, besides its route.
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    /// A number that is the same for all requests of one client and rarely the same for two clients. The
    /// cache uses it: an entry that only one client requests is soon evicted.
    pub client: u64,
    /// Whether the client accepts gzip.
    pub accepts_gzip: bool,
    /// Returns whether the response has content, given its entity tag. It has none for HEAD, and none if
    /// the client has this version already (304): then none is read, inflated or compressed.
    pub needs_content: &'a dyn Fn(&EntityTag) -> bool,
}

impl ReadContext<'static> {
    /// Creates the context of a lookup whose content is always needed.
    pub fn with_content(client: u64, accepts_gzip: bool) -> ReadContext<'static> {
        ReadContext {
            client,
            accepts_gzip,
            needs_content: &|_| true,
        }
    }
}

impl fmt::Debug for ReadContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext")
            .field("client", &self.client)
            .field("accepts_gzip", &self.accepts_gzip)
            .finish_non_exhaustive()
    }
}
