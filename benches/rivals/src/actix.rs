//! actix-web, with one worker.

use std::error::Error;
use std::net::Ipv4Addr;
use std::str::FromStr as _;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpResponse, HttpServer, rt};

use crate::response::Response;

struct Prepared {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

async fn respond(prepared: Data<Prepared>) -> HttpResponse {
    let mut response = HttpResponse::new(prepared.status);
    *response.headers_mut() = prepared.headers.clone();
    if prepared.body.is_empty() {
        return response;
    }
    response
        .set_body(prepared.body.clone())
        .map_into_boxed_body()
}

pub(crate) fn serve(captured: &Response) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut headers = HeaderMap::new();
    for (name, value) in captured.headers_to_set() {
        headers.append(HeaderName::from_str(name)?, HeaderValue::from_str(value)?);
    }
    let prepared = Data::new(Prepared {
        status: StatusCode::from_u16(captured.status)?,
        headers,
        body: Bytes::copy_from_slice(captured.body()),
    });
    let app = move || {
        let shared = Data::clone(&prepared);
        App::new()
            .app_data(shared)
            .default_service(web::to(respond))
    };
    rt::System::new().block_on(async {
        let server = HttpServer::new(app).workers(1).tcp_nodelay(true);
        let server = server.bind((Ipv4Addr::LOCALHOST, 0))?;
        eprintln!("listening on http://{}", server.addrs()[0]);
        server.run().await?;
        Ok(())
    })
}
