//! The database: all facts that the collector has read, in one `SQLite` file of the state directory.
//!
//! A reply is recorded in one transaction, before the next request. The write-ahead log survives the end of
//! this process; the end of the machine costs the last replies, which are requested again. The tables are
//! described in `data/README.md`.
//!
//! In: SQL of `plan`, `catalogue`, `readings`, `save` and `metrics`. Out: rows, or an error with the path.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row};

use super::error::{CollectError, Result, io_error};
use crate::calendar::UnixSeconds;
use crate::model::IslandCode;

/// Name of the database in the state directory.
pub(super) const NAME: &str = "collect.sqlite";
/// Version of the tables. A database of another version is set aside.
const VERSION: i64 = 1;
/// The log is copied into the database after 256 pages; the page cache has 16 MiB.
const SETTINGS: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 256;
PRAGMA cache_size = -16384;
";
/// Waiting time for another program that reads the database, such as `sqlite3`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Times in Unix seconds, days since 1970. `reading` has a row for each row of `island`; its class is -2 for islands
/// that `--codes` leaves out, -1 for those that are gone until the catalogue shows them again, else that of `rules`.
const TABLES: &str = "
CREATE TABLE island(
  code INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  creator TEXT,
  created_in TEXT,
  tags TEXT NOT NULL,
  first_seen INTEGER NOT NULL
);
CREATE TABLE reading(
  code INTEGER PRIMARY KEY,
  read_at INTEGER NOT NULL DEFAULT 0,
  covered INTEGER NOT NULL,
  quiet INTEGER NOT NULL DEFAULT 0,
  peak INTEGER NOT NULL DEFAULT 0,
  rank INTEGER,
  missing INTEGER NOT NULL DEFAULT 0,
  missing_hour INTEGER NOT NULL DEFAULT 0,
  contradicted_at INTEGER NOT NULL DEFAULT 0,
  postponed_until INTEGER NOT NULL DEFAULT 0,
  class INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX reading_covered ON reading(covered) WHERE class >= 0;
CREATE INDEX reading_never ON reading(rank) WHERE read_at = 0 AND class >= 0;
CREATE INDEX reading_due ON reading(class, due_at) WHERE read_at > 0;
CREATE TABLE value(
  day INTEGER NOT NULL,
  code INTEGER NOT NULL,
  peakCCU INTEGER,
  uniquePlayers INTEGER,
  minutesPlayed INTEGER,
  favorites INTEGER,
  plays INTEGER,
  recommendations INTEGER,
  averageMinutesPerPlayer REAL,
  retentionD1 REAL,
  retentionD7 REAL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY(day, code)
) WITHOUT ROWID;
CREATE TABLE day(day INTEGER PRIMARY KEY, changed_at INTEGER, written_at INTEGER);
CREATE TABLE live_file(step INTEGER PRIMARY KEY);
CREATE TABLE task(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// A number of the table `task`: the time at which something was last completed, or a count. 0 if never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task(&'static str);

impl Task {
    /// End of the last crawl of the whole catalogue that was believed.
    pub(super) const FULL_CRAWL: Task = Task("full_crawl");
    /// End of the last crawl of the newest pages, or of the whole catalogue.
    pub(super) const TOP_CRAWL: Task = Task("top_crawl");
    /// Islands that the last believed full crawl listed.
    pub(super) const BELIEVED_ISLANDS: Task = Task("believed_islands");
    /// Islands that the last full crawl listed.
    pub(super) const LISTED_ISLANDS: Task = Task("listed_islands");
    /// End of the last reading of the genre rankings.
    pub(super) const RANKINGS: Task = Task("rankings");
    /// Last reading of the platform's series, which may not be written yet.
    pub(super) const PLATFORM: Task = Task("platform");
    /// Newest live step that was requested.
    pub(super) const LIVE_STEP: Task = Task("live_step");
    /// Islands of `islands.csv` when it was last written.
    pub(super) const ISLANDS_WRITTEN: Task = Task("islands_written");
    /// 1 if islands have changed since then.
    pub(super) const ISLANDS_CHANGED: Task = Task("islands_changed");
    /// A mark of the codes to which collecting is restricted; 0 for none.
    pub(super) const CODES: Task = Task("codes");
}

impl ToSql for IslandCode {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.number().cast_signed().into())
    }
}

impl FromSql for IslandCode {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<IslandCode> {
        let number = value.as_i64()?;
        let code = u64::try_from(number).ok().and_then(IslandCode::from_number);
        code.ok_or(FromSqlError::OutOfRange(number))
    }
}

#[derive(Debug)]
pub(super) struct Store {
    db: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database of a state directory, or creates it. A damaged one, or one of another version, is set
    /// aside; the returned text says so.
    pub(super) fn open(state: &Path) -> Result<(Store, Option<String>)> {
        match Store::open_sound(&state.join(NAME)) {
            Err(CollectError::Damaged(problem)) => {
                let aside = set_aside(state)?;
                let store = Store::open_sound(&state.join(NAME))?;
                let problem = format!("{problem}; it is now {}", aside.display());
                Ok((store, Some(problem)))
            }
            opened => Ok((opened?, None)),
        }
    }

    fn open_sound(path: &Path) -> Result<Store> {
        let store = Store::connect(path, OpenFlags::default())?;
        store.run(|db| db.execute_batch(SETTINGS))?;
        let check = store.row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))?;
        let version = || store.number("PRAGMA user_version", []);
        if version()? == 0 && store.number("SELECT count(*) FROM sqlite_schema", [])? == 0 {
            let tables = format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT");
            store.run(|db| db.execute_batch(&tables))?;
        }
        let problem = match (check.as_deref(), version()?) {
            (Some("ok"), VERSION) => return Ok(store),
            (Some("ok"), version) => {
                format!("has version {version}, and this program reads version {VERSION}")
            }
            (check, _) => format!("is damaged: {}", check.unwrap_or_default()),
        };
        let shown = path.display();
        Err(CollectError::Damaged(format!(
            "the database {shown} {problem}"
        )))
    }

    /// Opens the database of a state directory for reading; an empty one in memory if there is none.
    pub(super) fn open_read_only(state: &Path) -> Result<Store> {
        let path = state.join(NAME);
        if !path.exists() {
            return Store::open_sound(Path::new(":memory:"));
        }
        let store = Store::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // Fails if the tables are others.
        store.number("SELECT count(*) FROM task", [])?;
        Ok(store)
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Store> {
        let opened = Connection::open_with_flags(path, flags).and_then(|db| {
            db.busy_timeout(BUSY_TIMEOUT)?;
            db.set_prepared_statement_cache_capacity(64);
            // Plans do not depend on bound values: otherwise, each other class prepares its query again.
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            let path = path.to_owned();
            Ok(Store { db, path })
        });
        opened.map_err(|error| database_error(path, &error))
    }

    fn run<T>(&self, action: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        action(&self.db).map_err(|error| database_error(&self.path, &error))
    }

    /// Runs statements in one transaction, which is rolled back on an error.
    pub(super) fn write<T>(&self, action: impl FnOnce() -> Result<T>) -> Result<T> {
        let error = |error| database_error(&self.path, &error);
        let transaction = self.db.unchecked_transaction().map_err(error)?;
        let result = action()?;
        transaction.commit().map_err(error)?;
        Ok(result)
    }

    /// Runs a statement. Returns the number of rows that it changed.
    pub(super) fn execute(&self, sql: &str, values: impl Params) -> Result<usize> {
        self.run(|db| db.prepare_cached(sql)?.execute(values))
    }

    /// Returns the rows of a query.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.run(|db| db.prepare_cached(sql)?.query_map(values, read)?.collect())
    }

    /// Returns the row of a query that has at most one.
    pub(super) fn row<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, values, read)?.pop())
    }

    /// Returns the number that a query gives; 0 if it has no row.
    pub(super) fn number(&self, sql: &str, values: impl Params) -> Result<i64> {
        let number = self.row(sql, values, |row| row.get(0))?;
        Ok(number.unwrap_or(0))
    }

    pub(super) fn task(&self, task: Task) -> Result<i64> {
        self.number("SELECT value FROM task WHERE name = ?1", [task.0])
    }

    pub(super) fn set_task(&self, task: Task, value: i64) -> Result<()> {
        let sql =
            "INSERT INTO task VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
        self.execute(sql, (task.0, value)).map(drop)
    }

    /// Forgets what is later than now: after the clock was set back, nothing would be due before then. The
    /// islands concerned are requested again.
    pub(super) fn forget_after(&self, now: UnixSeconds) -> Result<()> {
        for sql in [
            "UPDATE task SET value = min(value, ?1)",
            "UPDATE reading SET read_at = min(read_at, ?1), covered = min(covered, ?1 / 86400 - 8), due_at = 0
             WHERE read_at > ?1 OR covered >= ?1 / 86400",
            "UPDATE reading SET postponed_until = min(postponed_until, ?1), contradicted_at = min(contradicted_at, ?1)
             WHERE postponed_until > ?1 OR contradicted_at > ?1",
            "UPDATE day SET changed_at = min(changed_at, ?1), written_at = min(written_at, ?1)",
        ] {
            self.execute(sql, [now.0])?;
        }
        Ok(())
    }

    /// Bytes of the database and its write-ahead log.
    pub(super) fn bytes(&self) -> u64 {
        let length = |suffix: &str| {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            Path::new(&path).metadata().map_or(0, |found| found.len())
        };
        length("") + length("-wal")
    }
}

/// Renames the database of a state directory, so that a new one can take its place. Returns its new path.
pub(super) fn set_aside(state: &Path) -> Result<PathBuf> {
    let aside = state.join(format!("{NAME}.aside"));
    for suffix in ["", "-wal", "-shm"] {
        let from = state.join(format!("{NAME}{suffix}"));
        let to = state.join(format!("{NAME}.aside{suffix}"));
        match std::fs::rename(&from, &to) {
            // A log of the one that was set aside before must not join this one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => crate::durable::remove(&to),
            renamed => renamed,
        }
        .map_err(io_error("set aside", &from))?;
    }
    Ok(aside)
}

fn database_error(path: &Path, error: &rusqlite::Error) -> CollectError {
    let code = error.sqlite_error_code();
    if let Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) = code {
        return CollectError::Damaged(format!(
            "the database {} is damaged: {error}",
            path.display()
        ));
    }
    let extended = error
        .sqlite_error()
        .map_or(0, |failure| failure.extended_code);
    // The text of this code is "disk I/O error".
    if extended == rusqlite::ffi::SQLITE_IOERR_SHMSIZE {
        return io_error("use the database", path)(io::Error::new(
            io::ErrorKind::StorageFull,
            "No space left on device",
        ));
    }
    io_error("use the database", path)(io::Error::other(format!("{error} (code {extended})")))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
