//! axum, on one thread, with the server it brings.

use std::error::Error;
use std::net::Ipv4Addr;
use std::str::FromStr as _;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::response::Response as Captured;

pub(crate) fn serve(captured: &Captured) -> Result<(), Box<dyn Error + Send + Sync>> {
    let status = StatusCode::from_u16(captured.status)?;
    let mut headers = HeaderMap::new();
    for (name, value) in captured.headers_to_set() {
        headers.append(HeaderName::from_str(name)?, HeaderValue::from_str(value)?);
    }
    let body = Bytes::copy_from_slice(captured.body());
    let respond = async move || {
        let mut response = Response::new(Body::from(body.clone()));
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        response
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, Router::new().fallback(respond)).await?;
        Ok(())
    })
}
