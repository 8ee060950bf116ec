//! A made-up dataset of any size, in the format of CONTRACT section 3, for benchmarks and trials.
//!
//! In: a [`Synthetic`], six numbers. Out: each file's path and bytes, one file at a time. The same
//! numbers make the same bytes on every machine: the draws are splitmix64 and no step asks the
//! platform's libm. The shapes follow figures measured in July 2026 over 30,104 islands.

use std::io::{self, Write as _};

use super::words;
use crate::calendar::{DAY_SECONDS, UtcDay};
use crate::model::IslandCode;

/// How large a dataset to make up, from which seed, and the newest day with daily rows.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Islands in the catalogue.
    pub islands: u32,
    /// Creators, some of them without an island.
    pub creators: u32,
    /// Days with daily rows; up to 60 long-run days go before them.
    pub days: u32,
    /// What all chance is drawn from.
    pub seed: u64,
    /// The newest day; the live steps end at 12:00 UTC of the day after.
    pub last_day: UtcDay,
}

/// Takes one file: its path below the dataset's directory, and its bytes.
type Write<'a> = &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>;

/// A stepwise linear curve: pairs of position (rising) and value.
type Curve = [(f64, f64)];

/// Peaks of islands with data, by rank from below; between the measured p99, p99.5, p99.9 and
/// maximum there are points of our own, since straight lines across those gaps run far too high.
#[rustfmt::skip] // a table: pairs side by side
const PEAK: [(f64, f64); 18] = [
    (0.0, 1.0), (0.05, 2.0), (0.10, 2.0), (0.25, 3.0), (0.50, 7.0), (0.62, 20.0),
    (0.75, 45.0), (0.90, 169.0), (0.95, 283.0), (0.97, 410.0), (0.99, 760.0), (0.995, 1_600.0),
    (0.9975, 3_600.0), (0.9990, 9_761.0), (0.9995, 14_000.0), (0.9998, 21_000.0), (0.9999, 26_000.0), (1.0, 32_428.0),
];

/// How rows of one class of size behave: the measured p10, p50 and p90 of the ratios per unique
/// player, each with a bottom and a top of our own.
struct SizeClass {
    peak_below: u32,
    unique_per_peak: [(f64, f64); 5],
    plays_per_unique: [(f64, f64); 5],
    minutes_per_unique: [(f64, f64); 5],
    favorites_per_unique: [(f64, f64); 5],
    recommendations_per_unique: [(f64, f64); 5],
    d1_null_share: f64,
    d7_null_share: f64,
}

const fn spread(bottom: f64, p10: f64, p50: f64, p90: f64, top: f64) -> [(f64, f64); 5] {
    [
        (0.0, bottom),
        (0.1, p10),
        (0.5, p50),
        (0.9, p90),
        (1.0, top),
    ]
}

const CLASSES: [SizeClass; 4] = [
    SizeClass {
        peak_below: 10,
        unique_per_peak: spread(1.5, 2.0, 4.5, 10.5, 16.0),
        plays_per_unique: spread(1.0, 1.0, 1.186, 1.615, 2.4),
        minutes_per_unique: spread(0.5, 5.6, 15.8, 30.8, 75.0),
        favorites_per_unique: spread(0.0, 0.0, 0.055, 0.286, 0.5),
        recommendations_per_unique: spread(0.0, 0.0, 0.0, 0.04, 0.12),
        d1_null_share: 0.655,
        d7_null_share: 0.925,
    },
    SizeClass {
        peak_below: 100,
        unique_per_peak: spread(1.3, 1.88, 7.83, 24.8, 32.0),
        plays_per_unique: spread(1.0, 1.05, 1.197, 1.595, 2.4),
        minutes_per_unique: spread(3.0, 8.5, 19.6, 38.2, 90.0),
        favorites_per_unique: spread(0.0, 0.029, 0.069, 0.167, 0.3),
        recommendations_per_unique: spread(0.0, 0.0, 0.005, 0.0274, 0.06),
        d1_null_share: 0.27,
        d7_null_share: 0.60,
    },
    SizeClass {
        peak_below: 1_000,
        unique_per_peak: spread(1.3, 1.73, 2.92, 25.4, 34.0),
        plays_per_unique: spread(1.0, 1.06, 1.156, 1.588, 2.4),
        minutes_per_unique: spread(6.0, 13.2, 19.4, 41.9, 90.0),
        favorites_per_unique: spread(0.01, 0.030, 0.052, 0.089, 0.2),
        recommendations_per_unique: spread(0.0, 0.0, 0.0051, 0.0165, 0.04),
        d1_null_share: 0.10,
        d7_null_share: 0.35,
    },
    SizeClass {
        peak_below: u32::MAX,
        unique_per_peak: spread(5.0, 10.7, 29.2, 42.1, 60.0),
        plays_per_unique: spread(1.05, 1.2, 1.419, 2.008, 2.8),
        minutes_per_unique: spread(12.0, 21.2, 27.9, 49.5, 80.0),
        favorites_per_unique: spread(0.002, 0.0063, 0.0285, 0.0685, 0.12),
        recommendations_per_unique: spread(0.0, 0.0011, 0.0062, 0.0195, 0.04),
        d1_null_share: 0.0,
        d7_null_share: 0.1,
    },
];

/// Shares of players back after one and seven days, in hundredths, as measured.
const RETENTION_D1: [(f64, f64); 8] = [
    (0.0, 0.0),
    (0.1, 0.0),
    (0.25, 5.0),
    (0.5, 10.0),
    (0.75, 18.0),
    (0.9, 29.0),
    (0.99, 67.0),
    (1.0, 100.0),
];
const RETENTION_D7: [(f64, f64); 7] = [
    (0.0, 0.0),
    (0.25, 0.0),
    (0.5, 2.0),
    (0.75, 5.0),
    (0.9, 12.0),
    (0.99, 37.0),
    (1.0, 100.0),
];

/// Monday to Sunday, as measured over 78 islands with three full weeks.
const WEEKDAY: [f64; 7] = [1.011, 0.858, 1.003, 0.857, 1.202, 1.079, 0.991];

/// Players by hour of the UTC day against the mean; hours 2 and 5 lie between their neighbours.
const HOUR: [f64; 24] = [
    0.748, 0.735, 0.759, 0.783, 0.736, 0.795, 0.854, 0.798, 0.827, 0.932, 0.895, 1.029, 1.185,
    1.318, 1.425, 1.375, 1.229, 1.171, 1.129, 1.101, 1.058, 0.960, 0.814, 0.769,
];

/// The highest of [`HOUR`]: the hour at which a day's peak falls.
const HOUR_MAX: f64 = 1.425;

/// Islands per creator by rank from below: 58.5 % have one.
#[rustfmt::skip] // a table: pairs side by side
pub(super) const HOLDING: [(f64, f64); 13] = [
    (0.0, 1.0), (0.585, 1.0), (0.586, 2.0), (0.766, 2.0), (0.767, 3.0), (0.844, 3.0),
    (0.884, 4.0), (0.911, 5.0), (0.95, 9.0), (0.99, 22.0), (0.999, 49.0), (0.9998, 90.0), (1.0, 153.0),
];

/// Followers by rank: our own guess of a heavy tail, no measurement exists.
pub(super) const FOLLOWERS: [(f64, f64); 6] = [
    (0.0, 0.0),
    (0.5, 40.0),
    (0.9, 1_500.0),
    (0.99, 40_000.0),
    (0.999, 400_000.0),
    (1.0, 6_000_000.0),
];

/// New islands a day: 1.5 % a week.
const LAUNCHES_A_DAY: f64 = 0.015 / 7.0;

/// Live steps are ten minutes apart.
const STEP_SECONDS: i64 = 600;

/// Splitmix64: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A stream of its own for each purpose and number, so that one more draw in one place
    /// changes nothing elsewhere.
    pub(super) fn new(seed: u64, purpose: u64, number: u64) -> Random {
        let mut random = Random(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        random.0 = random.next() ^ number.wrapping_mul(0xE703_7ED1_A0B4_28DB);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        float(self.next() >> 12) / float(1 << 52)
    }

    /// Evenly from 0 to below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64)).expect("smaller than a usize")
    }

    /// Near a normal draw of mean 0 and deviation 1: the sum of four even ones.
    fn bell(&mut self) -> f64 {
        let draw = self.next();
        let sum: u64 = (0..4).map(|part| draw >> (16 * part) & 0xFFFF).sum();
        (float(sum) / 65_536.0 - 2.0) * 1.732
    }

    /// Near an exponential draw in doublings: the tail beyond it halves with each unit.
    fn doublings(&mut self) -> f64 {
        let draw = self.next() | 1;
        let mantissa = float((draw << draw.leading_zeros()) >> 12) / float(1 << 52);
        f64::from(draw.leading_zeros()) + 2.0 - 2.0 * mantissa
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "every count here lies below 2^53"
)]
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

/// The nearest count; what is negative becomes 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
pub(super) const fn count(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// The curve's value at a position; beyond its ends, the value there.
pub(super) fn at(curve: &Curve, position: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 < position);
    match (
        after.checked_sub(1).and_then(|before| curve.get(before)),
        curve.get(after),
    ) {
        (Some(&(x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (position - x0) / (x1 - x0),
        (Some(&(_, value)), None) | (None, Some(&(_, value))) => value,
        (None, None) => 0.0,
    }
}

/// The hour's factor at a moment, between the two hours' own.
fn hour_factor(unix_seconds: i64) -> f64 {
    let second = unix_seconds.rem_euclid(DAY_SECONDS).unsigned_abs();
    let hour = usize::try_from(second / 3600).expect("below 24");
    let (now, next) = (HOUR[hour], HOUR[(hour + 1) % 24]);
    now + (next - now) * float(second % 3600) / 3600.0
}

/// Makes the dataset up and hands over its files, one at a time.
pub fn synthesize(
    spec: &Synthetic,
    write: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let codes = words::catalogue(spec, write)?;
    let mut crowd = Crowd::new(spec, codes.len());
    let long_run = spec.days.saturating_mul(2).min(60);
    let mut file = Vec::new();
    // At least the last day is lived through: the live steps need its peaks.
    for before in (0..spec.days.saturating_add(long_run).max(1)).rev() {
        let back = i32::try_from(before).map_err(io::Error::other)?;
        let day = UtcDay(spec.last_day.0.saturating_sub(back));
        crowd.live_through(spec, day, before);
        file.clear();
        if before < spec.days {
            daily_file(spec, day, &codes, &crowd, &mut file)?;
            write(&format!("daily/{day}.csv"), &file)?;
        } else if spec.days > 0 {
            writeln!(file, "code,peakCCU")?;
            for (code, peak) in codes
                .iter()
                .zip(&crowd.peaks)
                .filter(|(_, peak)| **peak > 0)
            {
                writeln!(file, "{code},{peak}")?;
            }
            write(&format!("ccu/{day}.csv"), &file)?;
        }
    }
    live_files(spec, &codes, &crowd.peaks, write)
}

/// The state that each island carries from day to day.
struct Crowd {
    /// Lasting strength, in doublings of rank.
    strength: Vec<f64>,
    /// A slow wandering around it.
    drift: Vec<f64>,
    /// What is left of a launch or a passing fame.
    glow: Vec<f64>,
    /// Days before the last one on which the island opened.
    opened: Vec<u64>,
    /// The day's peak; 0 where the island has no row.
    peaks: Vec<u32>,
}

impl Crowd {
    fn new(spec: &Synthetic, islands: usize) -> Crowd {
        let mut random = Random::new(spec.seed, 10, 0);
        Crowd {
            strength: (0..islands).map(|_| random.doublings()).collect(),
            drift: (0..islands).map(|_| random.bell() * 0.3).collect(),
            glow: vec![0.0; islands],
            opened: (0..islands)
                .map(|_| count(random.unit() / LAUNCHES_A_DAY))
                .collect(),
            peaks: vec![0; islands],
        }
    }

    /// One day on: every island gets a score, and the measured peaks go out by its rank. So the
    /// spread of peaks is right on every day, whatever moves the islands in it.
    fn live_through(&mut self, spec: &Synthetic, day: UtcDay, before: u32) {
        let mut random = Random::new(spec.seed, 11, u64::from(day.0.cast_unsigned()));
        let mut ranked: Vec<(u64, usize)> = Vec::with_capacity(self.peaks.len());
        for island in 0..self.peaks.len() {
            self.peaks[island] = 0;
            // The great ones sway little from day to day (measured: 0.4 of 1.1 in the logarithm).
            let sway = if self.strength[island] > 7.0 {
                0.2
            } else {
                1.0
            };
            self.drift[island] = self.drift[island] * 0.95 + random.bell() * 0.2 * sway;
            self.glow[island] *= 0.25;
            let (noise, chance) = (random.bell() * 0.45 * sway, random.unit());
            if self.opened[island] < u64::from(before) {
                continue;
            }
            if self.opened[island] == u64::from(before) {
                self.glow[island] = 4.0 + 4.0 * chance;
            } else if chance < 0.03 {
                self.glow[island] = 2.5 + 130.0 * chance;
            }
            // Fame ends below the top hundredth, which lasting strength alone reaches.
            let room = (7.2 - self.strength[island]).max(0.0);
            if self.glow[island] > room {
                self.glow[island] = room;
            }
            let score = self.strength[island] + self.drift[island] + self.glow[island] + noise;
            ranked.push((count((score + 16.0) * 1e9), island));
        }
        ranked.sort_unstable();
        // Three in ten islands have five players on a day.
        let active = (self.peaks.len() * 3).div_ceil(10).min(ranked.len());
        let weekday = usize::try_from((i64::from(day.0) + 3).rem_euclid(7)).expect("below 7");
        let first = ranked.len() - active;
        for (place, (_, island)) in ranked.split_off(first).into_iter().enumerate() {
            let position = (float(place as u64) + 0.5) / float(active as u64);
            let value = at(&PEAK, position) * WEEKDAY[weekday] * (1.0 + 0.06 * random.bell());
            self.peaks[island] = u32::try_from(count(value)).unwrap_or(u32::MAX).max(1);
        }
    }
}

/// `daily/`: the rows of one day.
fn daily_file(
    spec: &Synthetic,
    day: UtcDay,
    codes: &[IslandCode],
    crowd: &Crowd,
    file: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(
        file,
        "code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,\
         averageMinutesPerPlayer,retentionD1,retentionD7"
    )?;
    let mut random = Random::new(spec.seed, 12, u64::from(day.0.cast_unsigned()));
    for (code, &peak) in codes
        .iter()
        .zip(&crowd.peaks)
        .filter(|(_, peak)| **peak > 0)
    {
        // An island keeps its own character; the day only sways it, thrown back at both ends.
        let mut own = Random::new(spec.seed, 13, code.number());
        let mut ratio = |curve: &Curve, random: &mut Random| {
            let swayed = (own.unit() + 0.3 * (random.unit() - 0.5)).abs();
            at(curve, if swayed > 1.0 { 2.0 - swayed } else { swayed })
        };
        let class = CLASSES
            .iter()
            .find(|class| peak < class.peak_below)
            .unwrap_or(&CLASSES[3]);
        let unique = count(f64::from(peak) * ratio(&class.unique_per_peak, &mut random)).max(5);
        let players = float(unique);
        let minutes = count(players * ratio(&class.minutes_per_unique, &mut random));
        let plays = count(players * ratio(&class.plays_per_unique, &mut random));
        let mut some = |curve: &Curve, null_share: f64| {
            let chance = players * ratio(curve, &mut random) + random.unit() - 0.5;
            (random.unit() >= null_share).then_some(count(chance))
        };
        let favorites = some(&class.favorites_per_unique, 0.0002);
        let recommendations = some(&class.recommendations_per_unique, 0.0001);
        write!(file, "{code},{peak},{unique},{minutes},")?;
        optional(file, favorites)?;
        write!(file, ",{plays},")?;
        optional(file, recommendations)?;
        let hundredths = (minutes * 100 + unique / 2) / unique;
        write!(file, ",{}.{:02}", hundredths / 100, hundredths % 100)?;
        for (curve, null_share) in [
            (&RETENTION_D1[..], class.d1_null_share),
            (&RETENTION_D7[..], class.d7_null_share),
        ] {
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

/// A number, or nothing for null.
fn optional(file: &mut Vec<u8>, value: Option<u64>) -> io::Result<()> {
    value.map_or(Ok(()), |value| write!(file, "{value}"))
}

/// `live/` for the six newest steps, and `platform.csv` for a day of them.
fn live_files(
    spec: &Synthetic,
    codes: &[IslandCode],
    peaks: &[u32],
    write: Write<'_>,
) -> io::Result<()> {
    let newest = (i64::from(spec.last_day.0) + 1) * DAY_SECONDS + DAY_SECONDS / 2;
    let mut file = Vec::new();
    for time in (0..6).rev().map(|back| newest - back * STEP_SECONDS) {
        let mut random = Random::new(spec.seed, 14, time.unsigned_abs());
        let factor = hour_factor(time) / HOUR_MAX;
        file.clear();
        writeln!(file, "code,players")?;
        for (code, &peak) in codes.iter().zip(peaks).filter(|(_, peak)| **peak > 0) {
            let players = count(f64::from(peak) * factor * (1.0 + 0.1 * random.bell()));
            // One in thirty is missing at any step, as are those that nobody plays.
            if players > 0 && random.below(30) > 0 {
                writeln!(file, "{code},{players}")?;
            }
        }
        write(&format!("live/{time}.csv"), &file)?;
    }
    // The platform holds about forty times what the catalogue's islands do.
    let everyone: f64 = peaks
        .iter()
        .map(|peak| 40.0 * f64::from(*peak) / HOUR_MAX)
        .sum();
    let mut random = Random::new(spec.seed, 15, 0);
    file.clear();
    writeln!(file, "time,players")?;
    for time in (0..144).rev().map(|back| newest - back * STEP_SECONDS) {
        let players = count(everyone * hour_factor(time) * (1.0 + 0.004 * random.bell()));
        writeln!(file, "{time},{players}")?;
    }
    write("platform.csv", &file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn made(islands: u32, creators: u32, days: u32, seed: u64) -> BTreeMap<String, Vec<u8>> {
        let spec = Synthetic {
            islands,
            creators,
            days,
            seed,
            last_day: UtcDay(20_700),
        };
        let mut files = BTreeMap::new();
        synthesize(&spec, &mut |path, bytes| {
            assert!(
                files.insert(path.to_owned(), bytes.to_vec()).is_none(),
                "{path} twice"
            );
            Ok(())
        })
        .expect("nothing here fails to write");
        files
    }

    fn rows(file: &[u8]) -> Vec<csv::StringRecord> {
        csv::Reader::from_reader(file)
            .records()
            .map(|row| row.expect("sound CSV"))
            .collect()
    }

    #[test]
    fn the_seed_alone_decides_the_bytes() {
        assert_eq!(made(300, 90, 3, 1), made(300, 90, 3, 1));
        assert_ne!(
            made(300, 90, 3, 1)["islands.csv"],
            made(300, 90, 3, 2)["islands.csv"]
        );
    }

    #[test]
    fn every_file_is_sorted_by_codes_of_the_catalogue() {
        let files = made(400, 100, 2, 5);
        let codes = |path: &str| -> Vec<String> {
            rows(&files[path]).iter().map(|row| row[0].into()).collect()
        };
        let known = codes("islands.csv");
        assert_eq!(known.len(), 400);
        for path in files
            .keys()
            .filter(|path| !path.starts_with("creators") && !path.starts_with("platform"))
        {
            let codes = codes(path);
            assert!(codes.is_sorted_by(|one, next| one < next), "{path}");
            assert!(
                codes.iter().all(|code| known.binary_search(code).is_ok()),
                "{path}"
            );
        }
    }

    #[test]
    fn islands_have_one_to_four_distinct_tags_and_titles_fit() {
        let files = made(5_000, 1_900, 1, 9);
        let mut having = [0_u32; 5];
        for row in rows(&files["islands.csv"]) {
            let mut tags: Vec<&str> = row[4].split('|').collect();
            having[tags.len()] += 1;
            tags.sort_unstable();
            assert!(tags.is_sorted_by(|one, next| one < next), "{row:?}");
            assert!(
                (1..=40).contains(&row[1].chars().count()) && row[1].trim() == &row[1],
                "{row:?}"
            );
        }
        assert!(
            (300..=460).contains(&having[1]) && having[4] > 3_900,
            "{having:?}"
        );
    }

    #[test]
    fn slugs_are_distinct_and_short() {
        let files = made(10, 3_000, 0, 3);
        let rows = rows(&files["creators.csv"]);
        let slugs: std::collections::BTreeSet<&str> = rows.iter().map(|row| &row[0]).collect();
        assert_eq!(slugs.len(), rows.len());
        assert!(slugs.iter().all(|slug| (3..=16).contains(&slug.len())));
    }

    #[test]
    fn the_smallest_sizes_work() {
        for (islands, creators, days) in (0..8).map(|bits| (bits & 1, bits >> 1 & 1, bits >> 2 & 1))
        {
            let files = made(islands, creators, days, 4);
            assert_eq!(u32::try_from(files.len()), Ok(9 + 3 * days));
            assert_eq!(
                u32::try_from(rows(&files["islands.csv"]).len()),
                Ok(islands)
            );
        }
    }
}
