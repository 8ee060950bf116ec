//! The output of `serve --print-config`: name, value and source of every setting.
//!
//! One line per setting, for `grep` and for `diff` between machines. It is not a configuration file
//! on purpose: a file that lists every default would keep old defaults across upgrades.

use std::fmt::Write as _;

use super::arguments::Arguments;
use super::flag::{DefaultValue, Flag};
use crate::server::Settings;

/// The settings in the order of the table, in aligned columns. None of them is a secret.
pub(super) fn settings_text(arguments: &Arguments, settings: &Settings) -> String {
    let flags = arguments.command.flags.iter();
    let rows: Vec<(&Flag, String)> = flags
        .filter(|flag| flag.value.is_some())
        .map(|flag| (flag, value(flag, arguments, settings)))
        .collect();
    let name_width = rows.iter().map(|(flag, _)| flag.name.len()).max();
    let value_width = rows.iter().map(|(_, value)| value.chars().count()).max();
    let (name_width, value_width) = (name_width.unwrap_or(0), value_width.unwrap_or(0));
    let mut text = String::new();
    for (Flag { name, .. }, value) in &rows {
        let source = arguments.origin(name).unwrap_or("default");
        let _ = writeln!(
            text,
            "{name:<name_width$} = {value:<value_width$}  # {source}"
        );
    }
    text
}

/// A value in the form that its flag accepts, or the description of a default in parentheses.
fn value(flag: &Flag, arguments: &Arguments, settings: &Settings) -> String {
    let texts = arguments.texts(flag.name);
    match flag.default {
        // Joined as in the environment. A path may contain line breaks; a setting has one line.
        _ if !texts.is_empty() => texts.join(",").replace(char::is_control, "\u{fffd}"),
        _ if flag.name == "workers" => settings.workers.to_string(),
        DefaultValue::Described(words) => format!("({words})"),
        DefaultValue::Absent | DefaultValue::Literal(_) => String::new(),
    }
}
