//! Parsing of the command line and of the environment into the values of flags.
//!
//! Every full key contains an underscore, so error messages never repeat a word that has one, nor a value that may be a
//! key or a URL with a password.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::str::FromStr;

use lexopt::Arg::{Long, Short, Value};

use super::closest::closest;
use super::error::CliError;
use super::flags::{
    COMMANDS, Command, DefaultValue, Flag, STORE, UPSTREAM, VARIABLE_PREFIX, ValueKind,
};

/// The variable from which the recipes of the pages read the key of a client.
const CLIENT_KEY: &str = "ISLAND_METRICS_KEY";

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) command: &'static Command,
    /// The words of the command's name that were given; empty selects the first command.
    pub(crate) name: String,
    pub(crate) help_requested: bool,
    pub(crate) version_requested: bool,
    operand: Option<String>,
    /// The values given for each flag, and what set them: `--listen` or `ISLAND_METRICS_LISTEN`.
    given: BTreeMap<&'static str, (Vec<String>, String)>,
}

impl Arguments {
    /// Parses the command line, then the environment. Flags win over variables.
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
        while let Some(word) = parser.next().map_err(unexpected_value)? {
            match word {
                Long("help") | Short('h') => arguments.help_requested = true,
                Long("version") | Short('V') => arguments.version_requested = true,
                Long(name) => {
                    let flag = arguments.known_flag(name)?;
                    let value = match flag.value {
                        ValueKind::Switch => OsString::new(),
                        _ => parser.value().map_err(CliError::usage)?,
                    };
                    arguments.set(flag, value)?;
                }
                Value(word) => {
                    let word = word.into_string();
                    let word = word.map_err(|_| CliError::usage("arguments must be UTF-8"))?;
                    arguments.add_word(word)?;
                }
                Short(_) => return Err(CliError::usage(word.unexpected())),
            }
        }
        // Help works even if the environment is invalid.
        if !arguments.help_requested && !arguments.version_requested {
            arguments.require_subcommand(None)?;
            arguments.read_environment(environment)?;
        }
        Ok(arguments)
    }

    /// Adds a positional word: part of the command's name, or the operand.
    fn add_word(&mut self, word: String) -> Result<(), CliError> {
        let is_first = self.name.is_empty() && self.given.is_empty() && !self.help_requested;
        if is_first && ["help", "version"].contains(&word.as_str()) {
            self.help_requested = word == "help";
            self.version_requested = word == "version";
            return Ok(());
        }
        let name = format!("{} {word}", self.name).trim_start().to_owned();
        let found = COMMANDS.iter().find(|command| command.matches(&name));
        if let Some(command) = found.filter(|_| self.given.is_empty() && self.operand.is_none()) {
            self.command = command;
            self.name = name;
            return Ok(());
        }
        let shown = unless_key(format!(" {word:?}"));
        if self.name.is_empty() && self.given.is_empty() {
            let names = COMMANDS.iter().filter_map(|c| c.name.split(' ').next());
            let hint = suggestion(&word, names, "");
            return Err(CliError::usage(format!("unknown command{shown}{hint}")));
        }
        self.require_subcommand(Some(&name))?;
        if !self.name.is_empty() && !self.command.operand.is_empty() {
            return match self.operand.replace(word) {
                None => Ok(()),
                // A key may have been pasted in two parts, so neither is repeated.
                Some(_) => Err(CliError::usage(format!("{} takes one argument", self.name))),
            };
        }
        let hint = if self.name.is_empty() {
            "; flags follow the command"
        } else {
            ""
        };
        Err(CliError::usage(format!("unexpected argument{shown}{hint}")))
    }

    /// Rejects the name of a command group alone, such as `keys`. `attempted` is the name with one
    /// more word; it is compared with the subcommands but not repeated.
    fn require_subcommand(&self, attempted: Option<&str>) -> Result<(), CliError> {
        let group = self.name.as_str();
        if group.is_empty() || group == self.command.name {
            return Ok(());
        }
        let names = COMMANDS.iter().filter(|command| command.matches(group));
        let names: Vec<&str> = names.map(|command| command.name).collect();
        let close = attempted.and_then(|name| closest(name, names.iter().copied()));
        let hint = match close {
            Some(name) => format!("; did you mean {name}?"),
            None => format!(": {}", names.join(", ")),
        };
        Err(CliError::usage(format!("{group} needs a subcommand{hint}")))
    }

    fn known_flag(&self, name: &str) -> Result<&'static Flag, CliError> {
        self.require_subcommand(None)?;
        let flags = self.command.flags;
        flags.iter().find(|flag| flag.name == name).ok_or_else(|| {
            let (shown, of) = (unless_key(format!(" --{name}")), self.command.name);
            let dashed = name.replace('_', "-").to_lowercase();
            let names = flags.iter().map(|flag| flag.name);
            let hint = suggestion(&dashed, names.chain(["help", "version"]), "--");
            CliError::usage(format!("unknown flag{shown} of {of}{hint}"))
        })
    }

    fn set(&mut self, flag: &'static Flag, value: OsString) -> Result<(), CliError> {
        let source = format!("--{}", flag.name);
        let not_text = |_| self.bad_value(format!("{source} must be UTF-8"));
        let value = value.into_string().map_err(not_text)?;
        if flag.value != ValueKind::Switch && value.is_empty() {
            return Err(self.bad_value(format!("{source} must not be empty")));
        }
        if !flag.repeatable && self.has(flag.name) {
            let problem = format!("{source} must not be given more than once");
            return Err(CliError::usage(problem));
        }
        let given = self.given.entry(flag.name);
        given.or_insert((Vec::new(), source)).0.push(value);
        Ok(())
    }

    fn read_environment(
        &mut self,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(), CliError> {
        // Sorted, so that the same environment always gives the same error.
        let variables: BTreeMap<String, OsString> = environment
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        if self.command.name == "serve" {
            let mut names = variables.keys().map(String::as_str);
            let services = names
                .clone()
                .filter_map(|name| name.strip_suffix("_SERVICE_HOST"));
            let services: Vec<&str> = services.collect();
            names.try_for_each(|name| known_variable(name, &services))?;
        }
        for flag in self.command.flags {
            let source = flag.variable();
            let value = variables.get(&source).filter(|value| !value.is_empty());
            let Some(value) = value.filter(|_| !self.has(flag.name)) else {
                continue;
            };
            let not_text = || self.bad_value(format!("{source} must be UTF-8"));
            let value = value.to_str().ok_or_else(not_text)?;
            let mut values = vec![value.to_owned()];
            if flag.value == ValueKind::Switch {
                match value {
                    "1" | "true" => values = vec![String::new()],
                    "0" | "false" => continue,
                    _ => return Err(self.invalid(&source, &flag.expected(), value)),
                }
            } else if flag.repeatable {
                let parts = value.split(',').map(str::trim);
                values = parts
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect();
                if values.is_empty() {
                    return Err(self.invalid(&source, "values separated by commas", value));
                }
            }
            self.given.insert(flag.name, (values, source));
        }
        Ok(())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Whether a flag was given on the command line, and not by its variable.
    pub(super) fn has_flag(&self, name: &str) -> bool {
        let given = self.given.get(name);
        given.is_some_and(|(_, source)| source.starts_with("--"))
    }

    /// The flag or the variable that set a value, or else the flag that could.
    pub(crate) fn source(&self, name: &str) -> String {
        let source = self.given.get(name).map(|(_, source)| source.clone());
        source.unwrap_or_else(|| format!("--{name}"))
    }

    /// A flag of the command. Callers name flags of the table only.
    fn flag(&self, name: &str) -> &'static Flag {
        let mut flags = self.command.flags.iter();
        let flag = flags.find(|flag| flag.name == name);
        flag.unwrap_or_else(|| unreachable!("{} has no --{name}", self.command.name))
    }

    /// The values of a flag as given, or its literal default.
    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        match (self.given.get(name), self.flag(name).default) {
            (Some((values, _)), _) => values.iter().map(String::as_str).collect(),
            (None, DefaultValue::Literal(value)) => vec![value],
            (None, _) => Vec::new(),
        }
    }

    /// All values of a flag, parsed. An integer is within the bounds of the table.
    pub(crate) fn all<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, CliError> {
        let flag = self.flag(name);
        let invalid = |text| {
            let (source, expected) = (self.source(name), flag.expected());
            if [STORE, UPSTREAM].contains(&flag.value) {
                return self.bad_value(secret_problem(&source, &expected));
            }
            self.invalid(&source, &expected, text)
        };
        let parse = |text| parse(text).filter(|_| flag.is_in_bounds(text));
        let texts = self.texts(name).into_iter();
        texts
            .map(|text| parse(text).ok_or_else(|| invalid(text)))
            .collect()
    }

    pub(crate) fn optional<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, CliError> {
        Ok(self.all(name, parse)?.pop())
    }

    /// The value of a flag that the command cannot run without.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CliError> {
        let missing = || CliError::usage(format!("{} requires --{name}", self.command.name));
        self.optional(name, parse)?.ok_or_else(missing)
    }

    /// The positional argument, parsed. It is not repeated in the error: it may be a key.
    pub(crate) fn operand<T>(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CliError> {
        let operand = self.operand.as_deref().and_then(parse);
        let name = self.command.name;
        operand.ok_or_else(|| CliError::usage(format!("{name} requires {expected}")))
    }

    /// An error in a setting: `problem` follows the flag or the variable that set it.
    pub(crate) fn setting_error(&self, name: &str, problem: &str) -> CliError {
        CliError::configuration(format!("{} {problem}", self.source(name)))
    }

    fn invalid(&self, source: &str, expected: &str, got: &str) -> CliError {
        self.bad_value(if may_be_secret(got) {
            secret_problem(source, expected)
        } else {
            format!("{source} must be {expected}, got {got:?}")
        })
    }

    /// An error in a value: of configuration for a server, of usage for other commands.
    fn bad_value(&self, message: String) -> CliError {
        if self.command.name == "serve" {
            CliError::configuration(message)
        } else {
            CliError::usage(message)
        }
    }
}

/// The error of a word that cannot be parsed. A value of a flag that takes none is not repeated.
fn unexpected_value(error: lexopt::Error) -> CliError {
    match error {
        lexopt::Error::UnexpectedValue { option, .. } => {
            CliError::usage(format!("{option} takes no value"))
        }
        error => CliError::usage(error),
    }
}

/// Whether a value may be a key or a URL with a password.
fn may_be_secret(value: &str) -> bool {
    value.contains("_live_") || value.contains("//") && value.contains('@')
}

/// Returns the message for an invalid value that may contain a password, without the value.
pub(super) fn secret_problem(source: &str, expected: &str) -> String {
    format!("{source} must be {expected}; the value is not shown")
}

/// Parses a value of a type that has one text form.
pub(super) fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Rejects a variable with the program's prefix that sets no flag: it is mistyped. In a container, Kubernetes sets such
/// variables for the services of the namespace, which may be named like the program.
fn known_variable(name: &str, services: &[&str]) -> Result<(), CliError> {
    let flags = COMMANDS.iter().flat_map(|command| command.flags);
    let variables: Vec<String> = flags.map(Flag::variable).collect();
    let mut ends = services.iter().filter_map(|one| name.strip_prefix(one));
    let is_of_service = ends.any(|end| end.starts_with("_SERVICE_") || end.starts_with("_PORT"));
    if name == CLIENT_KEY || is_of_service || variables.iter().any(|variable| variable == name) {
        return Ok(());
    }
    let suffix = name.to_uppercase().split_off(VARIABLE_PREFIX.len());
    let suffixes = variables.iter().map(|name| &name[VARIABLE_PREFIX.len()..]);
    let mut hint = suggestion(&suffix, suffixes, VARIABLE_PREFIX);
    if hint.is_empty() {
        "; `island-metrics serve --help` lists the settings".clone_into(&mut hint);
    }
    let message = format!("unknown setting {name}{hint}");
    Err(CliError::configuration(message))
}

/// A word to repeat in a message, or nothing if it may be a key or a URL with a password.
fn unless_key(word: String) -> String {
    if word.contains(['_', '@']) || word.contains("//") {
        String::new()
    } else {
        word
    }
}

/// `; did you mean NAME?` with the closest name, or nothing if none is close.
fn suggestion<'n>(word: &str, names: impl Iterator<Item = &'n str>, prefix: &str) -> String {
    let name = closest(word, names);
    name.map_or_else(String::new, |name| {
        format!("; did you mean {prefix}{name}?")
    })
}
