//! Load that validates every response: keep-alive connections, in a closed loop or at a constant rate.
//!
//! A fault ends nothing: it is counted, reported, and the connection is replaced if necessary.

use std::collections::VecDeque;

use memchr::memmem;
use mio::net::TcpStream;
use mio::{Events, Poll};

use crate::common::prelude::*;

const PRINTED_MAX: u64 = 20;
/// Longest wait for an event, so that a closed loop reads the clock.
const POLL_MAX: Duration = Duration::from_millis(10);
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Fault {
    /// Its parts are of two versions, or it follows a response of a later version. Otherwise it failed:
    /// it did not arrive, is incomplete, or is not a 200 with a readable body.
    pub(crate) is_mixed: bool,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn failed(reason: impl Into<String>) -> Fault {
        Fault {
            is_mixed: false,
            reason: reason.into(),
        }
    }

    pub(crate) fn mixed(reason: impl Into<String>) -> Fault {
        Fault {
            is_mixed: true,
            ..Fault::failed(reason)
        }
    }
}

/// Validates the responses to a list of requests.
pub(crate) trait Validate: Send {
    /// Validates the response to request number `request`, received on `connection`.
    fn validate(&mut self, connection: usize, request: usize, response: &[u8])
    -> Result<(), Fault>;

    fn replaced(&mut self, _connection: usize) {}
}

/// The requests of a load, and how they are sent.
pub(crate) struct Plan {
    /// Keep-alive connections.
    pub(crate) connections: usize,
    /// Target and header lines of each request, in the order sent.
    pub(crate) requests: Vec<(String, &'static str)>,
    /// Further header lines, one text for each connection in turn.
    pub(crate) headers: Vec<String>,
    /// Requests per second; a closed loop if `None`.
    pub(crate) rate: Option<f64>,
    /// Sleep of an open loop that finds no event. Zero costs the core and measures best.
    pub(crate) nap: Duration,
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) valid: u64,
    pub(crate) failed: u64,
    pub(crate) mixed: u64,
    pub(crate) seconds: f64,
    /// From when a request was due (open loop) or sent (closed loop).
    pub(crate) latencies: Histogram,
}

impl Flow {
    pub(crate) fn add(&mut self, other: &Flow) {
        self.valid += other.valid;
        self.failed += other.failed;
        self.mixed += other.mixed;
        self.seconds += other.seconds;
        self.latencies.add(&other.latencies);
    }

    pub(crate) fn responses_per_second(&self) -> f64 {
        self.valid as f64 / self.seconds
    }
}

struct Connection {
    stream: TcpStream,
    /// Bytes of the current response.
    received: Vec<u8>,
    /// The number of the request in progress, and when it was due.
    pending: Option<(usize, Instant)>,
}

pub(crate) struct Load<V> {
    address: SocketAddr,
    pub(crate) plan: Plan,
    pub(crate) validator: V,
    /// The sum of all runs.
    pub(crate) total: Flow,
    sources: Sources,
    next_request: usize,
    poll: Poll,
    connections: Vec<Connection>,
    /// Idle connections. The one idle for longest is next, so that none times out.
    idle: VecDeque<usize>,
    chunk: Vec<u8>,
    /// The current run.
    flow: Flow,
}

impl<V: Validate> Load<V> {
    pub(crate) fn new(address: SocketAddr, plan: Plan, validator: V) -> Outcome<Load<V>> {
        let count = plan.connections;
        let mut load = Load {
            address,
            plan,
            validator,
            total: Flow::default(),
            sources: Sources::new(),
            next_request: 0,
            poll: Poll::new()?,
            connections: Vec::new(),
            idle: (0..count).collect(),
            chunk: vec![0; CHUNK_BYTES],
            flow: Flow::default(),
        };
        for at in 0..count {
            let connection = load.connect(at)?;
            load.connections.push(connection);
        }
        Ok(load)
    }

    fn connect(&mut self, at: usize) -> Outcome<Connection> {
        let stream = connect(self.sources.fresh(), self.address)?;
        Ok(Connection {
            stream: register(&self.poll, stream, at)?,
            received: Vec::new(),
            pending: None,
        })
    }

    pub(crate) fn run_for(&mut self, duration: Duration) -> Outcome<Flow> {
        self.run(&|elapsed| elapsed >= duration)
    }

    /// Runs the load while `work` runs on a thread of its own.
    pub(crate) fn beside<T: Send>(
        &mut self,
        work: impl FnOnce() -> Outcome<T> + Send,
    ) -> Outcome<(T, Flow)> {
        let load = |is_over: &AtomicBool| self.run(&|_| is_over.load(Ordering::Relaxed));
        let (flow, done) = beside(load, work)?;
        Ok((done, flow?))
    }

    /// Runs the load until `is_over` of the elapsed time, and all responses have arrived.
    fn run(&mut self, is_over: &dyn Fn(Duration) -> bool) -> Outcome<Flow> {
        self.replace_closed()?;
        let mut events = Events::with_capacity(1024);
        let begun = Instant::now();
        let mut sent = 0_u64;
        loop {
            let now = Instant::now();
            let is_over = is_over(now - begun);
            if is_over && self.idle.len() == self.connections.len() {
                break;
            }
            loop {
                let due = self.plan.rate.map_or(now, |rate| {
                    begun + Duration::from_secs_f64((sent + 1) as f64 / rate)
                });
                let Some(at) = self.idle.pop_front_if(|_| !is_over && due <= now) else {
                    break;
                };
                sent += 1;
                self.send(at, due)?;
            }
            let longest = self.plan.rate.map_or(POLL_MAX, |_| Duration::ZERO);
            wait(&mut self.poll, &mut events, longest)?;
            for event in &events {
                self.receive(event.token().0)?;
            }
            self.end_stalled(now)?;
            if self.plan.rate.is_some() && events.is_empty() && !self.plan.nap.is_zero() {
                thread::sleep(self.plan.nap);
            }
        }
        let mut flow = std::mem::take(&mut self.flow);
        flow.seconds = begun.elapsed().as_secs_f64();
        self.total.add(&flow);
        Ok(flow)
    }

    /// Sends the next request.
    fn send(&mut self, at: usize, due: Instant) -> Outcome<()> {
        let number = self.next_request;
        self.next_request = (number + 1) % self.plan.requests.len();
        let (target, headers) = &self.plan.requests[number];
        let more = &self.plan.headers[at % self.plan.headers.len()];
        let request = get(target, &[headers, more.as_str()].concat());
        let connection = &mut self.connections[at];
        connection.pending = Some((number, due));
        // All of it, as the socket's buffer is empty.
        let sent = connection.stream.write_all(&request);
        sent.or_else(|error| self.fail(at, &error.to_string()))
    }

    /// Reads what is available, and validates the response if it is complete.
    fn receive(&mut self, at: usize) -> Outcome<()> {
        let connection = &mut self.connections[at];
        let received = &mut connection.received;
        let ended = read_available(&mut connection.stream, &mut self.chunk, received);
        let Some(head) = Head::of_whole(received) else {
            return ended.map_or_else(|error| self.fail(at, &error.to_string()), Ok);
        };
        let Some((number, due)) = connection.pending.take() else {
            return self.fail(at, "a response without a request");
        };
        let latency = u64::try_from(due.elapsed().as_nanos())?;
        self.flow.latencies.record(latency);
        let valid = self.validator.validate(at, number, received);
        // The server announces that it closes the connection, as it does after so many requests.
        let closes = memmem::find(&received[..head.length], b"\r\nconnection: close").is_some();
        received.clear();
        match valid {
            Ok(()) => self.flow.valid += 1,
            Err(fault) => self.count(number, &fault),
        }
        self.idle.push_back(at);
        if closes || ended.is_err() {
            self.replace(at)?;
        }
        Ok(())
    }

    fn count(&mut self, number: usize, fault: &Fault) {
        self.flow.failed += u64::from(!fault.is_mixed);
        self.flow.mixed += u64::from(fault.is_mixed);
        let before = self.total.failed + self.total.mixed;
        if before + self.flow.failed + self.flow.mixed <= PRINTED_MAX {
            let (target, headers) = &self.plan.requests[number];
            let kind = if fault.is_mixed { "mixed" } else { "failed" };
            let reason = &fault.reason;
            println!("{kind}: {reason}; {target} {}", headers.trim_end());
        }
    }

    /// Counts the failure of a connection, and of its request, and replaces it.
    fn fail(&mut self, at: usize, reason: &str) -> Outcome<()> {
        if let Some((number, _)) = self.connections[at].pending.take() {
            self.count(number, &Fault::failed(reason));
            self.idle.push_back(at);
        } else {
            self.flow.failed += 1;
            println!("failed: a connection without a request: {reason}");
        }
        self.replace(at)
    }

    /// Replaces connections that the server closed between two runs, as it does with idle ones.
    fn replace_closed(&mut self) -> Outcome<()> {
        for at in 0..self.connections.len() {
            let peeked = self.connections[at].stream.peek(&mut [0]);
            if peeked.is_ok_and(|count| count == 0) {
                self.replace(at)?;
            }
        }
        Ok(())
    }

    fn replace(&mut self, at: usize) -> Outcome<()> {
        self.connections[at] = self.connect(at)?;
        self.validator.replaced(at);
        Ok(())
    }

    fn end_stalled(&mut self, now: Instant) -> Outcome<()> {
        for at in 0..self.connections.len() {
            let pending = self.connections[at].pending;
            if pending.is_some_and(|(_, due)| now > due + STALL) {
                self.fail(at, "no response")?;
            }
        }
        Ok(())
    }
}
