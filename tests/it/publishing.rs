//! Publishing: reproducible, atomic, and loaded by a running server without a failed response.

use crate::prelude::*;

const LATER: &str = "2026-11-21T00:20:00Z";
const EARLIER: &str = "2026-11-21T00:00:00Z";

/// A small dataset with days.
fn dataset(dir: &TempDir) -> PathBuf {
    let path = dir.join("dataset");
    World::with_more_than(5, 2, 12).write(&path);
    path
}

/// The same without the state that identifies the files of a dataset.
fn published_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = files(directory);
    found.remove("sources.json").unwrap();
    found
}

fn add_a_day(dataset: &Path) {
    write_file(&dataset.join("ccu/2019-01-01.csv"), "code,peakCCU\n");
}

/// `generatedAt` of the response to a target.
fn shown(client: &mut Client, target: &str) -> String {
    let reply = client.get(target);
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    let time = &reply.json()["meta"]["generatedAt"];
    time.as_str().unwrap().to_owned()
}

#[test]
fn the_same_dataset_and_timestamp_give_the_same_bytes() {
    let dir = TempDir::new();
    let dataset = dataset(&dir);
    publish(&dataset, &dir.join("a"), GENERATED_AT);
    publish(&dataset, &dir.join("b"), GENERATED_AT);
    let (a, b) = (
        published_files(&dir.join("a")),
        published_files(&dir.join("b")),
    );
    assert!(a.len() >= 2, "{:?}", a.keys());
    assert!(a == b, "{:?} and {:?}", a.keys(), b.keys());
}

#[test]
fn a_notice_is_shown_with_the_data_and_published_again_from_its_dumps() {
    let dir = TempDir::new();
    let (dataset, published) = (dataset(&dir), dir.join("published"));
    let copy = dir.join("copy");
    let server = Server::of(&copy, &[]);
    let mut client = server.connect();
    for (time, notice) in [
        (EARLIER, None),
        (GENERATED_AT, Some("<made up>")),
        (LATER, None),
    ] {
        match notice {
            Some(notice) => write_file(&dataset.join("notice.txt"), &format!("{notice}\r\n")),
            None => drop(fs::remove_file(dataset.join("notice.txt"))),
        }
        publish(&dataset, &published, time);
        let dumps = dir.join("dumps");
        let _ = fs::remove_dir_all(&dumps);
        Published::at(&published).copy_dumps(&dumps);
        publish(&dumps, &copy, time);
        shows(&mut client, time);
        let text = client.get("/dumps/index.json").json()["notice"].clone();
        let text = text.as_str().unwrap();
        assert_eq!(text.contains("third-party"), notice.is_none(), "{text}");
        assert!(notice.is_none_or(|notice| notice == text), "{text}");
        let found = client.get("/dumps/notice.txt");
        assert_eq!(found.status, if notice.is_some() { 200 } else { 404 });
        assert!(notice.is_none() || found.text() == "<made up>\n");
        for page in ["/", "/islands", "/creators", "/rankings", "/new", "/dumps/"] {
            let reply = client.request("GET", page, &[("Accept", "text/html")]);
            let is_shown = reply
                .text()
                .contains("<p class=note>&lt;made up&gt;</p><h1>");
            assert_eq!(is_shown, notice.is_some(), "{page} of {time}");
        }
    }
}

#[test]
fn a_publish_shows_within_a_second_and_no_answer_fails_meanwhile() {
    let dir = TempDir::new();
    let (dataset, published) = (dataset(&dir), dir.join("published"));
    publish(&dataset, &published, GENERATED_AT);
    let server = Server::of(&published, &[]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let hammer = scope.spawn(|| {
            let mut client = server.connect();
            let (mut newest, mut count) = (GENERATED_AT.to_owned(), 0);
            while !done.load(Ordering::Relaxed) {
                for target in ["/v1/islands?limit=5", "/v1"] {
                    let time = shown(&mut client, target);
                    assert!(time == GENERATED_AT || time == LATER, "{target}: {time}");
                    assert!(time >= newest, "{target}: {time} after {newest}");
                    newest = time;
                    count += 1;
                }
                // Stays far below the day's 60,000 requests.
                thread::sleep(Duration::from_millis(1));
            }
            count
        });
        add_a_day(&dataset);
        publish(&dataset, &published, LATER);
        // Set before a panic continues, so that the scope ends.
        let seen = thread::scope(|inner| {
            let watch = || shows_within(Duration::from_secs(1), &mut server.connect(), LATER);
            inner.spawn(watch).join()
        });
        thread::sleep(Duration::from_millis(100));
        done.store(true, Ordering::Relaxed);
        assert!(hammer.join().unwrap() > 10);
        assert!(seen.is_ok(), "the publish was not shown in time");
    });
}

#[test]
fn exit_codes_show_the_kind_of_failure() {
    let dir = TempDir::new();
    let missing = dir.join("missing");
    let missing = missing.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (code, words) in [
        (64, vec!["check"]),
        (69, vec!["serve", "--listen", &address]),
        (74, vec!["publish", "--dataset", missing, "--to", missing]),
        (74, vec!["check", "--dataset", missing]),
        (74, vec!["check", "--published", missing]),
    ] {
        let stderr = stderr_of(&run(&words), code);
        assert!(!stderr.trim().is_empty(), "{words:?} says why");
    }
}

#[test]
fn a_server_logs_whether_its_directory_is_missing_or_empty_and_how_to_publish() {
    let dir = TempDir::new();
    let published = dir.join("published");
    let server = Server::of(&published, &[]);
    let shown = published.display();
    let rest = format!(
        "so the API responds with 503; publish with: island-metrics publish --dataset DIR --to '{shown}'"
    );
    server.await_line(&format!("the directory {shown} does not exist, {rest}"));
    fs::create_dir(&published).unwrap();
    server.await_line(&format!("nothing has been published to {shown}, {rest}"));
    publish(&dataset(&dir), &published, EARLIER);
    server.await_line("serving");
}
