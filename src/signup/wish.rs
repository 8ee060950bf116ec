//! What is asked at the desk, and what is answered.

use super::index::ListedKey;
use super::mailer::Mailer;
use super::refused::Refused;
use crate::keys::{KeyAddress, KeyId, NewKey};

/// Free keys a UTC day unless told otherwise: a hundred days until sign-up closes.
const DAILY_MAX: u32 = 1000;

/// How an address is proven.
pub enum Mode {
    /// It is the client's own.
    Ip,
    /// A link is mailed to it.
    Email(Mailer),
}

/// What the operator decides.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Free keys that are issued in a UTC day in all.
    pub daily_max: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            daily_max: DAILY_MAX,
        }
    }
}

/// What somebody wants. Not shown by `Debug`: a pass must not get into a log.
pub enum Wish {
    /// The page is opened, perhaps by a mailed link.
    Look {
        /// From the link.
        pass: Option<String>,
    },
    /// A link is to be mailed, where addresses are proven by mail.
    Mail {
        /// As typed.
        email: String,
        /// Of [`Reply::Ask`].
        pass: String,
    },
    /// Another key.
    Issue {
        /// Of [`Reply::Keys`].
        pass: String,
    },
    /// One key less.
    Revoke {
        /// Of [`Reply::Keys`].
        pass: String,
        /// The key's.
        id: String,
    },
}

impl Wish {
    /// The pass by which somebody wants to be known as the holder of an address.
    pub fn pass_of_holder(&self) -> Option<&str> {
        match self {
            Wish::Look { pass } => pass.as_deref(),
            Wish::Mail { .. } => None,
            Wish::Issue { pass } | Wish::Revoke { pass, .. } => Some(pass),
        }
    }
}

/// What is answered. Not shown by `Debug`: it holds passes.
pub enum Reply {
    /// The form for an address.
    Ask {
        /// For [`Wish::Mail`].
        pass: String,
    },
    /// The link is on its way if the address takes mail: the same whatever is known of the address.
    Mailed,
    /// The keys of the address that the asker has proven to hold.
    Keys {
        /// Whose.
        address: KeyAddress,
        /// All of them, the oldest first.
        keys: Vec<ListedKey>,
        /// For the next wish. Where addresses are proven by mail, it holds no longer than the link did.
        pass: String,
        /// The key that was just issued: to be shown now or never.
        issued: Option<NewKey>,
        /// The key that was just revoked, or had been.
        revoked: Option<KeyId>,
    },
    /// Why not.
    Refused(Refused),
}
