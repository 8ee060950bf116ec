//! The reference: a bare hyper server that sends one captured answer to everything.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use memchr::memmem;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::settings::Outcome;
use crate::traffic::answer;

/// The reference: answers every request with the bytes of a captured answer.
pub(crate) fn bare_hyper(captured: &Path) -> Outcome<()> {
    let captured = fs::read(captured)?;
    let (head, status) = answer(&captured).ok_or("no answer")?;
    let body_at = memmem::find(&captured, b"\r\n\r\n").ok_or("no head")? + 4;
    let body = Bytes::copy_from_slice(&captured[body_at..head]);
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&captured[..body_at])?.lines().skip(1) {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let name: HeaderName = name.parse()?;
        // Hyper writes these two by itself, as it does for the real server.
        if name != CONTENT_LENGTH && name != DATE {
            headers.append(name, HeaderValue::from_str(value)?);
        }
    }
    let status = StatusCode::from_u16(status)?;
    let respond = move || {
        let mut response = Response::new(Full::new(body.clone()));
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        std::future::ready(Ok::<_, Infallible>(response))
    };
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            writeln!(
                io::stderr(),
                "listening on http://{}",
                listener.local_addr()?
            )?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let respond = respond.clone();
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(move |_| respond()));
                tokio::spawn(connection);
            }
        })
}
