//! The history payload, opened: islands, creators, rankings and new islands.

use std::borrow::Cow;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::damage::Damage;
use super::error::SnapshotError;
use super::file::{Section, SnapshotFile};
use super::groups::{Groups, ORDERINGS};
use super::identity::Identity;
use super::list_page::{Frame, PageTags};
use super::pace::both;
use super::response_cache::ResponseCache;
use super::row_set::RowSet;
use super::search::{SLUGS, TITLES, TextIndex};
use super::storage::Storage;
use super::views::{Ints, IntsView, Longs};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{CreatedIn, IslandCode, SortField, SortOrder};

/// `RowCreators` holds this where an island has no creator.
pub(crate) const NO_CREATOR: u32 = u32::MAX;

/// When a payload was published and what is counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The publish timestamp.
    pub published: UnixSeconds,
    /// Islands, creators, islands with a CCU history, ranking days, days of new islands.
    pub counts: [u64; 5],
}

impl Stamp {
    /// As it stands in a file: six little-endian 64-bit words.
    pub fn to_bytes(self) -> Vec<u8> {
        let counts = self.counts.into_iter().flat_map(u64::to_le_bytes);
        self.published
            .0
            .to_le_bytes()
            .into_iter()
            .chain(counts)
            .collect()
    }

    pub(crate) fn open(file: &SnapshotFile) -> Result<Stamp, SnapshotError> {
        let words = file.longs(Section::Stamp, 6)?;
        let published = UnixSeconds(words.get(0).cast_signed());
        if !published.has_text() {
            return Err(SnapshotError::malformed(
                "section Stamp",
                "its time is not in the years 1970 to 9999",
            ));
        }
        Ok(Stamp {
            published,
            counts: std::array::from_fn(|at| words.get(at + 1)),
        })
    }
}

/// The bodies of the history payload that exist once.
#[derive(Clone, Copy, Debug)]
pub(super) enum FixedHistory {
    /// `/v1/rankings`
    RankingDays,
    /// `/v1/new`
    NewDays,
}

/// The history payload.
#[derive(Debug)]
pub struct History {
    pub(crate) stamp: Stamp,
    identity: Identity,
    days: Vec<UtcDay>,
    codes: Longs,
    row_text: Bytes,
    row_ends: Longs,
    levels: Ints,
    orders: Ints,
    tag_names: (Bytes, Longs),
    tags: Groups,
    row_tags: (Ints, Ints),
    row_creators: Ints,
    creators: Groups,
    row_tools: Bytes,
    tools: Groups,
    pub(crate) titles: TextIndex,
    creator_rows: (Bytes, Longs),
    creator_slugs: (Bytes, Longs),
    creators_by_slug: Ints,
    pub(crate) slugs: TextIndex,
    pub(crate) bodies: Bodies,
    pub(crate) island_frame: Frame,
    pub(crate) creator_frame: Frame,
    pub(crate) page_tags: PageTags,
    pub(crate) cache: ResponseCache,
}

impl History {
    /// Opens the payload; its cache takes at most `memory_bytes`.
    pub fn open(storage: Storage, memory_bytes: usize) -> Result<History, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let stamp = Stamp::open(&file)?;
        let identity = file.identity(stamp.published);
        let texts = |text, ends| -> Result<(Bytes, Longs), SnapshotError> {
            let text = file.section(text)?;
            let ends = file.bounds(ends, text.len())?;
            Ok((text, ends))
        };
        let (row_text, row_ends) = texts(Section::RowText, Section::RowEnds)?;
        let rows = row_ends.len() - 1;
        let creator_rows = texts(Section::CreatorRowText, Section::CreatorRowEnds)?;
        let creator_count = creator_rows.1.len() - 1;
        let day_words = Ints(file.section(Section::Days)?);
        let days: Vec<UtcDay> = day_words
            .view()
            .iter()
            .map(|day| UtcDay(day.cast_signed()))
            .collect();
        let counts = [rows, rows, creator_count, days.len(), days.len(), 2];
        let ([titles, slugs], [tags, creators, tools]) = indexes_and_groups(&file, rows)?;
        let frames = file.section(Section::Frames)?;
        let (island_frame, creator_frame) = Frame::pair(&frames)?;
        let history = History {
            stamp,
            codes: file.longs(Section::Codes, rows)?,
            row_text,
            row_ends,
            levels: file.ints(Section::Levels, rows * SortField::ALL.len())?,
            orders: file.positions(Section::Orders, 1, rows)?,
            tag_names: texts(Section::TagNames, Section::TagNameEnds)?,
            tags,
            row_tags: row_tags(&file, rows)?,
            row_creators: file.ints(Section::RowCreators, rows)?,
            creators,
            row_tools: file.section(Section::RowTools)?,
            tools,
            titles,
            creator_slugs: texts(Section::CreatorSlugs, Section::CreatorSlugEnds)?,
            creators_by_slug: file.positions(Section::CreatorsBySlug, 1, creator_count)?,
            slugs,
            days,
            creator_rows,
            island_frame,
            creator_frame,
            page_tags: PageTags::new(stamp.published, identity.checksum),
            cache: ResponseCache::new(memory_bytes),
            identity,
            bodies: Bodies::open(file, counts, stamp.published)?,
        };
        history.check_lengths(rows, creator_count)?;
        Ok(history)
    }

    fn check_lengths(&self, rows: usize, creators: usize) -> Result<(), SnapshotError> {
        let sound = [
            ("orders", self.orders.len() == rows * ORDERINGS),
            ("tag names", self.tag_names.1.len() - 1 == self.tags.len()),
            ("creator groups", self.creators.len() == creators),
            (
                "tools",
                self.tools.len() == CreatedIn::ALL.len() && self.row_tools.len() == rows,
            ),
            ("titles", self.titles.len() == rows),
            (
                "creator slugs",
                self.creator_slugs.1.len() - 1 == creators && self.slugs.len() == creators,
            ),
            ("creators by slug", self.creators_by_slug.len() == creators),
            ("days", self.days.is_sorted()),
        ];
        match sound.into_iter().find(|(_, sound)| !sound) {
            Some((part, _)) => Err(SnapshotError::malformed(
                part,
                "its length does not fit the others",
            )),
            None => Ok(()),
        }
    }

    /// What the payload is known by.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// What was wrong with bodies that were asked for.
    pub fn damage(&self) -> &Arc<Damage> {
        self.bodies.damage()
    }

    /// Returns `true` if the file that is `named` now is another one than that opened.
    pub fn is_superseded(&self, named: &File) -> bool {
        self.bodies.storage().is_superseded(named)
    }

    /// Days held, ascending.
    pub(crate) fn days(&self) -> &[UtcDay] {
        &self.days
    }

    pub(crate) fn island_rows(&self) -> usize {
        self.codes.len()
    }

    pub(crate) fn creator_count(&self) -> usize {
        self.creators.len()
    }

    /// The JSON of an island's row in lists.
    pub(crate) fn island_row(&self, row: u32) -> &[u8] {
        &self.row_text[self.row_ends.index(row as usize)..self.row_ends.index(row as usize + 1)]
    }

    /// The JSON of a creator's row in lists. Creators are numbered in list order.
    pub(crate) fn creator_row(&self, creator: u32) -> &[u8] {
        let (text, ends) = &self.creator_rows;
        &text[ends.index(creator as usize)..ends.index(creator as usize + 1)]
    }

    /// An island's place, by its code.
    pub(crate) fn find_island(&self, code: IslandCode) -> Option<usize> {
        search(self.codes.len(), |at| {
            self.codes.get(at).cmp(&code.number())
        })
    }

    /// A creator's number, by its slug.
    pub(crate) fn find_creator(&self, slug: &str) -> Option<usize> {
        let (text, ends) = &self.creator_slugs;
        let slug_of = |creator: usize| &text[ends.index(creator)..ends.index(creator + 1)];
        let number = |at: usize| self.creators_by_slug.get(at) as usize;
        search(self.creator_count(), |at| {
            slug_of(number(at)).cmp(slug.as_bytes())
        })
        .map(number)
    }

    pub(crate) fn find_tag(&self, name: &str) -> Option<usize> {
        let (text, ends) = &self.tag_names;
        search(self.tags.len(), |at| {
            text[ends.index(at)..ends.index(at + 1)].cmp(name.as_bytes())
        })
    }

    pub(crate) fn find_day(&self, day: UtcDay) -> Option<usize> {
        self.days.binary_search(&day).ok()
    }

    /// All rows in one ordering.
    pub(crate) fn all_rows(&self, ordering: usize) -> IntsView<'_> {
        let rows = self.island_rows();
        let from = ordering * rows;
        self.orders.view().slice(from..from + rows)
    }

    pub(crate) fn tag_rows(&self, tag: usize, ordering: usize) -> IntsView<'_> {
        self.tags.rows(tag, ordering)
    }

    pub(crate) fn creator_rows(&self, creator: usize, ordering: usize) -> IntsView<'_> {
        self.creators.rows(creator, ordering)
    }

    pub(crate) fn tool_rows(&self, tool: CreatedIn, ordering: usize) -> IntsView<'_> {
        self.tools.rows(tool as usize, ordering)
    }

    pub(crate) fn tag_set(&self, tag: usize) -> Cow<'_, RowSet> {
        self.tags.set(tag)
    }

    pub(crate) fn creator_set(&self, creator: usize) -> Cow<'_, RowSet> {
        self.creators.set(creator)
    }

    pub(crate) fn tool_set(&self, tool: CreatedIn) -> Cow<'_, RowSet> {
        self.tools.set(tool as usize)
    }

    pub(crate) fn row_has_tag(&self, row: u32, tag: usize) -> bool {
        let (starts, tags) = &self.row_tags;
        let range = starts.get(row as usize) as usize..starts.get(row as usize + 1) as usize;
        let mut held = tags.view().slice(range).iter();
        held.any(|found| found as usize == tag)
    }

    pub(crate) fn row_has_creator(&self, row: u32, creator: usize) -> bool {
        let found = self.row_creators.get(row as usize);
        found != NO_CREATOR && found as usize == creator
    }

    pub(crate) fn row_has_tool(&self, row: u32, tool: CreatedIn) -> bool {
        self.row_tools[row as usize] == tool as u8
    }

    /// A number that sorts rows as the ordering does: nulls last, ties by row, which is by code.
    pub(crate) fn sort_key(&self, row: u32, sort: SortField, order: SortOrder) -> u64 {
        let level = self
            .levels
            .get(sort as usize * self.island_rows() + row as usize);
        let level = match (level, order) {
            (0, _) => u32::MAX,
            (level, SortOrder::Asc) => level - 1,
            (level, SortOrder::Desc) => u32::MAX - level,
        };
        u64::from(level) << 32 | u64::from(row)
    }
}

/// The indexes over titles and slugs, and the groups of tags, creators and tools: what takes longest to
/// check, in two halves that take about as long.
fn indexes_and_groups(
    file: &SnapshotFile,
    rows: usize,
) -> Result<([TextIndex; 2], [Groups; 3]), SnapshotError> {
    let groups = |starts, orders| Groups::open(file, starts, orders, rows);
    let (indexes, groups) = both(
        || -> Result<_, SnapshotError> {
            let titles = TextIndex::open(file, &TITLES)?;
            Ok([titles, TextIndex::open(file, &SLUGS)?])
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

/// Where each row's tags begin among the tags of all rows, and those.
fn row_tags(file: &SnapshotFile, rows: usize) -> Result<(Ints, Ints), SnapshotError> {
    let tags = file.positions(Section::RowTags, 1, usize::MAX)?;
    let starts = file.ints(Section::RowTagStarts, rows + 1)?;
    let in_order = (1..=rows).all(|at| starts.get(at - 1) <= starts.get(at));
    if in_order && starts.get(rows) as usize == tags.len() {
        return Ok((starts, tags));
    }
    Err(SnapshotError::malformed(
        "section RowTagStarts",
        "its offsets are not in order",
    ))
}

fn search(count: usize, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}
