//! `manifest.json`, which names the published files. Written last, read first.

use std::io;

use serde::{Deserialize, Serialize};

use super::error::SnapshotError;
use super::file::{Identity, verified_checksum};
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
    pub dumps: Option<Dumps>,
}

/// The directory of the dumps (see [`super::DumpIndex`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dumps {
    /// Its name in the published directory.
    pub directory: String,
    /// CRC-32 of its index, eight hexadecimal digits.
    pub checksum: String,
    /// When it was published.
    pub generated_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Its name in the published directory.
    pub file: String,
    pub bytes: u64,
    /// CRC-32 of all that follows its bodies, eight hexadecimal digits.
    pub checksum: String,
    /// Its publish timestamp.
    pub generated_at: String,
}

impl Payload {
    /// Returns whether the file exists and is valid. Its bodies are not checked: there may be
    /// gigabytes of them, and each is verified when it is read.
    pub fn is_sound(&self, directory: &Directory) -> bool {
        let file = directory.file(&self.file);
        let file = file.and_then(|file| Ok((file.metadata()?.len(), file)));
        file.is_ok_and(|(bytes, file)| {
            bytes == self.bytes
                && verified_checksum(file)
                    .is_ok_and(|found| self.checksum == format!("{found:08x}"))
        })
    }

    /// Verifies that this is the entry of a payload.
    pub(super) fn expect(&self, payload: Identity) -> Result<(), SnapshotError> {
        if self.names(payload) {
            return Ok(());
        }
        let Identity {
            bytes,
            checksum,
            published,
        } = payload;
        Err(SnapshotError::Damaged(format!(
            "it must be the file in the manifest ({} bytes, checksum {}, published {}), got {bytes} bytes, \
            checksum {checksum:08x}, published {published}; publish again",
            self.bytes, self.checksum, self.generated_at
        )))
    }

    /// Returns whether this is the entry of a payload.
    pub fn names(&self, payload: Identity) -> bool {
        self.bytes == payload.bytes
            && self.checksum == format!("{:08x}", payload.checksum)
            && self.generated_at == payload.published.to_string()
    }
}

impl Manifest {
    /// The manifest's name in a published directory.
    pub const FILE: &'static str = "manifest.json";

    pub fn payloads(&self) -> impl Iterator<Item = &Payload> {
        // Without `..`, so that a new payload must be listed here.
        let Manifest {
            history,
            live,
            dumps: _,
        } = self;
        history.iter().chain(live)
    }

    /// Returns whether it contains a file or directory.
    pub fn names(&self, name: &str) -> bool {
        let dumps = self.dumps.as_ref();
        self.payloads().any(|payload| payload.file == name)
            || dumps.is_some_and(|dumps| dumps.directory == name)
    }

    /// Reads a directory's manifest; `None` if there is none. Rejects one without a payload, or with
    /// one outside its directory.
    pub fn read(directory: &Directory) -> io::Result<Option<Manifest>> {
        let manifest: Manifest = match directory.read(Manifest::FILE, BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => serde_json::from_slice(&text?)?,
        };
        let outside = (manifest.payloads()).find(|payload| !is_file_name(&payload.file));
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
