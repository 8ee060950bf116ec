//! The history payload, opened: islands, creators, rankings and new islands.

use std::borrow::Cow;
use std::cmp::Reverse;

use bytes::Bytes;
use zerocopy::little_endian::{I32, U32, U64};

use super::body::EntityTag;
use super::error::SnapshotError;
use super::file::{BodySlice, Identity, Lists, SnapshotFile, Texts, U32Slice, U64Slice};
use super::format::Section;
use super::layout::{BodyCounts, CONTENT_VERSION};
use super::row_set::RowSet;
use super::search::TextIndex;
use super::storage::Storage;
use crate::calendar::UtcDay;
use crate::model::{IslandCode, SortField, SortOrder};
use crate::request::Grouping;

#[derive(Debug)]
pub struct History {
    pub identity: Identity,
    pub(super) days: Vec<UtcDay>,
    codes: U64Slice,
    /// The JSON of each island in lists.
    pub(super) rows: Texts,
    /// The end that many rows of islands share. A NUL at the end of a row stands for it.
    pub(super) row_end: Bytes,
    /// The values of all sort fields, each once, ascending.
    values: U64Slice,
    /// For each sort field, the rank of each row's value among the values, from 1; 0 if it is null.
    ranks: U32Slice,
    /// All rows in each of the [`ORDERINGS`].
    orders: U32Slice,
    /// The groups of islands, by [`Grouping`].
    pub(super) groups: Vec<Groups>,
    pub(super) titles: TextIndex,
    /// The JSON of each creator in lists. Creators are numbered in list order.
    pub(super) creator_rows: Texts,
    creator_slugs: Texts,
    creators_by_slug: U32Slice,
    /// The slugs of all creators, folded for searches.
    pub(super) slugs: Texts,
    /// The number of islands that have a CCU history.
    pub(super) ccu_histories: u64,
    /// All bodies, in the order of the layout.
    pub(super) bodies: BodySlice,
    pub(super) body_counts: BodyCounts,
    /// The publish timestamp as text.
    pub(super) published: String,
    /// The entity tags of list pages, without gzip and with it. A page depends only on the payload, the text around
    /// its rows and the query, so all pages share them.
    pub(super) list_tags: [EntityTag; 2],
    pub(super) storage: Storage,
}

impl History {
    pub fn open(storage: Storage) -> Result<History, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let codes: U64Slice = file.items(Section::Codes, None)?;
        let islands = codes.len();
        let creators_by_slug: U32Slice = file.items(Section::CreatorsBySlug, None)?;
        let creators = creators_by_slug.len();
        Section::CreatorsBySlug.expect_below(&creators_by_slug, creators)?;
        let days = file.items::<I32>(Section::Days, None)?;
        let days: Vec<UtcDay> = days.iter().map(|day| UtcDay(day.get())).collect();
        if !days.is_sorted_by(|day, next| day < next) {
            return Err(Section::Days.malformed("its days are not in order"));
        }
        if !days.iter().all(|day| day.has_text()) {
            return Err(Section::Days.malformed("its days are not in the years 0 to 9999"));
        }
        let values: U64Slice = file.items(Section::Values, None)?;
        if !values.is_sorted_by(|value, next| value.get() < next.get()) {
            return Err(Section::Values.malformed("its values are not in order"));
        }
        let groups = Grouping::ALL.iter();
        let groups = groups.map(|grouping| Groups::open(&file, *grouping, islands));
        let groups = groups.collect::<Result<_, _>>()?;
        let row_end = file.section(Section::RowEnd)?;
        if row_end.len() > ROW_END_BYTES_MAX {
            let problem = format!("it has more than {ROW_END_BYTES_MAX} bytes");
            return Err(Section::RowEnd.malformed(&problem));
        }
        let body_counts = BodyCounts {
            islands,
            creators,
            days: days.len(),
        };
        let orders = file.items(Section::Orders, Some(islands * ORDERINGS))?;
        Section::Orders.expect_below(&orders, islands)?;
        let Identity {
            published,
            checksum,
            ..
        } = file.identity;
        let list_tag = |gzip| EntityTag::new(published, checksum ^ CONTENT_VERSION, gzip);
        Ok(History {
            list_tags: [false, true].map(list_tag),
            codes,
            rows: file.short_texts(Section::Rows, Some(islands), ROW_BYTES_MAX)?,
            values,
            ranks: file.items(Section::Ranks, Some(islands * SortField::ALL.len()))?,
            orders,
            groups,
            titles: TextIndex::open(&file, islands)?,
            creator_rows: file.short_texts(Section::CreatorRows, Some(creators), ROW_BYTES_MAX)?,
            creator_slugs: file.lists(Section::CreatorSlugs, Some(creators))?,
            creators_by_slug,
            slugs: file.lists(Section::Slugs, Some(creators))?,
            ccu_histories: file.items::<U64>(Section::CcuHistories, Some(1))?[0].get(),
            bodies: file.bodies(body_counts.total())?,
            body_counts,
            days,
            published: published.to_string(),
            row_end,
            identity: file.identity,
            storage: file.storage,
        })
    }

    pub(crate) fn find_island(&self, code: IslandCode) -> Option<usize> {
        self.codes
            .binary_search_by_key(&code.number(), |code| code.get())
            .ok()
    }

    pub(crate) fn find_creator(&self, slug: &str) -> Option<usize> {
        let slug_of = |number: &U32| self.creator_slugs.get(number.get() as usize);
        let found = self
            .creators_by_slug
            .binary_search_by(|number| slug_of(number).cmp(slug.as_bytes()));
        found
            .ok()
            .map(|at| self.creators_by_slug[at].get() as usize)
    }

    /// Returns the names of the tags of the most islands, at most `max`, by name.
    pub(super) fn largest_tags(&self, max: usize) -> Vec<String> {
        let groups = &self.groups[Grouping::Tag as usize];
        let mut tags: Vec<usize> = (0..groups.names.len()).collect();
        tags.sort_by_key(|tag| Reverse(groups.rows(*tag, 0).len()));
        tags.truncate(max);
        tags.sort_unstable();
        let name = |tag: usize| String::from_utf8_lossy(groups.names.get(tag)).into_owned();
        tags.into_iter().map(name).collect()
    }

    /// Returns the place of a row among all rows with the highest value of a field first, from 1, and the number of rows
    /// with a value; `None` if its value is not known.
    pub(super) fn rank(&self, row: usize, sort: SortField) -> Option<(u64, u64)> {
        if self.ranks(sort)[row].get() == 0 {
            return None;
        }
        let key = |row: u32| self.sort_key(row, sort, SortOrder::Desc);
        let own = key(u32::try_from(row).ok()?);
        let order = self.in_order(sort, SortOrder::Desc);
        let before = order.partition_point(|other| key(other.get()) < own);
        let known = order.partition_point(|other| key(other.get()) < u64::from(u32::MAX) << 32);
        Some((before as u64 + 1, known as u64))
    }

    pub(super) fn in_order(&self, sort: SortField, order: SortOrder) -> &[U32] {
        let rows = self.rows.len();
        &self.orders[ordering(sort, order) * rows..][..rows]
    }

    /// Returns the rank of each row's value of a field, from 1; 0 if it is null.
    pub(super) fn ranks(&self, field: SortField) -> &[U32] {
        let rows = self.rows.len();
        &self.ranks[field as usize * rows..][..rows]
    }

    /// Returns the rank of the first value that is large enough; the rank after the last if none is.
    pub(super) fn first_rank(&self, is_large: impl Fn(u64) -> bool) -> u32 {
        let smaller = self.values.partition_point(|value| !is_large(value.get()));
        u32::try_from(smaller + 1).unwrap_or(u32::MAX)
    }

    /// Returns a number that sorts rows as the ordering does: nulls last, ties by row, which is by
    /// code.
    pub(super) fn sort_key(&self, row: u32, sort: SortField, order: SortOrder) -> u64 {
        let rank = self.ranks(sort)[row as usize].get();
        let rank = match (rank, order) {
            (0, _) => u32::MAX,
            (rank, SortOrder::Asc) => rank - 1,
            (rank, SortOrder::Desc) => u32::MAX - rank,
        };
        u64::from(rank) << 32 | u64::from(row)
    }
}

/// Bytes of a row: a list page has 200. A title and the tags of an island have a kilobyte each, in which
/// every character may be escaped.
const ROW_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the shared end of rows, which a page repeats with each of them. It has 200.
const ROW_END_BYTES_MAX: usize = 1024;
/// Bytes of the name of a group. Pages offer 200 tags, which have as many bytes in a dataset.
const NAME_BYTES_MAX: usize = 1024;

/// Orderings of one set of rows: each sort field in both directions.
pub(crate) const ORDERINGS: usize = SortField::ALL.len() * SortOrder::ALL.len();
/// A group with more than this share of the rows is also stored as a set.
const LARGE_SHARE: usize = 16;

/// The groups of islands by one property, such as the tags.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Their names in ascending order.
    names: Texts,
    /// For each group, its rows in all [`ORDERINGS`], one after the other.
    orders: Lists<U32>,
    of_rows: Lists<U32>,
    /// The members of each large group, by group.
    large: Vec<(usize, RowSet)>,
}

impl Groups {
    pub(crate) fn open(
        file: &SnapshotFile,
        grouping: Grouping,
        rows: usize,
    ) -> Result<Groups, SnapshotError> {
        let [names, orders, of_rows] = Section::of_grouping(grouping);
        let names = file.short_texts(names, None, NAME_BYTES_MAX)?;
        let count = names.len();
        let mut groups = Groups {
            names,
            orders: file.lists(orders, Some(count))?,
            of_rows: file.lists(of_rows, Some(rows))?,
            large: Vec::new(),
        };
        orders.expect_below(groups.orders.all(), rows)?;
        for group in 0..count {
            if !groups.orders.get(group).len().is_multiple_of(ORDERINGS) {
                return Err(orders.malformed("a length is not a multiple of the orderings"));
            }
            let members = groups.rows(group, 0);
            if members.len() > rows / LARGE_SHARE {
                let set = RowSet::new(rows, members.iter().map(|row| row.get()));
                groups.large.push((group, set));
            }
        }
        Ok(groups)
    }

    /// Returns the number of the group with a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name.as_bytes())
    }

    pub(super) fn contain(&self, row: u32, group: usize) -> bool {
        let groups = self.of_rows.get(row as usize);
        groups.iter().any(|other| other.get() as usize == group)
    }

    pub(crate) fn rows(&self, group: usize, ordering: usize) -> &[U32] {
        let orders = self.orders.get(group);
        let members = orders.len() / ORDERINGS;
        &orders[ordering * members..][..members]
    }

    /// Returns the members of a group as a set, which is built if the group is small.
    pub(crate) fn set(&self, group: usize) -> Cow<'_, RowSet> {
        if let Ok(at) = self.large.binary_search_by_key(&group, |(group, _)| *group) {
            return Cow::Borrowed(&self.large[at].1);
        }
        let members = self.rows(group, 0).iter().map(|row| row.get());
        Cow::Owned(RowSet::new(self.of_rows.len(), members))
    }
}

/// Returns the index of an ordering among the [`ORDERINGS`].
pub(crate) fn ordering(sort: SortField, order: SortOrder) -> usize {
    sort as usize * SortOrder::ALL.len() + order as usize
}
