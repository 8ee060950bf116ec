//! Daily quotas of clients without a key: a hash table of fixed size, lock-free and exact.
//!
//! A client's address hashes to a window of 32 words. The client uses the first word of the window
//! that counts for it today or is free; every word of an earlier day is free, so nothing has to be
//! swept at midnight. If all 32 words count for other clients, the client uses one of the overflow
//! words, and shares that word's limit with all other clients that hash to it.
//!
//! # Why no client gets more than its limit
//!
//! - A word is replaced only by compare-and-swap, by the rule of [`QuotaWord::transition`]: its day
//!   never goes back, and within a day its tag stays and its count grows by one. Days are absolute, so
//!   this order holds however far the days of two threads or words are apart. So a word that is
//!   taken for a day is never free again on that day, and a full window stays full.
//! - Hence all requests of a client on a day use one word, in its window or in the overflow. The words
//!   before it are taken. A thread that reads an older value there, by which the word is free, fails its
//!   swap, because a swap compares with the newest value whatever the memory order; it then reads that
//!   value and probes the next word.
//! - At that word every admission is one swap from a count below the limit to the next count. The
//!   swaps of one word have a total order: at most `limit` succeed, each with a distinct `remaining`.
//! - A thread whose day is still yesterday, while the client's word already counts for today, finds a word of
//!   today: that one, or one before it in the window. From then on its day is today, and its request is
//!   counted for today.
//!
//! No other data is published through a word, so every access is `Relaxed`. A failed swap means that
//! another one succeeded, and a word changes at most `limit` times a day: no client can block another.
//!
//! Two things are not covered. Days before 2020 count as one day, and so do those after 2109. When the
//! table is opened, damaged words are set to zero: other clients can then use them.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use super::counter_file::{FileLayout, FileNumbers, hash, open, write_numbers};
use super::decision::Decision;
use super::lease::LeaseClient;
use super::mapped::{CounterSlab, LINE};
use super::newest_day::NewestDay;
use super::word::{ClientTag, QuotaWord, Transition, WordDay};
use crate::calendar::UtcDay;
use crate::regular_file::with_path;
use crate::sync::{AtomicU64, Ordering};

/// Windows begin at multiples of this, so that the words of a cache line are probed together. A loom
/// model has lines of one word.
const LINE_LOG2: u32 = if cfg!(island_metrics_loom) {
    0
} else {
    LINE.ilog2()
};
/// Words in which a client may be counted. A loom model has two, so that it can try all schedules.
const WINDOW: usize = if cfg!(island_metrics_loom) {
    2
} else {
    4 * LINE
};
/// Each of the two indexes uses its own half of a 64-bit hash.
const INDEX_BITS_MAX: u32 = 32;
/// Kind 1 had words of another layout.
const FILE_KIND: u32 = 3;
const FILE_NAME: &str = "quota-anonymous";

/// Size of the table, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    pub(super) slots_log2: u32,
    pub(super) overflow_log2: u32,
}

impl TableSize {
    /// Largest number of clients per day that a table can be created for.
    pub const CLIENTS_MAX: u64 = 100_000_000;

    /// Returns the size for this many clients per day with at most 60 % of the words in use, so that
    /// only one client in some thousands is counted in the overflow. The overflow has an eighth as many
    /// words. A word has 8 bytes.
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

    fn layout(self) -> FileLayout {
        FileLayout {
            kind: FILE_KIND,
            sizes: [self.slots_log2, self.overflow_log2],
            words: self.words(),
        }
    }
}

#[derive(Debug)]
pub struct AnonymousQuota {
    /// The slots, followed by the overflow.
    words: CounterSlab,
    sizes: TableSize,
    /// The numbers of the file, or of private memory. [`Self::tag_seed`] replaces its tag seed.
    numbers: FileNumbers,
    tag_seed: AtomicU64,
    /// The tag seed before the adopted one; equal to it if none was adopted since the start.
    earlier_tag_seed: AtomicU64,
    /// The tag seed that the file contains.
    stored_tag_seed: AtomicU64,
}

/// An anonymous client: its position in one table. Computed once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnonymousClient {
    pub(super) tag: ClientTag,
    pub(super) home: u32,
    pub(super) overflow: u32,
    /// The seed that the tag of an IPv6 network was computed with.
    pub(super) tag_seed: u64,
    /// The tag of an IPv6 network by the seed before the adopted one.
    pub(super) earlier_tag: Option<ClientTag>,
}

impl AnonymousClient {
    /// The client as other servers know it.
    pub fn lease_client(self) -> LeaseClient {
        LeaseClient::Anonymous(self.tag.bits())
    }

    /// Returns the client of an address: an IPv4 address, in either notation, or the /64 of an IPv6
    /// address.
    ///
    /// An IPv4 address is its own tag. Two IPv6 networks share a quota if 32 bits of one hash and the
    /// window by another hash are both equal. The seeds are secret, so no client can cause that.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each half of the hash is used separately"
    )]
    pub fn new(quota: &AnonymousQuota, address: IpAddr) -> AnonymousClient {
        let place_seeds = quota.numbers.place_seeds;
        let (mut tag_seed, mut earlier_tag) = (0, None);
        let (tag, place) = match address.to_canonical() {
            IpAddr::V4(address) => {
                let address = address.to_bits();
                let place = hash(place_seeds, address.into());
                (ClientTag::of_address(address), place)
            }
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                let tag = |seed| ClientTag::of_network(hash([seed, 0], network));
                tag_seed = quota.tag_seed();
                let earlier_seed = quota.earlier_tag_seed.load(Ordering::Relaxed);
                earlier_tag = (earlier_seed != tag_seed).then(|| tag(earlier_seed));
                // Complemented, so that no network hashes like an IPv4 address.
                (tag(tag_seed), hash(place_seeds, !network))
            }
        };
        let sizes = quota.sizes;
        let line = (place >> 32) as u32 >> (INDEX_BITS_MAX - sizes.slots_log2) >> LINE_LOG2;
        AnonymousClient {
            tag,
            home: line << LINE_LOG2,
            overflow: place as u32 & ((1 << sizes.overflow_log2) - 1),
            tag_seed,
            earlier_tag,
        }
    }

    /// Returns `true` if the table has adopted another tag seed since.
    #[inline]
    pub fn is_outdated(self, quota: &AnonymousQuota) -> bool {
        self.tag.is_network() && self.tag_seed != quota.tag_seed()
    }
}

impl AnonymousQuota {
    /// Creates an empty table in private memory.
    pub fn new(sizes: TableSize) -> AnonymousQuota {
        let words = CounterSlab::zeroed(sizes.words());
        AnonymousQuota::of(words, sizes, FileNumbers::random())
    }

    /// Opens the table in a directory, or creates it, and adds the days of its words to `newest`. All counts
    /// are preserved, however the last process ended. `log` is called with a line if the file was set
    /// aside.
    pub fn open(
        directory: &Path,
        sizes: TableSize,
        newest: &mut NewestDay,
        log: &dyn Fn(&str),
    ) -> io::Result<AnonymousQuota> {
        let (words, numbers) = open(directory, FILE_NAME, sizes.layout(), log)?;
        // This also brings all words into memory.
        words.retain(|at, bits| {
            let word = QuotaWord(bits);
            let is_valid = at < sizes.slots() || word.tag() == ClientTag::SHARED;
            if is_valid && word.count() > 0 {
                newest.add(word.day().into());
            }
            is_valid
        });
        Ok(AnonymousQuota::of(words, sizes, numbers))
    }

    fn of(words: CounterSlab, sizes: TableSize, numbers: FileNumbers) -> AnonymousQuota {
        AnonymousQuota {
            words,
            sizes,
            numbers,
            tag_seed: AtomicU64::new(numbers.tag_seed),
            earlier_tag_seed: AtomicU64::new(numbers.tag_seed),
            stored_tag_seed: AtomicU64::new(numbers.tag_seed),
        }
    }

    /// Sets the words of days after the one that follows `today` to zero: they are damaged, and all clients
    /// that probe one would be counted for its day. Returns their number. To be called when the table has
    /// been opened.
    pub fn clear_after(&self, today: UtcDay) -> u64 {
        let last = WordDay::from(UtcDay(today.0.saturating_add(1)));
        self.words.retain(|_, bits| QuotaWord(bits).day() <= last)
    }

    /// Identifies the state directory: a random number of its file, or of private memory.
    pub fn directory_id(&self) -> u64 {
        self.numbers.directory_id
    }

    /// The secret seed of the tags of IPv6 networks.
    pub fn tag_seed(&self) -> u64 {
        self.tag_seed.load(Ordering::Relaxed)
    }

    /// Replaces the tag seed, so that several servers compute equal tags, and stores it in the file; after an error
    /// also the next time. What a network was counted by the seed before stays a part of its day until the next start.
    pub fn adopt_tag_seed(&self, seed: u64) -> io::Result<()> {
        // Replaced before it is written: if writing fails, this server still computes the same tags as the others.
        if seed != self.tag_seed() {
            let earlier = self.tag_seed.swap(seed, Ordering::Relaxed);
            self.earlier_tag_seed.store(earlier, Ordering::Relaxed);
        }
        if seed != self.stored_tag_seed.load(Ordering::Relaxed) {
            let numbers = FileNumbers {
                tag_seed: seed,
                ..self.numbers
            };
            let written = write_numbers(&self.words, self.sizes.layout(), numbers);
            written.map_err(with_path(Path::new(FILE_NAME)))?;
            self.stored_tag_seed.store(seed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Number of words that count for one client each.
    pub fn slots(&self) -> usize {
        self.sizes.slots()
    }

    /// Returns the clients that have a word of their own in a range of the slots, and their requests
    /// counted for `day`. Does not block the threads that count.
    pub fn counts(&self, day: UtcDay, range: Range<usize>) -> Vec<(LeaseClient, u32)> {
        let day = WordDay::from(day);
        let end = range.end.min(self.slots());
        let words = self.words[range.start.min(end)..end].iter();
        let words = words.map(|word| QuotaWord(word.load(Ordering::Relaxed)));
        words
            .filter(|word| word.count() > 0 && word.day() == day)
            .map(|word| {
                let client = LeaseClient::Anonymous(word.tag().bits());
                (client, word.count().into())
            })
            .collect()
    }

    /// Returns the number of clients with a word of their own on `day`, and the number of shared words
    /// in use. Scans the whole table.
    pub fn in_use(&self, day: UtcDay) -> (u64, u64) {
        let day = WordDay::from(day);
        let (slots, overflow) = self.words.split_at(self.sizes.slots());
        let count = |words: &[AtomicU64]| {
            let used = |word: &&AtomicU64| {
                let word = QuotaWord(word.load(Ordering::Relaxed));
                word.count() > 0 && word.day() == day
            };
            words.iter().filter(used).count() as u64
        };
        (count(slots), count(overflow))
    }

    /// Returns the number of clients per day that fit before some have to share a word.
    pub fn clients_max(&self) -> u64 {
        self.sizes.slots() as u64 * 3 / 5
    }

    /// Counts a request of a client if it has one left on `day`.
    pub fn admit(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> Decision {
        let limit = self.limit_left(client, limit, day);
        self.admit_on(client, limit, day.into()).0
    }

    /// Returns the requests that a client has left on `day` without counting one.
    pub fn peek(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> u32 {
        self.peek_tag(client, self.limit_left(client, limit, day), day)
    }

    /// Returns what is left of a limit after the requests that the client's earlier tag counts for `day`.
    #[inline]
    fn limit_left(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> u16 {
        let Some(tag) = client.earlier_tag else {
            return limit;
        };
        let left = self.peek_tag(AnonymousClient { tag, ..client }, limit, day);
        u16::try_from(left).unwrap_or(limit)
    }

    fn peek_tag(&self, client: AnonymousClient, limit: u16, day: UtcDay) -> u32 {
        let (left, _) = self.probe(client, day.into(), |word, tag, day| {
            let word = QuotaWord(word.load(Ordering::Relaxed));
            match word.transition(tag, day, limit) {
                Transition::Write(next) => Ok(u32::from(limit - next.count()) + 1),
                Transition::Refuse => Ok(0),
                other => Err(other),
            }
        });
        left
    }

    /// Like [`admit`](Self::admit); also returns the day that the request was counted for.
    pub(super) fn admit_on(
        &self,
        client: AnonymousClient,
        limit: u16,
        day: WordDay,
    ) -> (Decision, WordDay) {
        self.probe(client, day, |word, tag, day| {
            let mut seen = word.load(Ordering::Relaxed);
            loop {
                let next = match QuotaWord(seen).transition(tag, day, limit) {
                    Transition::Write(next) => next,
                    Transition::Refuse => return Ok(Decision::Refuse),
                    other => return Err(other),
                };
                let swap =
                    word.compare_exchange(seen, next.0, Ordering::Relaxed, Ordering::Relaxed);
                match swap {
                    Ok(_) => {
                        let remaining = u32::from(limit - next.count());
                        return Ok(Decision::Admit { remaining });
                    }
                    Err(newest) => seen = newest,
                }
            }
        })
    }

    /// Probes the client's words until one yields a result; starts again when it finds a later day.
    /// `visit` fails with the transition of a word that yields none.
    ///
    /// Terminates: once a later day is adopted, the first word is of an older day and thus free.
    #[inline]
    fn probe<T>(
        &self,
        client: AnonymousClient,
        mut day: WordDay,
        visit: impl Fn(&AtomicU64, ClientTag, WordDay) -> Result<T, Transition>,
    ) -> (T, WordDay) {
        let (slots, overflow) = self.words.split_at(self.sizes.slots());
        let mask = slots.len() - 1;
        'again: loop {
            for at in 0..WINDOW {
                let word = &slots[(client.home as usize + at) & mask];
                match visit(word, client.tag, day) {
                    Ok(outcome) => return (outcome, day),
                    Err(Transition::LaterDay(later)) => {
                        day = later;
                        continue 'again;
                    }
                    Err(_) => {}
                }
            }
            match visit(&overflow[client.overflow as usize], ClientTag::SHARED, day) {
                Ok(outcome) => return (outcome, day),
                Err(Transition::LaterDay(later)) => day = later,
                Err(_) => unreachable!("every overflow word has the shared tag"),
            }
        }
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
#[path = "anonymous_tests.rs"]
mod tests;
