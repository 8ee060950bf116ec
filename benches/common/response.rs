//! A response as received, parsed. This is also a module of `rivals`: it needs the standard library only.

use std::error::Error;
use std::fs;
use std::path::Path;

#[derive(Clone)]
pub(crate) struct Response {
    pub(crate) raw: Vec<u8>,
    /// Bytes of the head, with the empty line.
    head_length: usize,
    pub(crate) status: u16,
    /// Names in lower case, in the order sent.
    pub(crate) headers: Vec<(String, String)>,
}

impl Response {
    pub(crate) fn parse(raw: Vec<u8>) -> Result<Response, Box<dyn Error + Send + Sync>> {
        let end = raw.windows(4).position(|four| four == b"\r\n\r\n");
        let head_length = end.ok_or("a response without a head")? + 4;
        let mut lines = std::str::from_utf8(&raw[..head_length])?.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.ok_or("a response without a status")?.parse()?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        Ok(Response {
            status,
            headers: headers.collect(),
            head_length,
            raw,
        })
    }

    pub(crate) fn read(path: &Path) -> Result<Response, Box<dyn Error + Send + Sync>> {
        Response::parse(fs::read(path)?)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.raw[self.head_length..]
    }

    /// The headers but those that HTTP libraries write themselves.
    pub(crate) fn headers_to_set(&self) -> impl Iterator<Item = &(String, String)> {
        let headers = self.headers.iter();
        headers.filter(|(name, _)| !["content-length", "date"].contains(&name.as_str()))
    }
}
