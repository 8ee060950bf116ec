//! Synthetic datasets: identical for identical arguments, and with the distributions of real ones.

use super::*;
use std::collections::BTreeMap;

fn made(islands: u32, creators: u32, days: u32, seed: u64) -> BTreeMap<String, Vec<u8>> {
    let spec = SyntheticSpec {
        islands,
        creators,
        days,
        long_run_days: (2 * days).min(60),
        rows: None,
        seed,
        last_day: UtcDay(20_700),
        newest_step: 20_701 * 86_400 + 43_200,
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
    assert_eq!(files.len(), spec.files());
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
    for (islands, creators, days) in (0..8).map(|bits| (bits & 1, bits >> 1 & 1, bits >> 2 & 1)) {
        let files = made(islands, creators, days, 4);
        assert_eq!(u32::try_from(files.len()), Ok(10 + 3 * days));
        assert_eq!(
            u32::try_from(rows(&files["islands.csv"]).len()),
            Ok(islands)
        );
    }
}
