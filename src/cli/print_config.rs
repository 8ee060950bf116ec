//! `serve --print-config`: every setting, what it is, and who says so.
//!
//! One line a setting, so that `grep` finds it and `diff` compares two machines. It is no file to
//! start a server from, on purpose: one that names every default would keep them when a new
//! version has better ones. The last column tells where to look to change the value.

use std::fmt::Write as _;

use super::arguments::Arguments;
use super::flag::{DefaultValue, Flag};
use crate::server::Settings;

/// The settings, in the table's order. None of them is a secret.
pub(super) fn settings_text(arguments: &Arguments, settings: &Settings) -> String {
    let flags = arguments.command.flags.iter();
    let rows: Vec<(&str, String, &str)> = flags
        .filter(|flag| flag.value.is_some())
        .map(|flag| {
            let origin = arguments.origin(flag.name).unwrap_or("default");
            (flag.name, value(flag, arguments, settings), origin)
        })
        .collect();
    let width = |text: &dyn Fn(&(&str, String, &str)) -> usize| {
        rows.iter().map(text).max().unwrap_or_default()
    };
    let name_width = width(&|row| row.0.len());
    let value_width = width(&|row| row.1.chars().count());
    let mut text = String::new();
    for (name, value, origin) in &rows {
        let _ = writeln!(
            text,
            "{name:<name_width$} = {value:<value_width$}  # {origin}"
        );
    }
    text
}

/// A value as it may be given; in brackets, words where there is none.
fn value(flag: &Flag, arguments: &Arguments, settings: &Settings) -> String {
    let texts = arguments.texts(flag.name);
    if !texts.is_empty() {
        // As the environment takes several. A path may hold anything, and gets one line.
        let line = texts.join(",");
        return line.replace(char::is_control, "\u{fffd}");
    }
    match (flag.name, flag.default) {
        ("workers", _) => settings.workers.to_string(),
        (_, DefaultValue::Described(words)) => format!("({words})"),
        (_, DefaultValue::None | DefaultValue::Value(_)) => String::new(),
    }
}
