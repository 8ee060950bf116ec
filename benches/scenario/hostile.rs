//! Waves of thousands of hostile clients: each holds a connection for nothing, and records when it
//! began to do so and when the server closed it.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, SockRef, Socket, Type};

use crate::common::Outcome;
use crate::common::http::{Head, get, read_available};

/// Clients of one source address: half of what the server allows.
const PER_ADDRESS: usize = 500;
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);
/// Receive buffer of slow readers.
const RECEIVED_BYTES: usize = 4096;
/// Segment size of an Ethernet. With loopback's 65,483 the system buffers thirty times as much.
const SEGMENT_BYTES: u32 = 1460;
/// The request of slow readers, pipelined: its responses exceed what any system buffers.
const BIG: &str = "/v1/islands?limit=200";
const BIG_TIMES: usize = 64;
/// Interval between bytes that a client sends slowly.
const DRIP: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(2);
/// The least that a client must read a second to be served.
const CLIENT_BYTES_A_SECOND: usize = 16 * 1024;
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

/// Timeouts of the server, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) first_byte: u64,
    pub(crate) head: u64,
    pub(crate) idle: u64,
    pub(crate) send: u64,
}

impl Timeouts {
    /// Adds them to the arguments of `serve`.
    pub(crate) fn set(self, serve: &mut Command) {
        for (flag, seconds) in [
            ("--first-byte-seconds", self.first_byte),
            ("--head-seconds", self.head),
            ("--idle-seconds", self.idle),
            ("--send-seconds", self.send),
        ] {
            serve.arg(flag).arg(seconds.to_string());
        }
    }

    /// Seconds after which a connection is to be closed.
    pub(crate) fn of(self, kind: Kind) -> Outcome<f64> {
        let seconds = match kind {
            Kind::SlowHead => self.head,
            Kind::Silent => self.first_byte,
            Kind::Idle => self.idle,
            Kind::SlowReader | Kind::LoopbackReader => {
                let grace = send_buffer_bytes(kind)? / 3 / CLIENT_BYTES_A_SECOND;
                self.send + grace as u64
            }
        };
        Ok(seconds as f64)
    }

    /// Faults of the results of a wave.
    pub(crate) fn check(self, wave: &Wave, results: &[KindResult]) -> Outcome<Vec<String>> {
        let mut faults = Vec::new();
        for (result, count) in results.iter().zip(wave.counts) {
            if count == 0 {
                continue;
            }
            let (kind, limit) = (result.kind, self.of(result.kind)?);
            let name = kind.name();
            if result.opened < count {
                faults.push(format!("{name}: {} of {count} could begin", result.opened));
            }
            if result.closed < count {
                faults.push(format!("{name}: {} of {count} were closed", result.closed));
            }
            // The system buffers less for some slow readers, which then have less time.
            let minimum = if kind.reads() {
                limit
            } else {
                self.send as f64
            };
            let (first, last) = (result.first, result.last);
            if last > limit + LATE_SECONDS {
                faults.push(format!("{name}: closed after {last:.2} s, not {limit:.0}"));
            }
            if result.closed > 0 && first < minimum - EARLY_SECONDS {
                faults.push(format!(
                    "{name}: closed after {first:.2} s, not {minimum:.0}"
                ));
            }
        }
        Ok(faults)
    }
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
}

impl Wave {
    pub(crate) fn size(&self) -> usize {
        self.counts.iter().sum()
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
        let first = number % 64 * kinds.len().div_ceil(PER_ADDRESS);
        let first = FIRST_SOURCE.to_bits() as usize + first;
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
                let from = Ipv4Addr::from_bits((first + at / PER_ADDRESS) as u32);
                let mut stream = dial(from, to, kinds[at])?;
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut stream, Token(at), interest)?;
                clients.push(Client {
                    kind: kinds[at],
                    stream: Some(stream),
                    is_open: false,
                    received: Vec::new(),
                    began: None,
                    sent: 0,
                    next_byte: None,
                    closed_after: None,
                });
            }
            let is_over = clients.iter().all(|client| client.stream.is_none());
            if (clients.len() == kinds.len() && is_over) || elapsed > self.ramp + self.wait {
                return Ok(Kind::ALL.map(|kind| KindResult::new(kind, &clients)).into());
            }
            match poll.poll(&mut events, Some(NAP)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
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
        let mut times: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
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

/// The most that the system buffers for a slow reader, as seen by its server.
pub(crate) fn send_buffer_bytes(kind: Kind) -> Outcome<usize> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = dial(Ipv4Addr::LOCALHOST, listener.local_addr()?, kind)?;
    let (mut server, _) = listener.accept()?;
    server.set_nonblocking(true)?;
    let mut most = 0;
    for _ in 0..20 {
        while server.write(&[0; 16 * 1024]).is_ok() {}
        most = most.max(SockRef::from(&server).send_buffer_size()?);
        thread::sleep(Duration::from_millis(5));
    }
    drop(client);
    Ok(most)
}

/// Begins to connect, without waiting.
pub(crate) fn dial(from: Ipv4Addr, to: SocketAddr, kind: Kind) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if !kind.reads() {
        socket.set_recv_buffer_size(RECEIVED_BYTES)?;
    }
    if kind == Kind::SlowReader {
        socket.set_tcp_mss(SEGMENT_BYTES)?;
    }
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&to.into()) {
        // EINPROGRESS has no `ErrorKind`.
        Err(error) if error.raw_os_error() != Some(115) => return Err(error),
        _ => {}
    }
    Ok(TcpStream::from_std(socket.into()))
}

struct Client {
    kind: Kind,
    /// `None` after its end.
    stream: Option<TcpStream>,
    is_open: bool,
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
    /// Sends its request when it is connected.
    fn open(&mut self) -> io::Result<()> {
        self.is_open = true;
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let now = Instant::now();
        match self.kind {
            Kind::SlowHead => self.next_byte = Some(now),
            Kind::SlowReader | Kind::LoopbackReader => {
                let requests = get(BIG, "").repeat(BIG_TIMES);
                if stream.write(&requests)? < requests.len() {
                    return Err(io::Error::other("a socket took a part of a request"));
                }
                self.began = Some(now);
                self.next_byte = Some(now + DRIP);
            }
            Kind::Silent => self.began = Some(now),
            Kind::Idle => {
                stream.write_all(&get("/v1", ""))?;
            }
        }
        Ok(())
    }

    /// Sends the next byte if it is due. Slow readers send some too, which the server does not read:
    /// closing a connection with unread bytes sends a reset immediately, without them the end only
    /// arrives behind all that they do not read.
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
        if !self.is_open && event.is_writable() && !event.is_error() {
            self.open()?;
        }
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
