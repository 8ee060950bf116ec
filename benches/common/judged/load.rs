//! Load: each connection asks again as soon as it has been answered, or when it is due. A fault ends none
//! of it: it is counted, told, and if need be the connection is opened anew.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::common::histogram::Histogram;
use crate::common::http::Head;
use crate::common::judged::judge::{Fault, Judge};
use crate::common::judged::targets::{Ask, Target};
use crate::common::lines::Sources;
use crate::common::process::Server;
use crate::common::{Outcome, STALL};

/// Connections; those of one key are one client to the server's caches.
pub(crate) const CONNECTIONS: usize = 32;
/// Faults that are told one by one.
const TOLD_MAX: u64 = 20;
/// How long nothing may have come before the clock is looked at.
const WAIT: Duration = Duration::from_millis(10);
/// The same with a rate: the load has to be awake for what is due next.
const NAP: Duration = Duration::from_micros(200);
/// How long a snapshot that was replaced may stay open.
const RELEASE: Duration = Duration::from_secs(5);
const CHUNK_BYTES: usize = 256 * 1024;

/// How many answers were not as they should be.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) failed: u64,
    pub(crate) mixed: u64,
}

/// What a run came to.
pub(crate) struct Flow {
    pub(crate) answers: u64,
    pub(crate) seconds: f64,
    pub(crate) latencies: Histogram,
}

struct Line {
    stream: TcpStream,
    /// What of the present answer has come.
    held: Vec<u8>,
    /// Its length, head and body; 0 until that is known.
    whole: usize,
    /// What was asked for, and when; `None` while nothing is.
    asked: Option<(Ask, Instant)>,
}

pub(crate) struct Load<'a> {
    address: SocketAddr,
    sources: Sources,
    keys: Vec<String>,
    targets: &'a [Target],
    order: Vec<Ask>,
    next: usize,
    poll: Poll,
    lines: Vec<Line>,
    request: Vec<u8>,
    chunk: Vec<u8>,
    /// Requests a second; as many as are answered where it is `None`.
    pub(crate) rate: Option<f64>,
    pub(crate) judge: Judge<'a>,
    pub(crate) faults: Faults,
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        address: SocketAddr,
        keys: Vec<String>,
        targets: &'a [Target],
        judge: Judge<'a>,
    ) -> Outcome<Load<'a>> {
        let mut load = Load {
            address,
            sources: Sources::new()?,
            keys,
            targets,
            order: crate::common::judged::targets::order(targets.len()),
            next: 0,
            poll: Poll::new()?,
            lines: Vec::new(),
            request: Vec::new(),
            chunk: vec![0; CHUNK_BYTES],
            rate: None,
            judge,
            faults: Faults::default(),
        };
        for at in 0..CONNECTIONS {
            let line = load.connect(at)?;
            load.lines.push(line);
        }
        Ok(load)
    }

    fn connect(&mut self, at: usize) -> Outcome<Line> {
        let from = self.sources.fresh();
        let mut stream = self.sources.connect(from, self.address)?;
        let registry = self.poll.registry();
        registry.register(&mut stream, Token(at), Interest::READABLE)?;
        Ok(Line {
            stream,
            held: Vec::new(),
            whole: 0,
            asked: None,
        })
    }

    /// Asks as fast as answers come, for a while. `at_interval` is called about that often.
    pub(crate) fn run(
        &mut self,
        duration: Duration,
        interval: Duration,
        at_interval: &mut dyn FnMut(Duration) -> Outcome<()>,
    ) -> Outcome<Flow> {
        self.replace_closed()?;
        let mut events = Events::with_capacity(CONNECTIONS);
        let mut latencies = Histogram::new();
        let begun = Instant::now();
        let before = self.judge.answers;
        let mut due = interval;
        let (mut free, mut asked) = ((0..self.lines.len()).collect::<Vec<usize>>(), 0);
        loop {
            let elapsed = begun.elapsed();
            if elapsed < duration {
                let wanted = self.rate.map(|rate| (rate * elapsed.as_secs_f64()) as u64);
                while wanted.is_none_or(|wanted| asked < wanted)
                    && let Some(at) = free.pop()
                {
                    self.ask(at)?;
                    asked += 1;
                }
            } else if self.lines.iter().all(|line| line.asked.is_none()) {
                break;
            }
            let wait = self.rate.map_or(WAIT, |_| Duration::ZERO);
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
            for event in &events {
                let Token(at) = event.token();
                if self.take(at, &mut latencies)? {
                    free.push(at);
                }
            }
            if self.rate.is_some() && events.is_empty() {
                thread::sleep(NAP);
            }
            if elapsed >= due {
                at_interval(elapsed)?;
                due += interval;
                self.end_stalled()?;
            }
        }
        Ok(Flow {
            answers: self.judge.answers - before,
            seconds: begun.elapsed().as_secs_f64(),
            latencies,
        })
    }

    /// Sends the next request on a connection whose socket has room.
    fn ask(&mut self, at: usize) -> Outcome<()> {
        let ask = self.order[self.next];
        self.next = (self.next + 1) % self.order.len();
        let coding = if ask.gzip {
            "accept-encoding: gzip\r\n"
        } else {
            ""
        };
        let (path, key) = (
            &self.targets[ask.target].path,
            &self.keys[at % self.keys.len()],
        );
        self.request.clear();
        write!(
            self.request,
            "GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{coding}\r\n"
        )?;
        let line = &mut self.lines[at];
        line.asked = Some((ask, Instant::now()));
        match line.stream.write(&self.request) {
            Ok(count) if count == self.request.len() => Ok(()),
            Ok(_) => self.lose(at, "a socket took a part of a request"),
            Err(error) => self.lose(at, &error.to_string()),
        }
    }

    /// Takes what has come on a connection; says whether it is free to ask again.
    fn take(&mut self, at: usize, latencies: &mut Histogram) -> Outcome<bool> {
        match self.lines[at].read(&mut self.chunk) {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(error) => {
                self.lose(at, &error.to_string())?;
                return Ok(true);
            }
        }
        let line = &mut self.lines[at];
        let Some((ask, since)) = line.asked.take() else {
            self.lose(at, "something came that nobody asked for")?;
            return Ok(true);
        };
        let nanos = u64::try_from(since.elapsed().as_nanos())?;
        latencies.record(nanos);
        if let Err(fault) = self.judge.judge(at, ask, &line.held) {
            self.count(ask, fault);
        }
        let line = &mut self.lines[at];
        let head = Head::read(&line.held).map_or(0, |head| head.length);
        let closes = memmem::find(&line.held[..head], b"\r\nconnection: close").is_some();
        line.held.clear();
        line.whole = 0;
        // The server has told that it ends the connection, as it does after so many requests.
        if closes {
            self.renew(at)?;
        }
        Ok(true)
    }

    fn count(&mut self, ask: Ask, fault: Fault) {
        let path = &self.targets[ask.target].path;
        let coding = if ask.gzip { ", gzip" } else { "" };
        let (kind, reason) = match fault {
            Fault::Failed(reason) => {
                self.faults.failed += 1;
                ("failed", reason)
            }
            Fault::Mixed(reason) => {
                self.faults.mixed += 1;
                ("mixed", reason)
            }
        };
        if self.faults.failed + self.faults.mixed <= TOLD_MAX {
            println!("{kind}: {path}{coding}: {reason}");
        }
    }

    /// A connection is of no more use: what was asked on it has failed, and another takes its place.
    fn lose(&mut self, at: usize, reason: &str) -> Outcome<()> {
        if let Some((ask, _)) = self.lines[at].asked.take() {
            self.count(ask, Fault::Failed(reason.to_owned()));
        } else {
            self.faults.failed += 1;
            println!("failed: a connection that had asked for nothing: {reason}");
        }
        self.renew(at)
    }

    /// Replaces connections that the server has ended while nothing was asked, as it does with who is
    /// silent for long.
    fn replace_closed(&mut self) -> Outcome<()> {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            let closed = line.stream.peek(&mut [0]).is_ok_and(|count| count == 0);
            if line.asked.is_none() && closed {
                self.renew(at)?;
            }
        }
        Ok(())
    }

    /// Another connection takes the place of one.
    fn renew(&mut self, at: usize) -> Outcome<()> {
        let registry = self.poll.registry();
        registry.deregister(&mut self.lines[at].stream)?;
        self.lines[at] = self.connect(at)?;
        self.judge.forget_line(at);
        Ok(())
    }

    /// Gives up on answers that do not come; their connections are silent for the rest of a run.
    fn end_stalled(&mut self) -> Outcome<()> {
        for at in 0..self.lines.len() {
            let since = self.lines[at].asked.map(|(_, since)| since.elapsed());
            if since.is_some_and(|since| since > STALL) {
                self.lose(at, "no answer came")?;
            }
        }
        Ok(())
    }
}

/// Descriptors that are open once all that was replaced has been let go.
pub(crate) fn released(load: &mut Load<'_>, server: &Server, most: usize) -> Outcome<usize> {
    let begun = Instant::now();
    loop {
        // A worker lets a snapshot go when it is asked again.
        load.run(Duration::from_millis(1), RELEASE, &mut |_| Ok(()))?;
        thread::sleep(Duration::from_millis(300));
        let open = server.descriptors()?;
        if open <= most || begun.elapsed() > RELEASE {
            return Ok(open);
        }
    }
}

impl Line {
    /// Reads all that is there; says whether an answer has come to its end.
    fn read(&mut self, chunk: &mut [u8]) -> io::Result<bool> {
        loop {
            match self.stream.read(chunk) {
                Ok(0) => return Err(io::Error::other("the connection was closed")),
                Ok(count) => {
                    self.held.extend_from_slice(&chunk[..count]);
                    // Less than there was room for is all there is; the next will be an event.
                    if count < chunk.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.whole == 0
            && let Some(head) = Head::read(&self.held)
        {
            self.whole = head.length + head.body_length;
        }
        Ok(self.whole > 0 && self.held.len() >= self.whole)
    }
}
