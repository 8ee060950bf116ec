//! Texts made from the table of flags: `--help` and `serve --print-config`.

use std::fmt::Write as _;

use super::arguments::Arguments;
use super::flags::DefaultValue::{Absent, Described, Literal};
use super::flags::{COMMANDS, Flag, ValueKind};
use crate::server::Settings;

/// The text of `--help` for the commands that `name` matches: all if it is empty. That of a command begins with its
/// usage.
pub(crate) fn help(name: &str) -> String {
    let mut text = String::new();
    if name.is_empty() {
        text.push_str(
            "island-metrics: a read-only JSON API for game islands\n\n\
             usage: island-metrics [COMMAND] [FLAGS]\n\n",
        );
    }
    for command in COMMANDS.iter().filter(|command| command.matches(name)) {
        let has_flags = !name.is_empty() && !command.flags.is_empty();
        let parts = [
            if name.is_empty() { "" } else { "usage:" },
            "island-metrics",
            command.name,
            command.operand,
            if has_flags { "[FLAGS]" } else { "" },
        ];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let usage: Vec<&str> = parts.collect();
        let _ = writeln!(text, "{}\n  {}", usage.join(" "), command.help);
        for flag in command.flags {
            let (usage, description) = (flag.usage(), flag.description());
            let _ = write!(text, "    {usage:<26}  {description}");
            let _ = match flag.default {
                Absent => writeln!(text),
                Literal(default) | Described(default) => writeln!(text, " ({default})"),
            };
        }
        text.push('\n');
    }
    text.push_str(
        "Each flag can also be set in the environment: --base-url as ISLAND_METRICS_BASE_URL.\n",
    );
    text
}

/// The output of `serve --print-config`: name, value and source of every setting, in the order of the
/// table and in aligned columns. None of them is a secret.
///
/// One line per setting, for `grep` and for `diff` between machines. It is not a configuration file
/// on purpose: a file that lists every default would keep old defaults across upgrades.
pub(super) fn settings_text(arguments: &Arguments, settings: &Settings) -> String {
    let flags = arguments.command.flags.iter();
    let flags = flags.filter(|flag| flag.name != "print-config");
    let value = |flag: &Flag| match (flag.default, arguments.texts(flag.name)) {
        _ if flag.value == ValueKind::Switch => u8::from(arguments.has(flag.name)).to_string(),
        _ if flag.name == "listen" && settings.listen.is_empty() => "(none)".to_owned(),
        // Joined as in the environment. A path may contain line breaks; a setting has one line.
        (_, texts) if !texts.is_empty() => texts.join(",").replace(char::is_control, "\u{fffd}"),
        _ if flag.name == "workers" => settings.workers.to_string(),
        (Described(words), _) => format!("({words})"),
        (Absent | Literal(_), _) => String::new(),
    };
    let rows: Vec<(&Flag, String)> = flags.map(|flag| (flag, value(flag))).collect();
    let name_width = rows.iter().map(|(flag, _)| flag.name.len()).max();
    let value_width = rows.iter().map(|(_, value)| value.chars().count()).max();
    let (name_width, value_width) = (name_width.unwrap_or(0), value_width.unwrap_or(0));
    let mut text = String::new();
    for (Flag { name, .. }, value) in &rows {
        let source = if arguments.has(name) {
            arguments.source(name)
        } else {
            "default".to_owned()
        };
        let _ = writeln!(
            text,
            "{name:<name_width$} = {value:<value_width$}  # {source}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_one_command_shows_no_other() {
        let text = help("keys issue");
        assert!(text.starts_with("usage: island-metrics keys issue [FLAGS]\n  issues a key"));
        assert!(text.contains("--tier TIER                 free, starter or pro (free)\n"));
        assert!(!text.contains("--listen"));
        assert!(help("keys").contains("\n\nusage: island-metrics keys revoke ID [FLAGS]\n"));
        assert!(help("completions").starts_with("usage: island-metrics completions SHELL\n"));
        assert!(help("").contains("\nisland-metrics serve\n"));
    }
}
