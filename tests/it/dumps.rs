//! The dumps, byte for byte: headers, conditional requests, ranges, names that lead elsewhere,
//! damage, concurrent publishes, and many slow readers.

use std::os::unix::fs::symlink;

use crate::dump_files::{
    Files, HTTP_TIME, Slow, index, install, name_dumps, pattern, place, published, sha256,
    some_files, write,
};
use crate::long_bodies::{gunzip, slowest};
use crate::prelude::*;

const MIB: u64 = 1 << 20;

/// A server of these files, and its directory.
pub(crate) fn serve(files: &Files) -> (TempDir, Server) {
    let dir = TempDir::new();
    let published = published(&dir);
    install(&published, "dumps-1.json", files);
    let server = Server::of(&published, &[]);
    (dir, server)
}

/// The files and the index, by the names in requests.
fn with_index(files: &Files) -> Files {
    let mut all = files.clone();
    all.insert("index.json".to_owned(), index(files));
    all
}

fn big(seed: u64, length: u64) -> Files {
    [("big.csv".to_owned(), pattern(seed, length))].into()
}

/// A download of the big file whose head is read.
#[track_caller]
fn begin(server: &Server) -> Slow {
    let mut download = Slow::get(server.addr(), "/dumps/big.csv");
    assert_eq!(download.head().status, 200);
    download
}

/// Asserts the headers of every response, and that no quota was used.
#[track_caller]
fn is_outside_the_api(reply: &Reply, limit: u32) {
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining"] {
        assert_eq!(reply.expect(name), limit.to_string(), "{name}");
    }
    assert!(reply.number("x-ratelimit-reset") > 0);
    assert_eq!(reply.expect("access-control-allow-origin"), "*");
    let exposed = "Accept-Ranges Content-Length Content-Range ETag Last-Modified";
    reply.lists("access-control-expose-headers", exposed);
    assert_eq!(reply.expect("x-content-type-options"), "nosniff");
}

#[track_caller]
pub(crate) fn failed_with(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(reply.expect("content-type"), "application/json");
    assert_eq!(reply.expect("cache-control"), "no-store");
    assert_eq!(reply.json()["error"]["code"], code);
    assert!(!reply.message().is_empty());
}

#[test]
fn the_index_has_a_gzip_form_of_its_own() {
    let (_dir, server) = serve(&some_files());
    let mut client = server.connect();
    let plain = client.get("/dumps/index.json");
    let gzip = [("Accept-Encoding", "gzip")];
    let packed = client.request("GET", "/dumps/index.json", &gzip);
    assert_eq!(packed.expect("content-encoding"), "gzip");
    assert_eq!(packed.expect("content-type"), "application/json");
    assert_eq!(gunzip(&packed.body), plain.body);
    assert_ne!(packed.expect("etag"), plain.expect("etag"));
    let known = [gzip[0], ("If-None-Match", packed.expect("etag"))];
    assert_eq!(client.request("GET", "/dumps/", &known).status, 304);
    // A part of one form is of no use to a client that decodes the whole, and two publishes may have one time.
    for ignored in [
        ("Range", "bytes=2-5"),
        ("If-Range", HTTP_TIME),
        ("If-Modified-Since", HTTP_TIME),
        ("If-Unmodified-Since", "Sat, 21 Nov 2026 12:04:59 GMT"),
    ] {
        let whole = client.request("GET", "/dumps/index.json", &[gzip[0], ignored]);
        assert_eq!((whole.status, &whole.body), (200, &packed.body));
        for absent in ["accept-ranges", "content-range", "last-modified"] {
            assert_eq!(whole.header(absent), None, "{absent}");
        }
        assert_eq!(whole.expect("vary"), "Accept-Encoding");
        assert!(whole.expect("cache-control").starts_with("public"));
        is_outside_the_api(&whole, 60_000);
    }
    // Files that are compressed already are sent as they are.
    let file = client.request("GET", "/dumps/islands.csv", &gzip);
    assert_eq!(
        (file.header("content-encoding"), file.header("vary")),
        (None, None)
    );
}

#[test]
fn every_file_comes_with_the_headers_that_it_must() {
    let files = some_files();
    let (_dir, server) = serve(&files);
    let mut client = server.connect();
    let mut tags = BTreeSet::new();
    for (name, bytes) in &files {
        let target = format!("/dumps/{name}");
        let reply = client.request("GET", &target, &[("Accept-Encoding", "gzip, br")]);
        assert_eq!(reply.status, 200, "{name}");
        assert!(reply.body == *bytes, "{name}");
        is_outside_the_api(&reply, 60_000);
        assert_eq!(reply.expect("content-length"), bytes.len().to_string());
        assert_eq!(reply.expect("accept-ranges"), "bytes");
        assert_eq!(reply.expect("last-modified"), HTTP_TIME);
        let kind = match name.rsplit_once('.').map(|(_, end)| end) {
            Some("csv") => "text/csv; charset=utf-8",
            Some("txt") => "text/plain; charset=utf-8",
            Some("json") => "application/json",
            Some("gz") => "application/gzip",
            _ => "application/octet-stream",
        };
        assert_eq!(reply.expect("content-type"), kind, "{name}");
        let cache = reply.expect("cache-control");
        assert_eq!(cache, "public, max-age=60, must-revalidate", "{name}");
        for absent in ["content-encoding", "content-range", "link", "vary"] {
            assert_eq!(reply.header(absent), None, "{name}");
        }
        let tag = reply.expect("etag");
        assert_eq!(tag, format!("\"{}\"", &sha256(bytes)[..32]));
        assert!(tags.insert(tag.to_owned()), "{tag} is of another file too");

        let head = client.request("HEAD", &target, &[("Range", "bytes=0-0")]);
        let lasting = |reply: &Reply| {
            let mut headers = reply.headers_but(&["date", "x-ratelimit-reset", "x-request-id"]);
            // Hyper sends no length for an empty body.
            headers.retain(|(name, value)| (&**name, &**value) != ("content-length", "0"));
            headers
        };
        assert_eq!(head.status, 200, "{name}");
        assert_eq!(lasting(&head), lasting(&reply), "{name}");
    }
}

#[test]
fn the_index_has_three_paths_and_lists_the_files() {
    let files = some_files();
    let (_dir, server) = serve(&files);
    let mut client = server.connect();
    for target in words("/dumps /dumps/ /dumps/index.json /dumps/?key=x /dumps?a=%zz") {
        let reply = client.get(target);
        assert_eq!((reply.status, reply.body), (200, index(&files)), "{target}");
    }
    let document = client.get("/dumps/").json();
    let listed = document["files"].as_array().unwrap();
    assert_eq!(listed.len(), files.len());
    for file in listed {
        let reply = client.get(&format!("/dumps/{}", file["file"].as_str().unwrap()));
        assert_eq!(reply.body.len() as u64, file["bytes"].as_u64().unwrap());
        assert_eq!(sha256(&reply.body), file["sha256"].as_str().unwrap());
    }
}

/// All forms of ranges are in `server/http/conditional_tests.rs`.
#[test]
fn a_range_is_the_bytes_that_it_names() {
    let files = some_files();
    let (_dir, server) = serve(&files);
    let mut client = server.connect();
    for (name, bytes) in &files {
        let target = format!("/dumps/{name}");
        let length = bytes.len();
        let edges = [0, 1, 131_071, 131_072, 131_073, 262_144, length];
        for (from, to) in edges
            .iter()
            .flat_map(|from| edges.map(|to| (*from, to.min(length))))
        {
            if from >= to {
                continue;
            }
            let range = format!("{from}-{}", to - 1);
            let headers = [("Range", &*format!("bytes={range}"))];
            let reply = client.request("GET", &target, &headers);
            assert_eq!(reply.status, 206, "{name}: {range}");
            assert_eq!(
                reply.expect("content-range"),
                format!("bytes {range}/{length}")
            );
            assert!(reply.body == bytes[from..to], "{name}: {range}");
            is_outside_the_api(&reply, 60_000);
            assert_eq!(reply.expect("accept-ranges"), "bytes");
            assert!(reply.header("etag").is_some() && reply.header("last-modified").is_some());
        }
        let headers = [("Range", &*format!("bytes={length}-"))];
        let reply = client.request("GET", &target, &headers);
        failed_with(&reply, 416, "range_not_satisfiable");
        assert_eq!(reply.expect("content-range"), format!("bytes */{length}"));
    }
}

/// All conditions are in `server/http/conditional_tests.rs`: here is one of each kind.
#[test]
fn conditional_headers_are_evaluated_in_order() {
    let files = some_files();
    let (_dir, server) = serve(&files);
    let mut client = server.connect();
    let before = "Sat, 21 Nov 2026 12:04:59 GMT";
    // A download in the course of the publish has such a date, and the bytes before.
    let after = "Sat, 21 Nov 2026 12:05:01 GMT";
    let rfc850 = "Saturday, 21-Nov-26 12:05:00 GMT";
    for name in ["islands.csv", "daily/2026-11-20.csv"] {
        let target = format!("/dumps/{name}");
        let tag = client
            .request("HEAD", &target, &[])
            .expect("etag")
            .to_owned();
        let (tag, weak) = (tag.as_str(), format!("W/{tag}"));
        let two = format!("\"x\", {weak}");
        for (status, headers) in [
            (200, &[("If-Match", tag)][..]),
            (412, &[("If-Match", "\"x\""), ("If-None-Match", tag)]),
            (412, &[("If-Unmodified-Since", before)]),
            (200, &[("If-Unmodified-Since", after)]),
            (200, &[("If-Unmodified-Since", HTTP_TIME)]),
            (200, &[("If-Modified-Since", before)]),
            (200, &[("If-Modified-Since", after)]),
            (304, &[("If-None-Match", &two)]),
            (304, &[("If-None-Match", "*"), ("Range", "bytes=0-0")]),
            (
                200,
                &[("If-None-Match", "\"x\""), ("If-Modified-Since", HTTP_TIME)],
            ),
            (304, &[("If-Modified-Since", rfc850)]),
            (206, &[("Range", "bytes=0-0"), ("If-Range", tag)]),
            (200, &[("Range", "bytes=0-0"), ("If-Range", &weak)]),
            (416, &[("Range", "bytes=9999999-"), ("If-Range", tag)]),
            (412, &[("If-Match", "\"x\""), ("Range", "bytes=9999999-")]),
        ] {
            for method in ["GET", "HEAD"] {
                let status = match (method, status) {
                    ("HEAD", 206 | 416) => 200,
                    (_, status) => status,
                };
                let reply = client.request(method, &target, headers);
                assert_eq!(reply.status, status, "{method} {target} {headers:?}");
                is_outside_the_api(&reply, 60_000);
                if status < 400 {
                    assert_eq!(reply.expect("etag"), tag);
                    assert_eq!(reply.expect("last-modified"), HTTP_TIME);
                    assert!(reply.expect("cache-control").starts_with("public"));
                }
                if status == 304 {
                    assert_eq!(reply.header("content-type"), None);
                }
                if status == 412 && method == "GET" {
                    failed_with(&reply, 412, "precondition_failed");
                }
            }
        }
    }
}

#[test]
fn a_download_that_broke_is_resumed_byte_for_byte() {
    let files = big(1, 3 * MIB + 5);
    let (_dir, server) = serve(&files);
    let whole = &files["big.csv"];
    let mut rng = Rng(5);
    let mut got = Vec::new();
    let mut breaks = 0;
    while got.len() < whole.len() {
        let mut download = Slow::send(
            server.addr(),
            format!(
                "GET /dumps/big.csv HTTP/1.1\r\nHost: x\r\nRange: bytes={}-\r\n\r\n",
                got.len()
            )
            .as_bytes(),
        );
        let head = download.head();
        assert_eq!(head.status, 206);
        let left = whole.len() - got.len();
        assert_eq!(head.expect("content-length"), left.to_string());
        let count = usize::try_from(rng.below(500_000)).unwrap() + 1;
        got.extend(download.take(count.min(left)));
        breaks += 1;
    }
    assert!(got == *whole && breaks > 4, "{breaks}");
    // The request of `curl -C -` when the file is complete.
    let range = format!("bytes={}-", whole.len());
    let reply = server
        .connect()
        .request("GET", "/dumps/big.csv", &[("Range", &range)]);
    assert_eq!(reply.status, 416);
}

/// Names that lead to no file of the index.
const NOT_LISTED: &str = "
../manifest.json %2e%2e/manifest.json ..%2Fmanifest.json %2E%2E%2Fmanifest.json
daily/../islands.csv daily/../../manifest.json ./islands.csv /islands.csv /etc/passwd
%2Fetc%2Fpasswd islands.csv%00 %00 islands.csv/ islands.csv/. daily
daily/ unlisted.csv ISLANDS.csv ..\\manifest.json ..%5cmanifest.json %252e%252e/manifest.json
index.json/
";

#[test]
fn only_files_of_the_index_are_served() {
    let files = some_files();
    let (dir, server) = serve(&files);
    write_bytes(&dir.join("published/dumps/unlisted.csv"), b"secret");
    let stored = sha256(&files["islands.csv"]);
    let mut client = server.connect();
    let missing = words(NOT_LISTED).into_iter().chain([&*stored]);
    let missing = missing.map(|name| (404, name));
    let others = [(400, "%ff"), (400, "%2"), (200, "%69slands.csv")];
    let encoded = ["daily/2026%2D11%2d20.csv", "daily%2F2026-11-20.csv"];
    let encoded = encoded.map(|name| (200, name));
    for (status, name) in missing.chain(others).chain(encoded) {
        for method in ["GET", "HEAD"] {
            let reply = client.request(method, &format!("/dumps/{name}"), &[]);
            assert_eq!(reply.status, status, "{name}");
            is_outside_the_api(&reply, 60_000);
            if status == 404 && method == "GET" {
                failed_with(&reply, 404, "not_found");
                let advice = if name.ends_with('/') {
                    "do not end with a slash"
                } else {
                    "/dumps/index.json"
                };
                assert!(reply.text().contains(advice), "{name}");
            }
        }
    }
    // Combinations of segments that might lead outside: only listed files are sent.
    let pieces = words(".. / %2e %2f . dumps manifest.json islands.csv daily %00 //");
    let mut rng = Rng(3);
    for _ in 0..2_000 {
        let count = rng.below(6) + 1;
        let pick = |rng: &mut Rng| pieces[usize::try_from(rng.below(11)).unwrap()];
        let name: String = (0..count).map(|_| pick(&mut rng)).collect();
        let reply = client.get(&format!("/dumps/{name}"));
        let listed = name == "islands.csv";
        assert_eq!(reply.status, if listed { 200 } else { 404 }, "{name}");
    }
}

#[test]
fn nothing_is_spent_and_no_key_is_looked_at() {
    let dir = TempDir::new();
    let published = published(&dir);
    install(&published, "dumps-1.json", &some_files());
    let published = published.to_str().unwrap();
    let server = Server::start(&["--published", published, "--limit-anonymous", "2"]);
    let mut client = server.connect();
    for _ in 0..5 {
        for target in words("/dumps /dumps/islands.csv /dumps/islands.csv?key=bad /dumps/nothing") {
            let reply = client.request("GET", target, &[("Authorization", "Bearer bad")]);
            assert!(matches!(reply.status, 200 | 404), "{target}");
            is_outside_the_api(&reply, 2);
        }
    }
    let reply = client.request("POST", "/dumps/islands.csv", &[]);
    failed_with(&reply, 405, "method_not_allowed");
    assert!(reply.expect("allow").contains("GET"));
    let reply = client.request("OPTIONS", "/dumps/islands.csv", &[]);
    assert_eq!(reply.status, 204);
    let allowed = "Range If-Range If-Match If-Modified-Since If-Unmodified-Since";
    reply.lists("access-control-allow-headers", allowed);
    assert_eq!(client.get("/v1").status, 200);
    assert_eq!(client.get("/v1").status, 200);
    assert_eq!(client.get("/v1").status, 429);
    assert_eq!(
        client.get("/dumps/islands.csv").status,
        200,
        "without a limit"
    );
}

#[test]
fn without_dumps_they_are_not_ready() {
    let dir = TempDir::new();
    let empty = dir.join("empty");
    fs::create_dir_all(&empty).unwrap();
    let published = published(&dir);
    for server in [Server::of(&published, &[]), Server::of(&empty, &[])] {
        let mut client = server.connect();
        for target in words("/dumps /dumps/ /dumps/index.json /dumps/islands.csv") {
            let reply = client.get(target);
            failed_with(&reply, 503, "not_ready");
            assert!(reply.number("retry-after") > 0);
        }
        assert!(!server.lines().iter().any(|line| line.contains("dumps")));
    }
}

#[track_caller]
fn comes_to_status(client: &mut Client, target: &str, status: u16) {
    let what = format!("{target} with status {status}");
    wait_for(&what, || client.get(target).status == status);
}

#[test]
fn damaged_dumps_keep_nothing_else_from_being_served_and_heal() {
    let dir = TempDir::new();
    let (published, files) = (published(&dir), some_files());
    let check = || Published::at(&published).check();
    let entry = write(&published, "dumps-1.json", &files, &index(&files));
    let (inside, aside) = (published.join("dumps-1.json"), dir.join("aside"));
    fs::rename(&inside, &aside).unwrap();
    name_dumps(&published, &entry);
    let server = Server::of(&published, &[]);
    let mut client = server.connect();
    failed_with(&client.get("/dumps/"), 503, "not_ready");
    assert_eq!(client.get("/v1/islands").status, 200);
    let complaints = || {
        let lines = server.lines().into_iter();
        lines.filter(|line| line.contains("dumps-1.json")).count()
    };
    thread::sleep(Duration::from_millis(700));
    assert_eq!(complaints(), 1, "{:?}", server.lines());
    let (code, stderr) = check();
    assert!(
        code == Some(65) && stderr.contains("dumps-1.json"),
        "{stderr}"
    );
    // Like a copy of the directory that is now complete: read again at a reload.
    fs::rename(&aside, &inside).unwrap();
    server.hang_up();
    comes_to_status(&mut client, "/dumps/islands.csv", 200);
    assert_eq!(check().0, Some(0));

    let mut flipped = index(&files);
    flipped[40] ^= 1;
    let entry = write(&published, "dumps-2.json", &files, &index(&files));
    write_bytes(&published.join("dumps-2.json"), &flipped);
    name_dumps(&published, &entry);
    comes_to_status(&mut client, "/dumps/islands.csv", 503);
    assert_eq!(check().0, Some(65));
    install(&published, "dumps-4.json", &files);
    comes_to_status(&mut client, "/dumps/islands.csv", 200);
}

#[test]
fn a_file_that_is_not_the_listed_one_is_an_error_and_no_bytes() {
    let files = some_files();
    let (dir, server) = serve(&files);
    let mut client = server.connect();
    let sound = &files["islands.csv"];
    let path = place(&dir.join("published"), sound);
    let longer = [sound, &b"x"[..]].concat();
    let damages: [&dyn Fn(&Path); 6] = [
        &|_| {},
        &|path| write_bytes(path, &sound[1..]),
        &|path| write_bytes(path, &longer),
        &|path| write_bytes(path, b""),
        &|path| fs::create_dir(path).unwrap(),
        &|path| symlink(sha256(&files["islands.json"]), path).unwrap(),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let _not_there = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        damage(&path);
        let reply = client.get("/dumps/islands.csv");
        failed_with(&reply, 500, "internal");
        is_outside_the_api(&reply, 60_000);
        let part = client.request("GET", "/dumps/islands.csv", &[("Range", "bytes=1-2")]);
        failed_with(&part, 500, "internal");
        let head = client.request("HEAD", "/dumps/islands.csv", &[]);
        assert_eq!((head.status, head.header("etag")), (500, None), "{number}");
        let page = client.request("GET", "/dumps/islands.csv", &[("Accept", "text/html")]);
        assert_eq!((page.status, page.header("etag")), (500, None), "{number}");
        assert!(page.text().contains("<h1>Damaged data</h1>"), "{number}");
        assert_eq!(client.get("/dumps/islands.json").status, 200);
        assert_eq!(client.get("/dumps").status, 200);
    }
    let lines = server.lines();
    let logged: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("islands.csv"))
        .collect();
    assert!((1..=2).contains(&logged.len()), "{logged:?}");
    fs::remove_file(&path).unwrap();
    write_bytes(&path, sound);
    assert!(client.get("/dumps/islands.csv").body == *sound);
}

#[test]
fn a_file_cut_short_under_a_download_ends_the_connection() {
    let files = big(2, 16 * MIB);
    let (dir, server) = serve(&files);
    let mut download = begin(&server);
    let path = place(&dir.join("published"), &files["big.csv"]);
    let file = File::options().write(true).open(path).unwrap();
    // Far beyond what the sockets buffer.
    file.set_len(15 * MIB).unwrap();
    let got = download.rest();
    assert!(got.len() as u64 <= 15 * MIB, "{}", got.len());
    assert!(files["big.csv"].starts_with(&got), "other bytes");
    server.await_line("a download failed");
    assert_eq!(server.connect().get("/v1").status, 200);
}

#[test]
fn a_download_keeps_the_bytes_it_began_with_over_a_publish() {
    let old = big(3, 16 * MIB);
    let (dir, server) = serve(&old);
    let published = dir.join("published");
    let mut download = begin(&server);
    let mut got = download.take(1_000);
    let new = big(4, 2 * MIB);
    install(&published, "dumps-2.json", &new);
    let mut client = server.connect();
    wait_for("the new dumps", || {
        client.get("/dumps/big.csv").body == new["big.csv"]
    });
    fs::remove_file(place(&published, &old["big.csv"])).unwrap();
    got.extend(download.take(old["big.csv"].len() - got.len()));
    assert!(got == old["big.csv"], "other bytes");
}

#[test]
fn answers_keep_their_order_and_length_on_one_connection() {
    let mut files = some_files();
    files.extend(big(5, MIB));
    let (_dir, server) = serve(&files);
    let all = with_index(&files);
    let mut requests = String::new();
    let mut names: Vec<&String> = all.keys().collect();
    names.extend(names.clone());
    for name in &names {
        requests += "GET /v1 HTTP/1.1\r\nHost: x\r\n\r\n";
        for method in ["GET", "HEAD"] {
            let line = [method, " /dumps/", name, " HTTP/1.1\r\nHost: x\r\n\r\n"];
            requests.extend(line);
        }
    }
    let mut answers = Slow::send(server.addr(), requests.as_bytes());
    for name in names {
        let api = answers.head();
        let length = api.expect("content-length").parse().unwrap();
        let body: Value = serde_json::from_slice(&answers.take(length)).unwrap();
        assert_eq!(body["version"], "v1");
        assert_eq!(answers.head().status, 200);
        assert!(answers.take(all[name].len()) == all[name], "{name}");
        assert_eq!(answers.head().status, 200);
    }
}

#[test]
fn the_last_answer_of_a_connection_is_whole() {
    let files = big(6, 3 * MIB + 1);
    let (_dir, server) = serve(&files);
    for (version, more) in [
        ("1.0", "\r\n"),
        ("1.1", "Connection: close\r\n\r\n"),
        ("1.1", "Content-Length: 3\r\n\r\nabc"),
        ("1.1", "Content-Length: 3\r\nUpgrade: h2c\r\n\r\nabc"),
        (
            "1.1",
            "Content-Length: 3\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nabc",
        ),
    ] {
        let request = format!("GET /dumps/big.csv HTTP/{version}\r\nHost: x\r\n{more}");
        let mut download = Slow::send(server.addr(), request.as_bytes());
        assert_eq!(download.head().status, 200);
        // So that the server has to wait for its reader, also at the end.
        thread::sleep(Duration::from_millis(200));
        let got = download.rest();
        assert!(got == files["big.csv"], "{more:?}: {} bytes", got.len());
    }
}

#[test]
fn a_stop_lets_downloads_end() {
    let files = big(7, 24 * MIB);
    let (_dir, server) = serve(&files);
    let mut download = begin(&server);
    let mut got = download.take(100);
    let stopping = thread::spawn(move || server.terminate());
    thread::sleep(Duration::from_millis(500));
    while got.len() < files["big.csv"].len() {
        let left = files["big.csv"].len() - got.len();
        got.extend(download.take(left.min(1 << 20)));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(got == files["big.csv"], "other bytes");
    assert!(stopping.join().unwrap().success());
}

fn open_dumps(server: &Server) -> usize {
    let open = server.open_files().into_iter();
    let folder = |path: &Path| {
        path.parent()
            .is_some_and(|folder| folder.ends_with("dumps"))
    };
    open.filter(|path| folder(Path::new(path))).count()
}

/// Waits until the server has no file of the dumps open.
#[track_caller]
fn closes_all_files(server: &Server) {
    wait_for("no open file", || open_dumps(server) == 0);
}

#[test]
fn a_client_that_disconnects_leaves_no_descriptor() {
    let (_dir, server) = serve(&big(8, 16 * MIB));
    let downloads: Vec<Slow> = (0..20).map(|_| begin(&server)).collect();
    assert_eq!(open_dumps(&server), 20);
    drop(downloads);
    closes_all_files(&server);
    // Nor does a client that stays after reading all.
    let mut client = server.connect();
    client.get("/dumps/big.csv");
    client.request("HEAD", "/dumps/big.csv", &[]);
    closes_all_files(&server);
}

#[test]
fn many_slow_downloads_take_little_memory_and_delay_no_other_client() {
    const DOWNLOADS: usize = 64;
    let files = big(9, 16 * MIB);
    let (_dir, server) = serve(&files);
    let mut client = server.connect();
    assert_eq!(client.get("/v1/islands").status, 200);
    assert_eq!(client.get("/dumps/big.csv").status, 200);
    let before = server.resident_kib();
    let downloads: Vec<Slow> = (0..DOWNLOADS).map(|_| begin(&server)).collect();
    // Now they wait for their readers.
    thread::sleep(Duration::from_millis(300));
    let waiting = || thread::sleep(Duration::from_millis(500));
    let worst = slowest(&server, "/v1/islands", waiting);
    assert!(worst < Duration::from_millis(500), "{worst:?}");
    let grown = server.resident_kib().saturating_sub(before);
    // Two pieces a download.
    assert!(grown < DOWNLOADS as u64 * 256, "{grown} KiB");
    let whole = &files["big.csv"];
    let worst = slowest(&server, "/v1/islands", || {
        thread::scope(|scope| {
            for mut download in downloads {
                scope.spawn(move || {
                    for piece in whole.chunks(1 << 16) {
                        assert!(download.take(piece.len()) == piece, "other bytes");
                    }
                });
            }
        });
    });
    assert!(worst < Duration::from_secs(2), "{worst:?}");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < DOWNLOADS as u64 * 256, "{grown} KiB");
    closes_all_files(&server);
}
