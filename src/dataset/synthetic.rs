//! Generator of synthetic datasets of any size, in the format of CONTRACT section 3, for benchmarks and
//! trials.
//!
//! In: a [`SyntheticSpec`]. Out: path and content of each file, one file at a time. The same parameters
//! give the same bytes on every machine: the random numbers are splitmix64 and no step uses the
//! platform's libm. The distributions follow figures measured in July 2026 over 30,104 islands.

use std::io::{self, Write as _};

use super::dataset_reader::DatasetReader;
use super::distributions::{
    CLASSES, Curve, LAUNCHES_PER_DAY, SECOND_FACTOR_MAX, STEP_SECONDS, SplitMix64, SyntheticSpec,
    at, count, curve, float, second_factor,
};
use super::rows::{FileKind, write_csv_header};
use super::synthetic_catalogue;
use crate::calendar::UtcDay;
use crate::model::IslandCode;

/// Callback for one file: its path relative to the dataset, and its content.
type WriteFile<'a> = &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>;

/// The notice of data that is made up, as the sample is.
const MADE_UP: &[u8] = include_bytes!("../../data/sample/notice.txt");

/// Generates a dataset and passes its files to `write`, one at a time.
pub fn synthesize(spec: &SyntheticSpec, write: WriteFile<'_>) -> io::Result<()> {
    write(DatasetReader::NOTICE, MADE_UP)?;
    let codes = synthetic_catalogue::write_catalogue(spec, write)?;
    let mut islands = islands(spec, codes);
    let mut file = Vec::new();
    // The last day is always simulated: the live steps are derived from its peaks.
    for before in (0..spec.days.saturating_add(spec.long_run_days).max(1)).rev() {
        let back = i32::try_from(before).map_err(io::Error::other)?;
        let day = UtcDay(spec.last_day.0.saturating_sub(back));
        advance_day(&mut islands, spec, day, before);
        file.clear();
        if before < spec.days {
            daily_file(spec, day, &islands, &mut file)?;
            write(&format!("daily/{day}.csv"), &file)?;
        } else if spec.long_run_days > 0 {
            write_csv_header(&mut file, FileKind::Ccu)?;
            for SyntheticIsland { code, peak, .. } in active(&islands) {
                writeln!(file, "{code},{peak}")?;
            }
            write(&format!("ccu/{day}.csv"), &file)?;
        }
    }
    live_files(spec, &islands, write)
}

struct SyntheticIsland {
    code: IslandCode,
    /// Permanent popularity, in doublings of rank.
    strength: f64,
    /// Slow random walk around it.
    drift: f64,
    /// Remaining boost of a launch or of a temporary trend.
    boost: f64,
    /// Launch day, in days before the last one.
    opened: u64,
    /// Peak of the day; 0 if the island has no row.
    peak: u32,
}

/// Creates the islands from their codes, ascending.
fn islands(spec: &SyntheticSpec, codes: Vec<IslandCode>) -> Vec<SyntheticIsland> {
    let mut random = SplitMix64::new(spec.seed, 10, 0);
    // If the days go far back, a third of the islands are older than all of them.
    let days = spec.days.saturating_add(spec.long_run_days);
    let span = (1.5 * f64::from(days)).max(1.0 / LAUNCHES_PER_DAY);
    let islands = codes.into_iter().map(|code| SyntheticIsland {
        code,
        strength: random.doublings(),
        drift: random.bell() * 0.3,
        boost: 0.0,
        opened: count(random.unit() * span),
        peak: 0,
    });
    islands.collect()
}

/// Iterates over the islands that have a row on the day.
fn active(islands: &[SyntheticIsland]) -> impl Iterator<Item = &SyntheticIsland> {
    islands.iter().filter(|island| island.peak > 0)
}

/// Advances by one day. Each island gets a score, and the measured peaks are assigned by its rank, so that the
/// distribution of peaks is right on every day.
fn advance_day(islands: &mut [SyntheticIsland], spec: &SyntheticSpec, day: UtcDay, before: u32) {
    let mut random = SplitMix64::new(spec.seed, 11, u64::from(day.0.cast_unsigned()));
    let mut ranked: Vec<(u64, usize)> = Vec::with_capacity(islands.len());
    for (number, island) in islands.iter_mut().enumerate() {
        island.peak = 0;
        // Popular islands vary little from day to day (measured: 0.4 instead of 1.1 in the
        // logarithm).
        let sway = if island.strength > 7.0 { 0.2 } else { 1.0 };
        island.drift = island.drift * 0.95 + random.bell() * 0.2 * sway;
        island.boost *= 0.25;
        let (noise, chance) = (random.bell() * 0.45 * sway, random.unit());
        if island.opened < u64::from(before) {
            continue;
        }
        if island.opened == u64::from(before) {
            island.boost = 4.0 + 4.0 * chance;
        } else if chance < 0.03 {
            island.boost = 2.5 + 130.0 * chance;
        }
        // A boost ends below the top 1 %, which only permanent popularity reaches.
        island.boost = island.boost.min((7.2 - island.strength).max(0.0));
        let score = island.strength + island.drift + island.boost + noise;
        ranked.push((count((score + 16.0) * 1e9), number));
    }
    ranked.sort_unstable();
    // Thirty percent of the islands have at least five players on a day.
    let three_in_ten = (islands.len() * 3).div_ceil(10);
    let wanted = spec.rows.map_or(three_in_ten, |rows| rows as usize);
    let active = wanted.min(ranked.len());
    let weekday = at(curve("weekday"), f64::from((day.0 + 3).rem_euclid(7)));
    let first = ranked.len() - active;
    let peaks = curve("peak");
    for (place, (_, number)) in ranked.split_off(first).into_iter().enumerate() {
        let position = (float(place as u64) + 0.5) / float(active as u64);
        let value = at(peaks, position) * weekday * (1.0 + 0.06 * random.bell());
        islands[number].peak = u32::try_from(count(value)).unwrap_or(u32::MAX).max(1);
    }
}

fn daily_file(
    spec: &SyntheticSpec,
    day: UtcDay,
    islands: &[SyntheticIsland],
    file: &mut Vec<u8>,
) -> io::Result<()> {
    write_csv_header(file, FileKind::Daily)?;
    let mut random = SplitMix64::new(spec.seed, 12, u64::from(day.0.cast_unsigned()));
    let ratios = CLASSES.map(|class| {
        [
            "unique_per_peak",
            "minutes_per_unique",
            "plays_per_unique",
            "favorites_per_unique",
            "recommendations_per_unique",
        ]
        .map(|ratio| curve(&format!("{}.{ratio}", class.name)))
    });
    let retentions = ["retention_d1", "retention_d7"].map(curve);
    for SyntheticIsland { code, peak, .. } in active(islands) {
        let peak = *peak;
        // Each island has its own ratios; the day varies them a little, reflected at both ends.
        let mut own = SplitMix64::new(spec.seed, 13, code.number());
        let mut ratio = |curve: &Curve, random: &mut SplitMix64| {
            let swayed = (own.unit() + 0.3 * (random.unit() - 0.5)).abs();
            at(curve, if swayed > 1.0 { 2.0 - swayed } else { swayed })
        };
        let class = CLASSES.iter().position(|class| peak < class.peak_below);
        let class = class.unwrap_or(CLASSES.len() - 1);
        let [unique_per_peak, minutes, plays, favorites, recommendations] = ratios[class];
        let unique = count(f64::from(peak) * ratio(unique_per_peak, &mut random)).max(5);
        let players = float(unique);
        let minutes = count(players * ratio(minutes, &mut random));
        let plays = count(players * ratio(plays, &mut random));
        write!(file, "{code},{peak},{unique},{minutes},")?;
        for (curve, null_share, end) in [
            (favorites, 0.0002, format_args!(",{plays},")),
            (recommendations, 0.0001, format_args!(",")),
        ] {
            let chance = players * ratio(curve, &mut random) + random.unit() - 0.5;
            if random.unit() >= null_share {
                write!(file, "{}", count(chance))?;
            }
            write!(file, "{end}")?;
        }
        let hundredths = (minutes * 100 + unique / 2) / unique;
        write!(file, "{}.{:02}", hundredths / 100, hundredths % 100)?;
        for (curve, null_share) in retentions.into_iter().zip(CLASSES[class].null_shares) {
            let share = count(at(curve, random.unit()));
            file.push(b',');
            if random.unit() >= null_share {
                write!(file, "{}.{:02}", share / 100, share % 100)?;
            }
        }
        file.push(b'\n');
    }
    Ok(())
}

/// Writes `live/` for the six latest steps, and `platform.csv` for a day of steps.
fn live_files(
    spec: &SyntheticSpec,
    islands: &[SyntheticIsland],
    write: WriteFile<'_>,
) -> io::Result<()> {
    let newest = spec.newest_step;
    let mut file = Vec::new();
    for time in (0..6).rev().map(|back| newest - back * STEP_SECONDS) {
        let mut random = SplitMix64::new(spec.seed, 14, time.unsigned_abs());
        let factor = second_factor(time) / SECOND_FACTOR_MAX;
        file.clear();
        write_csv_header(&mut file, FileKind::Live)?;
        for SyntheticIsland { code, peak, .. } in active(islands) {
            let players = count(f64::from(*peak) * factor * (1.0 + 0.1 * random.bell()));
            // One in thirty islands is missing in each step, as are those without players.
            if players > 0 && random.below(30) > 0 {
                writeln!(file, "{code},{players}")?;
            }
        }
        write(&format!("live/{time}.csv"), &file)?;
    }
    // The platform has about forty times the players of the catalogue's islands.
    let shares = islands
        .iter()
        .map(|island| 4.0 * f64::from(island.peak) / SECOND_FACTOR_MAX);
    let everyone: f64 = shares.sum();
    let mut random = SplitMix64::new(spec.seed, 15, 0);
    file.clear();
    write_csv_header(&mut file, FileKind::Platform)?;
    for time in (0..144).rev().map(|back| newest - back * STEP_SECONDS) {
        let players = count(everyone * second_factor(time) * (1.0 + 0.004 * random.bell()));
        writeln!(file, "{time},{players}")?;
    }
    write("platform.csv", &file)
}

#[cfg(test)]
#[path = "synthetic_tests.rs"]
mod tests;
