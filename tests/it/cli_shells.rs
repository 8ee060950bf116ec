//! Completions and the manual page, loaded by the shells and man page readers that use them.

use crate::prelude::*;

/// Writes the output of a command to a file.
fn printed(directory: &TempDir, words: &[&str]) -> PathBuf {
    let output = run(words);
    assert!(output.status.success() && output.stderr.is_empty());
    let path = directory.join(&words.join("-"));
    write_file(&path, std::str::from_utf8(&output.stdout).unwrap());
    path
}

/// Returns the output of a command that must succeed and write nothing to stderr.
#[track_caller]
fn stdout(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && error.is_empty(),
        "{command:?}: {error}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the completions that bash offers for the last of these words.
#[track_caller]
fn offered(script: &Path, at: &Path, words: &[&str]) -> Vec<String> {
    const SCRIPT: &str = r#"source "$1"; shift
        complete -p island-metrics >/dev/null || exit 1
        COMP_WORDS=(island-metrics "$@"); COMP_CWORD=$#
        _island_metrics
        ((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"; exit 0"#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", SCRIPT, "bash"]);
    bash.arg(script).args(words).current_dir(at);
    stdout(&mut bash).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    if !is_installed("bash", "bash") {
        return;
    }
    let directory = TempDir::new();
    let script = printed(&directory, &["completions", "bash"]);
    stdout(Command::new("bash").arg("-n").arg(&script));
    write_file(&directory.join("at/a dir/log"), "");
    write_file(&directory.join("at/access"), "");
    let at = directory.join("at");
    for (words, want) in [
        ("pub", "publish"),
        ("keys ", "issue|list|restore|revoke"),
        ("keys re", "restore|revoke"),
        ("keys issue --ti", "--tier"),
        ("keys issue --tier ", "free|pro|starter"),
        ("keys issue --tier = s", "starter"),
        ("keys issue --tier =", "free|pro|starter"),
        ("completions ", "bash|fish|zsh"),
        ("serve --lis", "--listen|--listen-tls"),
        ("--lis", "--listen|--listen-tls"),
        ("serve --listen x --lis", "--listen|--listen-tls"),
        ("serve --state x --sta", ""),
        ("serve --state a", "a dir"),
        ("--access-log a", "a dir|access"),
        ("serve --workers ", ""),
        ("publish --f", "--force|--full"),
        ("check --lis", ""),
        ("man --", "--help"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut found = offered(&script, &at, &words);
        found.sort();
        assert_eq!(found.join("|"), want, "{words:?}");
    }
    let commands = offered(&script, &at, &[""]);
    assert!(commands.contains(&"serve".to_owned()));
    assert!(commands.iter().all(|word| !word.starts_with('-')));
}

#[test]
fn zsh_reads_its_completions() {
    if is_installed("zsh", "zsh") {
        let directory = TempDir::new();
        let script = printed(&directory, &["completions", "zsh"]);
        stdout(Command::new("zsh").arg("-fn").arg(&script));
        // Sourcing it registers the completion.
        let script_text =
            "autoload -Uz compinit; compinit -D; source $1; print $_comps[island-metrics]";
        let mut zsh = Command::new("zsh");
        zsh.args(["-fc", script_text, "zsh"]).arg(&script);
        assert_eq!(stdout(&mut zsh).trim(), "_island_metrics");
    }
}

#[test]
fn fish_completes_commands_flags_and_values() {
    if !is_installed("fish", "fish") {
        return;
    }
    let directory = TempDir::new();
    let script = printed(&directory, &["completions", "fish"]);
    stdout(Command::new("fish").arg("-n").arg(&script));
    for (line, want) in [
        ("keys ", &["issue", "list", "restore", "revoke"][..]),
        ("keys issue --ti", &["--tier"]),
        ("keys issue --tier ", &["free", "pro", "starter"]),
        ("completions ", &["bash", "fish", "zsh"]),
        ("serve --lis", &["--listen", "--listen-tls"]),
        ("--lis", &["--listen", "--listen-tls"]),
        ("check --lis", &[]),
        ("pub", &["publish"]),
    ] {
        let line_script = "source $argv[1]; complete -C \"island-metrics $argv[2]\"";
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", line_script])
            .arg(&script)
            .arg(line)
            .env("HOME", directory.join("home"));
        let text = stdout(&mut fish);
        let words = text.lines().map(|line| line.split('\t').next().unwrap());
        let mut words: Vec<&str> = words.collect();
        words.sort_unstable();
        assert_eq!(words, want, "{line:?}");
    }
}

#[test]
fn the_manual_page_is_well_formed_and_has_its_sections() {
    let directory = TempDir::new();
    let page = printed(&directory, &["man"]);
    let source = fs::read_to_string(&page).unwrap();
    let sections = "NAME|SYNOPSIS|DESCRIPTION|COMMANDS|ENVIRONMENT|SIGNALS|EXIT STATUS|FILES|EXAMPLES|SEE ALSO";
    for section in sections.split('|') {
        assert!(source.contains(&format!("\n.SH {section}\n")), "{section}");
    }
    if is_installed("groff", "groff-base") {
        let mut groff = Command::new("groff");
        groff.args(["-man", "-ww", "-Tutf8", "-P-cbou"]).arg(&page);
        stdout(&mut groff);
    }
    if is_installed("mandoc", "mandoc") {
        stdout(
            Command::new("mandoc")
                .args(["-Tlint", "-Wwarning"])
                .arg(&page),
        );
    }
}
