//! The man page and the shell completions under `data/` list exactly the commands and flags that
//! `--help` prints, with the same help texts. A failure names the file and what to edit in it.

use crate::prelude::*;

/// A command as `--help` shows it.
pub(crate) struct Command {
    /// `keys revoke`
    pub(crate) name: String,
    /// `keys revoke ID`
    usage: String,
    help: String,
    pub(crate) flags: Vec<Flag>,
}

/// A flag as `--help` shows it.
pub(crate) struct Flag {
    pub(crate) name: String,
    /// `--listen ADDR`
    pub(crate) usage: String,
    help: String,
    pub(crate) default: Option<String>,
}

/// The commands and flags of the program, read from `--help`.
pub(crate) fn table() -> Vec<Command> {
    let output = run(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let mut commands: Vec<Command> = Vec::new();
    for line in help.lines() {
        if let Some(usage) = line.strip_prefix("island-metrics ") {
            let is_name = |word: &&str| !word.contains(char::is_uppercase);
            let name: Vec<&str> = usage.split(' ').take_while(is_name).collect();
            commands.push(Command {
                name: name.join(" "),
                usage: usage.to_owned(),
                help: String::new(),
                flags: Vec::new(),
            });
        } else if let Some(flag) = line.strip_prefix("    --") {
            commands.last_mut().unwrap().flags.push(parse_flag(flag));
        } else if let Some(help) = line.strip_prefix("  ") {
            help.clone_into(&mut commands.last_mut().unwrap().help);
        }
    }
    assert!(commands.len() > 10 && commands[0].flags.len() > 20);
    commands
}

/// A flag's line of `--help` behind its dashes: `listen ADDR    help (default)`.
fn parse_flag(line: &str) -> Flag {
    let (usage, rest) = line.split_at(line.find("  ").unwrap());
    let usage = usage.trim_end();
    let (help, default) = match rest.trim().rsplit_once(" (") {
        Some((help, default)) => (help, default.strip_suffix(')')),
        None => (rest.trim(), None),
    };
    Flag {
        name: usage.split(' ').next().unwrap().to_owned(),
        usage: format!("--{usage}"),
        help: help.to_owned(),
        default: default.map(str::to_owned),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Compares the entries of a file with those required by the flag table.
#[track_caller]
fn assert_entries(path: &str, found: &[String], expected: &[String]) {
    let set = |entries: &[String]| entries.iter().cloned().collect::<BTreeSet<String>>();
    let (found, expected) = (set(found), set(expected));
    let missing: Vec<&String> = expected.difference(&found).collect();
    let unknown: Vec<&String> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "edit {path}: add {missing:#?}, remove {unknown:#?}"
    );
}

/// The commands in completions: by name, and the first one without a name too.
fn completed_commands(table: &[Command]) -> Vec<(&str, &Command)> {
    let named = table.iter().map(|command| (command.name.as_str(), command));
    std::iter::once(("", &table[0])).chain(named).collect()
}

/// `COMMAND: --FLAG: help` of each flag, `--help` included.
fn completed_flags(table: &[Command]) -> Vec<String> {
    let mut entries = Vec::new();
    for (name, command) in completed_commands(table) {
        let flags = command.flags.iter();
        let flags = flags.map(|flag| format!("{name}: --{}: {}", flag.name, flag.help));
        entries.extend(flags);
        entries.push(format!("{name}: --help: {HELP}"));
    }
    entries
}

/// The help of `--help` in completions, which is not in the table.
const HELP: &str = "prints help";

/// `COMMAND: help` of each command; a first word shared by several commands appears once.
fn completed_words(table: &[Command]) -> Vec<String> {
    let mut entries = Vec::new();
    for command in table {
        match command.name.split_once(' ') {
            None => entries.push(format!(": {}: {}", command.name, command.help)),
            Some((group, word)) => {
                entries.push(format!(": {group}: commands for API keys"));
                entries.push(format!("{group}: {word}: {}", command.help));
            }
        }
    }
    entries
}

#[test]
fn the_man_page_lists_every_command_and_flag_with_its_help() {
    const PATH: &str = "data/man/island-metrics.1";
    let text = read(PATH).replace("\\-", "-").replace("\\(aq", "'");
    let version = concat!("\"island-metrics ", env!("CARGO_PKG_VERSION"), "\"");
    has(text.lines().next().unwrap(), version);
    let document = read("src/site/openapi.json");
    let version = concat!("\"version\": \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(document.contains(version), "no {version}");
    let text = text.replace("\\(ga", "`").replace("\\&", "");
    let (_, commands) = text.split_once(".SH COMMANDS\n").unwrap();
    let (commands, rest) = commands.split_once(".SH ENVIRONMENT\n").unwrap();
    let (variables, _) = rest.split_once("\n.SH ").unwrap();
    let mut found = Vec::new();
    for section in commands.split(".SS ").skip(1) {
        let mut entries = section.trim_end().split("\n.TP\n");
        let (name, help) = entries.next().unwrap().split_once('\n').unwrap();
        found.push(format!("{name}\n{help}"));
        for entry in entries {
            let entry = entry.trim_start_matches(".B ").replace("\\fB", "");
            found.push(format!(
                "{name}\n{}",
                entry.replace("\\fI", "").replace("\\fP", "")
            ));
        }
    }
    let known = variables.split("\n.TP\n.B ").skip(1);
    found.extend(known.map(|entry| entry.replace("\\fB", "").replace("\\fP", "")));
    let table = table();
    let mut expected = Vec::new();
    for command in &table {
        let (name, help) = (&command.usage, &command.help);
        let (first, rest) = help.split_at(1);
        expected.push(format!("{name}\n{}{rest}.", first.to_uppercase()));
        for flag in &command.flags {
            let default = flag.default.as_ref();
            let default = default.map_or_else(String::new, |text| format!(" Default: {text}."));
            expected.push(format!("{name}\n{}\n{}.{default}", flag.usage, flag.help));
        }
    }
    for Flag { name, .. } in &table[0].flags {
        let variable = name.to_uppercase().replace('-', "_");
        expected.push(format!("ISLAND_METRICS_{variable}\nSame as --{name}."));
    }
    assert_entries(PATH, &found, &expected);
}

#[test]
fn the_bash_completions_list_every_command_and_flag() {
    const PATH: &str = "data/completions/island-metrics.bash";
    let text = read(PATH);
    let (_, cases) = text.split_once("    case $command in\n").unwrap();
    let (mut found, mut expected, mut name) = (Vec::new(), Vec::new(), "");
    for line in cases.lines() {
        if let Some(case) = line.strip_prefix("        '") {
            name = case.strip_suffix("')").unwrap();
        } else if let Some(lists) = line.strip_prefix("            words='") {
            let (words, flags) = lists.split_once("' flags='").unwrap();
            let (flags, _) = flags.split_once('\'').unwrap();
            found.extend(words.split(' ').map(|word| format!("{name}: {word}")));
            let flags = flags.split(' ').filter(|flag| !flag.is_empty());
            found.extend(flags.map(|flag| format!("{name}: {flag}")));
        }
    }
    let table = table();
    for entry in completed_flags(&table) {
        let (flag, rest) = entry.split_at(entry.find(": --").unwrap() + 2);
        let name = rest.split(':').next().unwrap();
        expected.push(format!("{flag}{name}"));
    }
    for entry in completed_words(&table) {
        let (name, rest) = entry.split_once(": ").unwrap();
        expected.push(format!("{name}: {}", rest.split(':').next().unwrap()));
    }
    assert!(found.iter().any(|entry| entry == "completions: zsh"));
    // Groups have no flags but `--help`; commands without words have an empty list of them, and
    // the words of an operand are in no help text.
    found.retain(|entry| {
        let shell = ["bash", "zsh", "fish"].map(|shell| format!("completions: {shell}"));
        !entry.ends_with(": ") && entry != "keys: --help" && !shell.contains(entry)
    });
    assert_entries(PATH, &found, &expected);
}

#[test]
fn the_zsh_completions_list_every_command_and_flag_with_its_help() {
    const PATH: &str = "data/completions/_island-metrics";
    let text = read(PATH);
    let (_, cases) = text.split_once("    case $command in\n").unwrap();
    let (mut flags, mut words, mut name) = (Vec::new(), Vec::new(), "");
    for line in cases.lines() {
        let entry = line.trim_start().replace("'\\''", "\u{1}");
        let unquoted = |text: &str| text.replace('\u{1}', "'").replace('\\', "");
        if let Some(case) = line.strip_prefix("        '") {
            name = case.strip_suffix("')").unwrap();
        } else if let Some(flag) = entry.trim_start_matches(['\'', '*']).strip_prefix("--") {
            let (flag, rest) = flag.split_once('[').unwrap();
            let rest = rest.replace("\\]", "\u{2}");
            let (help, _) = rest.split_once(']').unwrap();
            let flag = flag.trim_end_matches('=');
            flags.push(format!("{name}: --{flag}: {}", unquoted(help)));
        } else if let Some(word) = entry.strip_prefix('\'')
            && let Some((word, help)) = word.split_once(':')
            && word != "1"
        {
            let help = unquoted(help.strip_suffix('\'').unwrap());
            words.push(format!("{name}: {word}: {help}"));
        }
    }
    let table = table();
    assert_entries(PATH, &flags, &completed_flags(&table));
    assert_entries(PATH, &words, &completed_words(&table));
}

#[test]
fn the_fish_completions_list_every_command_and_flag_with_its_help() {
    const PATH: &str = "data/completions/island-metrics.fish";
    let text = read(PATH).replace("\\'", "\u{1}");
    let (mut flags, mut words) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("complete -c island-metrics -n '__island_metrics_is")
        else {
            continue;
        };
        let (name, rest) = rest.split_once("' ").unwrap();
        let name = name.trim_start();
        let (what, help) = rest.split_once(" -d '").unwrap_or((rest, ""));
        let help = help.trim_end_matches('\'').replace('\u{1}', "'");
        let what: Vec<&str> = what.split(' ').collect();
        match what[..] {
            ["-l", flag, ..] => flags.push(format!("{name}: --{flag}: {help}")),
            ["-a", word] => words.push(format!("{name}: {word}: {help}")),
            // The words of an operand, which are in no help text.
            _ => assert_eq!(what, ["-a", "'bash", "zsh", "fish'"]),
        }
    }
    let table = table();
    assert_entries(PATH, &flags, &completed_flags(&table));
    assert_entries(PATH, &words, &completed_words(&table));
}
