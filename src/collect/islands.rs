//! Islands of the catalogue in the database: those that a page lists, those of a dataset, and their ranks.

use std::collections::{BTreeSet, HashMap};

use super::error::Result;
use super::store::{Store, Task};
use crate::calendar::UnixSeconds;
use crate::dataset::Island;
use crate::model::{CreatedIn, CreatorSlug, IslandCode};

/// Records the islands of a page of the catalogue. Islands that were gone are back.
pub(super) fn record_page(store: &Store, islands: &[Island], now: UnixSeconds) -> Result<()> {
    let mut changes = 0;
    for island in islands {
        let sql = "INSERT INTO island VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET
             title = excluded.title, creator = excluded.creator, created_in = excluded.created_in,
             tags = excluded.tags
             WHERE (title, creator, created_in, tags)
               IS NOT (excluded.title, excluded.creator, excluded.created_in, excluded.tags)";
        changes += insert(store, sql, island, now)?;
        let sql = "UPDATE reading SET class = 0, due_at = 0 WHERE code = ?1 AND class < 0";
        store.execute(sql, [island.code])?;
    }
    if changes > 0 {
        store.set_task(Task::ISLANDS_CHANGED, 1)?;
    }
    Ok(())
}

fn insert(store: &Store, sql: &str, island: &Island, now: UnixSeconds) -> Result<usize> {
    let creator = island.creator.as_ref().map(CreatorSlug::as_str);
    let created_in = island.created_in.map(CreatedIn::as_str);
    let (code, today) = (island.code, now.day().0);
    let values = (
        code,
        &*island.title,
        creator,
        created_in,
        &*island.tags,
        today,
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
        let sql = "INSERT OR IGNORE INTO island VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        known += i64::from(insert(store, sql, island, now)? == 0);
    }
    if count(store)? != islands.len().try_into().unwrap_or(i64::MAX) {
        store.set_task(Task::ISLANDS_CHANGED, 1)?;
    }
    Ok(known * 2 >= store.task(Task::ISLANDS_WRITTEN)?)
}

/// Takes all islands but the chosen ones out of the queues, and returns those that are chosen again. If others were
/// chosen before, the catalogue is due, which has those that are not known.
pub(super) fn restrict(store: &Store, chosen: Option<&BTreeSet<IslandCode>>) -> Result<()> {
    let numbers = chosen.map(|codes| codes.iter().map(|code| code.number()));
    let numbers: Option<Vec<u64>> = numbers.map(Iterator::collect);
    let sum = |sum: u64, number: &u64| sum.wrapping_mul(31).wrapping_add(*number);
    // Smaller than times, which a clock that is set back reduces in the same table.
    let mark = |numbers: &Vec<u64>| 1 + numbers.iter().fold(0, sum) % (1 << 30);
    let mark = numbers.as_ref().map_or(0, mark).cast_signed();
    if store.task(Task::CODES)? != mark {
        store.set_task(Task::CODES, mark)?;
        store.set_task(Task::FULL_CRAWL, 0)?;
    }
    let list = numbers.map(|numbers| format!("{numbers:?}"));
    for sql in [
        "UPDATE reading SET class = 0, due_at = 0
         WHERE class = -2 AND (?1 IS NULL OR code IN (SELECT value FROM json_each(?1)))",
        "UPDATE reading SET class = -2
         WHERE class <> -2 AND ?1 IS NOT NULL AND code NOT IN (SELECT value FROM json_each(?1))",
    ] {
        store.execute(sql, [&list])?;
    }
    Ok(())
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

pub(super) fn has(store: &Store, code: IslandCode) -> Result<bool> {
    let found = store.number("SELECT 1 FROM island WHERE code = ?1", [code])?;
    Ok(found == 1)
}

/// Replaces the genre ranks, which order a cold start and wake inactive islands. Unknown codes are ignored.
pub(super) fn set_ranks(
    store: &Store,
    ranks: &HashMap<IslandCode, u32, ahash::RandomState>,
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
    let sql = "UPDATE reading SET rank = ranked.value ->> 1,
           due_at = iif(class = 0, min(due_at, ?2), due_at), class = max(class, 1)
         FROM json_each(?1) AS ranked
         WHERE reading.code = ranked.value ->> 0 AND class >= 0 AND (rank IS NULL OR read_at = 0)";
    store.execute(sql, (&pairs, now.0))?;
    store.set_task(Task::RANKINGS, now.0)
}
