//! Truncated files and files with one flipped bit: none is accepted.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::{PublishOptions, publish};
use crate::calendar::UnixSeconds;
use crate::dataset::Files;
use crate::snapshot::{History, Live, Manifest, SnapshotError, Storage, check_published};

/// 2026-11-21T12:05:00Z
const PUBLISHED: UnixSeconds = UnixSeconds(1_795_262_700);
/// Dataset with bodies above and below the compression threshold, with and without groups, and both
/// search indexes.
const FILES: Files<'_> = Files::Embedded(&[
    (
        "islands.csv",
        b"code,title,creator,createdIn,tags\n\
        1111-1111-1111,Red Hotel,ruby,uefn,pvp|solo\n\
        2222-2222-2222,Blue Hotel,ruby,creative,solo\n\
        3333-3333-3333,,,,\n",
    ),
    (
        "creators.csv",
        b"slug,name,followers,following,lifetimePlays\nruby,Ruby,1,2,3\n",
    ),
    (
        "daily/2026-11-19.csv",
        b"code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,\
        averageMinutesPerPlayer,retentionD1,retentionD7\n\
        1111-1111-1111,10,100,1000,1,200,,10.5,0.2,\n2222-2222-2222,20,,,,,,,,\n",
    ),
    (
        "daily/2026-11-20.csv",
        b"code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,\
        averageMinutesPerPlayer,retentionD1,retentionD7\n\
        1111-1111-1111,11,110,1100,,210,3,10.4,,0.1\n",
    ),
    (
        "live/1795262400.csv",
        b"code,players\n1111-1111-1111,7\n3333-3333-3333,2\n",
    ),
]);

/// A published directory, removed when dropped.
struct Published(PathBuf, Manifest);

impl Published {
    fn new() -> Published {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("im-damage-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let manifest = publish_to(&directory, PUBLISHED);
        Published(directory, manifest)
    }

    /// Contents of the two payload files.
    fn payloads(&self) -> [Vec<u8>; 2] {
        let Published(directory, manifest) = self;
        let payloads = [&manifest.history, &manifest.live];
        payloads.map(|payload| fs::read(directory.join(&payload.as_ref().unwrap().file)).unwrap())
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn publish_to(directory: &Path, published: UnixSeconds) -> Manifest {
    let options = PublishOptions {
        directory,
        published: Some(published),
        force: false,
        full: false,
        strict: false,
        credit: "",
    };
    let published = publish(&FILES, &options, &mut |_| {});
    published.unwrap().manifest
}

fn open_history(bytes: Bytes) -> Result<(), SnapshotError> {
    History::open(Storage::Memory(bytes))?.verify_bodies(&mut |_, _| {})
}

fn open_live(bytes: Bytes) -> Result<(), SnapshotError> {
    Live::open(Storage::Memory(bytes)).map(drop)
}

#[track_caller]
fn is_accepted(open: fn(Bytes) -> Result<(), SnapshotError>, bytes: Bytes, what: &str) -> bool {
    let opened = catch_unwind(AssertUnwindSafe(|| open(bytes).is_ok()));
    opened.unwrap_or_else(|_| panic!("{what}: a panic"))
}

#[track_caller]
fn nothing_else_is_accepted(open: fn(Bytes) -> Result<(), SnapshotError>, sound: &[u8]) {
    assert!(
        sound.len() < 20_000,
        "{} bytes would take too long",
        sound.len()
    );
    assert!(is_accepted(open, sound.to_vec().into(), "as published"));
    let all = Bytes::copy_from_slice(sound);
    for length in 0..sound.len() {
        let what = format!("cut to {length} of {}", sound.len());
        assert!(!is_accepted(open, all.slice(..length), &what), "{what}");
    }
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let what = format!("byte {} of {}, bit {}", bit / 8, sound.len(), bit % 8);
        assert!(!is_accepted(open, bytes.into(), &what), "{what}");
    }
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_history_is_found() {
    let [history, _] = Published::new().payloads();
    nothing_else_is_accepted(open_history, &history);
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_live_payload_is_found() {
    let [_, live] = Published::new().payloads();
    nothing_else_is_accepted(open_live, &live);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "damage done on purpose need not survive a crash"
)]
fn every_cut_and_every_flipped_bit_of_a_manifest_is_found_or_means_the_same() {
    let published = Published::new();
    let Published(directory, manifest) = &published;
    let path = directory.join(Manifest::FILE);
    let sound = fs::read(&path).unwrap();
    let (mut steps, mut last) = (Vec::new(), 0);
    let progress = &mut |what: &str, done, all| {
        assert_eq!(done, last + 1, "{what}");
        last = done % all;
        if done == all {
            steps.push(what.to_owned());
        }
    };
    check_published(directory, progress).unwrap();
    assert_eq!(steps, ["checking responses", "checking dumps"]);
    let check = |text: &[u8], what: &str| {
        fs::write(&path, text).unwrap();
        let Ok(read) = check_published(directory, &mut |_, _, _| {}) else {
            return;
        };
        assert_eq!(
            (&read.history, &read.live),
            (&manifest.history, &manifest.live),
            "{what}"
        );
    };
    for length in 0..sound.len() {
        check(&sound[..length], &format!("cut to {length}"));
    }
    for bit in 0..sound.len() * 8 {
        let mut text = sound.clone();
        text[bit / 8] ^= 1 << (bit % 8);
        check(&text, &format!("byte {}, bit {}", bit / 8, bit % 8));
    }
}

/// As if a program with other sections had rendered it, and the version had not been raised.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "damage done on purpose need not survive a crash"
)]
fn a_history_that_cannot_be_opened_is_rendered_again_although_its_checksum_is_right() {
    let Published(directory, first) = &Published::new();
    let later = |seconds| UnixSeconds(PUBLISHED.0 + seconds);
    let kept = publish_to(directory, later(600));
    assert_eq!(kept.history, first.history, "no input has changed");
    // The live payload has no section of a history.
    let other = Manifest {
        history: kept.live.clone(),
        ..kept
    };
    let path = directory.join("sources.json");
    let sources = fs::read(&path).unwrap();
    let mut sources: serde_json::Value = serde_json::from_slice(&sources).unwrap();
    sources["published"] = serde_json::to_value(&other).unwrap();
    fs::write(&path, sources.to_string()).unwrap();
    let text = serde_json::to_vec(&other).unwrap();
    fs::write(directory.join(Manifest::FILE), text).unwrap();
    assert!(check_published(directory, &mut |_, _, _| {}).is_err());
    let rendered = publish_to(directory, later(1200));
    let time = later(1200).to_string();
    assert_eq!(rendered.history.unwrap().generated_at, time);
    check_published(directory, &mut |_, _, _| {}).unwrap();
}

#[test]
fn publishes_that_end_during_a_check_are_no_damage() {
    let Published(directory, first) = &Published::new();
    let mut manifest = first.clone();
    let checked = check_published(directory, &mut |_, _, _| {
        if manifest == *first {
            // The second one removes files that are being checked.
            let publishes = [600, 1200].map(|seconds| UnixSeconds(PUBLISHED.0 + seconds));
            manifest = publishes.map(|time| publish_to(directory, time))[1].clone();
        }
    });
    assert_eq!(checked.unwrap(), manifest);
}
