//! Links, pipes and other irregular files in a published directory. Its owner may be another user than
//! the server's, who must neither have the server's own files published nor stop its refreshes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use crate::dump_files::{Files, index, install, name_dumps, place, published, sha256, write};
use crate::prelude::*;

const FIRST: &str = "2026-11-21T00:10:00Z";
const LATER: &str = "2026-11-21T00:20:00Z";
/// Long enough for several polls.
const POLLS: Duration = Duration::from_millis(800);

/// A server with secrets in its state directory, on a published directory with dumps.
struct Scene {
    dir: TempDir,
    published: PathBuf,
    state: PathBuf,
    server: Server,
}

impl Scene {
    fn new() -> Scene {
        let dir = TempDir::new();
        let (published, state) = (published(&dir), dir.join("state"));
        issue(&state, "a@x.test", "free");
        install(
            &published,
            "dumps-1.json",
            &listing(&["daily/2026-11-20.csv"], b"code\n"),
        );
        let words = ["--state", state.to_str().unwrap(), "--signup", "ip"];
        let server = Server::of(&published, &words);
        Scene {
            dir,
            published,
            state,
            server,
        }
    }

    /// The files that only the server's user may read.
    fn secrets(&self) -> [Vec<u8>; 2] {
        ["keys.jsonl", "signup.secret"].map(|name| {
            let path = self.state.join(name);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            fs::read(path).unwrap()
        })
    }

    /// Requests dumps, none of which may be sent.
    #[track_caller]
    fn sends_none_of(&self, names: &[&str]) {
        thread::sleep(POLLS);
        let secrets = self.secrets();
        let mut client = self.server.connect();
        for name in names {
            wait_for(name, || {
                let reply = client.get(&format!("/dumps/{name}"));
                let is_secret = secrets.contains(&reply.body);
                assert!(!is_secret, "{name} is a secret of the server");
                reply.status >= 404
            });
        }
        assert_eq!(client.get("/v1").status, 200);
        assert_ne!(check(&self.published), Some(0), "check finds it sound");
    }
}

fn listing(names: &[&str], bytes: &[u8]) -> Files {
    let file = |name: &&str| ((*name).to_owned(), bytes.to_vec());
    names.iter().map(file).collect()
}

/// The exit code of `check --published`, which must end.
fn check(published: &Path) -> Option<i32> {
    let mut check = command();
    check.args(["check", "--published", published.to_str().unwrap()]);
    ends(check)
}

/// Runs a command that must end in a moment; its exit code.
#[track_caller]
fn ends(mut command: Command) -> Option<i32> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = ends_within(Duration::from_secs(20), &mut command.spawn().unwrap());
    assert!(status.is_some(), "{command:?} does not end");
    status.unwrap().code()
}

/// Puts something at a path.
type Make = fn(&Path);

/// Makes a named pipe, which no process writes to.
fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_folder_of_the_dumps_that_is_a_link_publishes_no_secret() {
    let scene = Scene::new();
    let [keys, secret] = scene.secrets();
    // The index is a true one of files that are not there, but where the link leads.
    let linked = scene.dir.join("linked");
    fs::create_dir(&linked).unwrap();
    let files: Files = [("keys.jsonl", keys), ("signup.secret", secret)]
        .map(|(name, bytes)| {
            symlink(scene.state.join(name), linked.join(sha256(&bytes))).unwrap();
            (name.to_owned(), bytes)
        })
        .into();
    let folder = scene.published.join("dumps");
    fs::rename(&folder, scene.dir.join("aside")).unwrap();
    symlink(&linked, &folder).unwrap();
    let entry = write(
        &scene.published,
        "dumps-2.json",
        &Files::new(),
        &index(&files),
    );
    name_dumps(&scene.published, &entry);
    scene.sends_none_of(&["keys.jsonl", "signup.secret"]);
}

#[test]
fn a_folder_of_the_dumps_that_becomes_a_link_publishes_no_secret() {
    let scene = Scene::new();
    let [keys, _] = scene.secrets();
    // Files as long as the secret, so that lengths show nothing.
    let files = listing(&["daily/keys.jsonl"], &vec![b'x'; keys.len()]);
    install(&scene.published, "dumps-2.json", &files);
    let mut client = scene.server.connect();
    wait_for("the dump", || {
        client.get("/dumps/daily/keys.jsonl").status == 200
    });
    let folder = scene.published.join("dumps");
    let name = sha256(&files["daily/keys.jsonl"]);
    fs::copy(scene.state.join("keys.jsonl"), scene.state.join(name)).unwrap();
    fs::rename(&folder, scene.dir.join("aside")).unwrap();
    symlink(&scene.state, &folder).unwrap();
    scene.sends_none_of(&["daily/keys.jsonl"]);
}

#[test]
fn an_index_or_a_file_of_the_dumps_that_are_links_are_not_served() {
    let scene = Scene::new();
    let (published, aside) = (&scene.published, scene.dir.join("aside"));
    let [keys, _] = scene.secrets();
    let files = listing(&["keys.jsonl"], &keys);
    // The index is one.
    let entry = write(&aside, "dumps-2.json", &files, &index(&files));
    symlink(aside.join("dumps-2.json"), published.join("dumps-2.json")).unwrap();
    fs::copy(place(&aside, &keys), place(published, &keys)).unwrap();
    name_dumps(published, &entry);
    scene.sends_none_of(&["", "keys.jsonl"]);
    fs::remove_file(place(published, &keys)).unwrap();
    // A file is one.
    let entry = write(published, "dumps-3.json", &Files::new(), &index(&files));
    symlink(scene.state.join("keys.jsonl"), place(published, &keys)).unwrap();
    name_dumps(published, &entry);
    scene.sends_none_of(&["keys.jsonl"]);
}

#[test]
fn a_manifest_or_a_payload_that_is_a_link_is_refused_and_the_old_data_stays() {
    let dir = TempDir::new();
    let (published, aside) = (published(&dir), dir.join("aside"));
    publish(&dir.join("dataset"), &aside, LATER);
    let server = Server::of(&published, &[]);
    let mut client = server.connect();
    let manifest = published.join("manifest.json");
    let sound = fs::read(&manifest).unwrap();
    let links = |name: &str| {
        let (from, to) = (aside.join(name), published.join(name));
        symlink(from, to).unwrap();
    };
    let offered = Published::at(&aside).manifest().unwrap();
    let payloads = ["history", "live"].map(|kind| offered[kind]["file"].as_str().unwrap());
    let refused = |client: &mut Client, part: &str| {
        server.await_line(part);
        assert_eq!(client.get("/v1").json()["meta"]["generatedAt"], FIRST);
        assert_ne!(check(&published), Some(0), "{part}");
    };
    fs::remove_file(&manifest).unwrap();
    links("manifest.json");
    refused(&mut client, "manifest.json: is a symbolic link");
    fs::remove_file(&manifest).unwrap();
    write_bytes(&manifest, &sound);
    for (at, name) in payloads.iter().enumerate() {
        for (other, payload) in payloads.iter().enumerate() {
            let _not_there = fs::remove_file(published.join(payload));
            if at == other {
                links(payload);
            } else {
                fs::copy(aside.join(payload), published.join(payload)).unwrap();
            }
        }
        write_bytes(&manifest, offered.to_string().as_bytes());
        refused(&mut client, &format!("{name}: is a symbolic link"));
        // A name that leads out of the directory is none either.
        let mut outside = offered.clone();
        outside[["history", "live"][at]]["file"] = format!("../aside/{name}").into();
        write_bytes(&manifest, outside.to_string().as_bytes());
        refused(&mut client, "is not a file name");
    }
}

#[test]
fn a_published_directory_may_be_a_link_and_lead_elsewhere_later() {
    let dir = TempDir::new();
    let (first, link) = (published(&dir), dir.join("current"));
    let second = dir.join("second");
    install(&first, "dumps-1.json", &listing(&["a.csv"], b"first"));
    publish(&dir.join("dataset"), &second, LATER);
    install(&second, "dumps-1.json", &listing(&["a.csv"], b"later"));
    symlink(&first, &link).unwrap();
    let server = Server::of(&link, &[]);
    let mut client = server.connect();
    assert_eq!(client.get("/dumps/a.csv").body, b"first");
    let lead_to = |target: &Path| {
        let new = dir.join("new");
        symlink(target, &new).unwrap();
        fs::rename(new, &link).unwrap();
    };
    lead_to(&second);
    shows(&mut client, LATER);
    assert_eq!(client.get("/dumps/a.csv").body, b"later");
    // The same publish in another place, and the one before is gone.
    let third = dir.join("third");
    assert!(
        Command::new("cp")
            .arg("-a")
            .args([&second, &third])
            .status()
            .unwrap()
            .success()
    );
    lead_to(&third);
    fs::remove_dir_all(&second).unwrap();
    thread::sleep(POLLS);
    assert_eq!(client.get("/dumps/a.csv").body, b"later");
}

#[test]
fn nothing_in_the_place_of_a_manifest_ends_refreshes() {
    let dir = TempDir::new();
    let (published, dataset) = (published(&dir), dir.join("dataset"));
    let server = Server::of(&published, &[]);
    let mut client = server.connect();
    let manifest = published.join("manifest.json");
    let sound = fs::read(&manifest).unwrap();
    let before = server.resident_kib();
    let makes: [(&str, Make); 5] = [
        ("is not a regular file", |path| make_pipe(path)),
        ("is not a regular file", |path| {
            fs::create_dir(path).unwrap();
        }),
        ("manifest.json: ", |path| {
            drop(UnixListener::bind(path).unwrap());
        }),
        ("is a symbolic link", |path| {
            symlink("/dev/zero", path).unwrap();
        }),
        ("file too large", |path| {
            File::create_new(path).unwrap().set_len(10 << 30).unwrap();
        }),
    ];
    for (round, (complaint, make)) in (1..).zip(makes) {
        fs::remove_file(&manifest).unwrap();
        make(&manifest);
        server.await_line(complaint);
        assert_eq!(client.get("/v1/islands").status, 200);
        assert_ne!(check(&published), Some(0), "{complaint}");
        if manifest.is_dir() {
            fs::remove_dir(&manifest).unwrap();
        } else {
            fs::remove_file(&manifest).unwrap();
        }
        write_bytes(&manifest, &sound);
        let generated_at = format!("2026-11-21T01:0{round}:00Z");
        publish(&dataset, &published, &generated_at);
        shows(&mut client, &generated_at);
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
}

#[test]
fn a_publish_waits_for_no_pipe() {
    let dir = TempDir::new();
    let (published, dataset) = (published(&dir), dir.join("dataset"));
    let again = |generated_at: &str| {
        let mut publish = publish_command(&dataset, &published);
        publish.args(["--generated-at", generated_at]);
        ends(publish)
    };
    for name in ["sources.json", "manifest.json"] {
        fs::remove_file(published.join(name)).unwrap();
        make_pipe(&published.join(name));
        let want = if name == "sources.json" {
            Some(0)
        } else {
            Some(74)
        };
        assert_eq!(again(LATER), want, "{name}");
    }
}
