//! Invalid settings: each ends the start with code 78 and one line that names it, before anything is
//! bound or opened.

use std::ffi::OsStr;

use crate::cli::{refusal, table};
use crate::cli_files;
use crate::prelude::*;

/// Values that no flag for a number accepts.
const INVALID_NUMBERS: &str = "\
    0|-1|+5|1e3|abc|0x10| 5|5 |5\n|\u{1b}[31m5|1.5|1_000|10,20|५|99999999999999999999|\
    18446744073709551616";

/// Other flags, and values that they do not accept.
const OTHERS: &str = "
listen | 8080 :8080 localhost:8080 127.0.0.1 127.0.0.1:65536 256.0.0.1:80 ::1:80 [::1] http://127.0.0.1:80
admin | 9100 localhost:9100 127.0.0.1 [::1]
memory | -1 +5 1e9 lots 64MB 0x10 1.5GiB MiB 99999999999999999999 99999999999GiB
base-url | x.test ftp://x.test http:// http://x.test:0 http://ann:word@x.test
key-prefix | i_m im- 12345678901234567 é
trusted-proxy | 10.0.0.0/33 10.0.0/8 ::/129 proxy.test
";

/// The same with white space.
const SPACED: [(&str, &str); 4] = [
    ("memory", " 5"),
    ("memory", "64 MiB"),
    ("base-url", "http://x.test/a b"),
    ("base-url", "http://x.test\r\n"),
];

/// A port in use and a state directory that does not exist: a server that started would use both.
struct Scene {
    directory: TempDir,
    taken: TcpListener,
}

impl Scene {
    fn new() -> Scene {
        let (directory, taken) = (TempDir::new(), TcpListener::bind("127.0.0.1:0").unwrap());
        Scene { directory, taken }
    }

    fn address(&self) -> String {
        self.taken.local_addr().unwrap().to_string()
    }

    fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    fn serve(&self) -> Command {
        let mut command = command();
        command.arg("serve").arg("--state").arg(self.state());
        command
    }

    /// Runs a server that must be rejected with a line about this flag or variable.
    #[track_caller]
    fn check(&self, mut command: Command, place: &str) {
        let output = command.output().unwrap();
        let line = refusal(&output, 78);
        // Control characters of a value must not reach the terminal.
        assert!(!line.contains(char::is_control), "{line:?}");
        let rest = line.strip_prefix(place);
        assert!(
            rest.is_some_and(|rest| rest.starts_with(" must ")),
            "{place}: {line}"
        );
        assert!(
            !self.state().exists(),
            "{place}: the state directory was created"
        );
    }

    #[track_caller]
    fn check_flag(&self, name: &str, value: impl AsRef<OsStr>) {
        let (mut command, flag) = (self.serve(), format!("--{name}"));
        if name != "listen" {
            command.args(["--listen", &self.address()]);
        }
        command.arg(&flag).arg(value);
        self.check(command, &flag);
    }

    #[track_caller]
    fn check_variable(&self, name: &str, value: &str) {
        let upper = name.to_uppercase().replace('-', "_");
        let (mut command, variable) = (self.serve(), format!("ISLAND_METRICS_{upper}"));
        if name != "listen" {
            command.args(["--listen", &self.address()]);
        }
        command.env(&variable, value);
        self.check(command, &variable);
    }
}

#[test]
fn each_invalid_setting_is_rejected_in_one_line() {
    let scene = Scene::new();
    // Those of a store are tested with a store.
    let flags = &cli_files::table()[0].flags;
    let numbers = flags.iter().filter(|flag| flag.usage.ends_with(" N"));
    let numbers = numbers.filter(|flag| !flag.name.starts_with("shared-"));
    assert_eq!(numbers.clone().count(), 17);
    let numbers = numbers.map(|flag| (&*flag.name, parts(INVALID_NUMBERS)));
    let others = table(OTHERS).map(|(name, values)| (name, words(values)));
    let spaced = SPACED.map(|(name, value)| (name, vec![value]));
    let mut checked = 0;
    for (name, values) in numbers.chain(others).chain(spaced) {
        scene.check_flag(name, "");
        for value in values {
            scene.check_flag(name, value);
            checked += 1;
            // Spaces around the values of a list are allowed.
            if value.trim() == value || !["listen", "trusted-proxy"].contains(&name) {
                scene.check_variable(name, value);
                checked += 1;
            }
        }
    }
    assert!(checked > 500, "only {checked}");
}

#[test]
fn numbers_out_of_bounds_are_rejected_with_the_bounds() {
    let scene = Scene::new();
    for (name, least, most) in [
        ("workers", 1, 1024),
        ("limit-anonymous", 1, 65_535),
        ("limit-free", 1, u64::from(u32::MAX)),
        ("limit-starter", 1, u64::from(u32::MAX)),
        ("limit-pro", 1, u64::from(u32::MAX)),
        ("quota-clients", 1, 100_000_000),
        ("connections", 16, u64::from(u32::MAX)),
        ("connections-per-address", 1, 65_535),
        ("connection-seconds", 1, 86_400),
        ("drain-seconds", 1, 3600),
    ] {
        for number in [least - 1, most + 1] {
            let mut command = scene.serve();
            command.arg(format!("--{name}={number}"));
            let output = command.output().unwrap();
            let want =
                format!("--{name} must be an integer from {least} to {most}, got \"{number}\"");
            assert_eq!(refusal(&output, 78), want);
        }
    }
}

#[test]
fn values_that_are_not_utf8_and_empty_lists_are_rejected() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = Scene::new();
    let bytes = OsStr::from_bytes(b"127.0.0.1:\xff");
    for name in ["listen", "published", "memory"] {
        scene.check_flag(name, bytes);
    }
    for value in [",", " , "] {
        scene.check_variable("listen", value);
        scene.check_variable("trusted-proxy", value);
    }
}

#[test]
fn contradictory_settings_are_rejected() {
    let scene = Scene::new();
    let address = scene.address();
    let with = |words: &[&str]| {
        let mut command = scene.serve();
        command.args(words);
        command
    };
    let twice = with(&["--listen", &address, "--listen", &address]);
    scene.check(twice, "--listen");
    let mut twice = with(&[]);
    twice.env("ISLAND_METRICS_LISTEN", format!("{address},{address}"));
    scene.check(twice, "ISLAND_METRICS_LISTEN");
    scene.check(
        with(&["--listen", &address, "--admin", &address]),
        "--admin",
    );
    let mut both = with(&["--admin", "127.0.0.1:8080"]);
    scene.check(both, "--admin");
    both = with(&["--listen", &address]);
    both.env("ISLAND_METRICS_ADMIN", &address);
    scene.check(both, "ISLAND_METRICS_ADMIN");
    #[cfg(feature = "tls")]
    for (words, place) in [
        (
            ["--listen", &address, "--listen-tls", &address],
            "--listen-tls",
        ),
        (
            ["--listen-tls", &address, "--listen-tls", &address],
            "--listen-tls",
        ),
        (["--admin", &address, "--listen-tls", &address], "--admin"),
    ] {
        let mut both = with(&words);
        both.args(["--tls-certificate", "x", "--tls-key", "x"]);
        scene.check(both, place);
    }
    // Port 0 is a different free port each time.
    let any = "127.0.0.1:0";
    let text = format!("--listen {any} --listen {any} --admin {any} --print-config");
    assert!(with(&words(&text)).output().unwrap().status.success());
}

/// Settings that require others, and a part of the message. `STATE` is a directory.
const INCOMPLETE: &str = "
--signup ip | requires --state DIR
--signup mail | email
--signup email --state STATE | requires --mailer COMMAND
--signup email --mailer m --state STATE | requires --base-url URL
--mailer m | requires --signup email
--signup email --mailer /nowhere/m --state STATE --base-url https://x.test | must be a command that can be executed, got
--signup email --mailer ./Cargo.toml --state STATE --base-url https://x.test | can be executed, got
--signup email --mailer ./src --state STATE --base-url https://x.test | can be executed, got
--signup email --mailer no-such-mailer --state STATE --base-url https://x.test | can be executed, got
";

#[cfg(feature = "tls")]
const INCOMPLETE_TLS: &str = "
--listen-tls 127.0.0.1:0 | --listen-tls requires --tls-certificate PATH
--tls-key x | --tls-key requires --tls-certificate PATH
--tls-certificate x | --tls-certificate requires --tls-key PATH
";
#[cfg(not(feature = "tls"))]
const INCOMPLETE_TLS: &str = "
--listen-tls 127.0.0.1:0 | --listen-tls requires TLS, which this build lacks
--tls-key x | build it with `cargo build --release --features tls`
--tls-certificate x | --tls-certificate requires TLS
";

#[cfg(feature = "shared-quota")]
const INCOMPLETE_SHARED: &str = "
--shared-quota redis://u:secret@h | without a password
--shared-quota http://h | must be redis://
--shared-quota-replicas 3 | requires --shared-quota
--shared-quota-ca-file /ca.pem | requires --shared-quota
--shared-quota redis://h --shared-quota-ca-file /ca.pem | requires --shared-quota rediss://
--shared-quota redis://h --shared-quota-replicas 0 | from 1 to 1000
--shared-quota redis://h --shared-quota-outage open | share or refuse
--shared-keys | requires --shared-quota
--shared-quota redis://h --shared-keys | requires --state
";
#[cfg(not(feature = "shared-quota"))]
const INCOMPLETE_SHARED: &str = "
--shared-quota redis://h | build it with `cargo build --release --features shared-quota`
";

#[test]
fn settings_without_those_that_they_require_are_rejected() {
    let scene = Scene::new();
    let state = scene.state().to_str().unwrap().to_owned();
    let all = [INCOMPLETE, INCOMPLETE_TLS, INCOMPLETE_SHARED].concat();
    for (words, part) in table(&all) {
        let words = words.replace("STATE", &state);
        let mut serve = command();
        let output = serve.arg("serve").args(words.split(' ')).output().unwrap();
        let line = refusal(&output, 78);
        assert!(line.contains(part), "{words}: {line}");
    }
}

#[test]
fn unusable_paths_are_rejected() {
    let scene = Scene::new();
    let file = scene.directory.join("file");
    write_file(&file, "");
    let (under, nowhere) = (file.join("a/b"), scene.directory.join("none/log"));
    scene.check_flag("published", &file);
    scene.check_flag("access-log", scene.directory.join("."));
    scene.check_flag("access-log", &under);
    scene.check_flag("access-log", &nowhere);
    scene.check_flag("access-log", scene.directory.join("two\nlines/log"));
    for path in [&file, &under] {
        let mut command = command();
        command.args(["serve", "--listen", &scene.address(), "--state"]);
        command.arg(path);
        scene.check(command, "--state");
    }
    // A missing directory may appear later, and a missing log is created.
    let mut command = scene.serve();
    command.arg("--published").arg(scene.directory.join("none"));
    command.arg("--access-log").arg(scene.directory.join("log"));
    let output = command.arg("--print-config").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!scene.directory.join("log").exists());
}

#[test]
fn more_connections_than_descriptors_are_rejected_with_the_maximum() {
    let limited = |words: &[&str]| after("ulimit -n 256").args(words).output().unwrap();
    let output = limited(&["--connections", "129", "--print-config"]);
    let line = refusal(&output, 78);
    assert!(
        line.starts_with("--connections must be at most 128, got 129; the process may open 256 "),
        "{line}"
    );
    let output = limited(&["--connections", "128", "--print-config"]);
    assert!(output.status.success(), "{output:?}");
    assert!(limited(&["--print-config"]).status.success());
}
