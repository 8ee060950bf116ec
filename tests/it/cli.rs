//! Version, `--print-config`, and errors of the command line.

use crate::prelude::*;

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The one-line error of a command that fails with this code.
#[track_caller]
pub(crate) fn refusal(output: &Output, code: i32) -> &str {
    let error = std::str::from_utf8(&output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        error.ends_with('\n') && error.lines().count() == 1,
        "{error:?}"
    );
    let line = error.trim_end().strip_prefix("island-metrics: ");
    line.expect("the program's name first")
}

#[test]
fn the_version_names_commit_and_target() {
    let output = run(&["--version"]);
    let line = text(&output);
    let rest = line.strip_prefix("island-metrics 1.").unwrap();
    let (_, build) = rest.trim_end().split_once(" (commit ").unwrap();
    let (commit, target) = build.strip_suffix(')').unwrap().split_once(", ").unwrap();
    let is_commit = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{line}");
    assert!(target.contains(std::env::consts::ARCH), "{line}");
}

/// Name, value and source of each setting.
pub(crate) fn printed(output: &Output) -> Vec<(String, String, String)> {
    let rows = text(output).lines().map(|line| {
        let (name, rest) = line.split_once(" = ").unwrap();
        let (value, origin) = rest.rsplit_once("  # ").unwrap();
        let [name, value, origin] = [name, value, origin].map(|part| part.trim().to_owned());
        (name, value, origin)
    });
    rows.collect()
}

#[test]
fn print_config_lists_values_and_their_sources() {
    let words = ["serve", "--listen", "127.0.0.1:0", "--limit-free", "7"];
    let output = command()
        .args(words)
        .arg("--print-config")
        .env("ISLAND_METRICS_LIMIT_FREE", "6")
        .env("ISLAND_METRICS_LIMIT_PRO", "8")
        .env("ISLAND_METRICS_TRUSTED_PROXY", "10.0.0.0/8, ::1")
        .output()
        .unwrap();
    let rows = printed(&output);
    for (name, value, origin) in [
        ("listen", "127.0.0.1:0", "--listen"),
        ("limit-free", "7", "--limit-free"),
        ("limit-pro", "8", "ISLAND_METRICS_LIMIT_PRO"),
        ("limit-starter", "20000", "default"),
        (
            "trusted-proxy",
            "10.0.0.0/8,::1",
            "ISLAND_METRICS_TRUSTED_PROXY",
        ),
        ("memory", "256MiB", "default"),
        ("published", "(the sample dataset)", "default"),
    ] {
        let row = rows.iter().find(|row| row.0 == name).unwrap();
        assert_eq!((&*row.1, &*row.2), (value, origin), "{name}");
    }
    let columns = text(&output).lines().map(|line| line.rfind("  # "));
    let columns: Vec<_> = columns.collect();
    assert!(columns.iter().all(|column| *column == columns[0]));
}

#[test]
fn print_config_lists_the_settings_of_help_in_its_order() {
    let help = run(&["serve", "--help"]);
    let flags = text(&help).lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    --")?.split_once(' ')?;
        (!["print-config", "help"].contains(&name)).then_some(name)
    });
    let printed = printed(&run(&["--print-config"]));
    let names = printed.iter().map(|row| row.0.as_str());
    assert_eq!(flags.collect::<Vec<_>>(), names.collect::<Vec<_>>());
    assert!(printed.len() > 20);
}

#[test]
fn print_config_fails_if_a_server_could_not_start() {
    let output = run(&["serve", "--print-config", "--workers", "0"]);
    let line = refusal(&output, 78);
    assert!(
        line.starts_with("--workers must be an integer from 1 to 1024, got "),
        "{line}"
    );
    // It creates, opens and binds nothing.
    let directory = TempDir::new();
    let (state, log) = (directory.join("state"), directory.join("log"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command()
        .args(["--listen", &address, "--admin", "127.0.0.1:0"])
        .arg("--state")
        .arg(&state)
        .arg("--access-log")
        .arg(&log)
        .arg("--print-config")
        .output()
        .unwrap();
    assert_eq!(printed(&output)[0].1, address);
    assert!(!state.exists() && !log.exists());
}

/// Words of a command line, and the beginning of the error.
const MISTYPED: &str = r#"
serve --lisen x | unknown flag --lisen of serve; did you mean --listen? 
--limit-annonymous=5 | unknown flag --limit-annonymous of serve; did you mean --limit-anonymous? 
--base_url x | unknown flag of serve; did you mean --base-url? 
publish --frce | unknown flag --frce of publish; did you mean --force? 
--hlep | unknown flag --hlep of serve; did you mean --help? 
--verbose | unknown flag --verbose of serve; `island-metrics --help`
pubilsh | unknown command "pubilsh"; did you mean publish? 
key | unknown command "key"; did you mean keys? 
keys isue | keys needs a subcommand; did you mean keys issue? 
keys | keys needs a subcommand: keys issue, keys list, keys revoke, keys restore; 
dance | unknown command "dance"; `island-metrics --help` lists
serve extra | unexpected argument "extra"; 
completions tcsh | completions requires bash, zsh or fish; 
"#;

/// The rows of a table of two columns.
pub(crate) fn table(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = text.lines().filter(|line| !line.is_empty());
    rows.map(|row| row.split_once(" | ").unwrap())
}

#[test]
fn mistyped_flags_and_commands_get_a_suggestion() {
    let rows = table(MISTYPED);
    // Control characters do not reach the terminal.
    let lines = (
        "serve --two\nlines",
        "unknown flag --two\\nlines of serve; ",
    );
    for (words, error) in rows.chain([lines]) {
        let words: Vec<&str> = words.split(' ').collect();
        let output = run(&words);
        let line = refusal(&output, 64);
        assert!(line.starts_with(error), "{words:?}: {line}");
    }
}

#[test]
fn control_characters_of_a_path_do_not_reach_the_terminal() {
    let path = "/none/two\nlines\x1b[31m";
    for words in [
        &["keys", "list", "--state", path][..],
        &["check", "--dataset", path],
        &["check", "--published", path],
    ] {
        let output = run(words);
        let line = refusal(&output, 74);
        assert!(
            line.starts_with("/none/two\\nlines\\u{1b}[31m: "),
            "{line:?}"
        );
    }
}

#[test]
fn a_flag_of_check_wins_over_the_variable_of_the_other_one() {
    let check = |words: &[&str], variable: &str| {
        let mut check = command();
        check.arg("check").args(words).env(variable, "/none");
        check.output().unwrap()
    };
    let sample = ["--dataset", "data/sample"];
    stderr_of(&check(&sample, "ISLAND_METRICS_PUBLISHED"), 0);
    let output = check(&["--published", "/nothing"], "ISLAND_METRICS_DATASET");
    assert!(refusal(&output, 74).starts_with("/nothing: "));
    let output = check(&[], "ISLAND_METRICS_PUBLISHED");
    assert!(refusal(&output, 74).starts_with("/none: "));
}

#[test]
fn a_possible_key_is_not_repeated_in_an_error() {
    const KEY: &str = "im_live_DDeDNaKcIF_made_up";
    let flag = format!("--{KEY}");
    let switch = format!("--json={KEY}");
    for words in [
        &[KEY][..],
        &[&flag],
        &["keys", KEY],
        &["serve", KEY],
        &["keys", "issue", &flag],
        &["keys", "list", &switch],
        &["keys", "list", "--state", "s", KEY],
        &["keys", "revoke", KEY, "--state", "s"],
        &["keys", "issue", "--state", "s", "--address", KEY],
    ] {
        let output = run(words);
        assert!(!refusal(&output, 64).contains("DDeDNaKcIF"), "{words:?}");
    }
}

#[test]
fn a_password_of_a_url_is_not_repeated_whatever_flag_has_it() {
    const URL: &str = "redis://user:made_up@host";
    let switch = format!("--shared-keys={URL}");
    assert_eq!(
        refusal(&run(&["serve", &switch]), 64),
        "--shared-keys takes no value; `island-metrics --help` lists commands and flags"
    );
    let mut variable = command();
    variable.arg("serve").env("ISLAND_METRICS_SHARED_KEYS", URL);
    for output in [
        run(&["serve", "--listen", URL]),
        run(&["serve", "--base-url", URL]),
        variable.output().unwrap(),
    ] {
        let line = refusal(&output, 78);
        assert!(line.ends_with("; the value is not shown"), "{line}");
    }
}

/// Variables, and what the error suggests.
const UNKNOWN_VARIABLES: &str = "
ISLAND_METRICS_LISTN | did you mean ISLAND_METRICS_LISTEN?
ISLAND_METRICS_limit_free | did you mean ISLAND_METRICS_LIMIT_FREE?
ISLAND_METRICS_VERBOSE | `island-metrics serve --help` lists the settings
ISLAND_METRICS_ | `island-metrics serve --help` lists the settings
";

#[test]
fn an_unknown_variable_stops_serve_only() {
    let with = |name: &str, words: &[&str]| {
        let mut command = command();
        command.args(words).env(name, "x").output().unwrap()
    };
    for (name, hint) in table(UNKNOWN_VARIABLES) {
        let output = with(name, &["serve", "--print-config"]);
        let line = refusal(&output, 78);
        assert_eq!(line, format!("unknown setting {name}; {hint}"));
        assert!(with(name, &["openapi"]).status.success(), "{name}");
        assert!(with(name, &["serve", "--help"]).status.success(), "{name}");
    }
    // One machine may publish, serve, and run the recipes of the pages.
    for name in ["DATASET", "CREDIT", "KEY"] {
        let name = format!("ISLAND_METRICS_{name}");
        assert!(with(&name, &["--print-config"]).status.success(), "{name}");
    }
}

/// Variables that Kubernetes sets for the Services `island-metrics` and `island-metrics-admin` in each container.
const OF_SERVICES: &str = "
ISLAND_METRICS_SERVICE_HOST | 10.0.0.11
ISLAND_METRICS_SERVICE_PORT | 80
ISLAND_METRICS_SERVICE_PORT_HTTP | 80
ISLAND_METRICS_PORT | tcp://10.0.0.11:80
ISLAND_METRICS_PORT_80_TCP | tcp://10.0.0.11:80
ISLAND_METRICS_PORT_80_TCP_PROTO | tcp
ISLAND_METRICS_PORT_80_TCP_PORT | 80
ISLAND_METRICS_PORT_80_TCP_ADDR | 10.0.0.11
ISLAND_METRICS_ADMIN_SERVICE_HOST | 10.0.0.12
ISLAND_METRICS_ADMIN_SERVICE_PORT | 9108
ISLAND_METRICS_ADMIN_PORT | tcp://10.0.0.12:9108
";

#[test]
fn variables_of_services_of_kubernetes_are_no_settings() {
    let print = || {
        let mut command = command();
        command.arg("--print-config").envs(table(OF_SERVICES));
        command
    };
    let output = print().output().unwrap();
    assert_eq!(printed(&output), printed(&run(&["--print-config"])));
    let workers = print().env("ISLAND_METRICS_WORKERS", "3").output().unwrap();
    let mut rows = printed(&workers).into_iter();
    assert!(rows.any(|row| row.2 == "ISLAND_METRICS_WORKERS"));
    // Without its Service, a variable is a guess of the operator.
    let mut without = print();
    without.env_remove("ISLAND_METRICS_SERVICE_HOST");
    let mut mistyped = print();
    mistyped.env("ISLAND_METRICS_PROT", "80");
    for (mut command, name) in [(without, "PORT"), (mistyped, "PROT")] {
        let output = command.output().unwrap();
        let line = refusal(&output, 78);
        let start = format!("unknown setting ISLAND_METRICS_{name};");
        assert!(line.starts_with(&start), "{line}");
    }
}

#[test]
fn a_switch_in_the_environment_must_be_on_or_off() {
    let directory = TempDir::new();
    write_file(
        &directory.join("set/islands.csv"),
        "code,title,creator,createdIn,tags\n",
    );
    let publish = |force: &str| {
        let mut command = publish_command(&directory.join("set"), &directory.join("to"));
        command.env("ISLAND_METRICS_FORCE", force);
        command.output().unwrap()
    };
    let output = publish("no");
    let line = refusal(&output, 64);
    assert!(line.starts_with("ISLAND_METRICS_FORCE must be 1, true, 0 or false, got \"no\""));
    assert!(!directory.join("to").exists());
}
