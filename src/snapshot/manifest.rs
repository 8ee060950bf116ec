//! `manifest.json`: which files are the published ones. Written last, read first.

use std::io;

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use super::verify::sound_checksum;
use crate::regular_file::{Directory, is_file_name};

/// A longer manifest is refused. One that a publish writes has less than a kilobyte.
const BYTES_MAX: u64 = 64 << 10;

/// The published directory's table of contents. A name in it that is none of these is damage: read past,
/// it would make what is published something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Islands, creators, rankings and new islands.
    pub history: Option<Payload>,
    /// The live snapshot and the intraday curve.
    pub live: Option<Payload>,
    /// The dumps, outside the API.
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

/// One payload file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Its name in the published directory.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its table of contents, eight hexadecimal digits.
    pub checksum: String,
    /// Its publish timestamp.
    pub generated_at: String,
}

impl Payload {
    /// Whether the file is there, whole, and sound in all but its bodies, which are not looked at.
    pub fn is_sound(&self, directory: &Directory) -> bool {
        let sound = || -> io::Result<bool> {
            let file = directory.file(&self.file)?;
            if file.metadata()?.len() != self.bytes {
                return Ok(false);
            }
            let checksum = sound_checksum(&file)?;
            Ok(checksum.is_some_and(|found| self.checksum == format!("{found:08x}")))
        };
        sound().unwrap_or(false)
    }

    /// Whether it is the payload named here.
    pub fn names(&self, payload: Identity) -> bool {
        self.bytes == payload.bytes
            && self.checksum == format!("{:08x}", payload.checksum)
            && self.generated_at == payload.published.to_string()
    }
}

impl Manifest {
    /// The manifest's name in a published directory.
    pub const FILE: &'static str = "manifest.json";

    /// Whether it names a file or directory.
    pub fn names(&self, name: &str) -> bool {
        let payloads = [&self.history, &self.live].into_iter().flatten();
        let mut payloads = payloads.map(|payload| &payload.file);
        let dumps = self.dumps.as_ref();
        payloads.any(|file| file == name) || dumps.is_some_and(|dumps| dumps.directory == name)
    }

    /// Reads a directory's manifest; `None` where nothing has been published.
    pub fn read(directory: &Directory) -> io::Result<Option<Manifest>> {
        match directory.read(Manifest::FILE, BYTES_MAX) {
            Ok(text) => {
                let manifest: Manifest = serde_json::from_slice(&text)?;
                manifest.check()?;
                Ok(Some(manifest))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refuses a manifest that names no payload, or one that is not in its own directory.
    fn check(&self) -> io::Result<()> {
        let invalid = |problem: String| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        if self.history.is_none() && self.live.is_none() {
            return invalid("it names no payload; want `history`, `live` or both".to_owned());
        }
        let payloads = [&self.history, &self.live].into_iter().flatten();
        let mut names = payloads.map(|payload| &payload.file);
        match names.find(|name| !is_file_name(name)) {
            Some(name) => invalid(format!("{name:?} is not the name of a file")),
            None => Ok(()),
        }
    }
}
