//! [`KeyRole`]: which of several servers changes the keys they share, and the file that records it.

use std::fmt;
use std::time::Instant;

/// Name of the file in the state directory. Without it, the keys are this server's own.
pub(super) const FILE: &str = "keys-role";
/// The first word of the file: its version.
const VERSION: &str = "1";

/// Which server changes the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRole {
    /// This server, for itself only.
    Alone,
    /// This server, which has led since the start of this term.
    Leads {
        /// Number of the term. Each new leader begins a higher one.
        term: u32,
    },
    /// This server as soon as the store has confirmed that it leads.
    Waits,
    /// Another server.
    Follows {
        /// Its name, empty if it is not known.
        leader: String,
    },
    /// Another server, which leads since this one did. This one leads again only after it has followed.
    Deposed {
        /// Its name.
        leader: String,
    },
}

/// The state of the keys that a server shares.
#[derive(Clone, Debug)]
pub struct SharedKeysState {
    /// Which server changes the keys.
    pub role: KeyRole,
    /// Base URL of the leader, if it has one.
    pub leader_url: Option<String>,
    /// The last exchange with the store succeeded.
    pub is_up: bool,
    /// Time of the last exchange that succeeded; before the first one, the time of the start.
    pub exchanged: Instant,
}

impl KeyRole {
    /// The names of the roles of servers that share keys.
    pub const NAMES: [&str; 4] = ["leads", "waits", "follows", "deposed"];

    /// Returns the name of the role; `None` if the keys are this server's own.
    pub fn name(&self) -> Option<&'static str> {
        let [leads, waits, follows, deposed] = KeyRole::NAMES;
        match self {
            KeyRole::Alone => None,
            KeyRole::Leads { .. } => Some(leads),
            KeyRole::Waits => Some(waits),
            KeyRole::Follows { .. } => Some(follows),
            KeyRole::Deposed { .. } => Some(deposed),
        }
    }

    /// Returns the name of the server that changes the keys if it is another one; empty if it is not
    /// known.
    pub fn other_leader(&self) -> Option<&str> {
        match self {
            KeyRole::Follows { leader } | KeyRole::Deposed { leader } => Some(leader),
            KeyRole::Alone | KeyRole::Leads { .. } | KeyRole::Waits => None,
        }
    }

    /// Parses the contents of the file.
    pub(super) fn parse(text: &str) -> Option<KeyRole> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [VERSION, "leads", term] => term.parse().ok().map(|term| KeyRole::Leads { term }),
            [VERSION, "waits"] => Some(KeyRole::Waits),
            [VERSION, "follows", ref leader @ ..] if leader.len() <= 1 => Some(KeyRole::Follows {
                leader: leader.concat(),
            }),
            [VERSION, "deposed", leader] => Some(KeyRole::Deposed {
                leader: leader.to_owned(),
            }),
            _ => None,
        }
    }

    /// Returns the contents of the file; `None` if there is none.
    pub(super) fn text(&self) -> Option<String> {
        let operand = match self {
            KeyRole::Leads { term } => term.to_string(),
            KeyRole::Follows { leader } | KeyRole::Deposed { leader } => leader.clone(),
            KeyRole::Alone | KeyRole::Waits => String::new(),
        };
        let text = format!("{VERSION} {} {operand}", self.name()?);
        Some(format!("{}\n", text.trim_end()))
    }
}

impl fmt::Display for KeyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyRole::Alone => f.write_str("the keys are this server's own"),
            KeyRole::Leads { term } => write!(f, "this server leads in term {term}"),
            KeyRole::Waits => f.write_str(
                "this server does not lead yet; it will lead as soon as it reaches the store",
            ),
            KeyRole::Follows { leader } => {
                f.write_str("this server follows another one; change keys on the leader")?;
                let comma = if leader.is_empty() { "" } else { ", " };
                write!(f, "{comma}{leader}")
            }
            KeyRole::Deposed { leader } => write!(
                f,
                "{leader} has taken the lead from this server; change keys there"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_back() {
        let (leader, unknown) = ("a.example".to_owned(), String::new());
        for role in [
            KeyRole::Leads { term: 7 },
            KeyRole::Waits,
            KeyRole::Follows {
                leader: leader.clone(),
            },
            KeyRole::Follows { leader: unknown },
            KeyRole::Deposed { leader },
        ] {
            assert_eq!(KeyRole::parse(&role.text().unwrap()), Some(role));
        }
        for text in ["", "1", "2 waits", "1 leads", "1 leads x", "1 rules 3"] {
            assert_eq!(KeyRole::parse(text), None, "{text}");
        }
    }
}
