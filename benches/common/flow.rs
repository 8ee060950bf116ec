//! Load: as fast as answers come (closed loop), or on a schedule that waits for nobody (open loop).
//!
//! Both look for answers without sleeping: the load has a core to itself, and a server that had to
//! wake it would pay for that.

use std::io;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::lines::{Lines, Wanted};
use super::{Outcome, STALL};

/// The requests of all runs: one again and again, or each once.
pub(crate) struct Requests {
    batches: Vec<Vec<u8>>,
    next: usize,
    /// Of requests that are asked for once, how many a run may take.
    share: Option<usize>,
    /// Requests in each batch.
    pub(crate) depth: usize,
    pub(crate) wanted: Wanted,
}

impl Requests {
    /// One request, sent `depth` at a time.
    pub(crate) fn same(request: &[u8], depth: usize, status: u16) -> Requests {
        Requests {
            batches: vec![request.repeat(depth)],
            next: 0,
            share: None,
            depth,
            wanted: Wanted {
                status,
                keep: false,
            },
        }
    }

    /// Requests that differ, one at a time, over and over; or once only, for so many runs.
    pub(crate) fn list(requests: Vec<Vec<u8>>, runs: Option<usize>, keep: bool) -> Requests {
        Requests {
            share: runs.map(|runs| requests.len() / runs),
            batches: requests,
            next: 0,
            depth: 1,
            wanted: Wanted { status: 200, keep },
        }
    }

    /// Another batch and its number, unless none is left.
    fn next(&mut self) -> Option<(usize, &[u8])> {
        if self.next == self.batches.len() && self.share.is_none() {
            self.next = 0;
        }
        let batch = self.batches.get(self.next)?;
        self.next += 1;
        Some((self.next - 1, batch))
    }

    /// Whether each is asked for once only.
    pub(crate) fn are_distinct(&self) -> bool {
        self.share.is_some()
    }

    /// How many batches a run may take at most.
    fn most(&self) -> usize {
        let left = self.batches.len() - self.next;
        self.share.map_or(usize::MAX, |share| share.min(left))
    }
}

/// Keeps every connection busy for a while; says how many requests were answered, and in how many
/// seconds.
pub(crate) fn closed(
    lines: &mut Lines,
    requests: &mut Requests,
    duration: Duration,
) -> Outcome<(u64, f64)> {
    let begun = Instant::now();
    let mut owed = vec![0; lines.count()];
    let (mut busy, mut answered, mut left) = (0, 0, requests.most());
    for (line, owed) in owed.iter_mut().enumerate() {
        let (_, batch) = requests.next().ok_or("no request is left")?;
        lines.send(line, batch)?;
        *owed = requests.depth;
        busy += 1;
        left -= 1;
    }
    let mut done = Vec::new();
    let mut heard = begun;
    while busy > 0 {
        lines.receive(requests.wanted, Duration::ZERO, &mut done)?;
        let now = Instant::now();
        stalled(now, &mut heard, &done)?;
        for &(line, ended) in &done {
            answered += ended as u64;
            owed[line] -= ended;
            if owed[line] > 0 {
                continue;
            }
            if left == 0 || now - begun >= duration {
                busy -= 1;
                continue;
            }
            let (_, batch) = requests.next().ok_or("no request is left")?;
            lines.send(line, batch)?;
            owed[line] = requests.depth;
            left -= 1;
        }
    }
    Ok((answered, begun.elapsed().as_secs_f64()))
}

/// Sends batches at a constant rate whether or not answers come, each on a connection that is
/// free; a batch that finds none waits, and its latency counts from when it was due. `seen` gets
/// each answered connection, the number of its batch, and the answer where answers are kept.
pub(crate) fn open(
    lines: &mut Lines,
    requests: &mut Requests,
    (rate, duration): (f64, Duration),
    mut seen: impl FnMut(usize, usize, &[u8]) -> Outcome<()>,
) -> Outcome<Histogram> {
    let mut latencies = Histogram::new();
    let all = ((rate * duration.as_secs_f64()) as usize).min(requests.most());
    let (mut sent, mut answered) = (0, 0);
    let mut free: Vec<usize> = (0..lines.count()).rev().collect();
    let mut under_way = vec![(0, 0, 0); lines.count()];
    let mut done = Vec::new();
    let begun = Instant::now();
    let mut heard = begun;
    while answered < all {
        let now = begun.elapsed().as_nanos() as u64;
        while sent < all {
            let due = (sent as f64 * 1e9 / rate) as u64;
            if due > now {
                break;
            }
            let Some(line) = free.pop() else { break };
            let depth = requests.depth;
            let (number, batch) = requests.next().ok_or("no request is left")?;
            lines.send(line, batch)?;
            under_way[line] = (due, depth, number);
            sent += 1;
        }
        lines.receive(requests.wanted, Duration::ZERO, &mut done)?;
        let now = Instant::now();
        if sent == all || free.is_empty() {
            stalled(now, &mut heard, &done)?;
        } else {
            heard = now;
        }
        for &(line, ended) in &done {
            let (due, owed, number) = &mut under_way[line];
            *owed -= ended;
            if *owed == 0 {
                latencies.record(((now - begun).as_nanos() as u64).saturating_sub(*due));
                seen(line, *number, lines.whole(line))?;
                free.push(line);
                answered += 1;
            }
        }
    }
    Ok(latencies)
}

/// Gives up on servers that have gone silent.
fn stalled(now: Instant, heard: &mut Instant, done: &[(usize, usize)]) -> io::Result<()> {
    if !done.is_empty() {
        *heard = now;
    }
    if now - *heard > STALL {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no answers"));
    }
    Ok(())
}
