//! `drive`: hyper serves one connection, until it ends or the server closes it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::ready;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};

use crate::observe::CloseReason;
use crate::server::conn::connection_state::poll_yield;
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::timed_io::TimedIo;

/// Heads longer than this are refused with 431. The longest honest ones, with a page of cookies,
/// are well below.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Hyper's buffer: the longest head and a little, so that a connection cannot take more.
const BUFFER_BYTES_MAX: usize = 16 * 1024;
/// After a poll that handled this many requests, a connection yields to the others, as after a time slice. A time slice
/// does not measure the time in which a head is read and parsed: up to a tenth of a millisecond. Hyper handles up to
/// sixteen requests in one poll. Then it wakes the task itself, and the runtime polls for events only after 61 such
/// polls. A smaller number is sufficient, and safe if hyper's number changes.
const POLLED_REQUESTS_MAX: u64 = 8;

/// A response as hyper sees it: without most header lines, and without the body.
pub(in crate::server) type HyperResponse = Response<Empty<Bytes>>;

/// Responds to all requests of a connection with `service`. Returns the socket when all is written,
/// or the reason for which the server closed the connection.
pub(in crate::server) async fn drive<S, F, A>(
    socket: TimedIo<S, F>,
    service: A,
    context: &ConnectionContext,
) -> Result<TimedIo<S, F>, (CloseReason, TimedIo<S, F>)>
where
    S: Read + Write + Unpin,
    F: Fn(u16) -> Vec<u8> + Unpin,
    A: Service<Request<Incoming>, Response = HyperResponse, Error = Infallible>,
{
    let mut connection = http1::Builder::new()
        // The registry has the time: a timer of hyper's would be set and cleared for each request.
        .header_read_timeout(None)
        // A client that has ended its side still expects its response, which its quota paid for.
        .half_close(true)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(socket, service);
    let (state, time_slice) = (&context.state, &context.time_slice);
    let mut requests = 0;
    let ended = poll_fn(|cx| {
        time_slice.begin();
        state.poll(cx, |cx| {
            let before = std::mem::replace(&mut requests, context.requests.get());
            if requests - before >= POLLED_REQUESTS_MAX {
                return poll_yield(cx);
            }
            Pin::new(&mut connection).poll(cx)
        })
    })
    .await;
    let mut socket = connection.into_parts().io;
    // Any other error means that the client broke the connection; hyper has responded to what it
    // could.
    let mut is_http2 = match ended {
        Err(reason) => return Err((reason, socket)),
        Ok(ended) => ended.is_err_and(|error| error.is_parse_version_h2()),
    };
    let drained = poll_fn(|cx| {
        time_slice.begin();
        state.poll(cx, |cx| {
            ready!(socket.drain(cx))?;
            // Hyper does not respond to HTTP/2's preface, unless that comes in pieces.
            if std::mem::take(&mut is_http2) {
                socket.take_error(400);
            }
            socket.drain(cx)
        })
    });
    // A socket that fails has nothing more to write.
    if let Err(reason) = drained.await {
        return Err((reason, socket));
    }
    // Responses that the client did not take before it left are logged as cut.
    if socket.is_drained() {
        socket.finish_batch();
    }
    Ok(socket)
}
