//! Real hyper over `TimedIo`, over a socket that reads and writes in pieces.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::task::Waker;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;

use self::responses::{Disk, body, refusal, respond};
use self::scene::{Case, PLAIN, Plan, context, play, scene, take_all};
use self::socket::{Socket, Wire};
use super::*;
use crate::observe::{Log, LogBuffer, open_log};
use crate::server::conn::drive::drive;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::settings::ConnectionLimits;
use crate::sync::{AtomicU64, Ordering};

#[path = "timed_io_response_tests.rs"]
mod responses;
#[path = "timed_io_scene_tests.rs"]
mod scene;
#[path = "timed_io_socket_tests.rs"]
mod socket;

#[test]
fn every_response_arrives_whole_with_its_own_lines_in_order() {
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
fn a_connection_that_hyper_ends_immediately_gets_its_response_first() {
    let case = PLAIN;
    let upgrade = Case {
        more: "upgrade: h2c\r\n",
        ..case
    };
    let last = Case {
        more: "upgrade: h2c\r\nconnection: close\r\n",
        ..case
    };
    // Its body never comes, and the response is longer than a socket takes.
    let body = Case {
        more: "upgrade: h2c\r\ncontent-length: 5\r\n",
        size: 100_000,
        ..case
    };
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let in_pieces = Case {
        piece: 30_000,
        ..body
    };
    for (case, behind, refusal) in [
        (in_pieces, "", None),
        (case, preface, Some(400)),
        (upgrade, preface, Some(400)),
        (upgrade, "\0", Some(400)),
        (last, "", None),
        (body, "", None),
    ] {
        let wire = Wire {
            sent: (case.head() + behind).into_bytes(),
            // To the end it takes a little now and then.
            writes: [5_000, 0].repeat(60),
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let plan = Plan {
            cases: vec![case],
            refusal,
            closes: true,
        };
        play(wire, &plan, None);
    }
}

type Guarded = (
    Rc<RefCell<Wire>>,
    TimedIo<Socket, fn(u16) -> Vec<u8>>,
    Arc<ConnectionContext>,
);

/// A `TimedIo` over a socket, and its context.
fn guarded(registry: &Arc<ConnectionRegistry>, wire: Wire) -> Guarded {
    let wire = Rc::new(RefCell::new(wire));
    let context = context(registry);
    let refusal: fn(u16) -> Vec<u8> = refusal;
    let socket = Socket(Rc::clone(&wire));
    let io = TimedIo::new(socket, refusal, 0, Arc::clone(&context));
    (wire, io, context)
}

#[test]
fn a_client_has_time_for_what_it_has_taken_since_the_last_time() {
    // Bytes that the system stores are no progress of the client.
    for (stored, pieces) in [
        (0, [2_048, 0, 10_240, 0, 1_024]),
        (4_096, [2_048, 0, 10_240, 0, 1_024]),
        (40_000, [2_048, 0, 10_240, 0, 1_024]),
        (1_000, [7_000, 0, 9, 0, 60_000]),
    ] {
        let registry = Arc::new(ConnectionRegistry::default());
        let mut writes: Vec<usize> = pieces.into_iter().rev().collect();
        writes.insert(0, 0);
        let wire = Wire {
            writes,
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let (wire, mut io, context) = guarded(&registry, wire);
        io.counted_bytes = stored;
        io.buffer.reserve();
        io.buffer.put_body(body(1, 100_000).into());
        let mut cx = Context::from_waker(Waker::noop());
        let (mut taken, mut counted) = (0, 0);
        for piece in pieces.into_iter().filter(|piece| *piece > 0) {
            taken += piece as u64;
            assert!(io.drain(&mut cx).is_pending());
            assert_eq!(wire.borrow().received.len() as u64, taken);
            assert_eq!(context.phase(), ConnectionPhase::Sending);
            let progress = taken.saturating_sub(stored) - counted;
            counted += progress;
            let grace = context.state.grace.load(Ordering::Relaxed);
            assert_eq!(grace, progress * 10 / 1024, "{stored} {taken}");
        }
    }
}

#[test]
fn a_body_that_fails_ends_the_connection_behind_what_came_of_it() {
    for (piece, sound) in [(20_000, 40_000), (20_000, 10), (700, 699), (8_192, 99_999)] {
        let case = Case {
            number: 1,
            size: 100_000,
            piece,
            ..PLAIN
        };
        let wire = Wire {
            sent: case.head().repeat(3).into_bytes(),
            writes: vec![3_000, 0, 9_000, 0, 100],
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let (wire, io, context) = guarded(&Arc::default(), wire);
        let service = service_fn(|request: Request<Incoming>| {
            let disk = Disk { sound, read: None };
            std::future::ready(Ok::<_, Infallible>(respond(&request, &context, disk)))
        });
        let mut conversation = Box::pin(drive(io, service, &context));
        let mut cx = Context::from_waker(Waker::noop());
        let ended = (0..100).any(|_| conversation.as_mut().poll(&mut cx).is_ready());
        assert!(ended, "{case:?}");
        let received = &wire.borrow().received;
        // Of the head and the body no more than there was, and nothing behind it.
        if let Some(end) = memmem::find(received, b"\r\n\r\n") {
            let arrived = &received[end + 4..];
            assert!(body(1, 100_000)[..sound].starts_with(arrived), "{case:?}");
        } else {
            assert_eq!(received.len(), 0, "{case:?}");
        }
    }
}

#[test]
fn responses_do_not_wait_for_the_disk_that_one_behind_them_waits_for() {
    let whole = PLAIN;
    let late = Case {
        number: 1,
        piece: 500,
        ..whole
    };
    let wire = Wire {
        sent: (whole.head() + &late.head()).into_bytes(),
        writes_left: usize::MAX,
        ..Wire::default()
    };
    let registry = Arc::new(ConnectionRegistry::default());
    let (wire, io, context) = guarded(&registry, wire);
    let (is_open, read) = (&Cell::new(false), &Arc::new(AtomicU64::new(0)));
    let context = &context;
    let service = service_fn(move |request: Request<Incoming>| async move {
        if request.uri().path().starts_with("/1") {
            let opened = std::future::poll_fn(|_| {
                if is_open.get() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            context.wait(opened).await;
        }
        let disk = Disk {
            read: Some(Arc::clone(read)),
            ..Disk::SOUND
        };
        Ok::<_, Infallible>(respond(&request, context, disk))
    });
    let mut conversation = Box::pin(drive(io, service, context));
    let mut cx = Context::from_waker(Waker::noop());
    let mut minutes = 0;
    // Longer than a client may be silent, which does not count while it is the disk.
    let mut wait = || {
        assert!(conversation.as_mut().poll(&mut cx).is_pending());
        minutes += 1;
        registry.tick(minutes * 600);
        assert!(conversation.as_mut().poll(&mut cx).is_pending());
    };
    wait();
    assert!(take_all(&mut &wire.borrow().received[..], &[whole]));
    is_open.set(true);
    wait();
    // Nor does its head wait for the first piece, nor a piece for the next.
    assert!(wire.borrow().received.ends_with(b"GMT\r\n\r\n"));
    read.store(1, Ordering::Relaxed);
    wait();
    assert!(wire.borrow().received.ends_with(&body(1, 500)));
    read.store(1, Ordering::Relaxed);
    assert!(conversation.as_mut().poll(&mut cx).is_pending());
    assert!(take_all(&mut &wire.borrow().received[..], &[whole, late]));
    // And then it is the client again.
    let ended = [10, 10, 11].into_iter().any(|minutes| {
        registry.tick(minutes * 600);
        conversation.as_mut().poll(&mut cx).is_ready()
    });
    assert!(ended);
}

#[test]
fn a_response_that_is_not_sent_is_logged_as_cut_also_behind_one_that_is() {
    let path = std::env::temp_dir().join(format!("im-cut-{}", std::process::id()));
    let log = open_log(&path, &Log::start(|_| {}).unwrap()).unwrap();
    let access_log = Some(LogBuffer::new(&log));
    let registry = ConnectionRegistry::new(ConnectionLimits::default(), access_log);
    let (first, second) = (
        PLAIN,
        Case {
            number: 1,
            more: "content-length: 5\r\n",
            ..PLAIN
        },
    );
    let wire = Wire {
        // Hyper reads the body, which never comes, before it writes the second response.
        sent: (first.head() + &second.head()).into_bytes(),
        writes_left: 1,
        ..Wire::default()
    };
    let registry = Arc::new(registry);
    let (wire, io, context) = guarded(&registry, wire);
    let handler = Arc::clone(&context);
    let service = service_fn(|request: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(respond(
            &request,
            &handler,
            Disk::SOUND,
        )))
    });
    let mut conversation = Box::pin(drive(io, service, &context));
    let mut cx = Context::from_waker(Waker::noop());
    while conversation.as_mut().poll(&mut cx).is_pending() {}
    assert!(take_all(&mut &wire.borrow().received[..], &[first]));
    drop(conversation);
    drop((handler, context));
    registry.access_log.as_ref().unwrap().flush();
    log.flush();
    let lines = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let cut: Vec<bool> = lines.lines().map(|it| it.ends_with(" cut=yes")).collect();
    assert_eq!(cut, [false, true], "{lines}");
}

#[test]
fn no_request_is_handled_while_a_long_body_is_being_sent() {
    let stream = Case {
        size: 100_000,
        piece: 50_000,
        ..PLAIN
    };
    let long = Case {
        size: 100_000,
        ..PLAIN
    };
    for first in [stream, long] {
        let wire = Wire {
            sent: (first.head() + &PLAIN.head()).into_bytes(),
            // The client takes nothing for now.
            writes: vec![0],
            writes_left: usize::MAX,
            ..Wire::default()
        };
        let (wire, io, context) = guarded(&Arc::default(), wire);
        let (served, read) = (Cell::new(0), &Arc::new(AtomicU64::new(0)));
        let service = service_fn(|request: Request<Incoming>| {
            served.set(served.get() + 1);
            let disk = Disk {
                read: Some(Arc::clone(read)),
                ..Disk::SOUND
            };
            std::future::ready(Ok::<_, Infallible>(respond(&request, &context, disk)))
        });
        let mut conversation = Box::pin(drive(io, service, &context));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(conversation.as_mut().poll(&mut cx).is_pending());
        assert_eq!(served.get(), 1, "{first:?}");
        read.store(2, Ordering::Relaxed);
        for _ in 0..4 {
            assert!(conversation.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(served.get(), 2, "{first:?}");
        assert!(take_all(&mut &wire.borrow().received[..], &[first, PLAIN]));
    }
}

#[test]
fn a_disk_that_never_answers_is_waited_for_ten_minutes() {
    let case = Case {
        piece: 500,
        ..PLAIN
    };
    let wire = Wire {
        sent: case.head().into_bytes(),
        writes_left: usize::MAX,
        ..Wire::default()
    };
    let registry = Arc::new(ConnectionRegistry::default());
    let (_wire, io, context) = guarded(&registry, wire);
    let service = service_fn(|request: Request<Incoming>| {
        let disk = Disk {
            read: Some(Arc::default()),
            ..Disk::SOUND
        };
        std::future::ready(Ok::<_, Infallible>(respond(&request, &context, disk)))
    });
    let mut conversation = Box::pin(drive(io, service, &context));
    let mut cx = Context::from_waker(Waker::noop());
    let ended = (1..=20).find(|minutes| {
        registry.tick(minutes * 600);
        // Found overdue, a task runs twice before its connection ends.
        (0..3).any(|_| conversation.as_mut().poll(&mut cx).is_ready())
    });
    assert!(matches!(ended, Some(10..=13)), "{ended:?}");
}

#[test]
fn a_request_whose_handling_panics_is_lost_alone_and_counted() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let registry = Arc::new(ConnectionRegistry::default());
    runtime.block_on(async {
        let context = context(&registry);
        let ended = tokio::spawn(async move {
            let _context = context;
            std::panic::resume_unwind(Box::new("a fault"));
        });
        assert!(ended.await.is_err_and(|error| error.is_panic()));
    });
    let panics = registry.metrics.counters.panics.get();
    assert_eq!((panics, registry.size()), (1, 0));
}

#[test]
fn a_connection_yields_after_each_sixteen_requests() {
    let wire = Wire {
        sent: PLAIN.head().repeat(64).into_bytes(),
        writes_left: usize::MAX,
        ..Wire::default()
    };
    let (_wire, io, context) = guarded(&Arc::default(), wire);
    let service = service_fn(|request: Request<Incoming>| {
        context.requests.add(1);
        std::future::ready(Ok::<_, Infallible>(respond(
            &request,
            &context,
            Disk::SOUND,
        )))
    });
    let mut conversation = Box::pin(drive(io, service, &context));
    let polls = std::array::from_fn(|_| {
        let before = context.requests.get();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = conversation.as_mut().poll(&mut cx);
        context.requests.get() - before
    });
    assert_eq!(polls, [16, 0, 16, 0, 16, 0, 16]);
}
