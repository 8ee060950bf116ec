//! A captured response, without the headers that a server writes itself.

use std::error::Error;
use std::fs;
use std::path::Path;

/// Written by both frameworks themselves.
const OWN_HEADERS: [&str; 2] = ["content-length", "date"];

pub(crate) struct Captured {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Captured {
    pub(crate) fn read(path: &Path) -> Result<Captured, Box<dyn Error>> {
        let raw = fs::read(path)?;
        let end = raw.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.ok_or("no head")?;
        let mut lines = std::str::from_utf8(&raw[..end])?.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .filter(|(name, _)| !OWN_HEADERS.contains(&name.as_str()));
        Ok(Captured {
            status: status.ok_or("no status")?.parse()?,
            headers: headers.collect(),
            body: raw[end + 4..].to_vec(),
        })
    }
}
