//! Requests, their responses, and what a client and its network do meanwhile: made up, played,
//! checked.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use arbtest::arbitrary::{Result, Unstructured};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};

use super::responses::{Disk, body, lines, refusal, respond};
use super::socket::{Side, Socket, Wire};
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::drive::drive;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::conn::send_buffer::{pooled_buffers, put_buffer};
use crate::server::conn::timed_io::TimedIo;
use crate::sync::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Case {
    pub(in crate::server) number: usize,
    pub(in crate::server) method: &'static str,
    /// The minor version of HTTP/1.
    pub(in crate::server) version: u8,
    pub(in crate::server) status: u16,
    pub(in crate::server) size: usize,
    /// How long the pieces are that the body comes in; 0 of one that comes whole.
    pub(in crate::server) piece: usize,
    /// Header lines.
    pub(in crate::server) more: &'static str,
    /// Whether the response says that it is the last one.
    pub(in crate::server) closed_by_server: bool,
}

/// A request like most.
pub(in crate::server) const PLAIN: Case = Case {
    number: 0,
    method: "GET",
    version: 1,
    status: 200,
    size: 700,
    piece: 0,
    more: "",
    closed_by_server: false,
};

impl Case {
    pub(in crate::server) fn head(&self) -> String {
        let (number, status, size) = (self.number, self.status, self.size);
        let piece = self.piece;
        let target = if self.method == "CONNECT" {
            format!("{number}.{status}.{size}.{piece}:1")
        } else {
            let close = if self.closed_by_server { "close" } else { "" };
            format!("/{number}.{status}.{size}.{piece}.{close}")
        };
        format!(
            "{} {target} HTTP/1.{}\r\n{}\r\n",
            self.method, self.version, self.more
        )
    }
}

/// Expected responses to the bytes of a client.
#[derive(Debug, Default)]
pub(in crate::server) struct Plan {
    pub(in crate::server) cases: Vec<Case>,
    pub(in crate::server) refusal: Option<u16>,
    /// Whether the connection ends without the client ending it.
    pub(in crate::server) closes: bool,
}

const SIZES: [usize; 12] = [
    0, 1, 40, 700, 3_000, 7_999, 8_191, 8_192, 8_193, 20_000, 100_000, 17,
];

const PIECES: [usize; 9] = [0, 0, 0, 0, 700, 8_191, 8_192, 20_000, 99_999];

fn case(u: &mut Unstructured<'_>, number: usize) -> Result<Case> {
    Ok(Case {
        number,
        method: u.choose(&["GET", "GET", "GET", "HEAD"])?,
        version: 1,
        status: *u.choose(&[200, 200, 200, 404, 304])?,
        size: *u.choose(&SIZES)?,
        piece: *u.choose(&PIECES)?,
        more: u.choose(&["", "", "", "content-length: 0\r\n", "upgrade: h2c\r\n"])?,
        closed_by_server: false,
    })
}

/// A last request, or what is none, and what may follow it.
fn end(u: &mut Unstructured<'_>, sent: &mut Vec<u8>, plan: &mut Plan) -> Result<()> {
    let mut last = case(u, plan.cases.len())?;
    let long = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(9_000));
    plan.closes = true;
    let kind = u.int_in_range(0..=13)?;
    match kind {
        0 => {
            plan.closes = false;
            return Ok(());
        }
        1 => last.more = "connection: close\r\n",
        2 => last.more = "connection: close, upgrade\r\nupgrade: h2c\r\n",
        3 => last.closed_by_server = true,
        4 => last.version = 0,
        5 => last.more = "content-length: 5\r\n\r\nhel",
        6 => last.more = "content-length: 5\r\nupgrade: h2c\r\n",
        7 => last.more = "transfer-encoding: chunked\r\nexpect: 100-continue\r\n",
        8 => last.method = "CONNECT",
        9 => sent.extend_from_slice(b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        10 => sent.extend_from_slice(b"\0"),
        11 => sent.extend_from_slice(long.as_bytes()),
        12 => sent.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        // Without its end; the client is to end its side.
        _ => sent.extend_from_slice(b"GET / HTTP/1.1\r\nx:"),
    }
    match kind {
        1..=8 => {
            if kind == 8 {
                // A response to CONNECT with 2xx is a tunnel, which this server never opens.
                last.status = 404;
            }
            sent.extend_from_slice(last.head().as_bytes());
            plan.cases.push(last);
        }
        9 | 10 | 12 => plan.refusal = Some(400),
        11 => {
            // Bytes behind it might make it malformed as well.
            plan.refusal = Some(431);
            return Ok(());
        }
        _ => return Ok(()),
    }
    let garbage = ["", "llo", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\0\r\n\r\n"];
    sent.extend_from_slice(u.choose(&garbage)?.as_bytes());
    Ok(())
}

fn limits(u: &mut Unstructured<'_>, sizes: &[usize]) -> Result<Vec<usize>> {
    let count = u.int_in_range(0..=40)?;
    (0..count).map(|_| Ok(*u.choose(sizes)?)).collect()
}

pub(in crate::server) fn scene(u: &mut Unstructured<'_>) -> Result<(Wire, Plan)> {
    let mut plan = Plan::default();
    let mut sent = Vec::new();
    for number in 0..u.int_in_range(0..=24)? {
        let case = case(u, number)?;
        sent.extend_from_slice(case.head().as_bytes());
        plan.cases.push(case);
    }
    end(u, &mut sent, &mut plan)?;
    // A head without its end waits for more.
    let cut = plan.closes && plan.refusal.is_none() && sent.ends_with(b"x:");
    let wire = Wire {
        sent,
        reads: limits(u, &[10_000, 0, 1, 30, 400])?,
        ends: cut || u.arbitrary()?,
        writes: limits(u, &[1_000_000, 0, 1, 100, 5_000, 8_192, 30_000])?,
        one_part: u.arbitrary()?,
        writes_left: if u.ratio(1, 5)? {
            u.int_in_range(0..=30)?
        } else {
            usize::MAX
        },
        ..Wire::default()
    };
    Ok((wire, plan))
}

/// Takes a whole response off the front of what was received. `None` if it ends before its end.
fn take_response<'a>(rest: &mut &'a [u8], case: &Case) -> Option<&'a [u8]> {
    let head_end = memchr::memmem::find(rest, b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&rest[..head_end]).unwrap();
    let status = StatusCode::from_u16(case.status).unwrap();
    // Our lines stand behind the status line, whole and in order; their length and hyper's are
    // behind them.
    let start = format!("HTTP/1.{} {status}\r\n{}", case.version, lines(case.number));
    let others = head
        .strip_prefix(start.as_str())
        .unwrap_or_else(|| panic!("{head:?} does not begin with {start:?}"));
    let (mut length, mut date) = (None, false);
    for line in others.trim_end_matches("\r\n").split("\r\n") {
        match line.split_once(": ").unwrap() {
            ("content-length", value) => {
                assert_eq!(length.replace(value.parse::<usize>().unwrap()), None);
            }
            ("date", _) => assert!(!std::mem::replace(&mut date, true)),
            ("connection", "close") => {}
            _ => panic!("{line:?} in {head:?}"),
        }
    }
    assert!(date, "{head:?}");
    // There is no length where a body may not be.
    let lengthless = case.status == 304 || (case.method == "HEAD" && case.size == 0);
    assert_eq!(length, (!lengthless).then_some(case.size), "{head:?}");
    let bodiless = case.status == 304 || case.method == "HEAD";
    let size = if bodiless { 0 } else { case.size };
    let body = rest.get(head_end..head_end + size)?;
    *rest = &rest[head_end + size..];
    Some(body)
}

/// Takes all responses off what was received, and returns whether none is missing or torn.
pub(in crate::server) fn take_all(rest: &mut &[u8], cases: &[Case]) -> bool {
    for case in cases {
        let Some(found) = take_response(rest, case) else {
            return false;
        };
        assert!(found == body(case.number, found.len()), "{case:?}");
    }
    true
}

pub(in crate::server) fn context(registry: &Arc<ConnectionRegistry>) -> Arc<ConnectionContext> {
    ConnectionContext::join(registry, None, false)
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays a scene until nothing moves, and checks what came of it. `stop_at` is the poll before
/// which the server begins to stop.
pub(in crate::server) fn play(wire: Wire, plan: &Plan, stop_at: Option<usize>) {
    let wire = Rc::new(RefCell::new(wire));
    let registry = Arc::new(ConnectionRegistry::default());
    // One buffer, which is here again when no response needs it.
    put_buffer(b"left by another".to_vec());
    let context = context(&registry);
    let socket = Socket(Rc::clone(&wire));
    let io = TimedIo::new(socket, refusal, 0, Arc::clone(&context));
    let served = Cell::new(0);
    let service = service_fn(|request: Request<Incoming>| {
        served.set(served.get() + 1);
        std::future::ready(Ok::<_, Infallible>(respond(
            &request,
            &context,
            Disk::SOUND,
        )))
    });
    let mut conversation = Box::pin(drive(io, service, &context));
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let (mut polls, mut done) = (0, false);
    while !done && woken.0.swap(false, Ordering::Relaxed) {
        if stop_at == Some(polls) {
            registry.stop();
        }
        done = conversation.as_mut().poll(&mut cx).is_ready();
        polls += 1;
        assert!(polls < 10_000, "it never rests");
    }
    if !done && stop_at.is_some_and(|at| at < polls) {
        // No request comes any more: it ends when it has been silent for a moment.
        done = [100, 100, 200].into_iter().any(|now| {
            registry.tick(now);
            conversation.as_mut().poll(&mut cx).is_ready()
        });
    }
    let wire = wire.borrow();
    let stopped = stop_at.is_some_and(|at| at < polls);
    let failed = wire.state == Side::Failed;
    let closes = wire.ends || plan.closes || stopped || failed;
    assert_eq!(done, closes, "{plan:?}");
    let mut rest = &wire.received[..];
    let whole = take_all(&mut rest, &plan.cases[..served.get()]);
    if failed {
        return;
    }
    assert!(whole, "{} of {plan:?}", served.get());
    if !stopped {
        assert_eq!(served.get(), plan.cases.len(), "{plan:?}");
    }
    if !(stopped && rest.is_empty()) {
        assert!(rest == plan.refusal.map_or(Vec::new(), refusal), "{plan:?}");
    }
    if !closes {
        assert!(pooled_buffers() > 0, "it holds a buffer");
    }
}
