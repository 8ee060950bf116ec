//! The catalogue: its crawls, and those of the genre rankings, page by page; the islands that they and a dataset list,
//! in the database.

use std::collections::{BTreeSet, HashSet};

use zlib_rs::crc32::crc32;

use super::endpoints::{PAGE_SIZE, Request};
use super::error::Result;
use super::rules;
use super::store::{Store, Task};
use super::wire::Page;
use crate::calendar::UnixSeconds;
use crate::dataset::Island;
use crate::model::{CreatedIn, CreatorSlug, IslandCode};

/// Newest pages of the catalogue that are read every hour. It is not strictly newest first: a full crawl a day
/// finds the islands that were made public later.
const TOP_PAGES: usize = 2;
/// Pages after which a crawl is given up: the upstream never ends it. The real catalogue has 300.
const MAX_PAGES: usize = 5_000;
/// Pages of a genre's ranking that are read: the islands that are played.
const RANKING_PAGES: usize = 3;
/// Genres that are read; the upstream has 13.
const MAX_GENRES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Crawl {
    pub(super) is_full: bool,
    after: Option<String>,
    pub(super) pages: usize,
    /// Islands that the pages listed, and rows that could not be used.
    pub(super) listed: usize,
    pub(super) skipped: usize,
    cursors: HashSet<String, ahash::RandomState>,
}

impl Crawl {
    /// Begins a crawl of the whole catalogue, or of the newest pages.
    pub(super) fn new(is_full: bool) -> Crawl {
        Crawl {
            is_full,
            ..Crawl::default()
        }
    }

    /// Returns the request of the next page.
    pub(super) fn request(&self) -> Request {
        let after = self.after.clone();
        Request::Catalogue { after }
    }

    /// Records a page and the cursor behind it. Returns whether the crawl is done, or an error if the upstream
    /// leads it in a circle.
    pub(super) fn advance(&mut self, next: Option<String>) -> Result<bool, String> {
        self.pages += 1;
        let Some(next) = next else { return Ok(true) };
        if !self.is_full && self.pages == TOP_PAGES {
            return Ok(true);
        }
        if self.pages == MAX_PAGES || !self.cursors.insert(next.clone()) {
            let pages = self.pages;
            return Err(format!(
                "the catalogue does not end: its cursor repeats or continues after {pages} pages"
            ));
        }
        self.after = Some(next);
        Ok(false)
    }
}

/// A reading of the genre rankings.
#[derive(Debug)]
pub(super) struct Rankings {
    /// Genres to read, the next one last.
    genres: Vec<String>,
    after: Option<String>,
    pages: usize,
    /// Those of all genres; an island may have several.
    pub(super) ranks: Vec<(IslandCode, u32)>,
}

impl Rankings {
    pub(super) fn new(mut genres: Vec<String>) -> Rankings {
        genres.truncate(MAX_GENRES);
        Rankings {
            genres,
            after: None,
            pages: 0,
            ranks: Vec::new(),
        }
    }

    /// Returns the request of the next page; `None` if all genres are read.
    pub(super) fn request(&self) -> Option<Request> {
        let (slug, after) = (self.genres.last()?.clone(), self.after.clone());
        Some(Request::Ranking { slug, after })
    }

    pub(super) fn advance(&mut self, page: Page<(IslandCode, u32)>) {
        // However long a page of a faulty upstream is.
        self.ranks.extend(page.rows.into_iter().take(PAGE_SIZE));
        self.pages += 1;
        let is_stuck = page.next == self.after;
        self.after = page.next;
        if self.after.is_none() || is_stuck || self.pages == RANKING_PAGES {
            self.after = None;
            self.pages = 0;
            self.genres.pop();
        }
    }
}

/// Rows of a page from which on a member that all lack is not believed to be gone.
const BELIEVED_ROWS: usize = 10;

/// Records the islands of a page of the catalogue, of the chosen ones. Islands that were gone are back. A member that no
/// row of the page has is not believed to be gone from all, unless there are few: islands keep theirs.
pub(super) fn record_page(
    store: &Store,
    islands: &[Island],
    chosen: Option<&BTreeSet<IslandCode>>,
    now: UnixSeconds,
) -> Result<()> {
    let has: [fn(&Island) -> bool; 4] = [
        |island| !island.title.is_empty(),
        |island| island.creator.is_some(),
        |island| island.created_in.is_some(),
        |island| !island.tags.is_empty(),
    ];
    let is_short = islands.len() < BELIEVED_ROWS;
    let believed = has.map(|has| is_short || islands.iter().any(has));
    let mut changes = 0;
    let is_chosen = |island: &&Island| chosen.is_none_or(|codes| codes.contains(&island.code));
    for island in islands.iter().filter(is_chosen) {
        changes += insert(store, island, believed, now)?;
        let sql = "UPDATE reading SET class = 0, due_at = 0, covered = max(covered, ?2) WHERE code = ?1 AND class < 0";
        store.execute(sql, (island.code, last_lost(now)))?;
    }
    if changes > 0 {
        store.set_task(Task::ISLANDS_CHANGED, 1)?;
    }
    Ok(())
}

/// Returns the newest day that the upstream no longer has. For an island that returns to the plan, days up to it are not
/// at risk, and are no reason for an alert.
fn last_lost(now: UnixSeconds) -> i32 {
    rules::window(now).start.0 - 1
}

/// Adds an island. Replaces the members of a known one that are believed: title, creator, `createdIn`, tags. Returns the
/// number of changes.
fn insert(
    store: &Store,
    island: &Island,
    [title, creator, created_in, tags]: [bool; 4],
    now: UnixSeconds,
) -> Result<usize> {
    let sql = "INSERT INTO island VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET
           title = iif(?7, excluded.title, title), creator = iif(?8, excluded.creator, creator),
           created_in = iif(?9, excluded.created_in, created_in), tags = iif(?10, excluded.tags, tags)
         WHERE ?7 AND title <> excluded.title OR ?8 AND creator IS NOT excluded.creator
           OR ?9 AND created_in IS NOT excluded.created_in OR ?10 AND tags <> excluded.tags";
    let (code, today) = (island.code, now.day().0);
    let slug = island.creator.as_ref().map(CreatorSlug::as_str);
    let tool = island.created_in.map(CreatedIn::as_str);
    let (name, list) = (&*island.title, &*island.tags);
    let values = (
        code, name, slug, tool, list, today, title, creator, created_in, tags,
    );
    let changes = store.execute(sql, values)?;
    if changes > 0 {
        // The day before the one on which an island is first seen may have data.
        let sql = "INSERT OR IGNORE INTO reading(code, covered) VALUES (?1, ?2 - 2)";
        store.execute(sql, (code, today))?;
    }
    Ok(changes)
}

/// Adds the islands of a dataset's `islands.csv` that the database lacks. Returns whether the file has most of the
/// islands that this database wrote to it; else it is that of another dataset.
pub(super) fn adopt(store: &Store, islands: &[Island], now: UnixSeconds) -> Result<bool> {
    let mut known = 0_i64;
    for island in islands {
        known += i64::from(insert(store, island, [false; 4], now)? == 0);
    }
    if count(store)? != islands.len().try_into().unwrap_or(i64::MAX) {
        store.set_task(Task::ISLANDS_CHANGED, 1)?;
    }
    Ok(known * 2 >= store.task(Task::ISLANDS_WRITTEN)?)
}

/// Takes all islands but the chosen ones out of the queues, and returns those that are chosen again. If others were
/// chosen before, the catalogue is due, which has those that are not known.
pub(super) fn restrict(
    store: &Store,
    chosen: Option<&BTreeSet<IslandCode>>,
    now: UnixSeconds,
) -> Result<()> {
    let (list, mark) = list_and_mark(chosen);
    if store.task(Task::CODES)? != mark {
        store.set_task(Task::CODES, mark)?;
        store.set_task(Task::FULL_CRAWL, 0)?;
    }
    let sql =
        "UPDATE reading SET class = iif(class = -2, 0, -2), due_at = 0, covered = max(covered, ?2)
         WHERE (class = -2) <> (?1 IS NOT NULL AND code NOT IN (SELECT value FROM json_each(?1)))";
    store.execute(sql, (&list, last_lost(now)))?;
    Ok(())
}

/// Returns whether the last run had the same islands to choose from.
pub(super) fn is_restricted_to(
    store: &Store,
    chosen: Option<&BTreeSet<IslandCode>>,
) -> Result<bool> {
    Ok(store.task(Task::CODES)? == list_and_mark(chosen).1)
}

fn list_and_mark(chosen: Option<&BTreeSet<IslandCode>>) -> (Option<String>, i64) {
    let numbers = chosen.map(|codes| codes.iter().map(|code| code.number()));
    let list = numbers.map(|numbers| format!("{:?}", numbers.collect::<Vec<_>>()));
    // Smaller than times, which a clock that is set back reduces in the same table.
    let mark = |list: &String| 1 + i64::from(crc32(0, list.as_bytes()) >> 2);
    let mark = list.as_ref().map_or(0, mark);
    (list, mark)
}

pub(super) fn all(store: &Store) -> Result<Vec<Island>> {
    let sql = "SELECT code, title, creator, created_in, tags FROM island ORDER BY code";
    store.rows(sql, [], |row| {
        let [creator, created_in] = [row.get_ref(2)?, row.get_ref(3)?];
        Ok(Island {
            code: row.get(0)?,
            title: row.get(1)?,
            creator: creator.as_str().ok().and_then(|slug| slug.parse().ok()),
            created_in: created_in.as_str().ok().and_then(CreatedIn::parse),
            tags: row.get(4)?,
        })
    })
}

pub(super) fn count(store: &Store) -> Result<i64> {
    store.number("SELECT count(*) FROM island", [])
}

/// Returns how many of these islands are not known.
pub(super) fn unknown(store: &Store, codes: impl Iterator<Item = IslandCode>) -> Result<usize> {
    let is_known = |code| store.number("SELECT 1 FROM island WHERE code = ?1", [code]);
    codes
        .map(|code| Ok(usize::from(is_known(code)? == 0)))
        .sum()
}

/// Replaces the genre ranks, which order a cold start and wake inactive islands. The best rank of an island counts.
/// Unknown codes are ignored.
pub(super) fn set_ranks(
    store: &Store,
    ranks: &[(IslandCode, u32)],
    now: UnixSeconds,
) -> Result<()> {
    let pairs = ranks
        .iter()
        .map(|(code, rank)| [code.number(), (*rank).into()]);
    let pairs = format!("{:?}", pairs.collect::<Vec<_>>());
    let sql = "UPDATE reading SET rank = NULL WHERE rank IS NOT NULL
           AND code NOT IN (SELECT value ->> 0 FROM json_each(?1))";
    store.execute(sql, [&pairs])?;
    // A rank that changed while its island is read daily orders nothing.
    let sql = "UPDATE reading SET rank = best,
           due_at = iif(class = 0, min(due_at, ?2), due_at), class = max(class, 1)
         FROM (SELECT value ->> 0 AS of, min(value ->> 1) AS best FROM json_each(?1) GROUP BY of)
         WHERE code = of AND class >= 0 AND (rank IS NULL OR read_at = 0)";
    store.execute(sql, (&pairs, now.0))?;
    store.set_task(Task::RANKINGS, now.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_crawl_ends_with_its_last_page_and_a_top_crawl_after_two() {
        let cursor = |number: usize| Some(number.to_string());
        let mut crawl = Crawl::new(true);
        assert_eq!(crawl.request(), Request::Catalogue { after: None });
        assert_eq!(crawl.advance(cursor(1)), Ok(false));
        assert_eq!(crawl.request(), Request::Catalogue { after: cursor(1) });
        assert_eq!(crawl.advance(cursor(2)), Ok(false));
        assert_eq!(crawl.advance(None), Ok(true));
        let mut crawl = Crawl::new(false);
        assert_eq!(crawl.advance(cursor(1)), Ok(false));
        assert_eq!(crawl.advance(cursor(2)), Ok(true));
    }

    #[test]
    fn a_catalogue_that_leads_in_a_circle_is_given_up() {
        let mut crawl = Crawl::new(true);
        crawl.advance(Some("a".to_owned())).unwrap();
        crawl.advance(Some("b".to_owned())).unwrap();
        assert!(crawl.advance(Some("a".to_owned())).is_err());
    }

    #[test]
    fn three_pages_of_each_genre_count() {
        let code = |number| IslandCode::from_number(number).unwrap();
        let page = |code, rank, next: Option<&str>| Page {
            rows: vec![(code, rank)],
            skipped: 0,
            next: next.map(str::to_owned),
        };
        let mut rankings = Rankings::new(vec!["b".to_owned(), "a".to_owned()]);
        let mut asked = Vec::new();
        for number in 0..4 {
            asked.push(rankings.request().unwrap().target());
            let next = ["1", "2", "3"].get(number).copied();
            rankings.advance(page(code(1), 10 - u32::try_from(number).unwrap(), next));
        }
        assert_eq!(rankings.request(), None);
        assert_eq!(rankings.ranks, [10, 9, 8, 7].map(|rank| (code(1), rank)));
        let rows = vec![(code(1), 1); 2 * PAGE_SIZE];
        rankings.advance(Page {
            rows,
            ..Page::EMPTY
        });
        assert_eq!(rankings.ranks.len(), 4 + PAGE_SIZE);
        assert_eq!(asked[2], "/genres/a/rankings?size=1000&after=2");
        assert_eq!(asked[3], "/genres/b/rankings?size=1000");
    }
}
