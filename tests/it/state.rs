//! The state directory and settings: damage, its messages, and exit codes.

use std::io::{PipeReader, PipeWriter};
use std::os::unix::fs::FileExt;

use crate::cli::{refusal, table};
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

struct State(TempDir);

impl State {
    fn new() -> State {
        State(TempDir::new())
    }

    fn directory(&self) -> PathBuf {
        self.0.join("state")
    }

    fn file(&self) -> PathBuf {
        self.directory().join("keys.jsonl")
    }

    fn issue(&self) -> String {
        issue(&self.directory(), "a@x.test", "pro")
    }

    /// Replaces the key file atomically.
    fn replace(&self, text: &str) {
        let beside = self.directory().join("beside");
        write_file(&beside, text);
        fs::rename(beside, self.file()).unwrap();
    }

    fn start(&self) -> Server {
        self.start_as(command())
    }

    fn start_as(&self, command: Command) -> Server {
        let directory = self.directory();
        let text = format!("--state {} --quota-clients 1000", directory.display());
        Server::start_as(command, &words(&text))
    }
}

fn status(client: &mut Client, key: &str) -> u16 {
    client.get(&format!("/v1?key={key}")).status
}

/// Waits until requests with a key get this status.
#[track_caller]
fn await_status(client: &mut Client, key: &str, want: u16) {
    wait_for(&format!("status {want}"), || status(client, key) == want);
}

#[test]
fn a_damaged_key_file_keeps_the_loaded_keys_and_is_logged_once() {
    let state = State::new();
    let key = state.issue();
    let server = state.start();
    let mut client = server.connect();
    assert_eq!(status(&mut client, &key), 200);
    let good = fs::read_to_string(state.file()).unwrap();
    let half = &good[..good.len() / 2];
    let swapped = good.replace("\"tier\":\"pro\"", "\"tier\":\"free\"");
    for (damaged, message) in [
        (half, "keys.jsonl:2: "),
        ("nonsense", "keys.jsonl:1: missing header line"),
        ("nonsense\n", "keys.jsonl:1: "),
        (swapped.as_str(), "keys.jsonl:1: checksum mismatch"),
    ] {
        state.replace(damaged);
        server.await_line(message);
        assert_eq!(status(&mut client, &key), 200, "{damaged}");
        assert_eq!(status(&mut server.connect(), &key), 200, "{damaged}");
    }
    state.replace(&good);
    await_status(&mut client, &key, 200);
    change_key("revoke", &state.directory(), &key);
    await_status(&mut client, &key, 403);
    let complaints = server.lines();
    let complaints = complaints
        .iter()
        .filter(|line| line.contains("the known keys stay in use"));
    assert_eq!(complaints.count(), 4);
}

#[test]
fn a_server_writes_keys_again_that_its_file_has_lost() {
    let state = State::new();
    let [kept, revoked, restored] = [(); 3].map(|()| state.issue());
    change_key("revoke", &state.directory(), &restored);
    let older = fs::read_to_string(state.file()).unwrap();
    let server = state.start();
    change_key("revoke", &state.directory(), &revoked);
    change_key("restore", &state.directory(), &restored);
    let mut client = server.connect();
    let check = |client: &mut Client| {
        await_status(client, &kept, 200);
        await_status(client, &revoked, 403);
        await_status(client, &restored, 200);
    };
    check(&mut client);
    let newer = fs::read_to_string(state.file()).unwrap();
    let lose = |text: Option<&str>| match text {
        None => fs::remove_file(state.file()).unwrap(),
        Some(text) => state.replace(text),
    };
    for (lost, count) in [(None, 3), (Some(older.as_str()), 2), (Some(""), 4)] {
        lose(lost);
        // To a command, an empty file is damaged until the server has written it again.
        let has_keys = lost.is_some_and(|text| !text.is_empty());
        let new = has_keys.then(|| state.issue());
        server.await_line(&format!(
            "known keys were missing or out of date, and were written again ({count})"
        ));
        check(&mut client);
        if let Some(new) = new {
            await_status(&mut client, &new, 200);
        }
    }
    // A file that lacks nothing is only read.
    state.replace(&newer);
    server.await_line("were written again (1)");
    let repaired = fs::read_to_string(state.file()).unwrap();
    state.replace(&repaired);
    assert!(server.terminate().success());
    assert_eq!(fs::read_to_string(state.file()).unwrap(), repaired);
    let server = state.start();
    check(&mut server.connect());
}

/// Capacity of a pipe on Linux.
const PIPE_BYTES: usize = 65_536;

/// A server whose log is a pipe, passed to `done_with` after the start, with a writer.
#[track_caller]
fn check_goes_on_without(done_with: impl FnOnce(PipeReader, &mut PipeWriter)) {
    let state = State::new();
    let key = state.issue();
    let (log, mut writer) = std::io::pipe().unwrap();
    let child = command()
        .args(words(
            "serve --listen 127.0.0.1:0 --quota-clients 1000 --state",
        ))
        .arg(state.directory())
        .stderr(writer.try_clone().unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let mut log = BufReader::new(log);
    let (mut line, mut address) = (String::new(), String::new());
    // The last line of the start.
    while !line.contains("/v1/rankings/latest") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
        if let Some((_, found)) = line.split_once("listening on http://") {
            found.trim_end().clone_into(&mut address);
        }
    }
    done_with(log.into_inner(), &mut writer);
    let mut client = Client::connect(address.parse().unwrap());
    assert_eq!(status(&mut client, &key), 200);
    change_key("revoke", &state.directory(), &key);
    await_status(&mut client, &key, 403);
    let other = state.issue();
    await_status(&mut client, &other, 200);
    change_key("revoke", &state.directory(), &other);
    await_status(&mut client, &other, 403);
    signal(child.0.id(), "-TERM");
    let ended = ends_within(10 * SECOND, &mut child.0);
    assert!(
        ended.is_some_and(|status| status.success()),
        "after SIGTERM, it did not exit with success within ten seconds"
    );
}

#[test]
fn a_server_whose_log_pipe_is_closed_continues() {
    check_goes_on_without(|log, _| drop(log));
}

#[test]
fn a_server_whose_log_is_not_read_continues() {
    let mut unread = None;
    check_goes_on_without(|log, writer| {
        writer.write_all(&vec![b' '; PIPE_BYTES]).unwrap();
        unread = Some(log);
    });
}

#[test]
fn a_flood_of_connections_does_not_keep_a_key_from_being_revoked() {
    let state = State::new();
    let key = state.issue();
    let server = state.start_as(after("ulimit -n 64"));
    for _ in 0..3 {
        for (change, want) in [("revoke", 403), ("restore", 200)] {
            // Far more than the limit. A new connection replaces one of them.
            let _flood: Vec<TcpStream> = (0..100)
                .map(|_| TcpStream::connect(server.addr()).unwrap())
                .collect();
            change_key(change, &state.directory(), &key);
            let mut other = Client::connect_from("127.0.0.2", server.addr());
            await_status(&mut other, &key, want);
        }
    }
}

/// Runs a command that must fail with this code and this line.
#[track_caller]
fn check_refused(words: &[&str], code: i32, message: &str) {
    let output = run(words);
    let text = refusal(&output, code);
    assert!(text.contains(message), "{words:?}: {text}");
}

/// Commands, and the exit code and message of each.
const REFUSED: &str = "
keys | 64 keys needs a subcommand
keys issue --address a@x.test | 64 requires --state
keys issue --state AT | 64 requires --address
keys issue --state AT --address ann | 64 must be an e-mail or IP address
keys issue --state AT --address a@x.test --tier gold | 64 must be free, starter or pro
keys revoke --state AT | 64 requires the <id> segment
keys revoke 0123456789 --state AT | 65 no key has the id
keys list --state /nonexistent | 74 /nonexistent:
";

#[test]
fn key_commands_report_what_is_wrong() {
    let state = State::new();
    state.issue();
    let directory = state.directory();
    let at = directory.to_str().unwrap();
    for (line, refusal) in table(REFUSED) {
        let (code, message) = refusal.split_once(' ').unwrap();
        check_refused(
            &words(&line.replace("AT", at)),
            code.parse().unwrap(),
            message,
        );
    }
}

#[test]
fn a_key_file_that_cannot_be_read_stops_the_start() {
    let state = State::new();
    state.issue();
    let good = fs::read_to_string(state.file()).unwrap();
    let (directory, file) = (state.directory(), state.file());
    let text = format!("serve --listen 127.0.0.1:0 --state {}", directory.display());
    let words = words(&text);
    let check = |text: &str, code: i32, message: &str| {
        write_file(&file, text);
        check_refused(&words, code, message);
    };
    check(&good[..good.len() - 1], 65, "keys.jsonl:2: ");
    check("", 65, "keys.jsonl:1: missing header line");
    check("\n", 65, "keys.jsonl:1: ");
    check(
        "{}",
        65,
        "keys.jsonl:1: missing header line; restore a backup",
    );
    let other = good.replace("keys 1", "keys 2");
    check(
        &other,
        65,
        "format must be \"island-metrics keys 1\", got \"island-metrics keys 2\"",
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    check_refused(&words, 74, "keys.jsonl: is not a regular file");
}

#[test]
fn a_counter_damaged_to_a_day_years_ahead_does_not_move_the_service_there() {
    let state = State::new();
    let clients = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    let remaining = |server: &Server| {
        clients.map(|address| {
            let mut client = Client::connect_from(address, server.addr());
            client.get("/v1").expect("x-ratelimit-remaining").to_owned()
        })
    };
    let server = state.start();
    assert_eq!(remaining(&server), ["99"; 3]);
    assert!(server.terminate().success());
    let file = state.directory().join("quota-anonymous");
    let bytes = fs::read(&file).unwrap();
    let file = File::options().write(true).open(file).unwrap();
    for at in (4096..bytes.len()).step_by(8) {
        let word = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // The tag of 127.0.0.2; the highest bit of the day.
        if word >> 31 == 0x7f00_0002 {
            let damaged = word | 1 << 30;
            file.write_all_at(&damaged.to_le_bytes(), at as u64)
                .unwrap();
        }
    }
    let server = state.start();
    server.await_line("were set to zero: 1");
    assert_eq!(remaining(&server), ["98", "99", "98"]);
}

#[test]
fn the_files_of_a_state_directory_are_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let state = State::new();
    state.issue();
    let _server = state.start();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.directory()), 0o700);
    let mut names = Vec::new();
    for entry in state.directory().read_dir().unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    let all = [".lock", "keys.jsonl", "quota-anonymous", "quota-keys-0"];
    assert_eq!(names, all);
}

#[test]
fn a_full_disk_behind_the_streams_is_an_error_and_no_panic() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let state = State::new();
    let directory = state.directory();
    let at = directory.to_str().unwrap();
    let issue = ["keys", "issue", "--state", at, "--address", "a@x.test"];
    for words in [
        &["--help"][..],
        &["--version"],
        &["openapi"],
        &issue,
        &["keys", "list", "--state", at],
    ] {
        let output = command().args(words).stdout(full()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{words:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{words:?}: {message}");
        // It cannot be reported, but the change is made.
        let output = command().args(words).stderr(full()).output().unwrap();
        assert!(output.status.success(), "{words:?}");
        if words == issue {
            canary::remember(std::str::from_utf8(&output.stdout).unwrap().trim_end());
        }
    }
}
