//! The text of a key: parsing, random generation, and the digest that is stored.
//!
//! `<prefix>_live_<id>_<secret>`: the id is ten base62 characters, public, and identifies the record.
//! The secret is thirty random base62 characters, 178 bits, and six check digits of all text before
//! them, so that a mistyped key, or similar text found by a secret scanner, is recognized as invalid
//! without a list of all keys.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use bitcoin_hashes::sha256;
use zlib_rs::crc32::crc32;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
pub(super) const KIND: &str = "_live_";
const ID_CHARS: usize = 10;
const RANDOM_CHARS: usize = 30;
const CHECK_CHARS: usize = 6;
const SECRET_CHARS: usize = RANDOM_CHARS + CHECK_CHARS;

/// The text is not an address, a key prefix or a key id. Displays the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(super) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

/// The prefix of all keys of a service: 1 to 16 letters and digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(pub(super) Box<str>);

impl FromStr for KeyPrefix {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<KeyPrefix, Malformed> {
        let is_valid =
            (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let prefix = is_valid.then(|| KeyPrefix(text.into()));
        prefix.ok_or(Malformed("1 to 16 letters and digits"))
    }
}

impl Default for KeyPrefix {
    fn default() -> KeyPrefix {
        KeyPrefix("im".into())
    }
}

/// The public part of a key, stored as the number of its ten base62 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u64);

impl KeyId {
    /// Returns the id as a number of at most 60 bits. Ids sort like their text.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl FromStr for KeyId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<KeyId, Malformed> {
        let digits = Some(text.as_bytes()).filter(|text| text.len() == ID_CHARS);
        let number = digits.and_then(value).map(KeyId);
        number.ok_or(Malformed("the 10 letters and digits of a key's <id>"))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = digits::<ID_CHARS>(self.0);
        f.write_str(std::str::from_utf8(&digits).expect("base62 digits are ASCII"))
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

fn random_digits(count: usize) -> String {
    let mut digits = String::with_capacity(count);
    while digits.len() < count {
        let mut bytes = [0; 64];
        // The kernel's generator does not fail once the system has booted.
        getrandom::fill(&mut bytes).expect("the system gives random numbers");
        // 62 x 4 = 248: larger bytes would favour the first digits.
        let unbiased = bytes.into_iter().filter(|byte| *byte < 248);
        let random = unbiased.map(|byte| char::from(DIGITS[usize::from(byte % 62)]));
        digits.extend(random.take(count - digits.len()));
    }
    digits
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

/// Parses a key sent by a client into its id and the digest of its secret; `None` if a segment is
/// missing or has another length, or if the check digits are wrong. None of that is secret, so it may
/// return early.
pub(super) fn parse_key(prefix: &KeyPrefix, key: &[u8]) -> Option<(KeyId, [u8; 32])> {
    let rest = key.strip_prefix(prefix.0.as_bytes())?;
    let rest = rest.strip_prefix(KIND.as_bytes())?;
    let (id, rest) = rest.split_at_checked(ID_CHARS)?;
    let secret = rest.strip_prefix(b"_")?;
    if secret.len() != SECRET_CHARS || !secret.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let (checked, check) = key.split_at(key.len() - CHECK_CHARS);
    let id = value(id).filter(|_| *check == check_digits(checked))?;
    Some((KeyId(id), digest(secret)))
}

/// SHA-256 of a secret, the only form that is stored. Secrets are random, so no slow hash is needed.
fn digest(secret: &[u8]) -> [u8; 32] {
    sha256::hash(secret).to_byte_array()
}

fn check_digits(text: &[u8]) -> [u8; CHECK_CHARS] {
    digits(crc32(0, text).into())
}

/// A newly generated key. Its text is shown once and not stored.
pub struct NewKey {
    pub id: KeyId,
    text: String,
}

impl NewKey {
    pub(super) fn random(prefix: &KeyPrefix) -> NewKey {
        let id = random_digits(ID_CHARS);
        let secret = random_digits(RANDOM_CHARS);
        let mut text = format!("{}{KIND}{id}_{secret}", prefix.0);
        text.extend(check_digits(text.as_bytes()).map(char::from));
        let id = id.parse().expect("ten random digits are an id");
        NewKey { id, text }
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        let secret = &self.text[self.text.len() - SECRET_CHARS..];
        digest(secret.as_bytes())
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
            let parsed = parse_key(&prefix, text.as_bytes());
            assert_eq!(parsed, Some((key.id, key.digest())));
            for at in 0..text.len() {
                for other in [b'0', b'a', b'Z', b'_', b' ', 0xFF] {
                    let mut bytes = text.as_bytes().to_vec();
                    if bytes[at] != other {
                        bytes[at] = other;
                        assert!(parse_key(&prefix, &bytes).is_none(), "{at} {other}");
                    }
                }
            }
            assert!(parse_key(&other_prefix, text.as_bytes()).is_none());
        }
    }

    #[test]
    fn texts_that_are_no_keys_are_refused() {
        let prefix = KeyPrefix::default();
        let key = NewKey::random(&prefix);
        let text = key.reveal();
        for length in 0..text.len() {
            assert!(parse_key(&prefix, &text.as_bytes()[..length]).is_none());
            assert!(parse_key(&prefix, &text.as_bytes()[text.len() - length..]).is_none());
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
            assert!(parse_key(&prefix, text.as_bytes()).is_none(), "{text}");
        }
        arbtest::arbtest(|u| {
            assert!(parse_key(&prefix, u.arbitrary()?).is_none());
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
            assert_eq!(text.parse::<KeyId>().ok(), None, "{text}");
        }
    }

    #[test]
    fn the_form_of_a_secret_is_checked_whatever_the_check_digits_are() {
        let prefix = KeyPrefix::default();
        let with_check = |secret: String| {
            let text = format!("im{KIND}0123456789_{secret}");
            let check = check_digits(text.as_bytes()).map(char::from);
            text + &check.iter().collect::<String>()
        };
        let parsed = |secret| parse_key(&prefix, with_check(secret).as_bytes());
        assert!(parsed("a".repeat(RANDOM_CHARS)).is_some());
        for secret in [
            "a".repeat(RANDOM_CHARS - 1),
            "a".repeat(RANDOM_CHARS + 1),
            "a".repeat(RANDOM_CHARS - 1) + "-",
        ] {
            assert_eq!(parsed(secret.clone()), None, "{secret}");
        }
    }

    /// The second example of FIPS 180-4: stored digests must be those of any other program.
    #[test]
    fn a_secret_is_stored_as_its_sha256() {
        let digest = digest(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
        assert_eq!(digest[..4], [0x24, 0x8d, 0x6a, 0x61]);
        assert_eq!(digest[28..], [0x19, 0xdb, 0x06, 0xc1]);
    }

    #[test]
    fn random_digits_are_spread_evenly() {
        for count in [0, 1, 62, 200] {
            assert_eq!(random_digits(count).len(), count);
        }
        let mut counts = [0_u32; 62];
        for _ in 0..2000 {
            for byte in random_digits(31).bytes() {
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
    fn debug_shows_the_id_and_not_the_secret() {
        let key = NewKey::random(&KeyPrefix::default());
        assert_eq!(format!("{key:?}"), format!("NewKey({}, ***)", key.id));
    }

    #[test]
    fn equality_is_that_of_slices() {
        arbtest::arbtest(|u| {
            let (one, other): (&[u8], &[u8]) = (u.arbitrary()?, u.arbitrary()?);
            assert_eq!(constant_time_eq(one, other), one == other);
            assert!(constant_time_eq(one, one));
            Ok(())
        });
        // Differences that cancel each other, and those of single bits.
        for other in [[1, 1, 0], [1, 0, 0], [0, 0, 128]] {
            assert!(!constant_time_eq(&[0, 0, 0], &other), "{other:?}");
        }
    }

    #[test]
    fn prefixes_are_letters_and_digits() {
        for text in ["im", "a", "1234567890123456"] {
            assert!(text.parse::<KeyPrefix>().is_ok(), "{text}");
        }
        for text in ["", "i_m", "im ", "é", "12345678901234567"] {
            let error = text.parse::<KeyPrefix>().unwrap_err().to_string();
            assert_eq!(error, "expected 1 to 16 letters and digits", "{text}");
        }
    }
}
