//! What a command and a flag are, for the table of them all.

use std::fmt::Write as _;

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The one word that follows the name; `None` where none does.
    pub(crate) operand: Option<Value>,
    pub(crate) flags: &'static [Flag],
}

/// A flag. Its environment variable is `ISLAND_METRICS_` and the name in capitals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// `None` for a switch.
    pub(crate) value: Option<Value>,
    pub(crate) default: DefaultValue,
    pub(crate) help: &'static str,
    pub(crate) repeatable: bool,
}

/// What a value is: shown in help.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// A text, and what stands for it in help.
    Text(&'static str),
    /// A number, and its bounds.
    Number(u64, u64),
    /// A directory.
    Directory,
    /// A file.
    File,
}

/// What holds where a flag is not given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// Nothing: a switch is off, and a value is wanted by the command or has no part in it.
    None,
    /// The same as if this value was given.
    Value(&'static str),
    /// What these words say; the command sees to it.
    Described(&'static str),
}

pub(crate) const fn flag(name: &'static str, value: Value, help: &'static str) -> Flag {
    Flag {
        name,
        value: Some(value),
        default: DefaultValue::None,
        help,
        repeatable: false,
    }
}

pub(crate) const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        value: None,
        default: DefaultValue::None,
        help,
        repeatable: false,
    }
}

impl Flag {
    /// With a value that holds where none is given.
    pub(crate) const fn or(self, value: &'static str) -> Flag {
        Flag {
            default: DefaultValue::Value(value),
            ..self
        }
    }

    /// With words for what holds where none is given.
    pub(crate) const fn or_else(self, words: &'static str) -> Flag {
        Flag {
            default: DefaultValue::Described(words),
            ..self
        }
    }

    pub(crate) const fn repeatable(self) -> Flag {
        Flag {
            repeatable: true,
            ..self
        }
    }

    /// Its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// What it means, with the bounds of a number that mean anything.
    pub(crate) fn described(&self) -> String {
        let mut text = self.help.to_owned();
        // Bounds that only come from the width of an integer tell nobody anything.
        if let Some(Value::Number(least, most)) = self.value
            && most < u32::MAX.into()
        {
            let _ = write!(text, "; {least} to {most}");
        }
        if self.repeatable {
            text.push_str("; may be given again");
        }
        text
    }
}

impl Value {
    /// What stands for it in help.
    pub(crate) const fn shown(self) -> &'static str {
        match self {
            Value::Text(shown) => shown,
            Value::Number(..) => "N",
            Value::Directory => "DIR",
            Value::File => "PATH",
        }
    }
}

/// What the environment variables of all flags begin with.
pub(crate) const PREFIX: &str = "ISLAND_METRICS_";
