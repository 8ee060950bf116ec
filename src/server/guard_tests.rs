//! Real hyper over a guard, over a socket that gives and takes bytes in pieces.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::task::{Wake, Waker};

use arbtest::arbitrary::{Result, Unstructured};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use self::socket::{Side, Socket, Wire};
use super::super::connection::{converse, is_last};
use super::super::roster::Roster;
use super::*;

#[path = "guard_socket_tests.rs"]
mod socket;

/// A request and what it is to be answered with.
#[derive(Clone, Copy, Debug)]
struct Ask {
    number: usize,
    method: &'static str,
    /// The minor version of HTTP/1.
    version: u8,
    status: u16,
    size: usize,
    /// How long the pieces are that the body comes in; 0 of one that comes whole.
    piece: usize,
    /// Header lines.
    more: &'static str,
    /// Whether the answer says that it is the last one.
    closed_by_server: bool,
}

impl Ask {
    fn head(&self) -> String {
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

/// A body that no other answer has. Some look like an answer.
fn body(number: usize, size: usize) -> Vec<u8> {
    let text = if number.is_multiple_of(3) {
        format!("HTTP/1.1 200 OK\r\nx-number: {number}\r\n\r\n")
    } else {
        format!("{number}, ")
    };
    text.bytes().cycle().take(size).collect()
}

fn lines(number: usize) -> String {
    format!(
        "x-number: {number}\r\nx-more: {}\r\n",
        "m".repeat(number * 37 % 300)
    )
}

fn refusal(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} Refused\r\ncontent-length: 7\r\n\r\nrefused").into_bytes()
}

/// A body that comes whole, or in pieces of which none is there when it is asked for first.
struct Pieces {
    left: Bytes,
    piece: usize,
    is_there: bool,
    /// How many bytes come before it fails.
    sound: usize,
    /// How many pieces have been read from a disk, if the test says.
    read: Option<Rc<Cell<usize>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if self.sound == 0 {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        if let Some(read) = &self.read {
            match read.get().checked_sub(1) {
                Some(less) => read.set(less),
                None => return Poll::Pending,
            }
        } else if self.piece > 0 {
            self.is_there = !self.is_there;
            if self.is_there {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let most = if self.piece == 0 {
            usize::MAX
        } else {
            self.piece
        };
        let bytes = most.min(self.left.len()).min(self.sound);
        self.sound -= bytes;
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// Answers as a worker does, with what the target says.
fn answer(request: &Request<Incoming>, shared: &Shared) -> Response<Pieces> {
    let target = request.uri().to_string();
    let mut words = target
        .trim_matches(|c: char| c == '/' || c == ':')
        .split(['.', ':']);
    let mut figure = || words.next().unwrap().parse::<usize>().unwrap();
    let (number, status, size, piece) = (figure(), figure(), figure(), figure());
    let last = is_last(request);
    if last {
        shared.ending.store(true, Ordering::Relaxed);
    }
    shared
        .prepared
        .put(|text| text.extend_from_slice(lines(number).as_bytes()));
    let size = if status == 304 { 0 } else { size };
    if piece > 0 && request.method() != "HEAD" {
        shared.in_pieces.store(size as u64, Ordering::Relaxed);
    }
    let mut response = Response::new(Pieces {
        left: body(number, size).into(),
        piece,
        is_there: false,
        sound: usize::MAX,
        read: None,
    });
    *response.status_mut() = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    if last || words.next() == Some("close") {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// What is to come of what the client sends.
#[derive(Debug, Default)]
struct Plan {
    asks: Vec<Ask>,
    refusal: Option<u16>,
    /// Whether there may be no refusal.
    silent: bool,
    /// Whether the connection ends without the client ending it.
    closes: bool,
}

const SIZES: [usize; 12] = [
    0, 1, 40, 700, 3_000, 7_999, 8_191, 8_192, 8_193, 20_000, 100_000, 17,
];

const PIECES: [usize; 9] = [0, 0, 0, 0, 700, 8_191, 8_192, 20_000, 99_999];

fn ask(u: &mut Unstructured<'_>, number: usize) -> Result<Ask> {
    Ok(Ask {
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
    let mut last = ask(u, plan.asks.len())?;
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
                // An answer to CONNECT with 2xx is a tunnel, which this server never opens.
                last.status = 404;
            }
            sent.extend_from_slice(last.head().as_bytes());
            plan.asks.push(last);
        }
        9 | 10 => plan.refusal = Some(400),
        12 => {
            // Hyper says nothing to all of HTTP/2's preface, and refuses a part of it.
            plan.refusal = Some(400);
            plan.silent = true;
        }
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

fn scene(u: &mut Unstructured<'_>) -> Result<(Wire, Plan)> {
    let mut plan = Plan::default();
    let mut sent = Vec::new();
    for number in 0..u.int_in_range(0..=24)? {
        let ask = ask(u, number)?;
        sent.extend_from_slice(ask.head().as_bytes());
        plan.asks.push(ask);
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

/// Takes a whole answer off the front of what was received. `None` if it ends before its end.
fn take_answer<'a>(rest: &mut &'a [u8], ask: &Ask) -> Option<&'a [u8]> {
    let head_end = memchr::memmem::find(rest, b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&rest[..head_end]).unwrap();
    let status = StatusCode::from_u16(ask.status).unwrap();
    // Our lines stand behind the status line, whole and in order; hyper's are behind them.
    let start = format!("HTTP/1.{} {status}\r\n{}", ask.version, lines(ask.number));
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
    // Hyper gives no length where a body may not be.
    let lengthless = ask.status == 304 || (ask.method == "HEAD" && ask.size == 0);
    assert_eq!(length, (!lengthless).then_some(ask.size), "{head:?}");
    let bodiless = ask.status == 304 || ask.method == "HEAD";
    let size = if bodiless { 0 } else { ask.size };
    let body = rest.get(head_end..head_end + size)?;
    *rest = &rest[head_end + size..];
    Some(body)
}

/// Takes all answers off what was received, and returns whether none is missing or torn.
fn take_all(rest: &mut &[u8], asks: &[Ask]) -> bool {
    for ask in asks {
        let Some(found) = take_answer(rest, ask) else {
            return false;
        };
        assert!(found == body(ask.number, found.len()), "{ask:?}");
    }
    true
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays a scene until nothing moves, and checks what came of it. `stop_at` is the poll before
/// which the server begins to stop.
fn play(wire: Wire, plan: &Plan, stop_at: Option<usize>) {
    let wire = Rc::new(RefCell::new(wire));
    let roster = Arc::new(Roster::default());
    // One buffer, which is here again when the guard needs none.
    let buffers = Arc::new(Buffers::default());
    buffers.give_back(b"left by another".to_vec());
    let shared = Arc::new(Shared {
        prepared: Prepared::default(),
        buffers: Arc::clone(&buffers),
        ending: AtomicBool::new(false),
        in_pieces: AtomicU64::new(0),
        waiting: AtomicBool::new(false),
        membership: roster.join(),
    });
    let guard = Guard::new(Socket(Rc::clone(&wire)), refusal, Arc::clone(&shared));
    let served = Cell::new(0);
    let service = service_fn(|request: Request<Incoming>| {
        served.set(served.get() + 1);
        std::future::ready(Ok::<_, Infallible>(answer(&request, &shared)))
    });
    let mut conversation = Box::pin(converse(guard, service, &shared.membership));
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let (mut polls, mut done) = (0, false);
    while !done && woken.0.swap(false, Ordering::Relaxed) {
        if stop_at == Some(polls) {
            roster.stop();
        }
        done = conversation.as_mut().poll(&mut cx).is_ready();
        polls += 1;
        assert!(polls < 10_000, "it never rests");
    }
    let wire = wire.borrow();
    let stopped = stop_at.is_some_and(|at| at < polls);
    let failed = wire.state == Side::Failed;
    let closes = wire.ends || plan.closes || stopped || failed;
    assert_eq!(done, closes, "{plan:?}");
    let mut rest = &wire.received[..];
    let whole = take_all(&mut rest, &plan.asks[..served.get()]);
    if failed {
        return;
    }
    // Told to stop while a last answer is under way, hyper drops what it holds if it ever saw
    // `upgrade`.
    let upgrade = plan.asks.iter().any(|ask| ask.more.contains("upgrade"));
    if stopped && upgrade && !whole {
        return;
    }
    assert!(whole, "{} of {plan:?}", served.get());
    if !stopped {
        assert_eq!(served.get(), plan.asks.len(), "{plan:?}");
    }
    if !(rest.is_empty() && (stopped || plan.silent)) {
        assert!(rest == plan.refusal.map_or(Vec::new(), refusal), "{plan:?}");
    }
    if !closes {
        assert!(buffers.take(0).capacity() > 0, "it holds a buffer");
    }
}

#[test]
fn every_answer_arrives_whole_with_its_own_lines_in_order() {
    arbtest::arbtest(|u| {
        let (wire, plan) = scene(u)?;
        let stop_at = if u.ratio(1, 5)? {
            Some(u.int_in_range(0..=20)?)
        } else {
            None
        };
        play(wire, &plan, stop_at);
        Ok(())
    })
    .size_min(256)
    .budget_ms(1_500);
}

#[test]
fn a_connection_that_hyper_ends_at_once_is_answered_first() {
    let ask = Ask {
        number: 0,
        method: "GET",
        version: 1,
        status: 200,
        size: 700,
        piece: 0,
        more: "",
        closed_by_server: false,
    };
    let upgrade = Ask {
        more: "upgrade: h2c\r\n",
        ..ask
    };
    let last = Ask {
        more: "upgrade: h2c\r\nconnection: close\r\n",
        ..ask
    };
    // Its body never comes, and the answer is longer than a socket takes.
    let body = Ask {
        more: "upgrade: h2c\r\ncontent-length: 5\r\n",
        size: 100_000,
        ..ask
    };
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let in_pieces = Ask {
        piece: 30_000,
        ..body
    };
    for (ask, behind, refusal) in [
        (in_pieces, "", None),
        (ask, preface, None),
        (upgrade, preface, None),
        (upgrade, "\0", Some(400)),
        (last, "", None),
        (body, "", None),
    ] {
        let wire = Wire {
            sent: (ask.head() + behind).into_bytes(),
            // To the end it takes a little now and then.
            writes: [5_000, 0].repeat(60),
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let plan = Plan {
            asks: vec![ask],
            refusal,
            silent: false,
            closes: true,
        };
        play(wire, &plan, None);
    }
}

type Guarded = (
    Rc<RefCell<Wire>>,
    Guard<Socket, fn(u16) -> Vec<u8>>,
    Arc<Shared>,
);

/// A guard over a socket, with what it shares.
fn guarded(roster: &Arc<Roster>, wire: Wire) -> Guarded {
    let wire = Rc::new(RefCell::new(wire));
    let shared = Arc::new(Shared {
        prepared: Prepared::default(),
        buffers: Arc::default(),
        ending: AtomicBool::new(false),
        in_pieces: AtomicU64::new(0),
        waiting: AtomicBool::new(false),
        membership: roster.join(),
    });
    let refusal: fn(u16) -> Vec<u8> = refusal;
    let guard = Guard::new(Socket(Rc::clone(&wire)), refusal, Arc::clone(&shared));
    (wire, guard, shared)
}

#[test]
fn a_body_that_fails_ends_the_connection_behind_what_came_of_it() {
    for (piece, sound) in [
        (20_000, 40_000),
        (20_000, 10),
        (0, 0),
        (700, 699),
        (8_192, 99_999),
    ] {
        let ask = Ask {
            number: 1,
            method: "GET",
            version: 1,
            status: 200,
            size: 100_000,
            piece,
            more: "",
            closed_by_server: false,
        };
        let wire = Wire {
            sent: ask.head().repeat(3).into_bytes(),
            writes: vec![3_000, 0, 9_000, 0, 100],
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let (wire, guard, shared) = guarded(&Arc::default(), wire);
        let service = service_fn(|request: Request<Incoming>| {
            let mut response = answer(&request, &shared);
            response.body_mut().sound = sound;
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let mut conversation = Box::pin(converse(guard, service, &shared.membership));
        let mut cx = Context::from_waker(Waker::noop());
        let ended = (0..100).any(|_| conversation.as_mut().poll(&mut cx).is_ready());
        assert!(ended, "{ask:?}");
        let received = &wire.borrow().received;
        // Of the head and the body no more than there was, and nothing behind it.
        if let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") {
            let came = &received[end + 4..];
            assert!(body(1, 100_000)[..sound].starts_with(came), "{ask:?}");
        } else {
            assert_eq!(received.len(), 0, "{ask:?}");
        }
    }
}

#[test]
fn answers_do_not_wait_for_the_disk_that_one_behind_them_waits_for() {
    let whole = Ask {
        number: 0,
        method: "GET",
        version: 1,
        status: 200,
        size: 700,
        piece: 0,
        more: "",
        closed_by_server: false,
    };
    let late = Ask {
        number: 1,
        piece: 500,
        ..whole
    };
    let wire = Wire {
        sent: (whole.head() + &late.head()).into_bytes(),
        writes_left: usize::MAX,
        ..Wire::default()
    };
    let roster = Arc::new(Roster::default());
    let (wire, guard, shared) = guarded(&roster, wire);
    let (is_open, read) = (&Cell::new(false), &Rc::new(Cell::new(0)));
    let shared = &shared;
    let service = service_fn(move |request: Request<Incoming>| async move {
        if request.uri().path().starts_with("/1") {
            shared.waiting.store(true, Ordering::Relaxed);
            std::future::poll_fn(|_| {
                if is_open.get() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            shared.waiting.store(false, Ordering::Relaxed);
        }
        let mut response = answer(&request, shared);
        if response.body().piece > 0 {
            response.body_mut().read = Some(Rc::clone(read));
        }
        Ok::<_, Infallible>(response)
    });
    let mut conversation = Box::pin(converse(guard, service, &shared.membership));
    let mut cx = Context::from_waker(Waker::noop());
    let mut minutes = 0;
    // Longer than a client may be silent, which does not count while it is the disk.
    let mut wait = || {
        assert!(conversation.as_mut().poll(&mut cx).is_pending());
        minutes += 1;
        roster.tick(minutes * 600);
        assert!(conversation.as_mut().poll(&mut cx).is_pending());
    };
    wait();
    assert!(take_all(&mut &wire.borrow().received[..], &[whole]));
    is_open.set(true);
    wait();
    // Nor does its head wait for the first piece, nor a piece for the next.
    assert!(wire.borrow().received.ends_with(b"GMT\r\n\r\n"));
    read.set(1);
    wait();
    assert!(wire.borrow().received.ends_with(&body(1, 500)));
    read.set(1);
    assert!(conversation.as_mut().poll(&mut cx).is_pending());
    assert!(take_all(&mut &wire.borrow().received[..], &[whole, late]));
    // And then it is the client again.
    roster.tick(10 * 600);
    assert!(conversation.as_mut().poll(&mut cx).is_ready());
}
