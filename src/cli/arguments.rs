//! The words of the command line, and the environment behind them, as values of flags.

use std::collections::BTreeMap;
use std::env::VarError;
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::failure::Failure;
use super::flags::{COMMANDS, Command, Flag, is_begun_by, variable};

/// A command and the values of its flags.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) command: &'static Command,
    /// The words of the command's name that were given; none means the first command.
    pub(crate) name: String,
    pub(crate) wants_help: bool,
    pub(crate) wants_version: bool,
    /// The word after the command's name, for a command that has one.
    pub(crate) operand: Option<String>,
    given: BTreeMap<&'static str, Vec<String>>,
}

impl Arguments {
    /// Reads the words. Flags over environment.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments, Failure> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut arguments = Arguments {
            command: &COMMANDS[0],
            name: String::new(),
            wants_help: false,
            wants_version: false,
            operand: None,
            given: BTreeMap::new(),
        };
        while let Some(word) = parser.next().map_err(Failure::usage)? {
            match word {
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => arguments.wants_help = true,
                lexopt::Arg::Long("version") | lexopt::Arg::Short('V') => {
                    arguments.wants_version = true;
                }
                lexopt::Arg::Long(flag) => {
                    whole(&arguments.name)?;
                    let flag = arguments.flag(flag)?;
                    let value = match flag.value {
                        Some(_) => match text(parser.value().map_err(Failure::usage)?)? {
                            value if value.is_empty() => {
                                let name = flag.name;
                                let empty = format!("--{name} is empty; want a value");
                                return Err(arguments.bad_value(empty));
                            }
                            value => value,
                        },
                        None => String::new(),
                    };
                    arguments.give(flag, value)?;
                }
                lexopt::Arg::Value(word) => arguments.take_word(text(word)?)?,
                lexopt::Arg::Short(_) => return Err(Failure::usage(word.unexpected())),
            }
        }
        if !arguments.wants_help {
            whole(&arguments.name)?;
        }
        arguments.read_environment()?;
        Ok(arguments)
    }

    /// A word that belongs to no flag: of the command's name, or its operand.
    fn take_word(&mut self, word: String) -> Result<(), Failure> {
        let name = &self.name;
        let longer = if name.is_empty() {
            word.clone()
        } else {
            format!("{name} {word}")
        };
        let begun = COMMANDS
            .iter()
            .find(|command| is_begun_by(command, &longer));
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
                Err(Failure::usage(format!("no command {shown}")))
            }
            _ if self.command.name == *name && self.command.operand.is_some() => {
                match self.operand.replace(word) {
                    None => Ok(()),
                    // The first may be a key, so neither is repeated.
                    Some(_) => Err(Failure::usage(format!("{name} wants one word"))),
                }
            }
            // The word is not repeated: it may be a key.
            _ => {
                whole(name)?;
                Err(Failure::usage(
                    "a word stands where none is wanted; the command comes first",
                ))
            }
        }
    }

    fn flag(&self, name: &str) -> Result<&'static Flag, Failure> {
        let mut flags = self.command.flags.iter();
        let unknown = || Failure::usage(format!("{} has no flag --{name}", self.command.name));
        flags.find(|flag| flag.name == name).ok_or_else(unknown)
    }

    fn give(&mut self, flag: &'static Flag, value: String) -> Result<(), Failure> {
        let values = self.given.entry(flag.name).or_default();
        values.push(value);
        if values.len() > 1 && !flag.repeatable {
            let name = flag.name;
            return Err(Failure::usage(format!(
                "--{name} is given twice; want it once"
            )));
        }
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the environment is read"
    )]
    fn read_environment(&mut self) -> Result<(), Failure> {
        for flag in self.command.flags {
            let variable = variable(flag);
            let value = match std::env::var(&variable) {
                // An empty one is as good as none.
                Ok(value) if !value.is_empty() => value,
                Ok(_) | Err(VarError::NotPresent) => continue,
                Err(VarError::NotUnicode(_)) => {
                    return Err(self.bad_value(format!("{variable} is not UTF-8")));
                }
            };
            let parts = value.split(',').map(str::trim);
            let values = match (flag.value, flag.repeatable) {
                (None, _) if matches!(value.as_str(), "0" | "false") => continue,
                (None, _) => vec![String::new()],
                (Some(_), true) => parts
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
                (Some(_), false) => vec![value],
            };
            self.given.entry(flag.name).or_insert(values);
        }
        Ok(())
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
                .map_err(|_| self.bad_value(format!("--{name} is {value:?}; want {want}")))
        };
        values.iter().map(parse).collect()
    }

    /// What a server is started with is its configuration; other commands are used once.
    pub(crate) fn bad_value(&self, message: String) -> Failure {
        if self.command.name == "serve" {
            Failure::configuration(message)
        } else {
            Failure::usage(message)
        }
    }

    /// The value of a flag, if it was given.
    pub(crate) fn one<T: FromStr>(&self, name: &str, want: &str) -> Result<Option<T>, Failure>
    where
        T::Err: fmt::Display,
    {
        Ok(self.all(name, want)?.pop())
    }

    /// The value of a flag that is a number within bounds, or what it is if not given.
    pub(crate) fn number(
        &self,
        name: &str,
        bounds: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Failure> {
        let want = format!("a number from {} to {}", bounds.start(), bounds.end());
        let Some(text) = self.one::<String>(name, &want)? else {
            return Ok(default);
        };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_plain);
        let number = number.filter(|number| bounds.contains(number));
        number.ok_or_else(|| self.bad_value(format!("--{name} is {text}; want {want}")))
    }

    /// The word that follows the command's name.
    pub(crate) fn operand<T: FromStr>(&self, want: &str) -> Result<T, Failure> {
        let name = self.command.name;
        let word = self.operand.as_deref();
        // Not repeated: it may be a key.
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| Failure::usage(format!("{name} wants {want}")))
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

/// Refuses a command's name of which a word is missing, as `keys`.
fn whole(name: &str) -> Result<(), Failure> {
    let begun = COMMANDS.iter().filter(|command| is_begun_by(command, name));
    let longer: Vec<&str> = begun.map(|command| command.name).collect();
    if name.is_empty() || longer == [name] {
        Ok(())
    } else {
        Err(Failure::usage(format!(
            "{name} is no whole command; want {}",
            longer.join(", ")
        )))
    }
}

fn text(word: OsString) -> Result<String, Failure> {
    word.into_string()
        .map_err(|word| Failure::usage(format!("{} is not UTF-8", word.display())))
}
