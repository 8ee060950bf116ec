//! The texts of `--help` and of the README's table of settings, from the table of flags.

use std::fmt::Write as _;

use super::flag::DefaultValue::{Absent, Described, Literal};
use super::flags::COMMANDS;

/// The text of `--help` for the commands that `name` matches: all if it is empty.
pub(crate) fn help(name: &str) -> String {
    let mut text = String::from(
        "island-metrics: a read-only JSON API over game islands\n\n\
         usage: island-metrics [COMMAND] [FLAGS]\n",
    );
    for command in COMMANDS.iter().filter(|command| command.matches(name)) {
        let operand = command.operand.unwrap_or_default();
        let usage = format!("\nisland-metrics {} {operand}", command.name);
        let _ = writeln!(text, "{}\n  {}", usage.trim_end(), command.help);
        for flag in command.flags {
            let (usage, description) = (flag.usage(), flag.description());
            let _ = write!(text, "    {usage:<27} {description}");
            let _ = match flag.default {
                Absent => writeln!(text),
                Literal(default) | Described(default) => writeln!(text, " ({default})"),
            };
        }
    }
    text.push_str(
        "\nEach flag may be set in the environment: --base-url as ISLAND_METRICS_BASE_URL.\n",
    );
    text
}

/// The README's table of the settings of `serve`.
#[cfg(test)]
fn readme_table() -> String {
    let mut text =
        String::from("| flag of `serve` | default | what it sets |\n| --- | --- | --- |\n");
    for flag in COMMANDS[0].flags {
        let default = match flag.default {
            Absent => String::new(),
            Literal(value) => format!("`{value}`"),
            Described(words) => words.to_owned(),
        };
        let (usage, description) = (flag.usage(), flag.description());
        let _ = writeln!(text, "| `{usage}` | {default} | {description} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::durable;

    /// `IM_TEST_REWRITE=1 cargo test --lib readme` rewrites the README's table.
    #[test]
    fn the_readme_shows_the_settings_as_they_are() {
        const MARKS: [&str; 2] = ["<!-- flags -->\n", "<!-- /flags -->\n"];
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let readme = fs::read_to_string(&path).unwrap();
        let (before, rest) = readme.split_once(MARKS[0]).unwrap();
        let (shown, after) = rest.split_once(MARKS[1]).unwrap();
        let table = readme_table();
        if std::env::var_os("IM_TEST_REWRITE").is_some() {
            let text = [before, MARKS[0], &table, MARKS[1], after].concat();
            durable::replace(&path, text.as_bytes()).unwrap();
        } else {
            assert_eq!(shown, table, "IM_TEST_REWRITE=1 rewrites it");
        }
    }

    #[test]
    fn help_of_one_command_shows_no_other() {
        let text = help("keys issue");
        assert!(text.contains("--tier TIER                 free, starter or pro (free)\n"));
        assert!(!text.contains("--listen"));
        assert!(help("keys").contains("island-metrics keys revoke ID\n"));
        assert!(help("").contains("\nisland-metrics serve\n"));
    }
}
