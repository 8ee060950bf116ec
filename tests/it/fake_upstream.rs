//! A fake upstream of `collect` on a loopback address: virtual islands whose metrics follow from code and
//! day, cursor paging, genres, and faults by script. It measures the collector's rate and concurrency.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const DAY: i64 = 86_400;

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
}

/// The script: which request, by its number, fails how.
pub(crate) type Script = fn(usize) -> Option<Fault>;

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
    islands: u64,
    script: Script,
    seen: Mutex<Vec<Seen>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    ended: AtomicBool,
}

impl FakeUpstream {
    pub(crate) fn start(islands: u64, script: Script) -> FakeUpstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            islands,
            script,
            seen: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                // A connection that the collector ends is no fault.
                thread::spawn(move || drop(serve(&stream.unwrap(), &shared)));
            }
        });
        FakeUpstream { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/ecosystem/v1", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = self.shared.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
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

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
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
        let (status, media_type, body) = match (shared.script)(number) {
            Some(Fault::EmptyOk) => (200, "application/json", String::new()),
            Some(Fault::TooMany) => (429, "text/plain", "slow down".to_owned()),
            Some(Fault::Html) => (522, "text/html", "<html></html>".to_owned()),
            Some(Fault::NotJson) => (200, "application/json", "{\"data\":[".to_owned()),
            Some(Fault::Rejected) => (400, "application/json", "{\"errorCode\":\"x\"}".to_owned()),
            Some(Fault::Hangup) => return Ok(()),
            Some(Fault::CutShort) => {
                let mut writer = stream;
                return write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{{");
            }
            None => respond(&target, shared.islands),
        };
        shared.in_flight.fetch_sub(1, Ordering::Relaxed);
        let mut writer = stream;
        let length = body.len();
        write!(
            writer,
            "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
             x-epic-correlation-id: FN-{number}\r\n\r\n{body}"
        )?;
    }
}

/// The code of an island.
pub(crate) fn code(number: u64) -> String {
    format!("1000-0000-{number:04}")
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

fn respond(target: &str, islands: u64) -> (u16, &'static str, String) {
    const JSON: &str = "application/json";
    let path = target.strip_prefix("/ecosystem/v1").unwrap_or(target);
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
            let end = (start + 20).min(islands);
            let row = |number: u64| {
                serde_json::json!({"code": code(number), "title": format!("Island {number}"),
                    "creatorCode": format!("creator{}", number % 5), "createdIn": "UEFN", "tags": ["pvp", "1v1"]})
            };
            let next = (end < islands).then(|| end.to_string());
            let rows: Vec<_> = (start..end).map(row).collect();
            serde_json::json!({"data": rows, "meta": {"page": {"nextCursor": next}}, "links": {"next": next}})
        }
        ["genres"] => serde_json::json!({"data": [{"slug": "party"}]}),
        ["genres", _, "rankings"] => {
            serde_json::json!({"data": [{"islandCode": code(2), "rank": 1}], "meta": {"snapshotAvailable": true}})
        }
        ["metrics", "minute"] => {
            let step = now() / 600 * 600 - 1800;
            let points = [serde_json::json!({"value": 77, "timestamp": time(step)})];
            serde_json::json!({"inMatchPeakCCU": points, "inClientPeakCCU": points})
        }
        ["islands", island, "metrics", "minute"] => {
            let number: u64 = island[10..].parse().unwrap();
            let step = now() / 600 * 600 - 1800;
            let points = [
                serde_json::json!({"value": number, "timestamp": time(step)}),
                serde_json::json!({"value": null, "timestamp": time(step + 600)}),
            ];
            serde_json::json!({"peakCCU": points})
        }
        ["islands", island, "metrics", "day"] => {
            let number: u64 = island[10..].parse().unwrap();
            let today = now() / DAY;
            let from: jiff::Timestamp = parameter("from").unwrap().parse().unwrap();
            if from.as_second() < (today - 7) * DAY {
                return (400, JSON, "{\"errorCode\":\"bad_request\"}".to_owned());
            }
            let points = |value: &dyn Fn(i64) -> serde_json::Value| -> Vec<_> {
                let days = today - 7..=today;
                days.map(
                    |day| serde_json::json!({"value": value(day), "timestamp": time(day * DAY)}),
                )
                .collect()
            };
            let peaks = points(&|day| peak(number, day).into());
            let nulls = points(&|_| serde_json::Value::Null);
            serde_json::json!({
                "peakCCU": peaks, "uniquePlayers": peaks, "minutesPlayed": peaks, "favorites": nulls, "plays": nulls,
                "recommendations": nulls, "averageMinutesPerPlayer": nulls, "retention": [],
            })
        }
        _ => return (404, "text/plain", "404 page not found".to_owned()),
    };
    (200, JSON, body.to_string())
}
