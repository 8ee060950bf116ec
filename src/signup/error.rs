//! Rejected requests of sign-up, with messages for the client.

use std::fmt;

use crate::model::FREE_KEYS_MAX;

/// Free keys per address in 24 hours: three times the active ones, because the record of a revoked key
/// stays, and issuing and revoking in turns would fill the disk.
pub(super) const ISSUED_IN_24_HOURS_MAX: usize = 9;

/// A request was rejected. Displays as a message for the client, without information about addresses
/// that the client has not proven to own. The numbers are the seconds until a retry can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignupError {
    /// The token is forged, or was issued for another purpose or address.
    InvalidToken,
    ExpiredToken,
    /// A key has been issued to the address since the token was signed.
    UsedToken,
    /// No mail is sent to an address of this form.
    InvalidEmail,
    /// None of the address's keys has this id.
    UnknownKey,
    /// The address has the maximum number of active free keys.
    TooManyActive,
    /// The address was issued the maximum number of keys in 24 hours.
    TooManyRecent(u32),
    RateLimited(u32),
    /// The client exceeds its mail rate.
    TooManyMails(u32),
    /// The daily maximum of keys or mails in total is reached.
    DailyLimit(u32),
    /// The maximum number of free keys in total is reached.
    Closed,
    /// The store that servers share cannot be reached.
    Unavailable,
    MailQueueFull,
    /// Other requests took too long, or the key file is locked.
    Busy,
    /// An internal error, which has been logged.
    Internal,
}

impl SignupError {
    /// Returns the seconds until a retry can succeed; `None` if waiting does not help.
    pub(crate) fn retry_after_seconds(self) -> Option<u32> {
        match self {
            SignupError::Busy => Some(5),
            // A mail takes up to half a minute.
            SignupError::MailQueueFull | SignupError::Unavailable => Some(60),
            // The operator may have fixed the cause by then.
            SignupError::Internal | SignupError::Closed => Some(3600),
            error => error.wait_seconds(),
        }
    }

    fn wait_seconds(self) -> Option<u32> {
        match self {
            SignupError::TooManyRecent(seconds)
            | SignupError::RateLimited(seconds)
            | SignupError::TooManyMails(seconds)
            | SignupError::DailyLimit(seconds) => Some(seconds),
            _ => None,
        }
    }
}

/// Formats a time to wait in seconds, minutes or hours, rounded up.
fn format_wait(seconds: u32) -> String {
    let (amount, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds.div_ceil(60), "minute"),
        7200.. => (seconds.div_ceil(3600), "hour"),
    };
    let plural = if amount == 1 { "" } else { "s" };
    format!("{amount} {unit}{plural}")
}

impl fmt::Display for SignupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SignupError::InvalidToken => {
                "This link or form is not valid. Open the page again. If you followed a link, copy \
                 the whole link or request a new one."
            }
            SignupError::ExpiredToken => {
                "This link or form has expired. Open the page again. If you followed a link, \
                 request a new one."
            }
            SignupError::UsedToken => {
                "A key of this address was issued after you opened the page. Open the page again to \
                 see the keys. If the new key is yours and you did not see it, revoke it."
            }
            SignupError::InvalidEmail => {
                "We cannot send a link to that address. Enter one like \
                 ann@example.com: letters, digits and . _ + = ~ ' & - before the @, a full domain \
                 after it."
            }
            SignupError::UnknownKey => "None of your keys has this ID.",
            SignupError::TooManyActive => {
                const { assert!(FREE_KEYS_MAX == 3, "the number in the message") };
                "You have 3 active free keys, which is the maximum. To get another, revoke one first."
            }
            SignupError::TooManyRecent(_) => {
                const { assert!(ISSUED_IN_24_HOURS_MAX == 9, "the number in the message") };
                "You have been issued 9 keys within 24 hours, which is the maximum."
            }
            SignupError::RateLimited(_) => "Your network is sending too many requests.",
            SignupError::TooManyMails(_) => "Your network has requested too many links.",
            SignupError::DailyLimit(_) => "The daily limit for new keys has been reached.",
            SignupError::Closed => "Sign-up is closed for now.",
            SignupError::Unavailable => {
                "Keys cannot be issued at the moment. Try again in a minute."
            }
            SignupError::MailQueueFull => "Mail is delayed. Try again in a minute.",
            SignupError::Busy => "Sign-up is busy. Try again in a few seconds.",
            SignupError::Internal => "Something went wrong on our side. Try again later.",
        })?;
        match self.wait_seconds() {
            Some(seconds) => write!(f, " Try again in {}.", format_wait(seconds)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_formatted_in_the_largest_fitting_unit() {
        let got = [1, 2, 119, 120, 121, 7199, 7200, 7201, 86_400].map(format_wait);
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
        assert_eq!(got, want);
    }
}
