//! Load on a pool: a closed loop (as fast as responses arrive) and an open loop (at a constant rate).
//!
//! Both poll without sleeping: the load has a core of its own, and a server that had to wake it
//! would pay for that.

use crate::common::prelude::*;

/// The requests of all runs: one repeated, or each of a list once.
pub(crate) struct Requests {
    batches: Vec<Vec<u8>>,
    next: usize,
    /// Requests of a list that one run may take; `None` for a request that is repeated.
    share: Option<usize>,
    /// Requests in a batch.
    pub(crate) depth: usize,
    /// Status of every response.
    pub(crate) status: u16,
}

impl Requests {
    /// One request, sent `depth` at a time.
    pub(crate) fn same(request: &[u8], depth: usize, status: u16) -> Requests {
        Requests {
            batches: vec![request.repeat(depth)],
            next: 0,
            share: None,
            depth,
            status,
        }
    }

    /// Distinct requests, each sent once, shared out among so many runs.
    pub(crate) fn distinct(requests: Vec<Vec<u8>>, runs: usize) -> Requests {
        Requests {
            share: Some(requests.len() / runs),
            batches: requests,
            next: 0,
            depth: 1,
            status: 200,
        }
    }

    fn next(&mut self) -> Outcome<&[u8]> {
        if self.next == self.batches.len() && self.share.is_none() {
            self.next = 0;
        }
        let batch = self.batches.get(self.next).ok_or("no request is left")?;
        self.next += 1;
        Ok(batch)
    }

    /// Batches that a run may take.
    fn limit(&self) -> usize {
        let left = self.batches.len() - self.next;
        self.share.map_or(usize::MAX, |share| share.min(left))
    }
}

/// Keeps every connection busy for `duration`; each sends at least one batch. Returns the number of
/// responses, and the seconds until the last.
pub(crate) fn closed(
    pool: &mut Pool,
    requests: &mut Requests,
    duration: Duration,
) -> Outcome<(u64, f64)> {
    let (first, all) = (pool.len(), requests.limit());
    let duration = duration.as_nanos() as u64;
    let begun = Instant::now();
    let batches = run(pool, requests, |sent, now| {
        (sent < all && (sent < first || now < duration)).then_some(now)
    })?;
    let responses = batches.total() * requests.depth as u64;
    Ok((responses, begun.elapsed().as_secs_f64()))
}

/// Sends batches at `rate` a second for `duration`, each on an idle connection. A batch that finds
/// none is delayed, and its latency still counts from when it was due.
pub(crate) fn open(
    pool: &mut Pool,
    requests: &mut Requests,
    rate: f64,
    duration: Duration,
) -> Outcome<Histogram> {
    let all = ((rate * duration.as_secs_f64()) as usize).min(requests.limit());
    run(pool, requests, |sent, _| {
        (sent < all).then_some((sent as f64 * 1e9 / rate) as u64)
    })
}

/// Sends batches on idle connections. `next` is called with the number of batches sent and the
/// nanoseconds since the beginning. It returns when the next batch is due; after a `None`, the loop
/// ends with the last response. Returns the latency of each batch.
fn run(
    pool: &mut Pool,
    requests: &mut Requests,
    next: impl Fn(usize, u64) -> Option<u64>,
) -> Outcome<Histogram> {
    let mut latencies = Histogram::default();
    let mut idle: Vec<usize> = (0..pool.len()).rev().collect();
    // When the batch of each connection was due, and its responses that are missing.
    let mut pending = vec![(0, 0); pool.len()];
    let (mut sent, mut done) = (0, Vec::new());
    let begun = Instant::now();
    let mut last = begun;
    loop {
        let now = begun.elapsed().as_nanos() as u64;
        let mut following = next(sent, now);
        while let Some(due) = following.filter(|due| *due <= now)
            && let Some(at) = idle.pop()
        {
            pool.send(at, requests.next()?)?;
            pending[at] = (due, requests.depth);
            sent += 1;
            following = next(sent, now);
        }
        if following.is_none() && idle.len() == pool.len() {
            return Ok(latencies);
        }
        pool.receive(requests.status, &mut done)?;
        let now = Instant::now();
        let may_be_silent = following.is_some() && !idle.is_empty();
        if !done.is_empty() || may_be_silent {
            last = now;
        }
        if now - last > STALL {
            return Err("no responses".into());
        }
        for &(at, ended) in &done {
            let (due, missing) = &mut pending[at];
            *missing -= ended;
            if *missing == 0 {
                latencies.record(((now - begun).as_nanos() as u64).saturating_sub(*due));
                idle.push(at);
            }
        }
    }
}
