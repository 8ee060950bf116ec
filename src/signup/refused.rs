//! Why a wish is not fulfilled, in words for the one who has it.

use std::fmt;

use crate::keys::FREE_KEYS_MAX;

/// Free keys that one address is issued within 24 hours: three times those it may have, since a
/// record stays when its key is revoked, and whoever issues and revokes by turns would fill the disk.
pub(super) const ISSUED_IN_24_HOURS_MAX: usize = 9;

/// Why not. Says nothing about an address that the asker has not proven to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The pass is not ours, or is for something or somebody else.
    Invalid,
    /// The pass was good once.
    Expired,
    /// A key has been issued to the address since the pass was made.
    Used,
    /// No mail is sent to what was given as an address.
    NoEmail,
    /// None of the address's keys has this id.
    UnknownKey,
    /// The address has as many active free keys as it may have.
    TooManyActive,
    /// The address was issued too many keys of late.
    TooManyLately {
        /// Until it may have another.
        retry_after_seconds: u32,
    },
    /// The client asks too often.
    TooFast {
        /// Until it may ask again.
        retry_after_seconds: u32,
    },
    /// The client has too much mailed.
    TooManyMails {
        /// Until it may have another sent.
        retry_after_seconds: u32,
    },
    /// Sign-up has given, or mailed, all that it does in a UTC day.
    DayFull {
        /// Until the next day.
        retry_after_seconds: u32,
    },
    /// There are as many free keys as there may be.
    Closed,
    /// Too many mails wait to be sent.
    MailsWait,
    /// Too many want something at once.
    Busy,
    /// It could not be done; the operator was told why.
    Failed,
}

impl Refused {
    /// When to try again, if time alone helps.
    pub fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Refused::TooManyLately {
                retry_after_seconds,
            }
            | Refused::TooFast {
                retry_after_seconds,
            }
            | Refused::TooManyMails {
                retry_after_seconds,
            }
            | Refused::DayFull {
                retry_after_seconds,
            } => Some(retry_after_seconds),
            Refused::Busy => Some(5),
            // A slow command takes half as long for each.
            Refused::MailsWait => Some(60),
            // The operator may have mended it by then.
            Refused::Failed | Refused::Closed => Some(3600),
            _ => None,
        }
    }
}

/// A time to wait, rounded up, in the unit that people would use.
struct Wait(u32);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (amount, unit) = match self.0 {
            seconds @ ..120 => (seconds, "second"),
            seconds @ ..7200 => (seconds.div_ceil(60), "minute"),
            seconds => (seconds.div_ceil(3600), "hour"),
        };
        let plural = if amount == 1 { "" } else { "s" };
        write!(f, "{amount} {unit}{plural}")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Invalid => f.write_str(
                "This link or form is not valid here. Open the page again; if a link brought you, \
                 copy it whole or ask for a new one.",
            ),
            Refused::Expired => f.write_str(
                "This link or form is older than an hour. Open the page again; if a link brought \
                 you, ask for a new one.",
            ),
            Refused::Used => f.write_str(
                "A key has been issued since this form was opened, so it issues no other. Open the \
                 page again to see your keys; one whose secret you did not see can be revoked.",
            ),
            Refused::NoEmail => f.write_str(
                "We cannot send a link to that address. Enter one like \
                 ann@example.com: letters, digits and . _ + = ~ ' & - before the @, a full domain \
                 after it.",
            ),
            Refused::UnknownKey => f.write_str("None of your keys has this id."),
            Refused::TooManyActive => write!(
                f,
                "You have {FREE_KEYS_MAX} active free keys, the maximum. Revoke one, and you can \
                 get another."
            ),
            Refused::TooManyLately {
                retry_after_seconds,
            } => write!(
                f,
                "You were issued {ISSUED_IN_24_HOURS_MAX} keys within 24 hours, the maximum. You can \
                 get another in {}.",
                Wait(*retry_after_seconds)
            ),
            Refused::TooFast {
                retry_after_seconds,
            } => write!(
                f,
                "Your network sends too many requests. Try again in {}.",
                Wait(*retry_after_seconds)
            ),
            Refused::TooManyMails {
                retry_after_seconds,
            } => write!(
                f,
                "Your network has asked for too many links. Try again in {}.",
                Wait(*retry_after_seconds)
            ),
            Refused::DayFull {
                retry_after_seconds,
            } => write!(
                f,
                "Sign-up has given out all that it gives in a day. Try again in {}.",
                Wait(*retry_after_seconds)
            ),
            Refused::Closed => f.write_str("Sign-up is closed for now."),
            Refused::MailsWait => f.write_str("Mail is delayed just now. Try again in a minute."),
            Refused::Busy => {
                f.write_str("Too many people are here at once. Try again in a few seconds.")
            }
            Refused::Failed => f.write_str("Something went wrong on our side. Try again later."),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_the_unit_that_people_use() {
        let told = [1, 2, 119, 120, 121, 7199, 7200, 7201, 86_400].map(|s| Wait(s).to_string());
        let want = [
            "1 second",
            "2 seconds",
            "119 seconds",
            "2 minutes",
            "3 minutes",
            "120 minutes",
            "2 hours",
            "3 hours",
            "24 hours",
        ];
        assert_eq!(told, want);
    }
}
