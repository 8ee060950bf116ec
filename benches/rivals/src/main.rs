//! Reference servers of two frameworks: `rivals axum FILE` and `rivals actix FILE` answer every
//! request with the status, headers and body captured in FILE.

mod actix;
mod axum;
#[path = "../../common/response.rs"]
mod response;

use std::env;
use std::error::Error;
use std::path::Path;

use response::Response;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [framework, file] = &words[..] else {
        return Err("usage: rivals axum|actix FILE".into());
    };
    let captured = Response::read(Path::new(file))?;
    match framework.as_str() {
        "axum" => axum::serve(&captured),
        "actix" => actix::serve(&captured),
        _ => Err("usage: rivals axum|actix FILE".into()),
    }
}
