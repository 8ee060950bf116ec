//! A fake upstream of `collect` on a loopback address: virtual islands whose metrics follow from code and
//! day, cursor paging, genres, the lag of 10-minute buckets, the window of seven days, and faults by
//! script. Bodies of a test's own take the place of the usual ones. It measures the collector's rate and
//! concurrency.

use std::io::{Read, Write};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::prelude::*;

const DAY: i64 = 86_400;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const HTML: &str = "text/html";
/// The upstream's body of a 404.
const NOT_FOUND: &str =
    r#"{"errorCode":"errors.com.epicgames.fne-public-api.not_found","uuid":"x"}"#;

/// A fault in place of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    EmptyOk,
    TooMany,
    Html,
    CutShort,
    NotJson,
    Hangup,
    Rejected,
    Challenge,
    TextType,
    MembersMissing,
    Redirect,
    Unauthorized,
    DamagedGzip,
    NotFound,
}

/// The script: which request, by its number, fails how.
type Script = Box<dyn Fn(usize) -> Option<Fault> + Send + Sync>;

/// Bodies of a test's own by path and query below the base URL: of a 200, or a 404 if empty.
pub(crate) type Bodies = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) target: String,
    pub(crate) user_agent: String,
}

pub(crate) struct FakeUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    islands: AtomicU64,
    script: Script,
    bodies: Bodies,
    seen: Mutex<Vec<Seen>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    ended: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

impl FakeUpstream {
    pub(crate) fn start(
        islands: u64,
        script: impl Fn(usize) -> Option<Fault> + Send + Sync + 'static,
    ) -> FakeUpstream {
        FakeUpstream::listen(islands, Box::new(script), Box::new(|_| None), None)
    }

    /// An upstream with bodies of the test's own.
    pub(crate) fn with(islands: u64, bodies: Bodies) -> FakeUpstream {
        FakeUpstream::listen(islands, Box::new(|_| None), bodies, None)
    }

    /// An upstream over TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn over_tls(islands: u64, config: Arc<ServerConfig>) -> FakeUpstream {
        FakeUpstream::listen(
            islands,
            Box::new(|_| None),
            Box::new(|_| None),
            Some(config),
        )
    }

    fn listen(
        islands: u64,
        script: Script,
        bodies: Bodies,
        tls: Option<Arc<ServerConfig>>,
    ) -> FakeUpstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            islands: AtomicU64::new(islands),
            script,
            bodies,
            seen: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            tls,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                // A connection that the collector ends is no fault.
                thread::spawn(move || drop(accept(stream.unwrap(), &shared)));
            }
        });
        FakeUpstream { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        match self.shared.tls {
            Some(_) => format!("https://localhost:{}/ecosystem/v1", self.address.port()),
            None => format!("http://{}/ecosystem/v1", self.address),
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = self.shared.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the number of islands.
    pub(crate) fn set_islands(&self, islands: u64) {
        self.shared.islands.store(islands, Ordering::Relaxed);
    }

    /// Fails if two requests were in flight together, or more came in a time than the rate allows.
    #[track_caller]
    pub(crate) fn assert_polite(&self, requests_per_second: f64) {
        assert_eq!(self.most_in_flight(), 1);
        let seen = self.seen();
        // A busy machine may delay the first of several requests, which brings them closer together.
        let allowance = 0.05;
        for count in [5, 20, 100] {
            for some in seen.windows(count + 1) {
                let time = (some[count].at - some[0].at).as_secs_f64() + allowance;
                let requests = f64::from(u32::try_from(count).unwrap());
                assert!(
                    time >= requests / requests_per_second,
                    "{count} in {time} s"
                );
            }
        }
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::Relaxed)
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // The accept loop ends at its next connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match &shared.tls {
        Some(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).unwrap();
            serve(StreamOwned::new(connection, stream), shared)
        }
        None => serve(stream, shared),
    }
}

fn serve(stream: impl Read + Write, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let mut lines = head.lines();
        let user_agent = lines.find_map(|line| line.strip_prefix("user-agent: "));
        let most = shared.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        shared.most_in_flight.fetch_max(most, Ordering::Relaxed);
        let number = {
            let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(Seen {
                at: Instant::now(),
                target: target.clone(),
                user_agent: user_agent.unwrap_or_default().to_owned(),
            });
            seen.len()
        };
        // Long enough for an overlap to show.
        thread::sleep(Duration::from_millis(1));
        let path = target.strip_prefix("/ecosystem/v1").unwrap_or(&target);
        let mut is_gzip = head.contains("gzip");
        let fault = (shared.script)(number);
        if matches!(fault, Some(Fault::Hangup | Fault::CutShort)) {
            shared.in_flight.fetch_sub(1, Ordering::Relaxed);
            let cut =
                "HTTP/1.1 200 OK\r\ncontent-length: 99\r\nx-epic-correlation-id: FN-0\r\n\r\n{";
            let is_cut = fault == Some(Fault::CutShort);
            return reader
                .get_mut()
                .write_all(if is_cut { cut.as_bytes() } else { b"" });
        }
        let own = || (shared.bodies)(path);
        let (status, media_type, body) = match fault.map(unusable).or_else(|| own().map(usable)) {
            Some(response) => response,
            None => respond(path, shared.islands.load(Ordering::Relaxed)),
        };
        let mut bytes = body.into_bytes();
        if bytes == b"gzip" || bytes.is_empty() {
            is_gzip = !bytes.is_empty();
        } else if is_gzip {
            bytes = gzip(&bytes)?;
        }
        let encoding = if is_gzip {
            "content-encoding: gzip\r\n"
        } else {
            ""
        };
        let length = bytes.len();
        shared.in_flight.fetch_sub(1, Ordering::Relaxed);
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n{encoding}\
             location: /elsewhere\r\nx-epic-correlation-id: FN-{number}\r\n\r\n"
        );
        reader
            .get_mut()
            .write_all(&[head.as_bytes(), &bytes].concat())?;
        reader.get_mut().flush()?;
    }
}

/// Status, media type and body of a fault.
fn unusable(fault: Fault) -> (u16, &'static str, String) {
    let (status, media_type, body) = match fault {
        Fault::EmptyOk | Fault::Hangup | Fault::CutShort => (200, JSON, ""),
        Fault::TooMany => (429, TEXT, "slow down"),
        Fault::Html => (522, HTML, "<html></html>"),
        Fault::NotJson => (200, JSON, "{\"data\":["),
        Fault::Rejected => (400, JSON, "{\"errorCode\":\"x\"}"),
        Fault::Challenge => (403, HTML, "<html></html>"),
        Fault::TextType => (200, TEXT, "{}"),
        Fault::MembersMissing => (200, JSON, "{}"),
        Fault::Redirect => (301, JSON, "{}"),
        Fault::Unauthorized => (401, TEXT, "Jwt is missing"),
        Fault::NotFound => (404, TEXT, "404 page not found"),
        Fault::DamagedGzip => (200, JSON, "gzip"),
    };
    (status, media_type, body.to_owned())
}

/// A 200, or a 404 if the body is empty.
fn usable(body: String) -> (u16, &'static str, String) {
    match body.as_str() {
        "" => (404, JSON, NOT_FOUND.to_owned()),
        _ => (200, JSON, body),
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes)?;
    out.finish()
}

/// The code of an island.
pub(crate) fn code(number: u64) -> String {
    format!("1000-{:04}-{:04}", number / 10_000, number % 10_000)
}

/// The number of a code.
fn number(code: &str) -> u64 {
    code[5..].replace('-', "").parse().unwrap()
}

/// The peak of an island on a day; a third of the islands have none.
pub(crate) fn peak(number: u64, day: i64) -> Option<u64> {
    (!number.is_multiple_of(3)).then_some(number * 10 + day.unsigned_abs() % 7)
}

pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn time(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap();
    format!("{time}").replace('Z', ".000Z")
}

fn respond(path: &str, islands: u64) -> (u16, &'static str, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parameter = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let body = match segments[..] {
        ["islands"] => {
            let start: u64 = parameter("after").map_or(0, |cursor| cursor.parse().unwrap());
            // Short pages, so that there are several.
            let rows = if islands > 2000 { 1000 } else { 20 };
            let end = (start + rows).min(islands);
            let row = |number: u64| {
                json!({"code": code(number), "title": format!("Island {number}"),
                    "creatorCode": format!("creator{}", number % 5), "createdIn": "UEFN", "tags": ["pvp", "1v1"]})
            };
            let next = (end < islands).then(|| end.to_string());
            let rows: Vec<_> = (start..end).map(row).collect();
            json!({"data": rows, "meta": {"page": {"nextCursor": next}}, "links": {"next": next}})
        }
        ["genres"] => json!({"data": [{"slug": "party"}]}),
        ["genres", _, "rankings"] => {
            json!({"data": [{"islandCode": code(2), "rank": 1}], "meta": {"snapshotAvailable": true}})
        }
        ["metrics", "minute"] => {
            let step = now() / 600 * 600 - 1800;
            let points = [json!({"value": 77, "timestamp": time(step)})];
            json!({"inMatchPeakCCU": points, "inClientPeakCCU": points})
        }
        ["islands", island, "metrics", "minute"] => {
            let number = number(island);
            let step = now() / 600 * 600 - 1800;
            let points = [
                json!({"value": number, "timestamp": time(step)}),
                json!({"value": null, "timestamp": time(step + 600)}),
            ];
            json!({"peakCCU": points})
        }
        ["islands", island, "metrics", "day"] => {
            let number = number(island);
            let today = now() / DAY;
            let from: jiff::Timestamp = parameter("from").unwrap().parse().unwrap();
            if from.as_second() < (today - 7) * DAY {
                return (400, JSON, "{\"errorCode\":\"bad_request\"}".to_owned());
            }
            let points = |value: &dyn Fn(i64) -> Value| -> Vec<_> {
                let days = today - 7..=today;
                days.map(|day| json!({"value": value(day), "timestamp": time(day * DAY)}))
                    .collect()
            };
            let peaks = points(&|day| peak(number, day).into());
            let nulls = points(&|_| Value::Null);
            json!({
                "peakCCU": peaks, "uniquePlayers": peaks, "minutesPlayed": peaks, "favorites": nulls, "plays": nulls,
                "recommendations": nulls, "averageMinutesPerPlayer": nulls, "retention": [],
            })
        }
        _ => return (404, "text/plain", "404 page not found".to_owned()),
    };
    (200, JSON, body.to_string())
}
