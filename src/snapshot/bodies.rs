//! The bodies of the history payload: found by family and number, read and checked when they are
//! asked for, kept in a cache.

use std::fmt::{self, Display};

use bytes::Bytes;

use super::asker::Asker;
use super::body::{Encoded, EntityTag};
use super::cache::{ByteCache, Keep};
use super::damage::Damage;
use super::error::SnapshotError;
use super::file::{Section, SnapshotFile, expect_checksum};
use super::inflate::inflate;
use super::storage::Storage;
use super::views::{BodyRef, BodyRefs};
use crate::calendar::UnixSeconds;

/// Families of bodies in the history payload; the number is part of the cache key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Island,
    Ccu,
    Creator,
    Ranking,
    New,
    Fixed,
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
    cache: ByteCache<(u8, u32, bool), Encoded>,
    damage: Damage,
}

impl Bodies {
    /// The bodies of a file, so many of each family.
    pub(crate) fn open(
        file: SnapshotFile,
        counts: [usize; SECTIONS.len()],
        published: UnixSeconds,
        memory_bytes: usize,
    ) -> Result<Bodies, SnapshotError> {
        let mut families = [const { BodyRefs::EMPTY }; SECTIONS.len()];
        for ((family, section), count) in families.iter_mut().zip(SECTIONS).zip(counts) {
            *family = file.bodies(section, count)?;
        }
        Ok(Bodies {
            storage: file.into_storage(),
            published,
            families,
            cache: ByteCache::new(memory_bytes),
            damage: Damage::none(),
        })
    }

    /// A body in the form that the client takes. One that is damaged is counted, never kept, and read
    /// again when it is asked for again.
    pub(crate) fn get(
        &self,
        family: Family,
        at: usize,
        asker: Asker,
    ) -> Result<Encoded, SnapshotError> {
        let found = self.find(family, at, asker);
        if let Err(error) = &found {
            self.damage.note(error);
        }
        found
    }

    /// What was wrong with bodies that were asked for.
    pub(crate) fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Where they are read from.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    fn find(&self, family: Family, at: usize, asker: Asker) -> Result<Encoded, SnapshotError> {
        let body = self.families[family as usize].get(at);
        let gzip = asker.accepts_gzip && body.has_gzip();
        let load = || -> Result<Encoded, SnapshotError> {
            let stored = read_stored(&self.storage, body)?;
            let bytes = if gzip { stored } else { plain(body, stored)? };
            Ok(Encoded {
                bytes,
                etag: EntityTag::new(self.published, body.plain_crc, gzip),
                gzip,
            })
        };
        let is_stored = gzip || !body.has_gzip();
        if is_stored && self.storage.in_memory() {
            return load();
        }
        let key = (
            family as u8,
            u32::try_from(at).expect("rows are numbered in u32"),
            gzip,
        );
        let bytes = |body: &Encoded| body.bytes.len();
        self.cache
            .get_or_make(&key, asker.client, Keep::AtOnce, bytes, load)
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
    let stored = stored.map_err(|error| error.of(place(body)))?;
    expect_checksum(place(body), written, crc32fast::hash(&stored))?;
    Ok(stored)
}

/// The identity form out of the stored one, its checksum verified.
pub(crate) fn plain(body: BodyRef, stored: Bytes) -> Result<Bytes, SnapshotError> {
    if !body.has_gzip() {
        return Ok(stored);
    }
    let Some(plain) = inflate(&stored, body.plain_bytes as usize) else {
        return Err(SnapshotError::malformed(
            place(body),
            "its gzip form holds no body of the length written",
        ));
    };
    expect_checksum(place(body), body.plain_crc, crc32fast::hash(&plain))?;
    Ok(plain.into())
}

/// How a body is named to a person.
fn place(body: BodyRef) -> impl Display {
    fmt::from_fn(move |f| write!(f, "a body at byte {}", body.offset))
}
