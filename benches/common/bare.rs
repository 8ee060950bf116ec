//! Reference server: a bare hyper that sends one captured response to every request.

use std::convert::Infallible;
use std::future::ready;
use std::str::FromStr as _;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

use super::http::Response as Captured;
use crate::common::prelude::*;

/// Argument that runs a bench as this server.
pub(crate) const FLAG: &str = "--bare-hyper";
/// Same backlog as the release server.
const BACKLOG: u32 = 4096;

/// A certificate and its key.
#[cfg(feature = "tls")]
pub(crate) type Tls = tokio_rustls::TlsAcceptor;
#[cfg(not(feature = "tls"))]
pub(crate) type Tls = Infallible;

/// Serves the captured response on one thread, over TLS if there is a certificate.
pub(crate) fn serve(captured: &Path, tls: Option<&Tls>) -> Outcome<()> {
    let captured = Captured::read(captured)?;
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(captured.body())));
    *response.status_mut() = StatusCode::from_u16(captured.status)?;
    for (name, value) in captured.headers_to_set() {
        let headers = response.headers_mut();
        headers.append(HeaderName::from_str(name)?, value.parse()?);
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        writeln!(io::stderr(), "listening on http://{address}")?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let response = response.clone();
            let service = service_fn(move |_| ready(Ok::<_, Infallible>(response.clone())));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).pipeline_flush(true);
            match tls {
                None => drop(tokio::spawn(
                    http.serve_connection(TokioIo::new(stream), service),
                )),
                #[cfg(feature = "tls")]
                Some(tls) => {
                    let accepting = tls.accept(stream);
                    drop(tokio::spawn(async move {
                        let stream = accepting.await?;
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                        Ok::<_, io::Error>(())
                    }));
                }
                #[cfg(not(feature = "tls"))]
                Some(never) => match *never {},
            }
        }
    })
}
