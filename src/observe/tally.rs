//! `Tally`: what one worker has done, counted without a lock or a shared cache line.
//!
//! Only its worker writes to a tally, so counting is a load, an addition and a store; others read the
//! counts now and then. A request costs three of them.

use super::Histogram;
use crate::sync::{AtomicU64, Ordering};

/// A number that only grows, written by one thread.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts `more`. To be called by one thread only: another's call may be lost.
    #[inline]
    pub fn add(&self, more: u64) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(more), Ordering::Relaxed);
    }

    /// What was counted.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why the server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing came.
    FirstByte,
    /// A head was begun and not ended in time.
    Head,
    /// No further request came.
    Idle,
    /// The client took too little of an answer.
    Send,
    /// Another needed its place.
    Room,
}

impl Cut {
    /// All of them, in the order of their numbers.
    pub const ALL: [Cut; 5] = [Cut::FirstByte, Cut::Head, Cut::Idle, Cut::Send, Cut::Room];

    /// The label of a metric.
    pub const fn label(self) -> &'static str {
        match self {
            Cut::FirstByte => "first_byte",
            Cut::Head => "head",
            Cut::Idle => "idle",
            Cut::Send => "send",
            Cut::Room => "room",
        }
    }
}

/// What a tally's rows are of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Templates of the paths that are told apart.
    pub routes: &'static [&'static str],
    /// Statuses that are told apart; all others count as the last.
    pub codes: &'static [u16],
    /// Whose quota may be spent.
    pub tiers: &'static [&'static str],
}

impl Shape {
    /// The place of a status among the codes.
    #[inline]
    pub fn code(&self, status: u16) -> usize {
        let last = self.codes.len() - 1;
        let found = self.codes.iter().position(|code| *code == status);
        found.unwrap_or(last)
    }
}

/// What one worker has done since the start.
#[derive(Debug)]
pub struct Tally {
    /// What the rows below are of.
    pub shape: Shape,
    /// Answers, a row for each route.
    requests: Box<[Count]>,
    /// Bytes of bodies: of each route plain and as gzip.
    body_bytes: Box<[Count]>,
    /// Refusals for a spent quota, by tier.
    pub rejections: Box<[Count]>,
    /// Heads that could not be read, by status.
    pub unreadable: Box<[Count]>,
    /// Bytes that sockets took.
    pub sent_bytes: Count,
    /// Connections accepted.
    pub accepted: Count,
    /// Connections not taken in, since their address has too many.
    pub refused: Count,
    /// Times that there was no room for one more.
    pub full: Count,
    /// Times that accepting failed.
    pub accept_errors: Count,
    /// Connections that ended by a fault of the program.
    pub panics: Count,
    /// Connections ended by the server.
    pub cuts: [Count; Cut::ALL.len()],
    /// From reading a request to the last byte of its answer.
    pub durations: Histogram,
    /// Readings whose requests were all answered, of which some are timed.
    batches: Count,
}

/// One reading in so many is timed: two looks at the clock cost more than all counting together.
pub(super) const TIMED_OF: u64 = 16;

impl Tally {
    /// Nothing counted yet.
    pub fn new(shape: Shape) -> Tally {
        let counts = |many| (0..many).map(|_| Count::default()).collect();
        Tally {
            requests: counts(shape.routes.len() * shape.codes.len()),
            body_bytes: counts(shape.routes.len() * 2),
            rejections: counts(shape.tiers.len()),
            unreadable: counts(shape.codes.len()),
            sent_bytes: Count::default(),
            accepted: Count::default(),
            refused: Count::default(),
            full: Count::default(),
            accept_errors: Count::default(),
            panics: Count::default(),
            cuts: Default::default(),
            durations: Histogram::default(),
            batches: Count::default(),
            shape,
        }
    }

    /// Counts an answer with a status, and the bytes of its body.
    #[inline]
    pub fn answered(&self, route: usize, status: u16, body_bytes: u64, gzip: bool) {
        let code = self.shape.code(status);
        self.requests[route * self.shape.codes.len() + code].add(1);
        self.body_bytes[route * 2 + usize::from(gzip)].add(body_bytes);
    }

    /// Answers of a route with the status at a place.
    pub fn requests(&self, route: usize, code: usize) -> u64 {
        self.requests[route * self.shape.codes.len() + code].get()
    }

    /// Bytes of the bodies of a route.
    pub fn body_bytes(&self, route: usize, gzip: bool) -> u64 {
        self.body_bytes[route * 2 + usize::from(gzip)].get()
    }

    /// Whether what is read next is to be timed.
    #[inline]
    pub fn times_next(&self) -> bool {
        self.batches.get() % TIMED_OF == TIMED_OF - 1
    }

    /// Counts a reading whose requests were all answered.
    #[inline]
    pub fn batch(&self) {
        self.batches.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        routes: &["/a", "/b"],
        codes: &[200, 404, 0],
        tiers: &["t"],
    };

    #[test]
    fn answers_are_counted_by_route_and_status_and_unknown_ones_as_the_last() {
        let tally = Tally::new(SHAPE);
        for (route, status, bytes, gzip) in [
            (0, 200, 5, false),
            (0, 200, 7, true),
            (1, 404, 1, false),
            (1, 999, 2, false),
        ] {
            tally.answered(route, status, bytes, gzip);
        }
        let rows: Vec<u64> = (0..6).map(|at| tally.requests(at / 3, at % 3)).collect();
        assert_eq!(rows, [2, 0, 0, 0, 1, 1]);
        let bytes: Vec<u64> = (0..4)
            .map(|at| tally.body_bytes(at / 2, at % 2 == 1))
            .collect();
        assert_eq!(bytes, [5, 7, 3, 0]);
    }

    #[test]
    fn one_reading_in_sixteen_is_timed() {
        let tally = Tally::new(SHAPE);
        let timed = |_: &u32| {
            let timed = tally.times_next();
            tally.batch();
            timed
        };
        let timed = (0..1600).filter(timed).count();
        assert_eq!(timed, 100);
    }
}
