//! The words of the command line, and the environment behind them, as values of flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use super::failure::Failure;
use super::flags::{COMMANDS, Command, variable};

/// A command and the values of its flags.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) command: &'static Command,
    pub(crate) wants_help: bool,
    pub(crate) wants_version: bool,
    given: BTreeMap<&'static str, Vec<String>>,
}

impl Arguments {
    /// Reads the words. Flags over environment.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments, Failure> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut arguments = Arguments {
            command: &COMMANDS[0],
            wants_help: false,
            wants_version: false,
            given: BTreeMap::new(),
        };
        let mut named = false;
        while let Some(word) = parser.next().map_err(Failure::usage)? {
            match word {
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => arguments.wants_help = true,
                lexopt::Arg::Long("version") | lexopt::Arg::Short('V') => {
                    arguments.wants_version = true;
                }
                lexopt::Arg::Long(name) => {
                    let flag = arguments
                        .command
                        .flags
                        .iter()
                        .find(|flag| flag.name == name);
                    let command = arguments.command.name;
                    let flag = flag
                        .ok_or_else(|| Failure::usage(format!("{command} has no flag --{name}")))?;
                    let value = match flag.value {
                        Some(_) => text(parser.value().map_err(Failure::usage)?)?,
                        None => String::new(),
                    };
                    let values = arguments.given.entry(flag.name).or_default();
                    values.push(value);
                    if values.len() > 1 && !flag.repeatable {
                        return Err(Failure::usage(format!(
                            "--{} is given twice; want it once",
                            flag.name
                        )));
                    }
                }
                lexopt::Arg::Value(word) if !named && arguments.given.is_empty() => {
                    let word = text(word)?;
                    let command = COMMANDS.iter().find(|command| command.name == word);
                    arguments.command =
                        command.ok_or_else(|| Failure::usage(format!("no command {word:?}")))?;
                    named = true;
                }
                other => return Err(Failure::usage(other.unexpected())),
            }
        }
        arguments.read_environment();
        Ok(arguments)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the environment is read"
    )]
    fn read_environment(&mut self) {
        for flag in self.command.flags {
            if let Ok(value) = std::env::var(variable(flag)) {
                let values = || match (flag.value, flag.repeatable) {
                    (None, _) => vec![String::new()],
                    (Some(_), true) => value
                        .split(',')
                        .map(|part| part.trim().to_owned())
                        .collect(),
                    (Some(_), false) => vec![value.clone()],
                };
                let off = flag.value.is_none() && matches!(value.as_str(), "" | "0" | "false");
                if !off {
                    self.given.entry(flag.name).or_insert_with(values);
                }
            }
        }
    }

    /// All values of a flag.
    pub(crate) fn all<T: FromStr>(&self, name: &str, want: &str) -> Result<Vec<T>, Failure>
    where
        T::Err: fmt::Display,
    {
        let values = self.given.get(name).map(Vec::as_slice).unwrap_or_default();
        let parse = |value: &String| {
            value
                .parse()
                .map_err(|_| Failure::configuration(format!("--{name} is {value:?}; want {want}")))
        };
        values.iter().map(parse).collect()
    }

    /// The value of a flag, if it was given.
    pub(crate) fn one<T: FromStr>(&self, name: &str, want: &str) -> Result<Option<T>, Failure>
    where
        T::Err: fmt::Display,
    {
        Ok(self.all(name, want)?.pop())
    }

    /// The value of a flag without which the command has no meaning.
    pub(crate) fn required<T: FromStr>(&self, name: &str, want: &str) -> Result<T, Failure>
    where
        T::Err: fmt::Display,
    {
        let missing = || Failure::usage(format!("{} wants --{name}", self.command.name));
        self.one(name, want)?.ok_or_else(missing)
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }
}

fn text(word: OsString) -> Result<String, Failure> {
    word.into_string()
        .map_err(|word| Failure::usage(format!("{} is not UTF-8", word.display())))
}
