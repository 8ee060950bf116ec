//! Completions of zsh.

use std::fmt::Write as _;

use super::{begun_names, next_words};
use crate::cli::flag::{Command, Flag, Value};
use crate::cli::flags::COMMANDS;

const HEAD: &str = r#"#compdef island-metrics
# Completions of island-metrics for zsh: source <(island-metrics completions zsh), or as a file
# _island-metrics in a directory of $fpath.
_island_metrics() {
    local command= at=2
    local -a next
    while (( at < CURRENT )); do
        case "${command:+$command }${words[at]}" in
"#;

const MIDDLE: &str = r#"            *) break ;;
        esac
        (( at++ ))
    done
    # What is left is a command and its own words.
    words=("${words[1]}" "${(@)words[at,-1]}")
    (( CURRENT -= at - 2 ))
    case $command in
"#;

const TAIL: &str = r#"    esac
}
if [[ ${funcstack[1]} == _island-metrics ]]; then
    _island_metrics "$@"
else
    compdef _island_metrics island-metrics
fi
"#;

/// The script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    let begun = begun_names();
    let quoted: Vec<String> = begun.iter().map(|name| format!("'{name}'")).collect();
    let list = quoted.join("|");
    let _ = writeln!(
        text,
        "            {list}) command=\"${{command:+$command }}${{words[at]}}\" ;;"
    );
    text.push_str(MIDDLE);
    for name in [""].iter().chain(&begun) {
        let _ = writeln!(text, "        '{name}')");
        let next = next_words(name);
        if !next.is_empty() {
            text.push_str("            next=(\n");
            for (word, help) in next {
                let _ = writeln!(text, "                {}", quote(&format!("{word}:{help}")));
            }
            text.push_str("            )\n");
            text.push_str("            if (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then\n");
            text.push_str("                _describe -t commands command next\n");
            text.push_str("                return\n            fi\n");
        }
        // Without a name it is the first command.
        let named = COMMANDS.iter().find(|command| command.name == *name);
        if let Some(command) = named.or(COMMANDS.first().filter(|_| name.is_empty())) {
            write_arguments(&mut text, command);
        }
        text.push_str("            ;;\n");
    }
    text.push_str(TAIL);
    text
}

fn write_arguments(text: &mut String, command: &Command) {
    text.push_str("            _arguments \\\n");
    for flag in command.flags {
        let _ = writeln!(text, "                {} \\", quote(&specification(flag)));
    }
    if let Some(value) = command.operand {
        let (shown, action) = (value.shown(), action(value));
        let _ = writeln!(
            text,
            "                {} \\",
            quote(&format!("1:{shown}:{action}"))
        );
    }
    text.push_str("                '--help[says what there is]'\n");
}

/// A flag as `_arguments` wants it.
fn specification(flag: &Flag) -> String {
    let (name, described) = (flag.name, escape(&flag.described()));
    let again = if flag.repeatable { "*" } else { "" };
    match flag.value {
        None => format!("{again}--{name}[{described}]"),
        Some(value) => {
            let (shown, action) = (value.shown(), action(value));
            format!("{again}--{name}=[{described}]:{shown}:{action}")
        }
    }
}

fn action(value: Value) -> String {
    match value {
        Value::Text(_) | Value::Number(..) => " ".to_owned(),
        Value::Directory => "_files -/".to_owned(),
        Value::File => "_files".to_owned(),
        Value::Words(_, words) => format!("({})", words.join(" ")),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "[]:\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
