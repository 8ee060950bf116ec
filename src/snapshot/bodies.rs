//! The bodies of the history payload: found by family and number, read and checked when they are
//! requested.

use std::sync::Arc;

use bytes::Bytes;

use super::body::{Content, Encoded, EntityTag};
use super::damage::Damage;
use super::error::SnapshotError;
use super::file::{Section, SnapshotFile, expect_checksum};
use super::inflate::inflate;
use super::long_body::{LONG_BYTES_MIN, LongBody};
use super::read_context::ReadContext;
use super::storage::Storage;
use super::views::{BodyRef, BodyRefs};
use crate::calendar::UnixSeconds;

/// Families of bodies in the history payload, by the number of their section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Island,
    Ccu,
    Creator,
    Ranking,
    New,
    Fixed,
}

/// One of the two forms of a body.
#[derive(Clone, Copy, Debug)]
struct BodyForm {
    body: BodyRef,
    gzip: bool,
    /// Its length.
    bytes: u32,
}

/// Where the records of each family stand.
const SECTIONS: [Section; 6] = [
    Section::IslandBodies,
    Section::CcuBodies,
    Section::CreatorBodies,
    Section::RankingBodies,
    Section::NewBodies,
    Section::FixedBodies,
];

#[derive(Debug)]
pub(crate) struct Bodies {
    storage: Storage,
    published: UnixSeconds,
    families: [BodyRefs; SECTIONS.len()],
    damage: Arc<Damage>,
}

impl Bodies {
    /// The bodies of a file, so many of each family.
    pub(crate) fn open(
        file: SnapshotFile,
        counts: [usize; SECTIONS.len()],
        published: UnixSeconds,
    ) -> Result<Bodies, SnapshotError> {
        let mut families = [const { BodyRefs::EMPTY }; SECTIONS.len()];
        for ((family, section), count) in families.iter_mut().zip(SECTIONS).zip(counts) {
            *family = file.bodies(section, count)?;
        }
        Ok(Bodies {
            storage: file.into_storage(),
            published,
            families,
            damage: Arc::new(Damage::none()),
        })
    }

    /// A body in the form that the client accepts. One that is damaged is counted, never kept, and read
    /// again when it is requested again.
    pub(crate) fn get(
        &self,
        family: Family,
        at: usize,
        context: ReadContext<'_>,
    ) -> Result<Encoded, SnapshotError> {
        let found = self.find(family, at, context);
        if let Err(error) = &found {
            self.damage.note(error);
        }
        found
    }

    /// Whether a response carries a body so long that it is sent in pieces.
    pub(crate) fn is_long(&self, family: Family, at: usize, context: ReadContext<'_>) -> bool {
        let form = self.form(family, at, context.accepts_gzip);
        form.bytes >= LONG_BYTES_MIN && (context.needs_content)(&self.etag(form))
    }

    fn form(&self, family: Family, at: usize, accepts_gzip: bool) -> BodyForm {
        let body = self.families[family as usize].get(at);
        let gzip = accepts_gzip && body.has_gzip();
        let bytes = if gzip {
            body.gzip_bytes
        } else {
            body.plain_bytes
        };
        BodyForm { body, gzip, bytes }
    }

    fn etag(&self, form: BodyForm) -> EntityTag {
        EntityTag::new(self.published, form.body.plain_crc, form.gzip)
    }

    /// What was wrong with bodies that were asked for.
    pub(crate) fn damage(&self) -> &Arc<Damage> {
        &self.damage
    }

    /// Where they are read from.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    fn find(
        &self,
        family: Family,
        at: usize,
        context: ReadContext<'_>,
    ) -> Result<Encoded, SnapshotError> {
        let form @ BodyForm { body, gzip, bytes } = self.form(family, at, context.accepts_gzip);
        let (needs_content, etag) = (context.needs_content, self.etag(form));
        let sent = if !needs_content(&etag) {
            Content::Omitted(Some(bytes.into()))
        } else if bytes >= LONG_BYTES_MIN {
            Content::Long(LongBody {
                storage: self.storage.clone(),
                body,
                gzip,
                damage: Arc::clone(&self.damage),
            })
        } else {
            let stored = read_stored(&self.storage, body)?;
            Content::Whole(if gzip { stored } else { plain(body, stored)? })
        };
        Ok(Encoded {
            content: sent,
            etag,
            gzip,
        })
    }

    /// Reads every body and checks both its forms.
    pub(crate) fn verify(&self) -> Result<(), SnapshotError> {
        for body in self.families.iter().flat_map(BodyRefs::iter) {
            plain(body, read_stored(&self.storage, body)?)?;
        }
        Ok(())
    }
}

/// The form of a body that is in the file, its checksum verified: gzip, or plain where it has none.
pub(crate) fn read_stored(storage: &Storage, body: BodyRef) -> Result<Bytes, SnapshotError> {
    let (length, written) = body.stored();
    let stored = storage.read(body.offset, length as usize);
    let stored = stored.map_err(|error| error.of(body.place()))?;
    expect_checksum(body.place(), written, crc32fast::hash(&stored))?;
    Ok(stored)
}

/// The identity form out of the stored one, its checksum verified.
pub(crate) fn plain(body: BodyRef, stored: Bytes) -> Result<Bytes, SnapshotError> {
    if !body.has_gzip() {
        return Ok(stored);
    }
    let Some(plain) = inflate(&stored, body.plain_bytes as usize) else {
        return Err(SnapshotError::malformed(
            body.place(),
            "its gzip form holds no body of the length written",
        ));
    };
    expect_checksum(body.place(), body.plain_crc, crc32fast::hash(&plain))?;
    Ok(plain.into())
}
