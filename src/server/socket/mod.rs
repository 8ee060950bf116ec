//! One connection's socket: what hyper reads and writes passes through here, on time or not at all.
//!
//! `guard` stands between hyper and the socket; `roster` knows what each connection is doing since when,
//! `linger` is the end of one whose client is sending yet; `turn` is the time that one takes from the others.

pub(super) mod buffers;
pub(super) mod guard;
pub(super) mod journal;
pub(super) mod linger;
mod member;
pub(super) mod pending;
pub(super) mod phase;
pub(super) mod roster;
mod send_buffer;
pub(super) mod turn;
