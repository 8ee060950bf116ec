//! Sign-up: people issue keys of the free tier to themselves, see the keys of their address and
//! revoke them.
//!
//! **In:** a client's address and its [`Wish`]. **Out:** a [`Reply`]. An address is proven before
//! anything is said about it: an IP address by being asked from, an e-mail address by a link that was
//! mailed to it. **Must never know:** HTTP, HTML, limits of requests.
//!
//! - `pass`: signed statements that expire; what forms and links carry
//! - `secret`: what they are signed with
//! - `email`: which addresses are mailed to
//! - `pace`: how often something may be done, in fixed memory
//! - `index`: the keys by address, and the rules for another
//! - `mailer`: the command that sends mail
//! - `wish`: what is asked and answered
//! - `desk`: all of it in order
//! - `refused`, `error`: why not

mod desk;
mod email;
mod error;
mod index;
mod mailer;
mod pace;
mod pass;
mod refused;
mod secret;
mod wish;

pub use desk::Desk;
pub use error::SignupError;
pub use index::ListedKey;
pub use mailer::Mailer;
pub use pace::Pace;
pub use refused::Refused;
pub use wish::{Mode, Reply, Terms, Wish};

/// Tells the operator a line. It holds no pass and no key.
pub type Say = Box<dyn Fn(&str) + Send>;
