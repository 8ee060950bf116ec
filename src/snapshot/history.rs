//! The history payload, opened: islands, creators, rankings and new islands.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fs::File;
use std::sync::Arc;

use zerocopy::little_endian::{U32, U64};

use super::error::{CorruptionLog, SnapshotError};
use super::file::{BodySlice, Identity, SectionSlice, SnapshotFile, Texts, U32Slice, U64Slice};
use super::format::Section;
use super::list_page::PageTemplate;
use super::response_cache::ResponseCache;
use super::row_set::RowSet;
use super::search::{SLUGS, TITLES, TextIndex};
use super::storage::Storage;
use super::throttle::{join, yield_point};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{CreatedIn, IslandCode, SortField, SortOrder};

/// The publish timestamp of a payload and the counts of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The publish timestamp.
    pub published: UnixSeconds,
    /// Islands, creators, islands with a CCU history, ranking days, days of new islands.
    pub counts: [u64; 5],
}

impl Stamp {
    /// Encodes the stamp as in a file: six little-endian 64-bit words.
    pub fn to_bytes(self) -> Vec<u8> {
        let published = self.published.0.cast_unsigned();
        let words = [published].into_iter().chain(self.counts);
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn open(file: &SnapshotFile) -> Result<Stamp, SnapshotError> {
        let words = file.slice::<U64>(Section::Stamp, 6)?;
        let published = UnixSeconds(words[0].get().cast_signed());
        if !published.has_text() {
            return Err(Section::Stamp.malformed("its time is not in the years 1970 to 9999"));
        }
        Ok(Stamp {
            published,
            counts: std::array::from_fn(|at| words[at + 1].get()),
        })
    }
}

/// A family of groups of islands by which lists are filtered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    Tags,
    Creators,
    Tools,
}

/// The history payload.
#[derive(Debug)]
pub struct History {
    pub(super) stamp: Stamp,
    /// The identity of the payload file.
    pub identity: Identity,
    pub(super) days: Vec<UtcDay>,
    codes: U64Slice,
    /// The JSON of each island in lists.
    pub(super) rows: Texts,
    ranks: U32Slice,
    /// All rows in each of the [`ORDERINGS`].
    pub(super) orders: U32Slice,
    tag_names: Texts,
    /// The groups of each [`Family`].
    groups: [Groups; 3],
    row_tags: (U32Slice, U32Slice),
    row_creators: U32Slice,
    row_tools: SectionSlice<u8>,
    pub(super) titles: TextIndex,
    /// The JSON of each creator in lists. Creators are numbered in list order.
    pub(super) creator_rows: Texts,
    creator_slugs: Texts,
    creators_by_slug: U32Slice,
    pub(super) slugs: TextIndex,
    /// The bodies of each section from [`Section::IslandBodies`] on.
    pub(super) bodies: [BodySlice; 6],
    pub(super) island_template: PageTemplate,
    pub(super) creator_template: PageTemplate,
    pub(super) cache: ResponseCache,
    pub(super) storage: Storage,
    /// The errors of bodies that were requested.
    pub corruption: Arc<CorruptionLog>,
}

impl History {
    /// Opens the payload; its cache takes at most `memory_bytes`.
    pub fn open(storage: Storage, memory_bytes: usize) -> Result<History, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let stamp = Stamp::open(&file)?;
        let identity = file.identity(stamp.published);
        let codes: U64Slice = file.items(Section::Codes)?;
        let islands = codes.len();
        let creators = file.items::<U32>(Section::CreatorsBySlug)?.len();
        let day_words: U32Slice = file.items(Section::Days)?;
        let day = |day: &U32| UtcDay(day.get().cast_signed());
        let days: Vec<UtcDay> = day_words.iter().map(day).collect();
        if !days.is_sorted() {
            return Err(Section::Days.malformed("its days are not in order"));
        }
        let ([titles, slugs], groups) = indexes_and_groups(&file, islands, creators)?;
        let [tags, creator_groups, tools] = &groups;
        let [island_template, creator_template] =
            PageTemplate::pair(&file.section(Section::PageTemplates)?)?;
        let orders = file.positions(Section::Orders, islands)?;
        Section::Orders.expect_items(orders.len(), islands * ORDERINGS)?;
        Section::CreatorStarts.expect_items(creator_groups.len(), creators)?;
        Section::ToolStarts.expect_items(tools.len(), CreatedIn::ALL.len())?;
        Ok(History {
            stamp,
            codes,
            rows: file.texts(Section::RowText, Section::RowEnds, islands)?,
            ranks: file.slice(Section::Ranks, islands * SortField::ALL.len())?,
            orders,
            tag_names: file.texts(Section::TagNames, Section::TagNameEnds, tags.len())?,
            groups,
            row_tags: row_tags(&file, islands)?,
            row_creators: file.slice(Section::RowCreators, islands)?,
            row_tools: file.slice(Section::RowTools, islands)?,
            titles,
            creator_rows: file.texts(Section::CreatorRowText, Section::CreatorRowEnds, creators)?,
            creator_slugs: file.texts(Section::CreatorSlugs, Section::CreatorSlugEnds, creators)?,
            creators_by_slug: file.positions(Section::CreatorsBySlug, creators)?,
            slugs,
            bodies: [
                file.bodies(Section::IslandBodies, islands)?,
                file.bodies(Section::CcuBodies, islands)?,
                file.bodies(Section::CreatorBodies, creators)?,
                file.bodies(Section::RankingBodies, days.len())?,
                file.bodies(Section::NewBodies, days.len())?,
                file.bodies(Section::FixedBodies, 2)?,
            ],
            days,
            island_template,
            creator_template,
            cache: ResponseCache::new(memory_bytes),
            identity,
            storage: file.storage,
            corruption: Arc::default(),
        })
    }

    /// Returns `true` if `named` is another file than the one opened.
    pub fn is_superseded(&self, named: &File) -> bool {
        self.storage.is_superseded(named)
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
        let groups = self.groups(Family::Tags);
        let mut tags: Vec<usize> = (0..groups.len()).collect();
        tags.sort_by_key(|tag| Reverse(groups.rows(*tag, 0).len()));
        tags.truncate(max);
        tags.sort_unstable();
        let name = |tag: usize| String::from_utf8_lossy(self.tag_names.get(tag)).into_owned();
        tags.into_iter().map(name).collect()
    }

    pub(super) fn find_tag(&self, name: &str) -> Option<usize> {
        self.tag_names.find(name.as_bytes())
    }

    pub(super) fn groups(&self, family: Family) -> &Groups {
        &self.groups[family as usize]
    }

    pub(super) fn is_in_group(&self, row: u32, (family, group): (Family, usize)) -> bool {
        let row = row as usize;
        match family {
            Family::Tags => {
                let (starts, tags) = &self.row_tags;
                let range = starts[row].get() as usize..starts[row + 1].get() as usize;
                let mut tags = tags[range].iter();
                tags.any(|tag| tag.get() as usize == group)
            }
            Family::Creators => self.row_creators[row].get() as usize == group,
            Family::Tools => usize::from(self.row_tools[row]) == group,
        }
    }

    /// Returns a number that sorts rows as the ordering does: nulls last, ties by row, which is by
    /// code.
    pub(super) fn sort_key(&self, row: u32, sort: SortField, order: SortOrder) -> u64 {
        let rank = self.ranks[sort as usize * self.rows.len() + row as usize].get();
        let rank = match (rank, order) {
            (0, _) => u32::MAX,
            (rank, SortOrder::Asc) => rank - 1,
            (rank, SortOrder::Desc) => u32::MAX - rank,
        };
        u64::from(rank) << 32 | u64::from(row)
    }
}

/// Opens the indexes over titles and slugs, and the groups of tags, creators and tools: the parts
/// that take longest to verify, in two halves that take about equally long.
fn indexes_and_groups(
    file: &SnapshotFile,
    islands: usize,
    creators: usize,
) -> Result<([TextIndex; 2], [Groups; 3]), SnapshotError> {
    let groups = |starts, orders| Groups::open(file, (starts, orders), islands);
    let (indexes, groups) = join(
        || -> Result<_, SnapshotError> {
            let titles = TextIndex::open(file, TITLES, islands)?;
            Ok([titles, TextIndex::open(file, SLUGS, creators)?])
        },
        || -> Result<_, SnapshotError> {
            let tags = groups(Section::TagStarts, Section::TagOrders)?;
            let creators = groups(Section::CreatorStarts, Section::CreatorOrders)?;
            let tools = groups(Section::ToolStarts, Section::ToolOrders)?;
            Ok([tags, creators, tools])
        },
    );
    Ok((indexes?, groups?))
}

/// Returns the start of each row's tags among the tags of all rows, and those tags.
fn row_tags(file: &SnapshotFile, islands: usize) -> Result<(U32Slice, U32Slice), SnapshotError> {
    let tags: U32Slice = file.items(Section::RowTags)?;
    let starts: U32Slice = file.slice(Section::RowTagStarts, islands + 1)?;
    if starts.is_sorted_by_key(|start| start.get()) && starts[islands].get() as usize == tags.len()
    {
        return Ok((starts, tags));
    }
    Err(Section::RowTagStarts.malformed("its offsets are not in order"))
}

/// Orderings of one set of rows: each sort field in both directions.
pub(crate) const ORDERINGS: usize = SortField::ALL.len() * SortOrder::ALL.len();
/// A group with more than this share of the rows is also stored as a set.
const LARGE_SHARE: usize = 16;

/// The row vectors of a family of groups, such as the tags: for each group, its rows in all
/// [`ORDERINGS`].
#[derive(Debug)]
pub(crate) struct Groups {
    starts: U64Slice,
    orders: U32Slice,
    /// The members of each large group, by group.
    large: Vec<(usize, RowSet)>,
    rows: usize,
}

impl Groups {
    pub(crate) fn open(
        file: &SnapshotFile,
        (starts, orders): (Section, Section),
        rows: usize,
    ) -> Result<Groups, SnapshotError> {
        let vectors = file.positions(orders, rows)?;
        if !vectors.len().is_multiple_of(ORDERINGS) {
            return Err(orders.malformed("its length is not a multiple of the orderings"));
        }
        let mut groups = Groups {
            starts: file.bounds(starts, vectors.len() / ORDERINGS)?,
            orders: vectors,
            large: Vec::new(),
            rows,
        };
        for group in 0..groups.len() {
            yield_point(group);
            let members = groups.rows(group, 0);
            if members.len() > rows / LARGE_SHARE {
                let set = RowSet::new(rows, members.iter().map(|row| row.get()));
                groups.large.push((group, set));
            }
        }
        Ok(groups)
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn rows(&self, group: usize, ordering: usize) -> &[U32] {
        let (start, end) = (self.starts.index(group), self.starts.index(group + 1));
        let from = start * ORDERINGS + ordering * (end - start);
        &self.orders[from..from + end - start]
    }

    /// Returns the members of a group as a set, which is built if the group is small.
    pub(crate) fn set(&self, group: usize) -> Cow<'_, RowSet> {
        if let Ok(at) = self.large.binary_search_by_key(&group, |(group, _)| *group) {
            return Cow::Borrowed(&self.large[at].1);
        }
        let members = self.rows(group, 0).iter().map(|row| row.get());
        Cow::Owned(RowSet::new(self.rows, members))
    }
}

/// Returns the index of an ordering among the [`ORDERINGS`].
pub(crate) fn ordering(sort: SortField, order: SortOrder) -> usize {
    sort as usize * SortOrder::ALL.len() + order as usize
}
