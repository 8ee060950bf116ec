//! Passes: signed statements that expire, which forms and links carry back to us.
//!
//! `<until>.<number>.<mac>.<address>`: two numbers in hexadecimal, 128 bits of HMAC-SHA-256 over the
//! purpose and the other fields as they stand, and the address percent-encoded with `~` for `%`: so
//! the text is the same in a form, in a link and in a line of mail, however often it is decoded. Whatever is changed in it, it is no pass any more.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::refused::Refused;
use crate::calendar::UnixSeconds;
use crate::keys::{KeyAddress, constant_time_eq};

/// Long enough for mail that is held back by greylisting, short enough for a screen left open.
pub(super) const LIFETIME_SECONDS: i64 = 3600;
/// Of what passes are signed with: as many as the hash has; more would be hashed down to them.
pub(super) const SECRET_BYTES: usize = 32;
/// Nobody guesses 128 bits, and the line stays short.
const MAC_BYTES: usize = 16;
/// The third field.
pub(super) const MAC_CHARS: usize = 2 * MAC_BYTES;
/// The longest there is: an address of 254 bytes, each of them encoded.
const PASS_CHARS_MAX: usize = 16 + 8 + MAC_CHARS + 3 * 254 + 3;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// What a pass is for. One for the first is never taken for the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The form came from our page, to the client with this address.
    Form,
    /// Whoever has it holds the address, and may handle its keys.
    Holder,
}

/// What a pass says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) address: KeyAddress,
    /// How many keys had ever been issued to the address; a key is issued only while that is so.
    pub(super) number: u32,
    pub(super) until: UnixSeconds,
}

/// Signs passes, and knows its own again.
pub(super) struct Signer {
    secret: [u8; SECRET_BYTES],
}

impl Signer {
    pub(super) fn new(secret: [u8; SECRET_BYTES]) -> Signer {
        Signer { secret }
    }

    pub(super) fn sign(&self, purpose: Purpose, pass: &Pass) -> String {
        let until = format!("{:x}", pass.until.0.cast_unsigned());
        let number = format!("{:x}", pass.number);
        let address = utf8_percent_encode(pass.address.as_str(), ENCODED).to_string();
        let address = address.replace('%', "~");
        let mac = self.mac(purpose, [&until, &number, &address]);
        format!("{until}.{number}.{mac}.{address}")
    }

    /// What a pass says, if it is ours, for this purpose, and still holds.
    pub(super) fn verify(
        &self,
        purpose: Purpose,
        text: &str,
        now: UnixSeconds,
    ) -> Result<Pass, Refused> {
        let pass = self.read(purpose, text).ok_or(Refused::Invalid)?;
        let left = pass.until.0.saturating_sub(now.0);
        // One that holds for much longer is from a clock that was ahead.
        if (1..=2 * LIFETIME_SECONDS).contains(&left) {
            Ok(pass)
        } else {
            Err(Refused::Expired)
        }
    }

    fn read(&self, purpose: Purpose, text: &str) -> Option<Pass> {
        if text.len() > PASS_CHARS_MAX {
            return None;
        }
        let mut fields = text.splitn(4, '.');
        let (until, number, mac) = (fields.next()?, fields.next()?, fields.next()?);
        let address = fields.next()?;
        let expected = self.mac(purpose, [until, number, address]);
        if !constant_time_eq(mac.as_bytes(), expected.as_bytes()) {
            return None;
        }
        // What follows cannot fail: the text is as it was signed.
        let address = address.replace('~', "%");
        let decoded = percent_decode_str(&address).decode_utf8().ok()?;
        Some(Pass {
            address: decoded.parse().ok()?,
            number: u32::from_str_radix(number, 16).ok()?,
            until: UnixSeconds(u64::from_str_radix(until, 16).ok()?.cast_signed()),
        })
    }

    /// No field but the last has a point in it, so that no two passes are one text.
    fn mac(&self, purpose: Purpose, [until, number, address]: [&str; 3]) -> String {
        // Never other ones: links that are under way would be void.
        let purpose = match purpose {
            Purpose::Form => "Form",
            Purpose::Holder => "Holder",
        };
        let signed = format!("signup {purpose} {until}.{number}.{address}");
        let mac = hmac_sha256::HMAC::mac(signed, self.secret);
        let digits = mac[..MAC_BYTES].iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}

#[cfg(test)]
mod tests {
    use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

    use super::*;

    fn any_pass(u: &mut Unstructured<'_>) -> Arbitrary<Pass> {
        let address = match u.int_in_range(0..=3)? {
            0 => KeyAddress::from(std::net::IpAddr::from(u.arbitrary::<[u8; 4]>()?)),
            1 => KeyAddress::from(std::net::IpAddr::from(u.arbitrary::<[u8; 16]>()?)),
            2 => "a.%41+b=c@x-y.example".parse().unwrap(),
            _ => "~'&._-@x.test".parse().unwrap(),
        };
        Ok(Pass {
            address,
            number: u.arbitrary()?,
            until: UnixSeconds(u.int_in_range(1..=1 << 40)?),
        })
    }

    fn any_purpose(u: &mut Unstructured<'_>) -> Arbitrary<(Purpose, Purpose)> {
        let both = (Purpose::Form, Purpose::Holder);
        Ok(if u.arbitrary()? {
            both
        } else {
            (both.1, both.0)
        })
    }

    #[test]
    fn any_pass_reads_back_until_it_expires_and_for_its_purpose_only() {
        arbtest::arbtest(|u| {
            let signer = Signer::new(u.arbitrary()?);
            let pass = any_pass(u)?;
            let (purpose, other) = any_purpose(u)?;
            let text = signer.sign(purpose, &pass);
            let before = |seconds| UnixSeconds(pass.until.0 - seconds);
            let verify = |purpose, now| signer.verify(purpose, &text, now);
            assert_eq!(verify(purpose, before(1)), Ok(pass.clone()));
            assert_eq!(verify(purpose, before(LIFETIME_SECONDS)), Ok(pass.clone()));
            assert_eq!(verify(purpose, before(0)), Err(Refused::Expired));
            assert_eq!(verify(purpose, before(-1)), Err(Refused::Expired));
            let early = before(3 * LIFETIME_SECONDS);
            assert_eq!(verify(purpose, early), Err(Refused::Expired));
            assert_eq!(verify(other, before(1)), Err(Refused::Invalid));
            let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            assert!(text.bytes().all(safe), "{text}");
            Ok(())
        });
    }

    #[test]
    fn any_change_of_the_text_or_the_secret_is_refused() {
        arbtest::arbtest(|u| {
            let secret: [u8; SECRET_BYTES] = u.arbitrary()?;
            let signer = Signer::new(secret);
            let pass = any_pass(u)?;
            let now = UnixSeconds(pass.until.0 - 1);
            let text = signer.sign(Purpose::Holder, &pass);
            let refused = |signer: &Signer, text: &str| {
                let verified = signer.verify(Purpose::Holder, text, now);
                assert_eq!(verified, Err(Refused::Invalid), "{text}");
            };
            let at = u.choose_index(text.len())?;
            let other = char::from(u.int_in_range(0..=127_u8)?);
            let (head, tail) = text.split_at(at);
            if !tail.starts_with(other) {
                refused(&signer, &format!("{head}{other}{}", &tail[1..]));
            }
            refused(&signer, &format!("{head}{}", &tail[1..]));
            refused(&signer, head);
            refused(&signer, tail.get(1..).unwrap());
            refused(&signer, &format!("{text}{other}"));
            refused(&signer, &format!("{other}{text}"));
            let mut changed = secret;
            changed[u.choose_index(SECRET_BYTES)?] ^= 1 << u.int_in_range(0..=7)?;
            refused(&Signer::new(changed), &text);
            Ok(())
        });
    }

    #[test]
    fn any_text_is_refused_without_a_panic() {
        let signer = Signer::new([1; SECRET_BYTES]);
        let refused = |text: &str| {
            let verified = signer.verify(Purpose::Holder, text, UnixSeconds(0));
            assert_eq!(verified, Err(Refused::Invalid), "{text:?}");
        };
        arbtest::arbtest(|u| {
            refused(u.arbitrary()?);
            Ok(())
        });
        for text in ["", "...", "1.0.0.a", "é.é.é.é"] {
            refused(text);
        }
        refused(&".".repeat(100_000));
    }

    #[test]
    fn fields_cannot_lend_each_other_bytes() {
        let signer = Signer::new([1; SECRET_BYTES]);
        let one = signer.mac(Purpose::Holder, ["12", "3", "a"]);
        assert_ne!(one, signer.mac(Purpose::Holder, ["1", "23", "a"]));
        assert_ne!(one, signer.mac(Purpose::Holder, ["12", "3a", ""]));
        assert_ne!(one, signer.mac(Purpose::Form, ["12", "3", "a"]));
    }

    #[test]
    fn the_longest_pass_fits_a_line_of_mail() {
        let signer = Signer::new([1; SECRET_BYTES]);
        let address = format!("{}@{}.test", "+".repeat(64), "a".repeat(184));
        let pass = Pass {
            address: address.parse().unwrap(),
            number: u32::MAX,
            until: UnixSeconds(i64::MAX),
        };
        let text = signer.sign(Purpose::Holder, &pass);
        assert!(text.len() <= 500, "{}", text.len());
    }
}
