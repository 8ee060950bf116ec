//! A server without descriptors, or without room: does it burn its core, and how soon does it serve when one
//! becomes free?

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::common::http::get;
use crate::common::process::{Server, installed, run};
use crate::common::{Outcome, world};

/// Descriptors that the server may have open, and those who want one.
const DESCRIPTORS: usize = 64;
const CLIENTS: u8 = 120;
/// For how long its CPU time is measured.
const MEASURED: Duration = Duration::from_secs(3);
const CPU_SHARE_MAX: f64 = 0.01;
const ANSWERED_WITHIN: Duration = Duration::from_millis(150);
/// No answer within this is none.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Starved {
    pub(crate) name: &'static str,
    /// Who had an answer while there were no descriptors.
    pub(crate) served: usize,
    pub(crate) cpu_share: f64,
    /// From when a descriptor became free to the first byte for another, at the latest.
    pub(crate) slowest: Duration,
}

impl Starved {
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (name, served) = (self.name, self.served);
        if !(1..usize::from(CLIENTS)).contains(&served) {
            faults.push(format!("{name}: {served} of {CLIENTS} were served"));
        }
        if self.cpu_share > CPU_SHARE_MAX {
            let percent = self.cpu_share * 100.0;
            faults.push(format!("{name}: {percent:.1} % of a core while it waited"));
        }
        if self.slowest > ANSWERED_WITHIN {
            let millis = self.slowest.as_millis();
            faults.push(format!("{name}: an answer came after {millis} ms"));
        }
        faults
    }
}

/// One that asks for more than fits anywhere and reads nothing: whose place the server does not give away.
/// Each has an address of its own, since one gets half of all places at most.
fn connect(to: SocketAddr, number: u8) -> Outcome<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 4, 0, number), 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&get("/v1/islands?limit=200", "").repeat(64))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn is_served(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// With the limit that shells set before: the server keeps most of its descriptors for itself.
pub(crate) fn without_room(times: usize) -> Outcome<Starved> {
    let before = format!("ulimit -n {DESCRIPTORS}");
    let server = world::serve_behind(&before, |serve| {
        serve.args(["--send-seconds", "60", "--connections-per-address", "1024"]);
    })?;
    starve("without room", &server, times)
}

/// With a limit that falls behind its back, so that accepting fails; `None` where nothing can set that.
pub(crate) fn without_descriptors(times: usize) -> Outcome<Option<Starved>> {
    if installed("prlimit").is_none() {
        return Ok(None);
    }
    let server = world::serve_behind("true", |serve| {
        serve.args(["--send-seconds", "60"]);
    })?;
    let mut limit = Command::new("prlimit");
    limit.arg("--pid").arg(server.id().to_string());
    run({
        limit.arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}"));
        limit
    })?;
    starve("without descriptors", &server, times).map(Some)
}

fn starve(name: &'static str, server: &Server, times: usize) -> Outcome<Starved> {
    let mut clients = (1..=CLIENTS)
        .map(|number| connect(server.address, number))
        .collect::<Outcome<Vec<TcpStream>>>()?;
    thread::sleep(Duration::from_secs(1));
    let before = (server.cpu_nanos()?, Instant::now());
    thread::sleep(MEASURED);
    let cpu_nanos = server.cpu_nanos()? - before.0;
    let cpu_share = cpu_nanos as f64 / before.1.elapsed().as_nanos() as f64;
    let answered = clients.iter().filter(|client| is_served(client)).count();
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        let Some(leaves) = clients.iter().position(is_served) else {
            break;
        };
        if clients.iter().all(is_served) {
            break;
        }
        let leaving = clients.swap_remove(leaves);
        let waiting: Vec<&TcpStream> = clients.iter().filter(|client| !is_served(client)).collect();
        SockRef::from(&leaving).set_linger(Some(Duration::ZERO))?;
        let free = Instant::now();
        drop(leaving);
        while !waiting.iter().any(|client| is_served(client)) && free.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(500));
        }
        slowest = slowest.max(free.elapsed());
    }
    Ok(Starved {
        name,
        served: answered,
        cpu_share,
        slowest,
    })
}
