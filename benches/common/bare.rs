//! Reference server: a bare hyper that sends one captured response to every request.

use std::convert::Infallible;
use std::future;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr as _;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;

use super::Outcome;
use super::http::Response as Captured;

/// Argument that runs a bench as this server.
pub(crate) const FLAG: &str = "--bare-hyper";
/// Same backlog as the release server.
const BACKLOG: u32 = 4096;

/// Serves the captured response on one thread.
pub(crate) fn serve(captured: &Path) -> Outcome<()> {
    serve_by(captured, |stream| future::ready(Ok(stream)))
}

/// Serves the captured response on the streams that `accept` builds on the sockets.
pub(crate) fn serve_by<S, F>(captured: &Path, accept: impl Fn(TcpStream) -> F) -> Outcome<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let captured = Captured::read(captured)?;
    let body = Bytes::copy_from_slice(captured.body());
    let mut headers = HeaderMap::new();
    for (name, value) in captured.headers_to_set() {
        headers.append(HeaderName::from_str(name)?, value.parse()?);
    }
    let status = StatusCode::from_u16(captured.status)?;
    let respond = move || {
        let mut response = Response::new(Full::new(body.clone()));
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        future::ready(Ok::<_, Infallible>(response))
    };
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
            let respond = respond.clone();
            let service = service_fn(move |_| respond());
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).pipeline_flush(true);
            let accepting = accept(stream);
            tokio::spawn(async move {
                if let Ok(stream) = accepting.await {
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                }
            });
        }
    })
}
