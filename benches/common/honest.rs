//! Honest clients beside whatever else goes on: requests at a constant rate on connections that stay, and
//! visits that connect, ask once and leave, at another. Latency counts from when each was due.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memchr::memmem;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::histogram::Histogram;
use super::hostile::{Kind, dial};
use super::http::Head;
use super::{Outcome, STALL};

/// Visits under way at most.
const VISITS: usize = 256;
/// Visits from one address before the next.
const PER_ADDRESS: u64 = 500;
const FIRST_LINE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);
const FIRST_VISIT: Ipv4Addr = Ipv4Addr::new(127, 1, 64, 1);
const NAP: Duration = Duration::from_micros(100);
/// Failures that are told one by one.
const TOLD_MAX: u64 = 10;

pub(crate) struct Plan {
    /// Connections that stay.
    pub(crate) lines: usize,
    /// Requests a second on them.
    pub(crate) rate: f64,
    /// Visits a second.
    pub(crate) visits: f64,
    /// What is asked for, in turn.
    pub(crate) requests: Vec<Vec<u8>>,
}

/// What became of the requests that were due in a window.
pub(crate) struct Window {
    pub(crate) latencies: Histogram,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
}

#[derive(Default)]
struct Wishes {
    window: AtomicUsize,
    is_paused: AtomicBool,
    is_over: AtomicBool,
}

/// Honest load in a thread of its own.
pub(crate) struct Honest {
    wishes: Arc<Wishes>,
    thread: JoinHandle<Result<Vec<Window>, String>>,
}

impl Honest {
    pub(crate) fn start(to: SocketAddr, plan: Plan, windows: usize) -> Honest {
        let wishes: Arc<Wishes> = Arc::default();
        let theirs = Arc::clone(&wishes);
        let thread = thread::spawn(move || {
            let asked = Crowd::new(to, plan, windows).and_then(|mut crowd| {
                crowd.run(&theirs)?;
                Ok(crowd.windows)
            });
            asked.map_err(|error| error.to_string())
        });
        Honest { wishes, thread }
    }

    /// What is due from now on counts to this window.
    pub(crate) fn window(&self, number: usize) {
        self.wishes.window.store(number, Ordering::Relaxed);
        self.wishes.is_paused.store(false, Ordering::Relaxed);
    }

    /// No more visits: the connections that stay are all there are.
    pub(crate) fn pause(&self) {
        self.wishes.is_paused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(self) -> Outcome<Vec<Window>> {
        self.wishes.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join().map_err(|_| "the honest load panicked")?;
        Ok(ended?)
    }
}

struct Caller {
    stream: TcpStream,
    held: Vec<u8>,
    /// What it has asked for, or will when it is connected; when that was due, and in which window.
    asked: Option<(usize, Instant, usize)>,
    is_connected: bool,
}

struct Crowd {
    to: SocketAddr,
    plan: Plan,
    poll: Poll,
    /// Those that stay, and behind them places for visits.
    callers: Vec<Option<Caller>>,
    /// Lines that are free, the one that has been for longest first: none stays silent for long.
    free: VecDeque<usize>,
    visits_free: Vec<usize>,
    visits: u64,
    next: usize,
    chunk: Vec<u8>,
    windows: Vec<Window>,
}

impl Crowd {
    fn new(to: SocketAddr, plan: Plan, windows: usize) -> Outcome<Crowd> {
        let lines = plan.lines;
        let window = |_| Window {
            latencies: Histogram::new(),
            answered: 0,
            failed: 0,
        };
        let mut crowd = Crowd {
            to,
            plan,
            poll: Poll::new()?,
            callers: (0..lines + VISITS).map(|_| None).collect(),
            free: (0..lines).collect(),
            visits_free: (lines..lines + VISITS).collect(),
            visits: 0,
            next: 0,
            chunk: vec![0; 256 * 1024],
            windows: (0..windows).map(window).collect(),
        };
        for at in 0..lines {
            crowd.connect(at)?;
        }
        Ok(crowd)
    }

    fn connect(&mut self, at: usize) -> Outcome<()> {
        let from = if at < self.plan.lines {
            Ipv4Addr::from_bits(FIRST_LINE.to_bits() + at as u32)
        } else {
            self.visits += 1;
            let more = self.visits / PER_ADDRESS;
            Ipv4Addr::from_bits(FIRST_VISIT.to_bits() + u32::try_from(more)?)
        };
        let mut stream = dial(from, self.to, Kind::Idle)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(at), interest)?;
        self.callers[at] = Some(Caller {
            stream,
            held: Vec::new(),
            asked: None,
            is_connected: false,
        });
        Ok(())
    }

    fn run(&mut self, wishes: &Wishes) -> Outcome<()> {
        let mut events = Events::with_capacity(1024);
        let (begun, mut asked) = (Instant::now(), 0);
        let (mut visits_begun, mut visited) = (begun, 0);
        loop {
            let is_over = wishes.is_over.load(Ordering::Relaxed);
            let mut callers = self.callers.iter().flatten();
            if is_over && callers.all(|caller| caller.asked.is_none()) {
                return Ok(());
            }
            if wishes.is_paused.load(Ordering::Relaxed) {
                (visits_begun, visited) = (Instant::now(), 0);
            }
            let window = wishes.window.load(Ordering::Relaxed);
            let after = |count: u64, rate: f64| Duration::from_secs_f64(count as f64 / rate);
            let now = Instant::now();
            while !is_over && begun + after(asked + 1, self.plan.rate) <= now {
                let Some(at) = self.free.pop_front() else {
                    break;
                };
                asked += 1;
                self.ask(at, begun + after(asked, self.plan.rate), window)?;
            }
            while !is_over && visits_begun + after(visited + 1, self.plan.visits) <= now {
                let Some(at) = self.visits_free.pop() else {
                    break;
                };
                visited += 1;
                self.connect(at)?;
                self.ask(at, visits_begun + after(visited, self.plan.visits), window)?;
            }
            match self.poll.poll(&mut events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
            for event in &events {
                let at = event.token().0;
                if event.is_writable() {
                    self.connected(at)?;
                }
                self.take(at)?;
            }
            self.end_stalled(now)?;
            if events.is_empty() {
                thread::sleep(NAP);
            }
        }
    }

    /// Asks, at once or when it is connected.
    fn ask(&mut self, at: usize, due: Instant, window: usize) -> Outcome<()> {
        let request = self.next % self.plan.requests.len();
        self.next += 1;
        let Some(caller) = &mut self.callers[at] else {
            return Ok(());
        };
        caller.asked = Some((request, due, window));
        if caller.is_connected {
            self.send(at)?;
        }
        Ok(())
    }

    fn connected(&mut self, at: usize) -> Outcome<()> {
        let Some(caller) = &mut self.callers[at] else {
            return Ok(());
        };
        if std::mem::replace(&mut caller.is_connected, true) || caller.asked.is_none() {
            return Ok(());
        }
        self.send(at)
    }

    fn send(&mut self, at: usize) -> Outcome<()> {
        let Some(caller) = &mut self.callers[at] else {
            return Ok(());
        };
        let Some((request, ..)) = caller.asked else {
            return Ok(());
        };
        match caller.stream.write_all(&self.plan.requests[request]) {
            Ok(()) => Ok(()),
            Err(error) => self.fail(at, &error.to_string()),
        }
    }

    /// Takes what has come.
    fn take(&mut self, at: usize) -> Outcome<()> {
        let Some(caller) = &mut self.callers[at] else {
            return Ok(());
        };
        let ended = loop {
            match caller.stream.read(&mut self.chunk) {
                Ok(0) => break Some("the connection was closed".to_owned()),
                Ok(count) => caller.held.extend_from_slice(&self.chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break None,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        let head = Head::read(&caller.held);
        let whole = head.filter(|head| caller.held.len() >= head.length + head.body_length);
        let Some(head) = whole else {
            return ended.map_or(Ok(()), |reason| self.fail(at, &reason));
        };
        let Some((_, due, window)) = caller.asked.take() else {
            return self.fail(at, "an answer that nobody asked for");
        };
        let head_bytes = &caller.held[..head.length];
        let closes = memmem::find(head_bytes, b"\r\nconnection: close").is_some();
        caller.held.clear();
        let window = &mut self.windows[window];
        window
            .latencies
            .record(u64::try_from(due.elapsed().as_nanos())?);
        window.answered += 1;
        if head.status != 200 {
            window.answered -= 1;
            window.failed += 1;
            println!("an honest request is answered {}", head.status);
        }
        self.release(at, closes)
    }

    /// The caller is free for what comes next.
    fn release(&mut self, at: usize, closes: bool) -> Outcome<()> {
        if at >= self.plan.lines {
            self.callers[at] = None;
            self.visits_free.push(at);
            return Ok(());
        }
        self.free.push_back(at);
        if closes { self.connect(at) } else { Ok(()) }
    }

    fn fail(&mut self, at: usize, reason: &str) -> Outcome<()> {
        let asked = self.callers[at]
            .as_mut()
            .and_then(|caller| caller.asked.take());
        let failed = &mut self.windows[asked.map_or(0, |(_, _, window)| window)].failed;
        *failed += 1;
        if *failed <= TOLD_MAX {
            println!("an honest request failed: {reason}");
        }
        if asked.is_none() && at < self.plan.lines {
            // It was free before, and stays so.
            return self.connect(at);
        }
        self.release(at, true)
    }

    fn end_stalled(&mut self, now: Instant) -> Outcome<()> {
        for at in 0..self.callers.len() {
            let asked = self.callers[at].as_ref().and_then(|caller| caller.asked);
            if asked.is_some_and(|(_, due, _)| now.saturating_duration_since(due) > STALL) {
                self.fail(at, "no answer came")?;
            }
        }
        Ok(())
    }
}
