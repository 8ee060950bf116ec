//! Completions of fish.

use std::fmt::Write as _;

use super::{begun_names, next_words};
use crate::cli::flag::{Command, Value};
use crate::cli::flags::COMMANDS;

const HEAD: &str = r"# Completions of island-metrics for fish: island-metrics completions fish | source
function __island_metrics_is --description 'Whether the words so far are this command'
    set -l named
    for word in (commandline -opc)[2..]
        switch (string join ' ' -- $named $word)
";

const TAIL: &str = r#"                set -a named $word
            case '*'
                break
        end
    end
    test "$named" = "$argv"
end
complete -c island-metrics -f
"#;

/// The script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    let begun = begun_names();
    let quoted: Vec<String> = begun.iter().map(|name| format!("'{name}'")).collect();
    let _ = writeln!(text, "            case {}", quoted.join(" "));
    text.push_str(TAIL);
    for name in [""].iter().chain(&begun) {
        for (word, help) in next_words(name) {
            write_line(&mut text, name, &format!("-a {word}"), help);
        }
        // Without a name it is the first command.
        let named = COMMANDS.iter().find(|command| command.name == *name);
        if let Some(command) = named.or(COMMANDS.first().filter(|_| name.is_empty())) {
            write_command(&mut text, name, command);
        }
    }
    text
}

fn write_command(text: &mut String, name: &str, command: &Command) {
    for flag in command.flags {
        let value = match flag.value {
            None => String::new(),
            Some(Value::Text(_) | Value::Number(..)) => " -x".to_owned(),
            Some(Value::Directory) => " -x -a '(__fish_complete_directories)'".to_owned(),
            Some(Value::File) => " -r -F".to_owned(),
            Some(Value::Words(_, words)) => format!(" -x -a '{}'", words.join(" ")),
        };
        write_line(
            text,
            name,
            &format!("-l {}{value}", flag.name),
            &flag.described(),
        );
    }
    if let Some(Value::Words(_, words)) = command.operand {
        write_line(text, name, &format!("-a '{}'", words.join(" ")), "");
    }
    write_line(text, name, "-l help", "says what there is");
}

/// A line that holds behind the words of this name.
fn write_line(text: &mut String, name: &str, what: &str, help: &str) {
    let condition = format!("__island_metrics_is {name}");
    let _ = write!(
        text,
        "complete -c island-metrics -n '{}' {what}",
        condition.trim_end()
    );
    if !help.is_empty() {
        let help = help.replace('\\', r"\\").replace('\'', r"\'");
        let _ = write!(text, " -d '{help}'");
    }
    text.push('\n');
}
