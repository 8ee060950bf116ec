//! Waves of thousands of hostile clients: each holds a connection for nothing, and records when it
//! began to do so and when the server closed it.

use std::net::{self, TcpListener};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Poll};
use socket2::SockRef;

use super::{PER_ADDRESS, source};
use crate::common::http::{SLOW_BYTES, connect_with};
use crate::common::prelude::*;

/// Network of the source addresses.
const NETWORK: u8 = 2;
/// Segment size of an Ethernet. With loopback's 65,483 the system buffers thirty times as much.
const SEGMENT_BYTES: u32 = 1460;
/// The request of slow readers, pipelined: its responses exceed what any system buffers.
const BIG: &str = "/v1/islands?limit=200";
const BIG_TIMES: usize = 64;
/// Interval between bytes that a client sends slowly.
const DRIP: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(2);
/// The least that a client must read a second to be served, by default.
const CLIENT_BYTES_A_SECOND: f64 = 1024.0;
/// Bytes that the server lets the system store beyond a client's window.
const UNSENT_BYTES: u32 = 64 * 1024;
/// A connection may be closed so much later than its timeout.
const LATE_SECONDS: f64 = 1.0;
/// A connection may be closed so much earlier: the server counts tenths of a second.
const EARLY_SECONDS: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sends a head, a byte a second.
    SlowHead,
    /// Requests much and reads nothing, with segments of an Ethernet.
    SlowReader,
    /// The same with loopback's segments.
    LoopbackReader,
    /// Sends nothing.
    Silent,
    /// Sends one request, and keeps the connection.
    Idle,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::SlowHead,
        Kind::SlowReader,
        Kind::LoopbackReader,
        Kind::Silent,
        Kind::Idle,
    ];

    pub(crate) fn name(self) -> &'static str {
        [
            "slow head",
            "slow reader",
            "slow reader, loopback",
            "silent",
            "idle",
        ][self as usize]
    }

    /// The label in metrics of why its connection is closed.
    pub(crate) fn reason(self) -> &'static str {
        ["head", "send", "send", "first_byte", "idle"][self as usize]
    }

    fn reads(self) -> bool {
        !matches!(self, Kind::SlowReader | Kind::LoopbackReader)
    }
}

/// Sets all timeouts of a server to so many seconds, and that of idle connections to twice as many.
pub(crate) fn set_timeouts(seconds: u64, serve: &mut Command) {
    for flag in ["--first-byte-seconds", "--head-seconds", "--send-seconds"] {
        serve.arg(flag).arg(seconds.to_string());
    }
    serve.arg("--idle-seconds").arg((2 * seconds).to_string());
}

/// Clients that are connected at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Wave {
    /// Number of each kind, in the order of [`Kind::ALL`].
    pub(crate) counts: [usize; 5],
    /// Time in which they connect.
    pub(crate) ramp: Duration,
    /// Time after which those still connected give up.
    pub(crate) wait: Duration,
    /// The server's timeouts, by [`set_timeouts`].
    pub(crate) timeout_seconds: u64,
}

impl Wave {
    /// For the short form of a bench.
    pub(crate) const QUICK: Wave = Wave {
        counts: [60, 60, 0, 30, 30],
        ramp: Duration::from_millis(300),
        wait: Duration::from_secs(8),
        timeout_seconds: 1,
    };

    pub(crate) fn size(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Seconds after which a connection is to be closed.
    pub(crate) fn limit(&self, kind: Kind) -> Outcome<f64> {
        let seconds = match kind {
            Kind::SlowHead | Kind::Silent => self.timeout_seconds,
            Kind::Idle => 2 * self.timeout_seconds,
            Kind::SlowReader | Kind::LoopbackReader => {
                let bytes = taken_bytes(kind)?.saturating_sub(UNSENT_BYTES as usize);
                return Ok(self.timeout_seconds as f64 + bytes as f64 / CLIENT_BYTES_A_SECOND);
            }
        };
        Ok(seconds as f64)
    }

    pub(crate) fn faults(&self, results: &[KindResult]) -> Outcome<Vec<String>> {
        let mut faults = Vec::new();
        let started = results.iter().zip(self.counts);
        for (result, count) in started.filter(|(_, count)| *count > 0) {
            let (kind, limit) = (result.kind, self.limit(result.kind)?);
            let (opened, closed) = (result.opened, result.closed);
            let mut add = |fault: &str| faults.push(format!("{}: {fault}", kind.name()));
            if opened < count {
                add(&format!("{opened} of {count} could begin"));
            }
            if closed < count {
                add(&format!("{closed} of {count} were closed"));
            }
            // The system takes less for some slow readers, which then have less time.
            let minimum = if kind.reads() {
                limit
            } else {
                self.timeout_seconds as f64
            };
            let allowed = minimum - EARLY_SECONDS..=limit + LATE_SECONDS;
            for seconds in [result.first, result.last] {
                if closed > 0 && !allowed.contains(&seconds) {
                    add(&format!("closed after {seconds:.2} s, not {limit:.0}"));
                }
            }
        }
        Ok(faults)
    }

    /// The kinds of all clients in the order in which they connect, evenly mixed.
    fn mixed(&self) -> Vec<Kind> {
        let of = |(kind, count): (Kind, usize)| {
            (0..count).map(move |at| ((at as f64 + 0.5) / count as f64, kind))
        };
        let kinds = Kind::ALL.into_iter().zip(self.counts);
        let mut all: Vec<(f64, Kind)> = kinds.flat_map(of).collect();
        all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        all.into_iter().map(|(_, kind)| kind).collect()
    }

    /// Runs a wave to its end. Waves with different numbers use different source addresses.
    pub(crate) fn run(&self, to: SocketAddr, number: usize) -> Outcome<Vec<KindResult>> {
        let kinds = self.mixed();
        let first = number % 64 * kinds.len().next_multiple_of(PER_ADDRESS);
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(4096);
        let mut chunk = vec![0; 64 * 1024];
        let mut clients: Vec<Client> = Vec::with_capacity(kinds.len());
        let begun = Instant::now();
        loop {
            let elapsed = begun.elapsed();
            let share = elapsed.div_duration_f64(self.ramp);
            let due = ((kinds.len() as f64 * share) as usize).min(kinds.len());
            while clients.len() < due {
                let at = clients.len();
                let stream = connect(source(NETWORK, first + at), to, kinds[at])?;
                clients.push(Client::open(kinds[at], register(&poll, stream, at)?));
            }
            let is_over = clients.iter().all(|client| client.stream.is_none());
            if (clients.len() == kinds.len() && is_over) || elapsed > self.ramp + self.wait {
                return Ok(Kind::ALL.map(|kind| KindResult::new(kind, &clients)).into());
            }
            wait(&mut poll, &mut events, NAP)?;
            for event in &events {
                let client = &mut clients[event.token().0];
                if client.handle(event, &mut chunk).is_err() {
                    client.end();
                }
            }
            let now = Instant::now();
            for client in &mut clients {
                if client.send_byte(now).is_err() {
                    client.end();
                }
            }
            thread::sleep(NAP);
        }
    }
}

/// The result of a wave for one kind: how many could begin, how many the server closed, and after
/// how many seconds.
pub(crate) struct KindResult {
    pub(crate) kind: Kind,
    pub(crate) opened: usize,
    pub(crate) closed: usize,
    pub(crate) first: f64,
    pub(crate) median: f64,
    pub(crate) last: f64,
}

impl KindResult {
    fn new(kind: Kind, clients: &[Client]) -> KindResult {
        let of_kind = clients.iter().filter(|client| client.kind == kind);
        let times = of_kind.clone().filter_map(|client| client.closed_after);
        let times = sorted(times.map(|time| time.as_secs_f64()));
        let at = |half: usize| times.get(times.len() * half / 2).or(times.last());
        let [first, median, last] = [0, 1, 2].map(|half| at(half).copied().unwrap_or(0.0));
        KindResult {
            kind,
            opened: of_kind.filter(|client| client.began.is_some()).count(),
            closed: times.len(),
            first,
            median,
            last,
        }
    }
}

/// Bytes that the system takes for a slow reader.
fn taken_bytes(kind: Kind) -> Outcome<usize> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    let client = connect(Ipv4Addr::LOCALHOST, listener.local_addr()?, kind)?;
    let (mut server, _) = listener.accept()?;
    server.set_nonblocking(true)?;
    let mut taken = 0;
    for _ in 0..20 {
        while let Ok(count) = server.write(&[0; 16 * 1024]) {
            taken += count;
        }
        thread::sleep(Duration::from_millis(5));
    }
    drop(client);
    Ok(taken)
}

fn connect(from: Ipv4Addr, to: SocketAddr, kind: Kind) -> io::Result<net::TcpStream> {
    connect_with(from, to, |socket| {
        if !kind.reads() {
            socket.set_recv_buffer_size(SLOW_BYTES)?;
        }
        if kind == Kind::SlowReader {
            socket.set_tcp_mss(SEGMENT_BYTES)?;
        }
        Ok(())
    })
}

struct Client {
    kind: Kind,
    /// `None` after its end.
    stream: Option<TcpStream>,
    /// Bytes of its response.
    received: Vec<u8>,
    /// When it began to hold the connection for nothing.
    began: Option<Instant>,
    /// Bytes sent slowly, and when the next is due.
    sent: usize,
    next_byte: Option<Instant>,
    /// How long the server left it the connection.
    closed_after: Option<Duration>,
}

impl Client {
    /// A client that sends its request, if it has one.
    fn open(kind: Kind, mut stream: TcpStream) -> Client {
        let requests = match kind {
            Kind::SlowHead | Kind::Silent => Vec::new(),
            Kind::SlowReader | Kind::LoopbackReader => get(BIG, "").repeat(BIG_TIMES),
            Kind::Idle => get("/v1", ""),
        };
        let is_sent = stream.write_all(&requests).is_ok();
        let now = Instant::now();
        let holds = is_sent && (kind == Kind::Silent || !kind.reads());
        Client {
            kind,
            stream: is_sent.then_some(stream),
            received: Vec::new(),
            began: holds.then_some(now),
            sent: 0,
            next_byte: match kind {
                Kind::SlowHead => Some(now),
                Kind::SlowReader | Kind::LoopbackReader => Some(now + DRIP),
                Kind::Silent | Kind::Idle => None,
            },
            closed_after: None,
        }
    }

    /// Sends the next byte if it is due. Slow readers send some too, which the server does not read:
    /// closing a connection with unread bytes sends a reset immediately, without them the end only
    /// arrives after everything that they do not read.
    fn send_byte(&mut self, now: Instant) -> io::Result<()> {
        let (Some(stream), Some(due)) = (&mut self.stream, self.next_byte) else {
            return Ok(());
        };
        if due > now {
            return Ok(());
        }
        self.began = self.began.or(Some(now));
        let head = b"GET /v1 HTTP/1.1\r\nhost: bench\r\nx-slow: ";
        let byte = head.get(self.sent).unwrap_or(&b'a');
        self.sent += 1;
        self.next_byte = Some(due + DRIP);
        match stream.write(&[*byte]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Handles an event. An error is the end of the connection.
    fn handle(&mut self, event: &Event, chunk: &mut [u8]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        if !self.kind.reads() {
            if event.is_error() || event.is_read_closed() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            return Ok(());
        }
        read_available(stream, chunk, &mut self.received)?;
        let is_answered = Head::of_whole(&self.received).is_some();
        if self.kind == Kind::Idle && self.began.is_none() && is_answered {
            self.began = Some(Instant::now());
            self.received = Vec::new();
        }
        Ok(())
    }

    fn end(&mut self) {
        if self.stream.take().is_some() {
            self.closed_after = self.began.map(|began| began.elapsed());
        }
    }
}
