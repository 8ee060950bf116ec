//! Opening a published directory: its manifest, and the payload files and dumps that it names.

use std::io;
use std::sync::Arc;

use super::dumps::DumpDirectory;
use super::error::SnapshotError;
use super::history::History;
use super::manifest::{Manifest, Payload};
use super::read::{Live, Snapshot};
use super::storage::Storage;
use super::throttle::join;
use crate::regular_file::Directory;
use crate::site::SiteSettings;

impl Snapshot {
    /// Opens a published directory; a directory without a manifest gives an empty snapshot.
    /// `current` is the history in use: if the manifest still names it, it is reused with its
    /// caches, so that they survive the publish of a live payload. Damaged dumps are no error: everything
    /// else is served without them.
    pub fn open(
        directory: &Directory,
        memory_bytes: usize,
        service: &SiteSettings,
        current: Option<&Arc<History>>,
    ) -> Result<Snapshot, SnapshotError> {
        let invalid = |error: io::Error| {
            SnapshotError::from(error).in_file(&directory.path().join(Manifest::FILE))
        };
        let manifest = Manifest::read(directory)
            .map_err(invalid)?
            .unwrap_or_default();
        let history = |payload: &Payload| match current {
            Some(current) if payload.names(current.identity) => Ok(Arc::clone(current)),
            _ => open_payload(directory, payload, |storage| {
                History::open(storage, memory_bytes).map(Arc::new)
            }),
        };
        let live = |payload: &Payload| open_payload(directory, payload, Live::open);
        let (live, history) = join(
            || manifest.live.as_ref().map(live).transpose(),
            || manifest.history.as_ref().map(history).transpose(),
        );
        let mut snapshot = Snapshot::new(history?, live?, service);
        let named = manifest.payloads();
        let opened = snapshot.identities().into_iter();
        let opened = opened.filter_map(|(_, identity)| identity);
        if !named
            .zip(opened)
            .all(|(payload, opened)| payload.names(opened))
        {
            let problem = "the payload files differ from the ones in the manifest; publish again";
            return Err(invalid(io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        let dumps = manifest.dumps.as_ref();
        snapshot.dumps = dumps.map(|dumps| DumpDirectory::open(directory, dumps).map(Arc::new));
        Ok(snapshot)
    }
}

fn open_payload<T>(
    directory: &Directory,
    payload: &Payload,
    open: impl FnOnce(Storage) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    let file = directory.file(&payload.file).map_err(SnapshotError::Io);
    file.and_then(|file| open(Storage::File(Arc::new(file))))
        .map_err(|error| error.in_file(&directory.path().join(&payload.file)))
}
