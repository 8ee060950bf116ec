//! Random request targets: the parser agrees with the plain reader of the fuzz targets about paths,
//! and about query strings: duplicates, empty values, percent-encoding, limits. The pieces are those of the seeds of
//! the fuzz target `query`, which does the same for longer.

use crate::plain::{Mistake, Plain};
use crate::prelude::*;
use crate::targets::differs;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/seeds/query");

#[test]
fn the_parser_agrees_with_the_plain_reader() {
    let seeds = fs::read_dir(SEEDS).unwrap();
    let seeds = seeds.map(|seed| fs::read(seed.unwrap().path()).unwrap());
    let mut seeds: Vec<String> = seeds
        .map(|seed| String::from_utf8_lossy(&seed).into_owned())
        .collect();
    // So that a seed of `arbtest` is the same case on all machines.
    seeds.sort();
    let halves = seeds
        .iter()
        .map(|seed| seed.split_once('?').unwrap_or((seed, "")));
    let (paths, queries): (Vec<&str>, Vec<&str>) = halves.unzip();
    let pairs = queries.iter().flat_map(|query| query.split('&'));
    let (names, values): (Vec<&str>, Vec<&str>) = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .unzip();
    // The parameters of the paths, and other segments.
    let segments: Vec<&str> = paths.iter().flat_map(|path| path.split('/')).collect();
    let segments = [&segments[..], &["daily/2026-11-20.csv"]].concat();
    let others = ["/", "/assets/x", "/dumps", "v1"];
    let paths = [Endpoint::LABELS, &["/v1/islands"; 8], &others, &paths].concat();
    let declared = Endpoint::Islands.query_parameters().iter();
    let names: Vec<&str> = declared.map(|one| one.name).chain(names).collect();
    arbtest::arbtest(|u| {
        let mut path = (*u.choose(&paths)?).to_owned();
        if let (Some(start), Some(end)) = (path.find('{'), path.find('}')) {
            path.replace_range(start..=end, u.choose(&segments)?);
        }
        path += u.choose(&["", "", "", "", "", "/", "/x", "%2F", "/%ff", "%", "/%2e"])?;
        let mut query = String::new();
        for _ in 0..u.int_in_range(0..=4)? {
            let (name, value) = (u.choose(&names)?, u.choose(&values)?);
            let equals = u.choose(&["=", "=", "=", "=", "", "=="])?;
            let separator = u.choose(&["&", "&", "&", "&&", ""])?;
            query += &[name, equals, value, separator]
                .map(|part| &**part)
                .concat();
        }
        let query = (!u.ratio(1, 8)?).then_some(&*query);
        let difference = differs(Plain(Mistake::None), &path, query);
        assert_eq!(difference, None, "{path:?} {query:?}");
        Ok(())
    })
    .size_min(256)
    .size_max(512)
    .budget_ms(2_000);
}
