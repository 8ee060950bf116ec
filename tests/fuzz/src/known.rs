//! The texts of the keys in `keys/keys.jsonl`, for the oracles. They were issued for these tests only,
//! and are valid nowhere else.

use std::path::Path;

use island_metrics::keys::{KeyPrefix, KeyRecords, KeyStore, KeyTable};

const PREFIX: &str = "fuzz";

/// Their texts, in the order of their records.
pub const TEXTS: [&str; 4] = [
    "fuzz_live_2QP8UPYwmw_ZKgn4wPsKK9663rwfIJjqEofHPk5M61EbiNI",
    "fuzz_live_YEr5qZkqmx_ywUsNDDblGB5b2GZsCUArlfpByYd1o16KZZ6",
    "fuzz_live_KOnlPfoe9V_kq9hGv5OkoOyYeCYp8S3lwgNJY6uT90SWu0v",
    "fuzz_live_uneyq6ZFVY_mybkip5QXbzixPs1kdONUbTuMyh6bY0u2sjy",
];

pub fn records() -> KeyRecords {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/keys"));
    let records = KeyStore::new(directory).read().expect("it is sound");
    assert_eq!(records.as_slice().len(), TEXTS.len());
    records
}

pub fn ring() -> KeyTable {
    let prefix: KeyPrefix = PREFIX.parse().expect("letters");
    KeyTable::new(prefix, records(), 0..)
}
