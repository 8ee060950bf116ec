//! Responses of a connection, parsed as strictly as possible, by RFC 9112 and by the contract's
//! requirements for every response. Shares no code with the server, and assumes nothing about it.

use std::collections::HashSet;
use std::fmt;
use std::io::Read as _;

use island_metrics::request::Endpoint;
use serde_json::Value;
use zlib_rs::crc32::crc32;

/// The reason why responses are wrong.
pub type Fault = String;

/// Position of a word in a text.
pub fn places<'a>(text: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    // Compares the first byte first: the fuzz engine traces each comparison of more bytes, which is slow.
    let begins = move |at: &usize| text[*at] == word[0] && text[*at..].starts_with(word);
    (0..text.len()).filter(begins)
}

/// A request head as sent, valid or not.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub text: &'a [u8],
    /// Whether its empty line was sent.
    pub is_whole: bool,
}

/// The request heads in the bytes, if none has a body. The server may stop earlier, and never reads more
/// heads than these.
pub fn heads(mut input: &[u8]) -> Vec<Asked<'_>> {
    let mut heads = Vec::new();
    loop {
        // Empty lines may precede a request.
        loop {
            input = match input {
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
                _ => break,
            };
        }
        if input.is_empty() {
            return heads;
        }
        let mut end = None;
        let mut at = 0;
        while let Some(line) = input[at..].iter().position(|byte| *byte == b'\n') {
            at += line + 1;
            if matches!(&input[at..], [b'\n', ..] | [b'\r', b'\n', ..]) {
                end = Some(at);
                break;
            }
        }
        let length = end.unwrap_or(input.len());
        heads.push(Asked {
            text: &input[..length],
            is_whole: end.is_some(),
        });
        input = &input[length..];
    }
}

impl Asked<'_> {
    fn is_head(&self) -> bool {
        self.text.starts_with(b"HEAD ")
    }

    /// Returns whether it is unambiguously one request without a body on a connection that stays open:
    /// it must be answered.
    pub fn is_plain(&self) -> bool {
        let Ok(text) = std::str::from_utf8(self.text) else {
            return false;
        };
        let Some(text) = text.strip_suffix("\r\n") else {
            return false;
        };
        let mut lines = text.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else {
            return false;
        };
        let is_word = |text: &str| {
            let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !text.is_empty() && text.bytes().all(sound)
        };
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"/?&=%._-~".contains(&byte);
        let mut hosts = 0;
        let mut count = 0;
        let lines_are_plain = lines.all(|line| {
            let Some((name, value)) = line.split_once(": ") else {
                return false;
            };
            let name = name.to_ascii_lowercase();
            hosts += usize::from(name == "host");
            count += 1;
            let has_meaning = ["connection", "content-length", "expect", "upgrade"];
            is_word(&name)
                && !has_meaning.contains(&&*name)
                && name != "transfer-encoding"
                && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        });
        ["GET", "HEAD", "OPTIONS"].contains(&method)
            && target.starts_with('/')
            && target.bytes().all(sound)
            && lines_are_plain
            && hosts == 1
            && count < 100
            && self.is_whole
            && text.len() < 8000
    }
}

#[derive(PartialEq)]
pub struct Reply<'a> {
    pub status: u16,
    is_old: bool,
    headers: Vec<(&'a str, &'a str)>,
    body: &'a [u8],
}

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(500)]);
        write!(f, "{} {:#?} {body}", self.status, self.headers)
    }
}

impl<'a> Reply<'a> {
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut found = self.headers.iter().filter(|(held, _)| *held == name);
        found.next().map(|(_, value)| *value)
    }

    /// Whether it is the last response of the connection.
    pub fn is_last(&self) -> bool {
        let connection = self.header("connection");
        connection == Some("close") || (self.is_old && connection != Some("keep-alive"))
    }

    /// Whether it may be the response to a malformed head.
    pub fn is_refusal(&self) -> bool {
        matches!(self.status, 400 | 431) && self.is_last()
    }

    /// Without the parts that differ in each response.
    pub fn lasting(&self) -> Reply<'a> {
        const PASSING: [&str; 3] = ["date", "x-request-id", "x-ratelimit-remaining"];
        let headers = self.headers.iter().copied();
        Reply {
            headers: headers
                .filter(|(name, _)| !PASSING.contains(name))
                .collect(),
            ..*self
        }
    }
}

/// Values seen in other inputs.
#[derive(Default)]
pub struct Seen {
    ids: HashSet<u64>,
    /// Checksums and lengths of complete bodies.
    bodies: HashSet<(u32, usize, bool)>,
}

/// Maximum number of stored values.
const SEEN_MAX: usize = 1 << 21;

impl Seen {
    /// Parses all responses to these heads.
    pub fn read<'a>(
        &mut self,
        mut received: &'a [u8],
        asked: &[Asked<'_>],
    ) -> Result<Vec<Reply<'a>>, Fault> {
        let mut replies: Vec<Reply<'a>> = Vec::new();
        while !received.is_empty() {
            if replies.last().is_some_and(Reply::is_last) {
                return Err("there is something behind the last answer".into());
            }
            let Some(asked) = asked.get(replies.len()) else {
                return Err("there are more answers than requests".into());
            };
            let (reply, rest) = read_one(received, asked)?;
            self.judge(&reply, asked)
                .map_err(|fault| format!("{fault}: {reply:?}"))?;
            replies.push(reply);
            received = rest;
        }
        Ok(replies)
    }

    fn judge(&mut self, reply: &Reply<'_>, asked: &Asked<'_>) -> Result<(), Fault> {
        for (at, (name, value)) in reply.headers.iter().enumerate() {
            if reply.headers[..at].iter().any(|(held, _)| held == name) {
                return Err(format!("{name} comes twice"));
            }
            if !is_sound(name, value) {
                return Err(format!("{name} cannot be {value:?}"));
            }
        }
        // Scripts of other sites read no responses about keys. Its path may be encoded.
        let may_be_of_keys = places(asked.text, b"/keys").next().is_some()
            || places(asked.text, b"%").next().is_some();
        for name in always(reply.status) {
            let is_optional = may_be_of_keys && name.starts_with("access-control-");
            if reply.header(name).is_none() && !is_optional {
                return Err(format!("{name} is missing"));
            }
        }
        if reply.is_old && places(asked.text, b"HTTP/1.0").next().is_none() {
            return Err("an old version that nobody asked for".into());
        }
        if self.ids.len() >= SEEN_MAX {
            self.ids.clear();
        }
        let id = reply.header("x-request-id").expect("just seen");
        let id = u64::from_str_radix(id, 16).expect("sixteen digits");
        if !self.ids.insert(id) {
            return Err("an id comes twice".into());
        }
        if reply.body.is_empty() {
            return Ok(());
        }
        self.judge_body(reply)
    }

    fn judge_body(&mut self, reply: &Reply<'_>) -> Result<(), Fault> {
        let is_part = reply.status == 206;
        let is_gzip = reply.header("content-encoding") == Some("gzip");
        let known = (crc32(0, reply.body), reply.body.len(), is_part);
        if reply.status == 200 && self.bodies.contains(&known) {
            return Ok(());
        }
        let mut inflated = Vec::new();
        let body = if is_gzip {
            let mut decoder = flate2::read::GzDecoder::new(reply.body);
            decoder
                .read_to_end(&mut inflated)
                .map_err(|error| format!("gzip: {error}"))?;
            if !decoder.into_inner().is_empty() {
                return Err("there is something behind the gzip".into());
            }
            &inflated
        } else {
            reply.body
        };
        let kind = reply.header("content-type").ok_or("no content-type")?;
        if kind == "application/json" && !is_part {
            let json: Value =
                serde_json::from_slice(body).map_err(|error| format!("JSON: {error}"))?;
            if reply.status >= 400 {
                judge_error(reply.status, &json)?;
            }
        }
        if self.bodies.len() >= SEEN_MAX {
            self.bodies.clear();
        }
        self.bodies.insert(known);
        Ok(())
    }
}

/// The error code of each status.
const CODES: &[(u16, &str)] = &[
    (400, "bad_request"),
    (401, "invalid_key"),
    (403, "key_revoked"),
    (404, "not_found"),
    (405, "method_not_allowed"),
    (412, "precondition_failed"),
    (416, "range_not_satisfiable"),
    (429, "rate_limited"),
    (431, "bad_request"),
    (503, "not_ready"),
];

fn judge_error(status: u16, json: &Value) -> Result<(), Fault> {
    let code = CODES.iter().find(|(of, _)| *of == status);
    let error = &json["error"];
    let members = json.as_object().map_or(0, serde_json::Map::len);
    let sound = error["code"].as_str() == code.map(|(_, code)| *code)
        && error["message"].as_str().is_some_and(|it| !it.is_empty())
        && error.as_object().is_some_and(|it| it.len() == 2)
        && members == 1;
    if sound {
        Ok(())
    } else {
        Err("not the error of its status".into())
    }
}

fn read_one<'a>(received: &'a [u8], asked: &Asked<'_>) -> Result<(Reply<'a>, &'a [u8]), Fault> {
    let end = places(received, b"\r\n\r\n").next();
    let end = end.ok_or("a head has no end")?;
    let head = std::str::from_utf8(&received[..end]).map_err(|_| "a head is not text")?;
    let rest = &received[end + 4..];
    let mut lines = head.split("\r\n");
    let (is_old, status) = status_line(lines.next().unwrap_or_default())?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or("a line is no header")?;
        let is_token =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_visible = |byte: u8| matches!(byte, b' '..=b'~');
        if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(is_visible) {
            return Err(format!("no header: {line:?}"));
        }
        headers.push((name, value));
    }
    let mut reply = Reply {
        status,
        is_old,
        headers,
        body: &[],
    };
    let length: Option<usize> = match reply.header("content-length") {
        Some(digits) => Some(digits.parse().map_err(|_| "a length is no number")?),
        None => None,
    };
    if matches!(status, 204 | 304) {
        return match length {
            None => Ok((reply, rest)),
            Some(_) => Err("a length where no body may be".into()),
        };
    }
    // A page is not compressed for HEAD, so its length is not known.
    let may_be_unknown = asked.is_head() && reply.header("content-encoding") == Some("gzip");
    let length = match length {
        None if may_be_unknown => return Ok((reply, rest)),
        length => length.ok_or("a length is missing")?,
    };
    // It is unknown whether a malformed head was a HEAD request.
    let is_left_out = asked.is_head() && !(reply.is_refusal() && rest.len() == length);
    if is_left_out {
        return Ok((reply, rest));
    }
    let body = rest.get(..length).ok_or("a body is cut")?;
    if length == 0 {
        return Err("an answer with a body has none".into());
    }
    reply.body = body;
    Ok((reply, &rest[length..]))
}

const STATUSES: &[(u16, &str)] = &[
    (200, "OK"),
    (204, "No Content"),
    (206, "Partial Content"),
    (304, "Not Modified"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (412, "Precondition Failed"),
    (416, "Range Not Satisfiable"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (503, "Service Unavailable"),
];

fn status_line(line: &str) -> Result<(bool, u16), Fault> {
    for (version, is_old) in [("HTTP/1.1 ", false), ("HTTP/1.0 ", true)] {
        let Some(rest) = line.strip_prefix(version) else {
            continue;
        };
        let found = rest.split_once(' ').and_then(|(digits, reason)| {
            let known = STATUSES.iter().find(|(_, known)| *known == reason)?;
            (digits.len() == 3 && digits.parse() == Ok(known.0)).then_some(known.0)
        });
        if let Some(status) = found {
            return Ok((is_old, status));
        }
    }
    Err(format!("no status line: {line:?}"))
}

/// Checks the headers of every response, and those of its status.
fn always(status: u16) -> impl Iterator<Item = &'static str> {
    const ALWAYS: &str = "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset x-request-id \
        access-control-allow-origin access-control-expose-headers x-content-type-options date";
    let own: &[&str] = match status {
        200 => &["etag", "cache-control", "content-type"],
        206 => &["etag", "cache-control", "content-type", "content-range"],
        304 => &["etag", "cache-control"],
        204 => &["allow", "access-control-allow-methods"],
        401 => &["content-type", "cache-control", "www-authenticate"],
        405 => &["content-type", "cache-control", "allow"],
        416 => &["content-type", "cache-control", "content-range"],
        429 | 503 => &["content-type", "cache-control", "retry-after"],
        _ => &["content-type", "cache-control"],
    };
    ALWAYS.split(' ').chain(own.iter().copied())
}

const VARY: &str = "Accept-Encoding, Authorization";
const KINDS: [&str; 6] = [
    "application/json",
    "text/html; charset=utf-8",
    "text/css; charset=utf-8",
    "text/javascript; charset=utf-8",
    "text/markdown; charset=utf-8",
    "image/svg+xml",
];

/// Whether a text has the form of the dates of HTTP.
fn has_form_of_date(value: &str) -> bool {
    const FORM: &str = "Ddd, 00 Ddd 0000 00:00:00 GMT";
    let is_alike = |(it, form): (u8, u8)| match form {
        b'0' => it.is_ascii_digit(),
        b'D' if it != b'G' => it.is_ascii_uppercase(),
        b'd' => it.is_ascii_lowercase(),
        _ => it == form,
    };
    value.len() == FORM.len() && value.bytes().zip(FORM.bytes()).all(is_alike)
}

/// Whether a header is a known one with a value of the expected form, so that it contains nothing of a
/// request, except for the filters of a list in its links.
fn is_sound(name: &str, value: &str) -> bool {
    let digits = |text: &str| {
        (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let one_of = |words: &[&str]| words.contains(&value);
    match name {
        "connection" => one_of(&["close", "keep-alive"]),
        "content-length"
        | "retry-after"
        | "x-ratelimit-limit"
        | "x-ratelimit-remaining"
        | "x-ratelimit-reset" => digits(value),
        "x-request-id" => {
            value.len() == 16
                && value
                    .bytes()
                    .all(|byte| b"0123456789abcdef".contains(&byte))
        }
        "date" | "last-modified" => has_form_of_date(value),
        "access-control-allow-origin" => value == "*",
        "access-control-expose-headers" | "access-control-allow-headers" => {
            let sound = |byte: u8| byte.is_ascii_alphabetic() || b"-, *".contains(&byte);
            value.len() < 400 && value.bytes().all(sound)
        }
        "x-ignored-parameters" => {
            let names: Vec<&str> = value.split(", ").collect();
            let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
            let is_name = |name: &&str| (1..=96).contains(&name.len()) && name.bytes().all(sound);
            names.len() <= 8 && names.iter().all(is_name)
        }
        "x-content-type-options" => value == "nosniff",
        "allow" | "access-control-allow-methods" => value == "GET, HEAD, OPTIONS",
        "access-control-max-age" => value == "86400",
        "www-authenticate" => value == "Bearer",
        "accept-ranges" => value == "bytes",
        "content-encoding" => value == "gzip",
        // The last two are those of the index of the dumps.
        "vary" => one_of(&[VARY, "Accept, Accept-Encoding", "Accept-Encoding"]),
        "referrer-policy" => value == "strict-origin",
        "cache-control" if value.starts_with("private, max-age=") => {
            let seconds = value.trim_start_matches("private, max-age=").parse();
            seconds.is_ok_and(|seconds: u32| seconds == 0 || (60..=600).contains(&seconds))
        }
        "cache-control" => one_of(&["public, max-age=60, must-revalidate", "no-store"]),
        "content-type" => KINDS.contains(&value),
        "content-security-policy" => value.starts_with("default-src 'none'; "),
        "etag" => {
            let tag = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            tag.is_some_and(|tag| (8..=64).contains(&tag.len()) && tag.bytes().all(sound))
        }
        "content-range" => {
            let range = value
                .strip_prefix("bytes ")
                .and_then(|it| it.split_once('/'));
            range.is_some_and(|(part, all)| {
                let ends = part.split_once('-');
                digits(all)
                    && (part == "*" || ends.is_some_and(|(one, two)| digits(one) && digits(two)))
            })
        }
        "link" => value.split(", ").all(is_link),
        _ => false,
    }
}

/// Whether a link leads to a page of the list, consists of unreserved characters and escapes, and contains
/// no key.
fn is_link(text: &str) -> bool {
    let parts = text.split_once(">; rel=");
    let Some((target, relation)) = parts else {
        return false;
    };
    let list = ["islands?", "creators?"];
    let list = list.map(|list| target.strip_prefix(&format!("<http://x.test/v1/{list}")));
    let Some(query) = list[0].or(list[1]) else {
        return false;
    };
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    ["\"first\"", "\"prev\"", "\"next\"", "\"last\""].contains(&relation)
        && query.split('&').all(|pair| {
            let pair = pair.split_once('=');
            pair.is_some_and(|(name, value)| {
                Endpoint::Islands.declares(name) && value.bytes().all(sound)
            })
        })
}
