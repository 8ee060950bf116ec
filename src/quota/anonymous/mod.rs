//! The daily quota of clients without a key: a table of fixed size, lock-free and exact.
//!
//! A client's address hashes to a window of 32 words. The client uses the first word of the window
//! that counts for it today or is free, where "free" takes in every word of an earlier day: nothing
//! is swept at midnight. If all 32 count for others, the client shares one of the overflow words,
//! and its limit, with whoever else landed there.
//!
//! # Why no client gets more than its limit
//!
//! - A word is only ever replaced by compare-and-swap, by the rule of [`QuotaWord::step`]: its day
//!   never goes back, and within a day it keeps its tag and its count grows by one. So a word that
//!   has been taken for a day is never free again on that day.
//! - Hence all requests of a client and day meet at one word. Words before it are taken, and stay
//!   so. A thread that reads an old value there and thinks the word free fails its swap, because a
//!   swap compares with the newest value whatever the memory order; it then sees the truth and
//!   moves on. A full window stays full, so nobody is in both the window and the overflow.
//! - At that word every admission is one swap from a count below the limit to the next one. The
//!   swaps of one word happen in one order: at most `limit` succeed, each with its own `remaining`.
//! - A thread that still lives in yesterday meets, at or before the client's word, a word of today
//!   if the client's was reused, and goes on as of today. It is then charged to today.
//!
//! Nothing is published through a word but the word itself, so every access is `Relaxed`. A failed
//! swap means that another one succeeded, and words change at most `limit` times a day: no client
//! can hold another up. All this holds while the days of concurrent threads, and of words not yet
//! reused, are at most 2047 apart: a table lives for less than five years.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use super::decision::Decision;
use super::word::{QuotaWord, RingDay, Step, Tag};
use crate::calendar::UtcDay;
use crate::sync::{AtomicU64, Ordering};

const LINE_BYTES: usize = 64;
/// Words in a cache line.
const LINE_LOG2: u32 = 3;
const LINE: usize = 1 << LINE_LOG2;
/// Words that a client may be counted in.
const WINDOW: usize = 4 * LINE;
/// Each index has half of a 64-bit hash to itself.
const INDEX_BITS_MAX: u32 = 32;
/// Marks the tag of an IPv6 network; the tag of an IPv4 address has zeros above its 32 bits.
const IPV6_MARK: u64 = 1 << 35;

/// The counters of all anonymous clients.
#[derive(Debug)]
pub struct AnonymousQuota {
    slots: Box<[AtomicU64]>,
    /// Where in `slots` the first whole cache line begins; the table proper starts there.
    start: usize,
    slots_log2: u32,
    overflow: Box<[AtomicU64]>,
    places: RandomState,
    tags: RandomState,
}

/// An anonymous client: its place in the table that made it. Made once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    tag: Tag,
    home: u32,
    overflow: u32,
}

impl Client {
    /// The client at that address: an IPv4 address, written either way, or the /64 of an IPv6 one.
    ///
    /// An IPv4 address is its own tag. Two IPv6 networks share a quota if 35 bits of one hash and
    /// the windows by another both agree. The seeds are secret, so nobody can aim.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves of a hash, each used for itself"
    )]
    pub fn new(quota: &AnonymousQuota, address: IpAddr) -> Client {
        let (tag, place) = match address.to_canonical() {
            IpAddr::V4(address) => {
                let bits = address.to_bits();
                (
                    Tag::new(u64::from(bits)),
                    quota.places.hash_one((4_u8, u64::from(bits))),
                )
            }
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                let tag = quota.tags.hash_one(network) & (IPV6_MARK - 1) | IPV6_MARK;
                (Tag::new(tag), quota.places.hash_one((6_u8, network)))
            }
        };
        let line = (place >> 32) as u32 >> (INDEX_BITS_MAX - quota.slots_log2) >> LINE_LOG2;
        let shared = place as u32 & ((quota.overflow.len() - 1) as u32);
        Client {
            tag,
            home: line << LINE_LOG2,
            overflow: shared,
        }
    }
}

/// What came of a walk at one word.
enum Met<T> {
    Settled(T),
    Others,
    Later(RingDay),
}

impl AnonymousQuota {
    /// An empty table of `2^slots_log2` words and `2^overflow_log2` shared ones, 8 bytes each.
    ///
    /// Sized for 60 % of the words in use on the busiest day; the exponents are held within 3 to
    /// 32 and 0 to 32.
    pub fn new(slots_log2: u32, overflow_log2: u32) -> AnonymousQuota {
        let slots_log2 = slots_log2.clamp(LINE_LOG2, INDEX_BITS_MAX);
        let overflow_log2 = overflow_log2.min(INDEX_BITS_MAX);
        let slots = zeroed((1 << slots_log2) + LINE - 1);
        let start = slots.as_ptr().align_offset(LINE_BYTES);
        AnonymousQuota {
            // Unaligned is slower, not wrong, so a platform that cannot tell may have it.
            start: if start < LINE { start } else { 0 },
            slots,
            slots_log2,
            overflow: zeroed(1 << overflow_log2),
            places: RandomState::new(),
            tags: RandomState::new(),
        }
    }

    /// Counts a request of the client, if it has one left on that day.
    pub fn admit(&self, client: Client, limit: u16, day: UtcDay) -> Decision {
        self.admit_on(client, limit, day.into()).0
    }

    /// Requests that the client has left on that day. Counts nothing.
    pub fn peek(&self, client: Client, limit: u16, day: UtcDay) -> u32 {
        let (left, _) = self.walk(
            client,
            day.into(),
            |cell, tag, day| match QuotaWord::from_bits(cell.load(Ordering::Relaxed))
                .step(tag, day, limit)
            {
                Step::Write(next) => Met::Settled(u32::from(limit - next.count()) + 1),
                Step::Refuse => Met::Settled(0),
                Step::Others => Met::Others,
                Step::Later(later) => Met::Later(later),
            },
        );
        left
    }

    /// The decision, and the day that it was made as of.
    fn admit_on(&self, client: Client, limit: u16, day: RingDay) -> (Decision, RingDay) {
        self.walk(client, day, |cell, tag, day| {
            let mut seen = cell.load(Ordering::Relaxed);
            loop {
                let next = match QuotaWord::from_bits(seen).step(tag, day, limit) {
                    Step::Write(next) => next,
                    Step::Refuse => return Met::Settled(Decision::Refuse),
                    Step::Others => return Met::Others,
                    Step::Later(later) => return Met::Later(later),
                };
                let swap =
                    cell.compare_exchange(seen, next.bits(), Ordering::Relaxed, Ordering::Relaxed);
                match swap {
                    Ok(_) => {
                        let remaining = u32::from(limit - next.count());
                        return Met::Settled(Decision::Admit { remaining });
                    }
                    Err(newest) => seen = newest,
                }
            }
        })
    }

    /// Visits the client's words until one settles the matter, from the start again on a later day.
    ///
    /// Ends: a later day adopted behind the first word makes that word stale, thus free.
    #[inline]
    fn walk<T>(
        &self,
        client: Client,
        mut day: RingDay,
        visit: impl Fn(&AtomicU64, Tag, RingDay) -> Met<T>,
    ) -> (T, RingDay) {
        let mask = (1 << self.slots_log2) - 1;
        'again: loop {
            for at in 0..WINDOW.min(mask + 1) {
                let cell = &self.slots[self.start + ((client.home as usize + at) & mask)];
                match visit(cell, client.tag, day) {
                    Met::Settled(outcome) => return (outcome, day),
                    Met::Others => {}
                    Met::Later(later) => {
                        day = later;
                        continue 'again;
                    }
                }
            }
            match visit(&self.overflow[client.overflow as usize], Tag::SHARED, day) {
                Met::Settled(outcome) => return (outcome, day),
                Met::Others => unreachable!("every overflow word has the shared tag"),
                Met::Later(later) => day = later,
            }
        }
    }
}

/// Words of zero. In a release build the memory is the kernel's zero pages, touched on first use:
/// the vector is allocated zeroed and collecting it in place is optimized away.
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    vec![0; words].into_iter().map(AtomicU64::new).collect()
}

#[cfg(test)]
mod tests;
