//! What the files hold once every field has been parsed and every code resolved.

use crate::calendar::UnixSeconds;
use crate::model::{CreatedIn, CreatorSlug, IslandCode, SortField};

/// A row of islands.csv.
#[derive(Debug)]
pub struct Island {
    /// Its code, unique.
    pub code: IslandCode,
    /// Its title as written; the empty string where the field is empty.
    pub title: Box<str>,
    /// Who made it, if known.
    pub creator: Option<CreatorSlug>,
    /// What it was made with, if known.
    pub created_in: Option<CreatedIn>,
    /// Its genre tags as written, in their order.
    pub tags: Vec<Box<str>>,
}

/// A row of creators.csv; every member but the slug may be null.
#[derive(Debug)]
pub struct Profile {
    /// Its slug, unique.
    pub slug: CreatorSlug,
    /// The display name.
    pub name: Option<Box<str>>,
    /// Accounts that follow it.
    pub followers: Option<u64>,
    /// Accounts that it follows.
    pub following: Option<u64>,
    /// Plays of all its islands, ever.
    pub lifetime_plays: Option<u64>,
}

/// One held day. Rows are by island ascending, each island at most once in each list.
#[derive(Debug, Default)]
pub struct Day {
    /// daily/DAY.csv.
    pub daily: Vec<DailyRow>,
    /// ccu/DAY.csv, without the islands that `daily` has a row of.
    pub ccu: Vec<CcuRow>,
}

/// A row of a daily file.
#[derive(Clone, Copy, Debug)]
pub struct DailyRow {
    /// Position in [`super::Catalogue::islands`].
    pub island: u32,
    /// The nine metrics.
    pub metrics: Metrics,
}

/// A row of a ccu file.
#[derive(Clone, Copy, Debug)]
pub struct CcuRow {
    /// Position in [`super::Catalogue::islands`].
    pub island: u32,
    /// Its peak that day.
    pub peak_ccu: Option<u64>,
}

/// The nine metrics of an island's day, nulls packed into the values: a year of the platform is
/// 22 million of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    counts: [u64; 6],
    decimals: [f64; 3],
}

impl Metrics {
    /// All nine null.
    pub const NULL: Metrics = Metrics {
        counts: [u64::MAX; 6],
        decimals: [f64::NAN; 3],
    };

    /// From the six counts in the order of [`SortField::ALL`] (each at most 2^53 - 1), then average
    /// minutes per player and the retention after one and after seven days.
    pub fn new(counts: [Option<u64>; 6], decimals: [Option<f64>; 3]) -> Metrics {
        Metrics {
            counts: counts.map(|count| count.unwrap_or(u64::MAX)),
            decimals: decimals.map(|decimal| decimal.unwrap_or(f64::NAN)),
        }
    }

    /// One of the six counts.
    pub fn count(&self, field: SortField) -> Option<u64> {
        let count = self.counts[field as usize];
        (count != u64::MAX).then_some(count)
    }

    /// Minutes played per player.
    pub fn average_minutes_per_player(&self) -> Option<f64> {
        self.decimal(0)
    }

    /// The share of players who came back after one day, from 0 to 1.
    pub fn retention_d1(&self) -> Option<f64> {
        self.decimal(1)
    }

    /// The share of players who came back after seven days, from 0 to 1.
    pub fn retention_d7(&self) -> Option<f64> {
        self.decimal(2)
    }

    fn decimal(&self, at: usize) -> Option<f64> {
        let decimal = self.decimals[at];
        (!decimal.is_nan()).then_some(decimal)
    }
}

/// A file of live/.
#[derive(Debug)]
pub struct LiveStep {
    /// The step's time, a multiple of 600.
    pub time: UnixSeconds,
    /// Island position and players, nulls left out, by island ascending.
    pub players: Vec<(u32, u64)>,
}

impl LiveStep {
    /// All players of the step. A sum of counts may pass 2^64.
    pub fn total(&self) -> u128 {
        let players = self.players.iter().map(|(_, players)| u128::from(*players));
        players.sum()
    }
}
