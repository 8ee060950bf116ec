//! Who asks the snapshot.

/// Who asks, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// A number that is the same for all requests of one client, and hardly of another: what only one
    /// client asks for does not stay in caches.
    pub client: u64,
    /// Whether gzip may be sent.
    pub accepts_gzip: bool,
}
