//! The daily quota of clients without a key: a table of fixed size, lock-free and exact.
//!
//! A client's address hashes to a window of 32 words. The client uses the first word of the window
//! that counts for it today or is free, where "free" takes in every word of an earlier day: nothing
//! is swept at midnight. If all 32 count for others, the client shares one of the overflow words,
//! and its limit, with whoever else landed there.
//!
//! # Why no client gets more than its limit
//!
//! - A word is only ever replaced by compare-and-swap, by the rule of [`QuotaWord::transition`]: its day
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
//! reused, are at most 2047 apart. A clock may leap further, and a table live longer: after a leap, the
//! words of other days are emptied.

use std::net::IpAddr;
use std::path::Path;

use super::counter_file::{FileLayout, HashSeeds, StateError, hash, open, random_seeds};
use super::counter_slab::{CounterSlab, LINE};
use super::decision::Decision;
use super::word::{ClientTag, QuotaWord, RingDay, Transition};
use crate::calendar::UtcDay;
use crate::sync::{AtomicU64, Ordering};

/// Homes are multiples of this: the words of a line are tried together. A model has lines of one.
const LINE_LOG2: u32 = if cfg!(island_metrics_loom) {
    0
} else {
    LINE.ilog2()
};
/// Words that a client may be counted in. A model has two, so that all its schedules can be tried.
const WINDOW: usize = if cfg!(island_metrics_loom) {
    2
} else {
    4 * LINE
};
/// Each index has half of a 64-bit hash to itself.
const INDEX_BITS_MAX: u32 = 32;
/// Marks the tag of an IPv6 network; the tag of an IPv4 address has zeros above its 32 bits.
const IPV6_MARK: u64 = 1 << 35;
const FILE_KIND: u32 = 1;
const FILE_NAME: &str = "quota-anonymous";

/// How large the table is, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    slots_log2: u32,
    overflow_log2: u32,
}

impl TableSize {
    /// Clients a day that a table may be made for.
    pub const CLIENTS_MAX: u64 = 100_000_000;

    /// Room for that many clients a day with at most 60 % of the words in use, which keeps all but
    /// one in some thousands out of the overflow, and an eighth as much for it. Eight bytes a word.
    pub fn for_clients(clients: u64) -> TableSize {
        let words = (clients.min(TableSize::CLIENTS_MAX) * 5).div_ceil(3);
        let slots_log2 = words.next_power_of_two().ilog2().max(6);
        TableSize {
            slots_log2,
            overflow_log2: slots_log2 - 3,
        }
    }

    fn slots(self) -> usize {
        1 << self.slots_log2
    }

    fn words(self) -> usize {
        self.slots() + (1 << self.overflow_log2)
    }

    /// Whether a word, by its place and bits, is sound and of that day or one beside it.
    fn keep(self, today: UtcDay) -> impl Fn(usize, u64) -> bool {
        let today = RingDay::from(today);
        move |at, bits| {
            let word = QuotaWord::from_bits(bits);
            word.day().is_beside(today) && (at < self.slots() || word.tag() == ClientTag::SHARED)
        }
    }
}

/// The counters of all anonymous clients.
#[derive(Debug)]
pub struct AnonymousQuota {
    /// The slots, and behind them the overflow.
    words: CounterSlab,
    sizes: TableSize,
    seeds: HashSeeds,
}

/// An anonymous client: its place in the table that made it. Made once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnonymousClient {
    tag: ClientTag,
    home: u32,
    overflow: u32,
}

impl AnonymousClient {
    /// A number for the client, which hardly any other has.
    pub fn number(self) -> u64 {
        self.tag.bits() ^ u64::from(self.home) << 36
    }

    /// The client at that address: an IPv4 address, written either way, or the /64 of an IPv6 one.
    ///
    /// An IPv4 address is its own tag. Two IPv6 networks share a quota if 35 bits of one hash and
    /// the windows by another both agree. The seeds are secret, so nobody can aim.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves of a hash, each used for itself"
    )]
    pub fn new(quota: &AnonymousQuota, address: IpAddr) -> AnonymousClient {
        let [place_a, place_b, tag_a, tag_b] = quota.seeds;
        let (tag, place) = match address.to_canonical() {
            IpAddr::V4(address) => {
                let bits = u64::from(address.to_bits());
                (bits, hash([place_a, place_b], bits))
            }
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                let tag = hash([tag_a, tag_b], network) | IPV6_MARK;
                // No number of an IPv4 address has its upper half complemented.
                (tag, hash([place_a, place_b], !network))
            }
        };
        let TableSize {
            slots_log2,
            overflow_log2,
        } = quota.sizes;
        let line = (place >> 32) as u32 >> (INDEX_BITS_MAX - slots_log2) >> LINE_LOG2;
        AnonymousClient {
            tag: ClientTag::new(tag),
            home: line << LINE_LOG2,
            overflow: place as u32 & ((1 << overflow_log2) - 1),
        }
    }
}

/// What came of a walk at one word.
enum Probe<T> {
    Done(T),
    OtherClient,
    LaterDay(RingDay),
}

impl AnonymousQuota {
    /// An empty table in memory, which ends with the process.
    pub fn new(sizes: TableSize) -> AnonymousQuota {
        AnonymousQuota {
            words: CounterSlab::zeroed(sizes.words()),
            sizes,
            seeds: random_seeds(),
        }
    }

    /// The table in a directory, made if need be. What was counted there today still counts, however
    /// the process before ended. Words of other days than `today` and its neighbours are damage,
    /// or of a clock gone wrong: they are emptied. `log` gets a line if the file was set aside.
    pub fn open(
        directory: &Path,
        sizes: TableSize,
        today: UtcDay,
        log: &dyn Fn(&str),
    ) -> Result<AnonymousQuota, StateError> {
        let layout = FileLayout {
            kind: FILE_KIND,
            sizes: [sizes.slots_log2, sizes.overflow_log2],
            words: sizes.words(),
        };
        let opened = open(directory, FILE_NAME, layout, sizes.keep(today))?;
        if let Some(notice) = opened.notice {
            log(&notice);
        }
        Ok(AnonymousQuota {
            words: opened.words,
            sizes,
            seeds: opened.seeds,
        })
    }

    /// Empties the words of other days than `today` and its neighbours. To be called some time after
    /// the day has leapt, when nobody counts for the day before the leap any more: words of days more
    /// than 2047 ago would read as days to come.
    pub fn clear_other_days(&self, today: UtcDay) {
        self.words.retain(self.sizes.keep(today));
    }

    /// How many clients have a word of their own on that day, and how many shared words are in use.
    /// Looks at the whole table.
    pub fn in_use(&self, day: UtcDay) -> (u64, u64) {
        let day = RingDay::from(day);
        let (slots, overflow) = self.words.split_at(self.sizes.slots());
        let count = |words: &[AtomicU64]| {
            let used = |word: &&AtomicU64| {
                let word = QuotaWord::from_bits(word.load(Ordering::Relaxed));
                word.count() > 0 && word.day() == day
            };
            words.iter().filter(used).count() as u64
        };
        (count(slots), count(overflow))
    }

    /// How many clients a day there is room for before some come to share.
    pub fn clients_max(&self) -> u64 {
        self.sizes.slots() as u64 * 3 / 5
    }

    /// Counts a request of the client, if it has one left on that day.
    pub fn admit(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> Decision {
        self.admit_on(client, limit, day.into()).0
    }

    /// Requests that the client has left on that day. Counts nothing.
    pub fn peek(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> u32 {
        let (left, _) = self.walk(
            client,
            day.into(),
            |cell, tag, day| match QuotaWord::from_bits(cell.load(Ordering::Relaxed))
                .transition(tag, day, limit)
            {
                Transition::Write(next) => Probe::Done(u32::from(limit - next.count()) + 1),
                Transition::Refuse => Probe::Done(0),
                Transition::OtherClient => Probe::OtherClient,
                Transition::LaterDay(later) => Probe::LaterDay(later),
            },
        );
        left
    }

    /// The decision, and the day that it was made as of.
    pub(super) fn admit_on(
        &self,
        client: AnonymousClient,
        limit: u16,
        day: RingDay,
    ) -> (Decision, RingDay) {
        self.walk(client, day, |cell, tag, day| {
            let mut seen = cell.load(Ordering::Relaxed);
            loop {
                let next = match QuotaWord::from_bits(seen).transition(tag, day, limit) {
                    Transition::Write(next) => next,
                    Transition::Refuse => return Probe::Done(Decision::Refuse),
                    Transition::OtherClient => return Probe::OtherClient,
                    Transition::LaterDay(later) => return Probe::LaterDay(later),
                };
                let swap =
                    cell.compare_exchange(seen, next.bits(), Ordering::Relaxed, Ordering::Relaxed);
                match swap {
                    Ok(_) => {
                        let remaining = u32::from(limit - next.count());
                        return Probe::Done(Decision::Admit { remaining });
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
        client: AnonymousClient,
        mut day: RingDay,
        visit: impl Fn(&AtomicU64, ClientTag, RingDay) -> Probe<T>,
    ) -> (T, RingDay) {
        let (slots, overflow) = self.words.split_at(self.sizes.slots());
        let mask = slots.len() - 1;
        'again: loop {
            for at in 0..WINDOW {
                let cell = &slots[(client.home as usize + at) & mask];
                match visit(cell, client.tag, day) {
                    Probe::Done(outcome) => return (outcome, day),
                    Probe::OtherClient => {}
                    Probe::LaterDay(later) => {
                        day = later;
                        continue 'again;
                    }
                }
            }
            match visit(&overflow[client.overflow as usize], ClientTag::SHARED, day) {
                Probe::Done(outcome) => return (outcome, day),
                Probe::OtherClient => unreachable!("every overflow word has the shared tag"),
                Probe::LaterDay(later) => day = later,
            }
        }
    }
}

/// A table whose schedules can all be tried.
#[cfg(all(test, island_metrics_loom))]
impl AnonymousQuota {
    pub(super) fn for_model() -> AnonymousQuota {
        AnonymousQuota::new(TableSize {
            slots_log2: 1,
            overflow_log2: 0,
        })
    }
}

#[cfg(all(test, island_metrics_loom))]
impl AnonymousClient {
    /// One of the clients whose window begins at the first word.
    pub(super) fn for_model(number: u8) -> AnonymousClient {
        AnonymousClient {
            tag: ClientTag::new(number.into()),
            home: 0,
            overflow: 0,
        }
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
mod tests;
