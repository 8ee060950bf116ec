//! Types of the table of commands and flags.

use std::fmt::Write as _;

/// Prefix of the environment variables of all flags.
pub(crate) const VARIABLE_PREFIX: &str = "ISLAND_METRICS_";

/// A command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// One word, or a group and a subcommand: `keys issue`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Placeholder of the one positional argument, if the command takes one.
    pub(crate) operand: Option<&'static str>,
    pub(crate) flags: &'static [Flag],
}

impl Command {
    /// The same command with a positional argument.
    pub(crate) const fn with_operand(self, placeholder: &'static str) -> Command {
        Command {
            operand: Some(placeholder),
            ..self
        }
    }

    /// Whether `words` are the command's name or its first words; no words match every command.
    pub(crate) fn matches(&self, words: &str) -> bool {
        let rest = self.name.strip_prefix(words);
        words.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// A flag of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// `None` for a switch.
    pub(crate) value: Option<ValueKind>,
    pub(crate) default: DefaultValue,
    pub(crate) help: &'static str,
    pub(crate) repeatable: bool,
}

/// The kind of a flag's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueKind {
    /// Text: its placeholder in help, and its required form for error messages.
    Text(&'static str, &'static str),
    /// An integer within inclusive bounds.
    Integer(u64, u64),
    Directory,
    File,
}

/// The default of a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// None: a switch is off; a value is required or optional.
    Absent,
    /// The same as giving this value.
    Literal(&'static str),
    /// A default computed by the command, described for help.
    Described(&'static str),
}

/// A flag with a value.
pub(crate) const fn flag(
    name: &'static str,
    value: ValueKind,
    default: DefaultValue,
    help: &'static str,
) -> Flag {
    Flag {
        value: Some(value),
        default,
        ..switch(name, help)
    }
}

/// A flag without a value.
pub(crate) const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        value: None,
        default: DefaultValue::Absent,
        help,
        repeatable: false,
    }
}

impl Flag {
    /// The same flag, accepted more than once.
    pub(crate) const fn repeatable(self) -> Flag {
        Flag {
            repeatable: true,
            ..self
        }
    }

    /// The flag's environment variable: `ISLAND_METRICS_BASE_URL` for `--base-url`.
    pub(crate) fn variable(&self) -> String {
        let name = self.name.to_uppercase().replace('-', "_");
        format!("{VARIABLE_PREFIX}{name}")
    }

    /// The flag with the placeholder of its value: `--workers N`.
    pub(crate) fn usage(&self) -> String {
        let placeholder = match self.value {
            None => "",
            Some(ValueKind::Text(placeholder, _)) => placeholder,
            Some(ValueKind::Integer(..)) => "N",
            Some(ValueKind::Directory) => "DIR",
            Some(ValueKind::File) => "PATH",
        };
        let usage = format!("--{} {placeholder}", self.name);
        usage.trim_end().to_owned()
    }

    /// The help text with bounds and repeatability. Bounds from the width of an integer type are
    /// left out.
    pub(crate) fn description(&self) -> String {
        let mut text = self.help.to_owned();
        if let Some(ValueKind::Integer(min, max)) = self.value
            && max < u32::MAX.into()
        {
            let _ = write!(text, "; {min} to {max}");
        }
        if self.repeatable {
            text.push_str("; repeatable");
        }
        text
    }

    /// The required form of the value, for error messages.
    pub(crate) fn expected(&self) -> String {
        match self.value {
            Some(ValueKind::Text(_, expected)) => expected.to_owned(),
            Some(ValueKind::Integer(min, max)) => format!("an integer from {min} to {max}"),
            Some(ValueKind::Directory) => "a directory".to_owned(),
            Some(ValueKind::File) => "a file".to_owned(),
            None => "1, true, 0 or false".to_owned(),
        }
    }
}
