//! The words of the command line, and the environment behind them, as values of flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use super::closest::closest;
use super::error::CliError;
use super::flag::{Command, DefaultValue, Flag, PREFIX, Value};
use super::flags::{COMMANDS, matches_name};

/// A command and the values of its flags.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) command: &'static Command,
    /// The words of the command's name that were given; none means the first command.
    pub(crate) name: String,
    pub(crate) help_requested: bool,
    pub(crate) version_requested: bool,
    /// The word after the command's name, for a command that has one.
    pub(crate) operand: Option<String>,
    given: BTreeMap<&'static str, FlagValues>,
}

/// The values that a flag was given.
#[derive(Debug)]
struct FlagValues {
    values: Vec<String>,
    /// What a person would look for to change it: `--listen` or `ISLAND_METRICS_LISTEN`.
    place: String,
}

impl Arguments {
    /// Reads the words, and the environment behind them. Flags over environment over defaults.
    pub(crate) fn parse(
        words: impl Iterator<Item = OsString>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Arguments, CliError> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut arguments = Arguments {
            command: &COMMANDS[0],
            name: String::new(),
            help_requested: false,
            version_requested: false,
            operand: None,
            given: BTreeMap::new(),
        };
        while let Some(word) = parser.next().map_err(CliError::usage)? {
            match word {
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => {
                    arguments.help_requested = true
                }
                lexopt::Arg::Long("version") | lexopt::Arg::Short('V') => {
                    arguments.version_requested = true;
                }
                lexopt::Arg::Long(flag) => {
                    whole(&arguments.name, &arguments.name)?;
                    let flag = arguments.flag(flag)?;
                    let value = match flag.value {
                        Some(_) => parser.value().map_err(CliError::usage)?,
                        None => OsString::new(),
                    };
                    arguments.give(flag, value)?;
                }
                lexopt::Arg::Value(word) => arguments.take_word(text(word)?)?,
                lexopt::Arg::Short(_) => return Err(CliError::usage(word.unexpected())),
            }
        }
        // Who asks for help may be asking because the environment is not right.
        if !arguments.help_requested && !arguments.version_requested {
            whole(&arguments.name, &arguments.name)?;
            arguments.take_environment(environment)?;
        }
        Ok(arguments)
    }

    /// A word that belongs to no flag: of the command's name, or its operand.
    fn take_word(&mut self, word: String) -> Result<(), CliError> {
        let name = &self.name;
        let longer = if name.is_empty() {
            word.clone()
        } else {
            format!("{name} {word}")
        };
        let begun = COMMANDS
            .iter()
            .find(|command| matches_name(command, &longer));
        match begun {
            Some(command) if self.given.is_empty() && self.operand.is_none() => {
                self.command = command;
                self.name = longer;
                Ok(())
            }
            _ if name.is_empty() && self.given.is_empty() => {
                // What has an underscore is no mistyped command, but may be a key.
                let shown = if word.contains('_') {
                    "of this name"
                } else {
                    &word
                };
                let meant = meant_command(&word);
                Err(CliError::usage(format!("no command {shown}{meant}")))
            }
            _ if self.command.name == *name && self.command.operand.is_some() => {
                match self.operand.replace(word) {
                    None => Ok(()),
                    // The first may be a key, so neither is repeated.
                    Some(_) => Err(CliError::usage(format!("{name} wants one word"))),
                }
            }
            // The word is not repeated: it may be a key.
            _ => {
                whole(name, &longer)?;
                Err(CliError::usage(
                    "a word stands where none is wanted; the command comes first",
                ))
            }
        }
    }

    fn flag(&self, name: &str) -> Result<&'static Flag, CliError> {
        let flags = self.command.flags;
        flags.iter().find(|flag| flag.name == name).ok_or_else(|| {
            let command = self.command.name;
            // As with commands: what has an underscore may be a key.
            let shown = if name.contains('_') {
                "of this name".to_owned()
            } else {
                format!("--{name}")
            };
            let dashed = name.replace('_', "-").to_lowercase();
            let meant = closest(
                &dashed,
                flags
                    .iter()
                    .map(|flag| flag.name)
                    .chain(["help", "version"]),
            )
            .map_or_else(String::new, |meant| format!("; did you mean --{meant}?"));
            CliError::usage(format!("{command} has no flag {shown}{meant}"))
        })
    }

    fn give(&mut self, flag: &'static Flag, value: OsString) -> Result<(), CliError> {
        let place = format!("--{}", flag.name);
        let value = value
            .into_string()
            .map_err(|_| self.bad_value(format!("{place} is not UTF-8")))?;
        if flag.value.is_some() && value.is_empty() {
            return Err(self.bad_value(format!("{place} is empty; want a value")));
        }
        if !flag.repeatable && self.given.contains_key(flag.name) {
            return Err(CliError::usage(format!(
                "{place} is given twice; want it once"
            )));
        }
        let values = Vec::new();
        let given = self.given.entry(flag.name);
        let given = given.or_insert(FlagValues { values, place });
        given.values.push(value);
        Ok(())
    }

    fn take_environment(
        &mut self,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(), CliError> {
        // In order, so that the same environment is always told of the same fault.
        let ours: BTreeMap<String, OsString> = environment
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        if self.command.name == "serve" {
            ours.keys().try_for_each(|name| known(name))?;
        }
        for flag in self.command.flags {
            let place = flag.variable();
            let Some(value) = ours.get(&place) else {
                continue;
            };
            // An empty one is as good as none.
            if value.is_empty() || self.given.contains_key(flag.name) {
                continue;
            }
            let value = value
                .to_str()
                .ok_or_else(|| self.bad_value(format!("{place} is not UTF-8")))?;
            let values: Vec<String> = match (flag.value, value) {
                (None, "1" | "true") => vec![String::new()],
                (None, "0" | "false") => continue,
                (None, _) => {
                    let want = "1, true, 0 or false";
                    return Err(self.bad_value(format!("{place} is {value:?}; want {want}")));
                }
                (Some(_), _) if flag.repeatable => {
                    let parts = value.split(',').map(str::trim);
                    parts
                        .filter(|part| !part.is_empty())
                        .map(str::to_owned)
                        .collect()
                }
                (Some(_), _) => vec![value.to_owned()],
            };
            if values.is_empty() {
                let want = "values between the commas";
                return Err(self.bad_value(format!("{place} is {value:?}; want {want}")));
            }
            self.given.insert(flag.name, FlagValues { values, place });
        }
        Ok(())
    }

    /// A flag's values as they stand; the one of the table where none was given and it has one.
    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let mut flags = self.command.flags.iter();
        let flag = flags.find(|flag| flag.name == name);
        match (self.given.get(name), flag.map(|flag| flag.default)) {
            (Some(given), _) => given.values.iter().map(String::as_str).collect(),
            (None, Some(DefaultValue::Value(value))) => vec![value],
            (None, _) => Vec::new(),
        }
    }

    /// Where a flag's values come from: `--listen`, `ISLAND_METRICS_LISTEN`, or nowhere.
    pub(crate) fn origin(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(|given| given.place.as_str())
    }

    /// What a person would look for to change a flag's value.
    pub(crate) fn place(&self, name: &str) -> String {
        let origin = self.origin(name).map(str::to_owned);
        origin.unwrap_or_else(|| format!("--{name}"))
    }

    /// All values of a flag.
    pub(crate) fn all<T: FromStr>(&self, name: &str, want: &str) -> Result<Vec<T>, CliError>
    where
        T::Err: fmt::Display,
    {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                let place = self.place(name);
                self.bad_value(format!("{place} is {text:?}; want {want}"))
            })
        };
        self.texts(name).into_iter().map(parse).collect()
    }

    /// What a server is started with is its configuration; other commands are used once.
    pub(crate) fn bad_value(&self, message: String) -> CliError {
        if self.command.name == "serve" {
            CliError::configuration(message)
        } else {
            CliError::usage(message)
        }
    }

    /// The value of a flag, if it was given.
    pub(crate) fn one<T: FromStr>(&self, name: &str, want: &str) -> Result<Option<T>, CliError>
    where
        T::Err: fmt::Display,
    {
        Ok(self.all(name, want)?.pop())
    }

    /// The value of a flag that is a number within the table's bounds, if it has one.
    pub(crate) fn number_if_given<T: TryFrom<u64>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, CliError> {
        let mut flags = self.command.flags.iter();
        let flag = flags.find(|flag| flag.name == name);
        let Some(Value::Number(least, most)) = flag.and_then(|flag| flag.value) else {
            unreachable!("--{name} is no number");
        };
        let Some(text) = self.texts(name).pop() else {
            return Ok(None);
        };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_plain);
        let number = number.filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| {
            let place = self.place(name);
            self.bad_value(format!(
                "{place} is {text}; want a number from {least} to {most}"
            ))
        })
    }

    /// The same, of a flag to which the table gives a value where none is given.
    pub(crate) fn number<T: TryFrom<u64>>(&self, name: &str) -> Result<T, CliError> {
        let number = self.number_if_given(name)?;
        Ok(number.expect("the table has a value"))
    }

    /// The word that follows the command's name.
    pub(crate) fn operand<T: FromStr>(&self, want: &str) -> Result<T, CliError> {
        let name = self.command.name;
        let word = self.operand.as_deref();
        // Not repeated: it may be a key.
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| CliError::usage(format!("{name} wants {want}")))
    }

    /// The value of a flag without which the command has no meaning.
    pub(crate) fn required<T: FromStr>(&self, name: &str, want: &str) -> Result<T, CliError>
    where
        T::Err: fmt::Display,
    {
        let missing = || CliError::usage(format!("{} wants --{name}", self.command.name));
        self.one(name, want)?.ok_or_else(missing)
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }
}

/// Refuses a variable that belongs to no flag: it was meant to set something, and does not.
fn known(name: &str) -> Result<(), CliError> {
    let flags = COMMANDS.iter().flat_map(|command| command.flags);
    let variables: Vec<String> = flags.map(Flag::variable).collect();
    if variables.iter().any(|variable| variable == name) {
        return Ok(());
    }
    let short = |name: &str| name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let meant = closest(
        &short(&name.to_uppercase()),
        variables.iter().map(|name| short(name)),
    );
    let hint = meant.map_or_else(
        || "`island-metrics serve --help` lists the settings".to_owned(),
        |meant| format!("did you mean {PREFIX}{meant}?"),
    );
    Err(CliError::configuration(format!(
        "{name} is no setting; {hint}"
    )))
}

/// The command that was meant, as a question to add; nothing if it resembles none.
fn meant_command(word: &str) -> String {
    let first = |command: &Command| command.name.split(' ').next();
    closest(word, COMMANDS.iter().filter_map(first))
        .map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Refuses a command's name of which a word is missing, as `keys`, or wrong, as the last one of
/// these longer words, which is not repeated: it may be a key.
fn whole(name: &str, longer: &str) -> Result<(), CliError> {
    let begun = COMMANDS
        .iter()
        .filter(|command| matches_name(command, name));
    let names: Vec<&str> = begun.map(|command| command.name).collect();
    if name.is_empty() || names == [name] {
        return Ok(());
    }
    let meant = closest(longer, names.iter().copied()).filter(|_| longer != name);
    let hint = meant.map_or_else(
        || format!("want {}", names.join(", ")),
        |meant| format!("did you mean {meant}?"),
    );
    Err(CliError::usage(format!(
        "{name} is no whole command; {hint}"
    )))
}

fn text(word: OsString) -> Result<String, CliError> {
    word.into_string()
        .map_err(|word| CliError::usage(format!("{} is not UTF-8", word.display())))
}
