//! `manifest.json`, which names the published files. Written last, read first.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{SnapshotError, catch_panics};
use super::file::{Identity, Trailer};
use super::storage::Storage;
use crate::regular_file::{Directory, is_file_name};

/// Longer manifests are rejected. Those of a publish have less than a kilobyte.
const BYTES_MAX: u64 = 64 << 10;

/// The published directory's table of contents. Unknown members are rejected as damage: ignoring
/// one would change what is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Islands, creators, rankings and new islands.
    pub history: Option<Payload>,
    /// The live snapshot and the intraday curve.
    pub live: Option<Payload>,
    /// The index of the dumps (see [`super::DumpIndex`]).
    pub dumps: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Its name in the published directory.
    pub file: String,
    pub bytes: u64,
    /// CRC-32, eight hexadecimal digits: of the index of the dumps, or of all that follows the bodies of a payload.
    pub checksum: String,
    pub generated_at: String,
}

impl Payload {
    /// Opens its file, which must be the one in the manifest by its trailer: nothing else of another file is read.
    pub(crate) fn open<T>(
        &self,
        directory: &Directory,
        open: impl FnOnce(Storage) -> Result<T, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        let path = directory.path().join(&self.file);
        let opened = || {
            let storage = Storage::File(Arc::new((directory.file(&self.file)?, path.clone())));
            let found = Trailer::read(&storage)?.identity;
            if self.names(found) {
                return open(storage);
            }
            let Identity {
                bytes,
                checksum,
                published,
            } = found;
            Err(SnapshotError::Damaged(format!(
                "it must be the file in the manifest ({} bytes, checksum {}, published {}), got {bytes} bytes, \
                checksum {checksum:08x}, published {published}; publish again",
                self.bytes, self.checksum, self.generated_at
            )))
        };
        catch_panics(&path, || opened().map_err(|error| error.in_file(&path)))
    }

    /// Returns whether this is the entry of a payload.
    pub fn names(&self, payload: Identity) -> bool {
        self.bytes == payload.bytes
            && self.checksum == format!("{:08x}", payload.checksum)
            && self.generated_at == payload.published.to_string()
    }
}

impl Manifest {
    pub const FILE: &'static str = "manifest.json";

    pub fn files(&self) -> impl Iterator<Item = &Payload> {
        // Without `..`, so that a new file must be listed here.
        let Manifest {
            history,
            live,
            dumps,
        } = self;
        history.iter().chain(live).chain(dumps)
    }

    /// Reads a directory's manifest; `None` if there is none. Rejects one without a payload, or with
    /// one outside its directory.
    pub fn read(directory: &Directory) -> io::Result<Option<Manifest>> {
        let manifest: Manifest = match directory.read(Manifest::FILE, BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => serde_json::from_slice(&text?)?,
        };
        // Damaged dumps are found when they are opened. Everything else is served without them.
        let mut payloads = manifest.history.iter().chain(&manifest.live);
        let outside = payloads.find(|payload| !is_file_name(&payload.file));
        let problem = if manifest.history.is_none() && manifest.live.is_none() {
            "must contain `history`, `live` or both".to_owned()
        } else if let Some(payload) = outside {
            format!("{:?} is not a file name", payload.file)
        } else {
            return Ok(Some(manifest));
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}
