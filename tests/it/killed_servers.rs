//! Processes killed at random moments: no count, no key and no file is lost or damaged.

use crate::prelude::*;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The key that `keys issue` printed, if it did.
fn printed(stdout: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(stdout).unwrap().strip_suffix('\n')?;
    canary::remember(key);
    Some(key.to_owned())
}

/// Repeats a request until the connection breaks; returns the `Remaining` of each admitted one.
fn ask_until_killed(server: &Server, headers: &str) -> Vec<u32> {
    let mut observed = Vec::new();
    let Ok(stream) = TcpStream::connect(server.addr()) else {
        return observed;
    };
    let request = format!("HEAD /v1 HTTP/1.1\r\nHost: x.test\r\n{headers}\r\n");
    let mut stream = BufReader::new(stream);
    loop {
        let mut remaining = None;
        if stream.get_mut().write_all(request.as_bytes()).is_err() {
            return observed;
        }
        let mut line = String::new();
        loop {
            line.clear();
            // A line cut short by the kill is ignored.
            match stream.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => {}
                _ => return observed,
            }
            if line.starts_with("HTTP/1.1 ") {
                assert_eq!(&line[9..12], "200");
            }
            if let Some(value) = line.strip_prefix("x-ratelimit-remaining: ") {
                remaining = Some(value.trim_end().parse().unwrap());
            }
            if line == "\r\n" {
                break;
            }
        }
        observed.push(remaining.unwrap());
    }
}

/// The remaining quota of requests with these headers, by health.
fn remaining(server: &Server, headers: &[(&str, &str)]) -> u32 {
    let reply = server.connect().request("GET", "/v1/health", headers);
    reply.left()
}

/// Kills per client address, so that no limit is reached.
const KILLS_AN_ADDRESS: u32 = 100;

#[test]
fn a_server_killed_under_load_has_counted_every_answer_it_gave() {
    const LIMITS: [u32; 2] = [65_535, 100_000_000];
    let state = TempDir::new();
    let directory = state.join("state");
    let key = issue(&directory, "a@x.test", "free");
    let bearer = format!("Authorization: Bearer {key}\r\n");
    // Otherwise each start publishes the sample in memory.
    let published = state.join("published");
    let mut editions = Editions::begin_with_few_days(&state.join("dataset"));
    let edition = editions.turn(Change::All);
    publish(editions.dataset(), &published, &edition.generated_at);
    let start = || {
        let words = [
            ["--state", text(&directory)],
            ["--published", text(&published)],
            ["--limit-anonymous", &LIMITS[0].to_string()],
            ["--limit-free", &LIMITS[1].to_string()],
            ["--trusted-proxy", "127.0.0.0/8"],
            ["--quota-clients", "10000"],
        ];
        Server::start(&words.concat())
    };
    // By header lines: every `Remaining`, and the requests that may have been in progress at a kill.
    let mut observed: BTreeMap<String, (BTreeSet<u32>, u32)> = BTreeMap::new();
    let mut random = Rng(9);
    for kill in 0..kills() {
        let number = kill / KILLS_AN_ADDRESS;
        let headers = [
            format!("X-Forwarded-For: 198.51.100.{number}\r\n"),
            format!("X-Forwarded-For: 2001:db8:1:{number}::3\r\n"),
            bearer.clone(),
            bearer.clone(),
        ];
        let server = start();
        let answers: Vec<Vec<u32>> = thread::scope(|scope| {
            let asking: Vec<_> = headers
                .iter()
                .map(|headers| scope.spawn(|| ask_until_killed(&server, headers)))
                .collect();
            thread::sleep(Duration::from_micros(500 + random.below(12_000)));
            server.kill();
            let asking = asking.into_iter();
            asking.map(|thread| thread.join().unwrap()).collect()
        });
        for (headers, answers) in headers.into_iter().zip(answers) {
            let (observed, under_way) = observed.entry(headers).or_default();
            *under_way += 1;
            for remaining in answers {
                assert!(
                    observed.insert(remaining),
                    "{remaining} was returned before"
                );
            }
        }
    }
    let server = start();
    for (headers, (observed, under_way)) in &observed {
        let (name, value) = headers.trim_end().split_once(": ").unwrap();
        let limit = LIMITS[usize::from(*headers == bearer)];
        let charged = limit - remaining(&server, &[(name, value)]);
        let answered = u32::try_from(observed.len()).unwrap();
        assert!(answered > *under_way, "the load was no load: {answered}");
        // At most the request in progress on each connection was counted without a response.
        assert!(
            (answered..=answered + under_way).contains(&charged),
            "{answered} answered, {charged} charged"
        );
    }
}

/// Starts a command and kills it after a time; returns its output, and whether it had ended.
fn killed(words: &[&str], moment: Duration) -> (Vec<u8>, bool) {
    let mut child = command()
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(moment);
    let ended = child.try_wait().unwrap();
    let _ended_meanwhile = child.kill();
    let output = child.wait_with_output().unwrap();
    let success = ended.is_some_and(|status| status.success()) || output.status.success();
    (output.stdout, success)
}

#[test]
fn issue_and_revoke_killed_at_any_moment_keep_what_they_reported() {
    let state = TempDir::new();
    let directory = state.join("state");
    let mut random = Rng(5);
    let begun = Instant::now();
    let issue = ["keys", "issue", "--state", text(&directory)];
    let words = [&issue[..], &["--tier", "pro", "--address"]].concat();
    let first = run(&[&words[..], &["first@x.test"]].concat());
    let mut moments = Moments::of(begun.elapsed());
    let mut keys = vec![(printed(&first.stdout).unwrap(), true)];
    for _ in 0..kills() {
        let words = [&words[..], &["a@x.test"]].concat();
        let (stdout, _) = killed(&words, moments.next(&mut random));
        let key = printed(&stdout);
        moments.record(key.is_some());
        keys.extend(key.map(|key| (key, true)));
        let at = usize::try_from(random.below(keys.len() as u64)).unwrap();
        let (key, active) = &mut keys[at];
        let change = if *active { "revoke" } else { "restore" };
        let words = ["keys", change, id(key), "--state", text(&directory)];
        let (_, success) = killed(&words, moments.next(&mut random));
        let listed: BTreeMap<String, bool> = listed_keys(&directory)
            .into_iter()
            .map(|(id, status)| (id, status == "active"))
            .collect();
        let now = listed[id(key)];
        assert!(
            !success || now != *active,
            "{change} ended well and changed nothing"
        );
        *active = now;
        for (key, active) in &keys {
            assert!(listed.get(id(key)) == Some(active), "a key was lost");
        }
    }
    moments.were_of_both_kinds();
    let server = Server::start(&["--state", text(&directory), "--quota-clients", "10000"]);
    let mut client = server.connect();
    for (key, active) in &keys {
        let bearer = format!("Bearer {key}");
        let reply = client.request("GET", "/v1", &[("Authorization", &bearer)]);
        assert_eq!(reply.status, if *active { 200 } else { 403 });
    }
}
