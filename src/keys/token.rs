//! The text of a key: parsing, random generation, and the digest that is stored.
//!
//! `<prefix>_live_<id>_<secret>`: the id is ten base62 characters, public, and identifies the record.
//! The secret is thirty random base62 characters, 178 bits, and six check digits of all text before
//! them, so that a mistyped key, or similar text found by a secret scanner, is recognized as invalid
//! without a list of all keys.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KIND: &str = "_live_";
const ID_CHARS: usize = 10;
const RANDOM_CHARS: usize = 30;
const CHECK_CHARS: usize = 6;
const SECRET_CHARS: usize = RANDOM_CHARS + CHECK_CHARS;
const PREFIX_CHARS_MAX: usize = 16;

/// The prefix of all keys of a service: 1 to 16 letters and digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(Box<str>);

/// The text is not a key prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedPrefix;

impl FromStr for KeyPrefix {
    type Err = MalformedPrefix;

    fn from_str(text: &str) -> Result<KeyPrefix, MalformedPrefix> {
        let sound = (1..=PREFIX_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if sound {
            Ok(KeyPrefix(text.into()))
        } else {
            Err(MalformedPrefix)
        }
    }
}

impl Default for KeyPrefix {
    fn default() -> KeyPrefix {
        KeyPrefix("im".into())
    }
}

impl fmt::Display for MalformedPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected 1 to {PREFIX_CHARS_MAX} letters and digits")
    }
}

/// The public part of a key, stored as the number of its ten base62 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u64);

/// The text is not a key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedId;

impl fmt::Display for MalformedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected the {ID_CHARS} letters and digits of a key's <id>"
        )
    }
}

impl KeyId {
    /// An id that no key has.
    pub(super) const NONE: KeyId = KeyId(0);

    /// Returns the id as a number of at most 60 bits. Ids sort like their text.
    pub const fn number(self) -> u64 {
        self.0
    }

    fn random() -> KeyId {
        KeyId(value(&random_digits::<ID_CHARS>()).expect("digits are digits"))
    }
}

impl FromStr for KeyId {
    type Err = MalformedId;

    fn from_str(text: &str) -> Result<KeyId, MalformedId> {
        if text.len() != ID_CHARS {
            return Err(MalformedId);
        }
        value(text.as_bytes()).map(KeyId).ok_or(MalformedId)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(text(&digits::<ID_CHARS>(self.0)))
    }
}

/// Parses up to ten base62 digits.
fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            _ => return None,
        };
        Some(number * 62 + u64::from(digit))
    })
}

fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut out = [0; N];
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[usize::try_from(number % 62).expect("below 62")];
        number /= 62;
    }
    out
}

fn random_digits<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    let mut at = 0;
    while at < N {
        let mut bytes = [0; 64];
        // The kernel's generator does not fail once the system has booted.
        getrandom::fill(&mut bytes).expect("the system gives random numbers");
        // 62 x 4 = 248: larger bytes would favour the first digits.
        for byte in bytes.into_iter().filter(|byte| *byte < 248) {
            if at < N {
                out[at] = DIGITS[usize::from(byte % 62)];
                at += 1;
            }
        }
    }
    out
}

fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).expect("base62 digits are ASCII")
}

/// SHA-256 of a secret, the only form that is stored. Secrets are random, so no slow hash is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecretDigest(pub(super) [u8; 32]);

impl SecretDigest {
    /// Compares two digests in constant time.
    pub(super) fn matches(&self, other: &SecretDigest) -> bool {
        constant_time_eq(&self.0, &other.0)
    }
}

/// Compares two byte strings. The time depends on their lengths only.
#[inline]
pub fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    // Keeps the compiler from returning early.
    black_box(differing) == 0
}

/// A key sent by a client, with a valid form but not verified.
#[derive(Clone, Copy)]
pub(super) struct PresentedKey<'a> {
    pub(super) id: KeyId,
    secret: &'a [u8],
}

impl<'a> PresentedKey<'a> {
    /// Parses a key; `None` if a segment is missing or has another length, or if the check digits are
    /// wrong. None of that is secret, so it may return early.
    pub(super) fn parse(prefix: &KeyPrefix, key: &'a [u8]) -> Option<PresentedKey<'a>> {
        let rest = key.strip_prefix(prefix.0.as_bytes())?;
        let rest = rest.strip_prefix(KIND.as_bytes())?;
        let (id, rest) = rest.split_at_checked(ID_CHARS)?;
        let secret = rest.strip_prefix(b"_")?;
        if secret.len() != SECRET_CHARS {
            return None;
        }
        let (checked, check) = key.split_at(key.len() - CHECK_CHARS);
        let all_digits = secret.iter().all(u8::is_ascii_alphanumeric);
        if !all_digits || *check != check_digits(&[checked]) {
            return None;
        }
        let id = value(id).map(KeyId)?;
        Some(PresentedKey { id, secret })
    }

    pub(super) fn digest(&self) -> SecretDigest {
        SecretDigest(hmac_sha256::Hash::hash(self.secret))
    }
}

fn check_digits(parts: &[&[u8]]) -> [u8; CHECK_CHARS] {
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part);
    }
    digits(crc.finalize().into())
}

/// A newly generated key. Its text is shown once and not stored.
pub struct NewKey {
    /// The public part.
    pub id: KeyId,
    text: String,
    secret_at: usize,
}

impl NewKey {
    /// Generates a random key.
    pub(super) fn random(prefix: &KeyPrefix) -> NewKey {
        let id = KeyId::random();
        let mut key = format!("{}{KIND}{id}_", prefix.0);
        let secret_at = key.len();
        key.push_str(text(&random_digits::<RANDOM_CHARS>()));
        let check = check_digits(&[key.as_bytes()]);
        key.push_str(text(&check));
        NewKey {
            id,
            text: key,
            secret_at,
        }
    }

    pub(super) fn digest(&self) -> SecretDigest {
        SecretDigest(hmac_sha256::Hash::hash(
            &self.text.as_bytes()[self.secret_at..],
        ))
    }

    /// Returns the whole key, to be shown to its owner.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

/// Shows the id only.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKey({}, ***)", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_read_back_and_no_other_text_of_its_length_is() {
        for _ in 0..200 {
            let prefix = KeyPrefix::default();
            let other_prefix: KeyPrefix = "ix".parse().unwrap();
            let key = NewKey::random(&prefix);
            let text = key.reveal();
            let presented = PresentedKey::parse(&prefix, text.as_bytes()).unwrap();
            assert_eq!(presented.id, key.id);
            assert!(presented.digest().matches(&key.digest()));
            for at in 0..text.len() {
                for other in [b'0', b'a', b'Z', b'_', b' ', 0xFF] {
                    let mut bytes = text.as_bytes().to_vec();
                    if bytes[at] != other {
                        bytes[at] = other;
                        assert!(
                            PresentedKey::parse(&prefix, &bytes).is_none(),
                            "{at} {other}"
                        );
                    }
                }
            }
            assert!(PresentedKey::parse(&other_prefix, text.as_bytes()).is_none());
        }
    }

    #[test]
    fn texts_that_are_no_keys_are_refused() {
        let prefix = KeyPrefix::default();
        let key = NewKey::random(&prefix);
        let text = key.reveal();
        for length in 0..text.len() {
            assert!(PresentedKey::parse(&prefix, &text.as_bytes()[..length]).is_none());
            assert!(
                PresentedKey::parse(&prefix, &text.as_bytes()[text.len() - length..]).is_none()
            );
        }
        for text in [
            format!("{text}0"),
            format!(" {text}"),
            text.replace("_live_", "_test_"),
            text.replace('_', ""),
            text.to_uppercase(),
            format!("{text}{text}"),
            "im_live__".to_owned(),
            "im_live_".to_owned() + &"0".repeat(47),
        ] {
            assert!(
                PresentedKey::parse(&prefix, text.as_bytes()).is_none(),
                "{text}"
            );
        }
        arbtest::arbtest(|u| {
            assert!(PresentedKey::parse(&prefix, u.arbitrary()?).is_none());
            Ok(())
        });
    }

    #[test]
    fn ids_read_back_and_sort_as_they_are_written() {
        arbtest::arbtest(|u| {
            let most = value(b"zzzzzzzzzz").unwrap();
            let (one, other) = (
                KeyId(u.int_in_range(0..=most)?),
                KeyId(u.int_in_range(0..=most)?),
            );
            assert_eq!(one.to_string().parse(), Ok(one));
            assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
            Ok(())
        });
        for text in ["", "123456789", "12345678901", "12345_7890", "é12345678"] {
            assert_eq!(text.parse::<KeyId>(), Err(MalformedId), "{text}");
        }
    }

    #[test]
    fn random_digits_are_spread_evenly() {
        let mut counts = [0_u32; 62];
        for _ in 0..2000 {
            for byte in random_digits::<31>() {
                counts[usize::try_from(value(&[byte]).unwrap()).unwrap()] += 1;
            }
        }
        // 1000 of each are expected; six standard deviations are 190.
        assert!(
            counts.iter().all(|count| (810..1190).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let key = NewKey::random(&KeyPrefix::default());
        let secret = &key.reveal()[key.secret_at..];
        assert!(!format!("{key:?}").contains(secret));
    }

    #[test]
    fn equality_is_that_of_slices() {
        arbtest::arbtest(|u| {
            let (one, other): (&[u8], &[u8]) = (u.arbitrary()?, u.arbitrary()?);
            assert_eq!(constant_time_eq(one, other), one == other);
            assert!(constant_time_eq(one, one));
            Ok(())
        });
    }

    #[test]
    fn prefixes_are_letters_and_digits() {
        for text in ["im", "a", "1234567890123456"] {
            assert!(text.parse::<KeyPrefix>().is_ok(), "{text}");
        }
        for text in ["", "i_m", "im ", "é", "12345678901234567"] {
            assert!(text.parse::<KeyPrefix>().is_err(), "{text}");
        }
    }
}
