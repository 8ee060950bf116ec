//! Hostile clients, in a process of their own: thousands that hold a connection and give nothing for it.
//! Each notes when it began to do so and when the server ended it.
//!
//! In: an address, how many of each kind, and for how long. Out: a line for each kind.

use std::env;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, SockRef, Socket, Type};

use super::Outcome;
use super::http::{Head, get};
use super::process::command;

/// The word that makes a bench this.
pub(crate) const FLAG: &str = "--hostile";
/// Attackers of one address: half of what the server takes.
const PER_ADDRESS: usize = 500;
/// The first of their addresses.
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);
/// What slow readers offer to take at a time.
const RECEIVED_BYTES: usize = 4096;
/// The longest segment of an Ethernet; loopback's own is 65,483, for which systems hold thirty times as much.
const SEGMENT_BYTES: u32 = 1460;
/// What slow readers ask for, so many times at once: more than any system holds for one.
const BIG: &str = "/v1/islands?limit=200";
const BIG_TIMES: usize = 64;
/// Between two bytes of who drips.
const DRIP: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(2);
/// The slowest client that the server waits for takes so much a second.
const CLIENT_BYTES_A_SECOND: usize = 16 * 1024;
/// How much later than its limit an attacker may be cut.
const LATE_SECONDS: f64 = 1.0;
/// The server counts time in tenths of a second.
const EARLY_SECONDS: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A head, a byte a second.
    Drip,
    /// Asks for much and reads nothing, with the segments of an Ethernet.
    Reader,
    /// The same with loopback's segments.
    WideReader,
    /// Says nothing.
    Silent,
    /// Asks once, and stays.
    Idle,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Drip,
        Kind::Reader,
        Kind::WideReader,
        Kind::Silent,
        Kind::Idle,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Drip => "slow head",
            Kind::Reader => "slow reader",
            Kind::WideReader => "slow reader, loopback",
            Kind::Silent => "silent",
            Kind::Idle => "idle",
        }
    }

    /// The label that metrics have for its end.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Kind::Drip => "head",
            Kind::Reader | Kind::WideReader => "send",
            Kind::Silent => "first_byte",
            Kind::Idle => "idle",
        }
    }

    fn reads(self) -> bool {
        !matches!(self, Kind::Reader | Kind::WideReader)
    }
}

/// The server's limits, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) first_byte: u64,
    pub(crate) head: u64,
    pub(crate) idle: u64,
    pub(crate) send: u64,
}

impl Limits {
    /// Puts them behind `serve`.
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

    /// The seconds after which an attacker is to be cut.
    pub(crate) fn of(self, kind: Kind) -> Outcome<f64> {
        let seconds = match kind {
            Kind::Drip => self.head,
            Kind::Silent => self.first_byte,
            Kind::Idle => self.idle,
            Kind::Reader | Kind::WideReader => {
                let grace = send_buffer_bytes(kind)? / 3 / CLIENT_BYTES_A_SECOND;
                self.send + grace as u64
            }
        };
        Ok(seconds as f64)
    }

    /// What is wrong with the ends of a wave's attackers.
    pub(crate) fn judge(self, wave: &Wave, seen: &[Seen]) -> Outcome<Vec<String>> {
        let mut faults = Vec::new();
        for (seen, count) in seen.iter().zip(wave.counts).filter(|(_, count)| *count > 0) {
            let (name, limit) = (seen.kind.name(), self.of(seen.kind)?);
            if seen.opened < count {
                faults.push(format!("{name}: {} of {count} could begin", seen.opened));
            }
            if seen.cut < count {
                faults.push(format!("{name}: {} of {count} were cut", seen.cut));
            }
            if seen.last > limit + LATE_SECONDS {
                let last = seen.last;
                faults.push(format!("{name}: cut after {last:.2} s, limit {limit:.0}"));
            }
            // A slow reader for whom the system holds less has less grace.
            let least = match seen.kind {
                Kind::Reader | Kind::WideReader => self.send as f64,
                _ => limit,
            };
            if seen.cut > 0 && seen.first < least - EARLY_SECONDS {
                let first = seen.first;
                faults.push(format!("{name}: cut after {first:.2} s, limit {least:.0}"));
            }
        }
        Ok(faults)
    }
}

/// Attackers that are all there at a time.
#[derive(Clone, Copy)]
pub(crate) struct Wave {
    /// How many, in the order of [`Kind::ALL`].
    pub(crate) counts: [usize; 5],
    /// The time in which they come.
    pub(crate) ramp: Duration,
    /// How long the last of them waits for its end.
    pub(crate) wait: Duration,
}

impl Wave {
    pub(crate) fn size(&self) -> usize {
        self.counts.iter().sum()
    }
}

/// What became of those of a kind. Seconds, from when each began to hold its connection to its end.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) opened: usize,
    pub(crate) cut: usize,
    pub(crate) first: f64,
    pub(crate) median: f64,
    pub(crate) last: f64,
}

/// A wave under way, ended by handle when dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a wave. Each of a run has another number, and comes from other addresses.
    pub(crate) fn start(to: SocketAddr, wave: &Wave, number: usize) -> Outcome<Running> {
        let mut child = command(env::current_exe()?, None);
        child.arg(FLAG).arg(to.to_string());
        let first = number % 64 * wave.size().div_ceil(PER_ADDRESS);
        child.arg((FIRST_SOURCE.to_bits() as usize + first).to_string());
        for time in [wave.ramp, wave.wait] {
            child.arg(time.as_millis().to_string());
        }
        child.args(wave.counts.map(|count| count.to_string()));
        let piped = child.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Running(piped.spawn()?))
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Outcome<Vec<Seen>> {
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().ok_or("no stdout")?;
        stdout.read_to_string(&mut text)?;
        if !self.0.wait()?.success() {
            return Err("the attackers failed".into());
        }
        let kinds = text.lines().zip(Kind::ALL).map(|(line, kind)| {
            let numbers = line.split(' ').map(str::parse::<f64>);
            let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
            let [opened, cut, first, median, last] = numbers[..] else {
                return Err("not five figures".into());
            };
            Ok(Seen {
                kind,
                opened: opened as usize,
                cut: cut as usize,
                first,
                median,
                last,
            })
        });
        kinds.collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the system holds at most for a slow reader of a kind, as its server would see it.
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

/// Begins to connect.
pub(crate) fn dial(from: Ipv4Addr, to: SocketAddr, kind: Kind) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if !kind.reads() {
        socket.set_recv_buffer_size(RECEIVED_BYTES)?;
    }
    if kind == Kind::Reader {
        socket.set_tcp_mss(SEGMENT_BYTES)?;
    }
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&to.into()) {
        // EINPROGRESS has no kind of its own.
        Err(error) if error.raw_os_error() != Some(115) => return Err(error),
        _ => {}
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// One attacker.
struct Client {
    kind: Kind,
    /// `None` when it has ended.
    stream: Option<TcpStream>,
    is_open: bool,
    /// What of its answer has come.
    held: Vec<u8>,
    /// Since when it holds the connection for nothing.
    began: Option<Instant>,
    /// Bytes that it has dripped, and when the next is due.
    dripped: usize,
    drips: Option<Instant>,
    cut: Option<Duration>,
}

impl Client {
    /// What it says when it is connected.
    fn open(&mut self) -> io::Result<()> {
        self.is_open = true;
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let now = Instant::now();
        match self.kind {
            Kind::Drip => self.drips = Some(now),
            Kind::Reader | Kind::WideReader => {
                let asked = get(BIG, "").repeat(BIG_TIMES);
                if stream.write(&asked)? < asked.len() {
                    return Err(io::Error::other("a socket took a part of a request"));
                }
                self.began = Some(now);
                self.drips = Some(now + DRIP);
            }
            Kind::Silent => self.began = Some(now),
            Kind::Idle => {
                stream.write_all(&get("/v1", ""))?;
            }
        }
        Ok(())
    }

    /// Another byte. Slow readers send some too, which nobody reads: the end of a connection with unread
    /// bytes is told at once, and without them only behind all that they do not take.
    fn drip(&mut self, now: Instant) -> io::Result<()> {
        let (Some(stream), Some(due)) = (&mut self.stream, self.drips) else {
            return Ok(());
        };
        if due > now {
            return Ok(());
        }
        self.began = self.began.or(Some(now));
        let head = b"GET /v1 HTTP/1.1\r\nhost: bench\r\nx-slow: ";
        let byte = head.get(self.dripped).unwrap_or(&b'a');
        self.dripped += 1;
        self.drips = Some(due + DRIP);
        match stream.write(&[*byte]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Something has happened; an error is the end.
    fn happen(&mut self, event: &Event, chunk: &mut [u8]) -> io::Result<()> {
        if !self.is_open && event.is_writable() && !event.is_error() {
            self.open()?;
        }
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        if !self.kind.reads() {
            let ended = event.is_error() || event.is_read_closed();
            return if ended {
                Err(io::ErrorKind::ConnectionReset.into())
            } else {
                Ok(())
            };
        }
        loop {
            match stream.read(chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.held.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let is_answered = Head::read(&self.held)
            .is_some_and(|head| self.held.len() >= head.length + head.body_length);
        if self.kind == Kind::Idle && self.began.is_none() && is_answered {
            self.began = Some(Instant::now());
            self.held = Vec::new();
        }
        Ok(())
    }

    fn end(&mut self) {
        if self.stream.take().is_some() {
            self.cut = self.began.map(|began| began.elapsed());
        }
    }
}

/// Kinds in the order in which they come, evenly mixed.
fn mixed(counts: &[usize]) -> Vec<Kind> {
    let of = |(kind, count): (Kind, &usize)| {
        let count = *count;
        (0..count).map(move |at| ((at as f64 + 0.5) / count as f64, kind))
    };
    let mut all: Vec<(f64, Kind)> = Kind::ALL.into_iter().zip(counts).flat_map(of).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    all.into_iter().map(|(_, kind)| kind).collect()
}

/// The attackers' process: its words, as [`Running::start`] puts them.
pub(crate) fn attack(words: &[String]) -> Outcome<()> {
    let [to, numbers @ ..] = words else {
        return Err("want an address".into());
    };
    let to: SocketAddr = to.parse()?;
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|word| word.parse())
        .collect::<Result<_, _>>()?;
    let [first, ramp, wait, counts @ ..] = &numbers[..] else {
        return Err("want more".into());
    };
    let counts: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
    let ramp = Duration::from_millis(*ramp);
    let clients = run(
        to,
        *first as u32,
        &mixed(&counts),
        ramp,
        Duration::from_millis(*wait),
    )?;
    let mut text = String::new();
    for kind in Kind::ALL {
        let of_kind = clients.iter().filter(|client| client.kind == kind);
        let opened = of_kind
            .clone()
            .filter(|client| client.began.is_some())
            .count();
        let mut cuts: Vec<f64> = of_kind
            .filter_map(|client| client.cut)
            .map(|cut| cut.as_secs_f64())
            .collect();
        cuts.sort_by(f64::total_cmp);
        let at = |share: usize| cuts.get(cuts.len() * share / 2).or(cuts.last());
        let [first, median, last] = [0, 1, 2].map(|share| at(share).copied().unwrap_or(0.0));
        writeln!(text, "{opened} {} {first} {median} {last}", cuts.len())?;
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn run(
    to: SocketAddr,
    first: u32,
    kinds: &[Kind],
    ramp: Duration,
    wait: Duration,
) -> Outcome<Vec<Client>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(4096);
    let mut chunk = vec![0; 64 * 1024];
    let mut clients: Vec<Client> = Vec::with_capacity(kinds.len());
    let begun = Instant::now();
    loop {
        let elapsed = begun.elapsed();
        let share = elapsed.as_secs_f64() / ramp.as_secs_f64();
        let due = ((kinds.len() as f64 * share) as usize).min(kinds.len());
        while clients.len() < due {
            let at = clients.len();
            let from = Ipv4Addr::from_bits(first + (at / PER_ADDRESS) as u32);
            let mut stream = dial(from, to, kinds[at])?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(at), interest)?;
            clients.push(Client {
                kind: kinds[at],
                stream: Some(stream),
                is_open: false,
                held: Vec::new(),
                began: None,
                dripped: 0,
                drips: None,
                cut: None,
            });
        }
        let is_over = clients.iter().all(|client| client.stream.is_none());
        if (clients.len() == kinds.len() && is_over) || elapsed > ramp + wait {
            return Ok(clients);
        }
        match poll.poll(&mut events, Some(NAP)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        for event in &events {
            let client = &mut clients[event.token().0];
            if client.happen(event, &mut chunk).is_err() {
                client.end();
            }
        }
        let now = Instant::now();
        for client in &mut clients {
            if client.drip(now).is_err() {
                client.end();
            }
        }
        thread::sleep(NAP);
    }
}
