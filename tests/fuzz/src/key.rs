//! Texts sent as keys: exactly the issued texts are valid, with the tiers of their records. Also the parts
//! of keys in commands: a parsed part is formatted so that it parses to the same value again.
//!
//! An input is sent as it is, and each key that was issued is sent with its bytes changed by the input.
#![no_main]

mod known;

use std::sync::LazyLock;

use island_metrics::keys::{KeyAddress, KeyEntry, KeyId, KeyPrefix, KeyStatus, KeyTable};
use island_metrics::model::Tier;
use libfuzzer_sys::fuzz_target;

use known::TEXTS;

/// The tier of each key, and which one is revoked, as in the records.
const TIERS: [Tier; TEXTS.len()] = [Tier::Free, Tier::Starter, Tier::Pro, Tier::Pro];
const REVOKED: usize = 3;

const EMAIL_BYTES_MAX: usize = 254;

static RING: LazyLock<KeyTable> = LazyLock::new(|| {
    let ring = known::ring();
    controls(&ring);
    ring
});

fn grant(at: usize) -> KeyEntry {
    KeyEntry {
        place: u32::try_from(at).expect("there are few"),
        id: TEXTS[at][10..20].parse().expect("ten digits"),
        tier: TIERS[at],
    }
}

/// Expected result for a text: an exact match of an issued key, or none.
fn worth(text: &[u8]) -> KeyStatus {
    match TEXTS.iter().position(|known| known.as_bytes() == text) {
        None => KeyStatus::Unknown,
        Some(REVOKED) => KeyStatus::Revoked,
        Some(at) => KeyStatus::Active(grant(at)),
    }
}

/// The verification under test.
type Judge<'a> = &'a dyn Fn(&[u8]) -> KeyStatus;

/// A result that differs from the expected one, or from an earlier one for the same text.
fn misjudged(judge: Judge<'_>, input: &[u8]) -> Option<Vec<u8>> {
    let changed = TEXTS
        .map(|known| changed(known.as_bytes(), input))
        .into_iter();
    let mut texts = changed.chain([input.to_vec()]);
    texts.find(|text| {
        let want = worth(text);
        judge(text) != want || judge(text) != want
    })
}

/// A text with some bytes changed. A pair of bytes of the input is the position and the new value; with a
/// position beyond the end, the value is the number of bytes to remove or to append.
fn changed(text: &[u8], input: &[u8]) -> Vec<u8> {
    let mut changed = text.to_vec();
    for [at, byte] in input.as_chunks::<2>().0 {
        let at = usize::from(*at);
        match changed.get_mut(at) {
            Some(place) => *place = *byte,
            None if at < 128 => changed.push(*byte),
            None => changed.truncate(at - 128),
        }
    }
    changed
}

/// Self-test: wrong verifications are detected.
fn controls(ring: &KeyTable) {
    let folding = |text: &[u8]| {
        let is_it = |known: &&&str| known.as_bytes().eq_ignore_ascii_case(text);
        let known = TEXTS.iter().find(is_it);
        known.map_or(KeyStatus::Unknown, |known| worth(known.as_bytes()))
    };
    let trimming = |text: &[u8]| ring.verify(text.trim_ascii());
    let by_id = |text: &[u8]| {
        let known = TEXTS
            .iter()
            .find(|known| text.starts_with(&known.as_bytes()[..20]));
        known.map_or(KeyStatus::Unknown, |known| worth(known.as_bytes()))
    };
    let forgiving = |text: &[u8]| match ring.verify(text) {
        KeyStatus::Revoked => KeyStatus::Active(grant(REVOKED)),
        verdict => verdict,
    };
    let lower = TEXTS[0].to_lowercase();
    let wrong: [(Judge<'_>, &[u8]); 4] = [
        (&folding, lower.as_bytes()),
        // A space appended; another letter in the secret; no change.
        (&trimming, &[100, b' ']),
        (&by_id, &[30, b'0']),
        (&forgiving, &[]),
    ];
    for (at, (judge, input)) in wrong.iter().enumerate() {
        assert!(misjudged(judge, input).is_some(), "the wrong judge {at}");
        assert_eq!(misjudged(&|text| ring.verify(text), input), None);
    }
}

/// The parts of keys in commands.
fn read_back(text: &str) {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_prefix = (1..=16).contains(&text.len()) && is_plain(text);
    assert_eq!(text.parse::<KeyPrefix>().is_ok(), is_prefix, "{text:?}");
    let id: Result<KeyId, _> = text.parse();
    assert_eq!(id.is_ok(), text.len() == 10 && is_plain(text), "{text:?}");
    if let Ok(id) = id {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(address) = text.parse::<KeyAddress>() {
        let written = address.to_string();
        assert_eq!(written.parse(), Ok(address), "{text:?}: {written}");
        let sound = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        assert!(written.bytes().all(sound), "{text:?}: {written}");
        assert!(written.len() <= EMAIL_BYTES_MAX, "{text:?}: {written}");
    }
}

fuzz_target!(|input: &[u8]| {
    if let Some(text) = misjudged(&|text| RING.verify(text), input) {
        let text = String::from_utf8_lossy(&text).into_owned();
        panic!(
            "{text:?} is judged otherwise than {:?}",
            worth(text.as_bytes())
        );
    }
    if let Ok(text) = std::str::from_utf8(input) {
        read_back(text);
    }
});
