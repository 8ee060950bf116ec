//! The one table of commands and flags: parsing, help and environment names come from it.

use std::fmt::Write as _;

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// What stands for the one word that follows the name; `None` where none does.
    pub(crate) operand: Option<&'static str>,
    pub(crate) flags: &'static [Flag],
}

/// A flag. Its environment variable is `ISLAND_METRICS_` and the name in capitals.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// What stands for its value in help; `None` for a switch.
    pub(crate) value: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) repeatable: bool,
}

const fn flag(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        value: Some(value),
        help,
        repeatable: false,
    }
}

const STATE: Flag = flag("state", "DIR", "the state directory of the server");
const KEY_PREFIX: Flag = flag("key-prefix", "TEXT", "what keys begin with (im)");

const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        value: None,
        help,
        repeatable: false,
    }
}

/// Every command; the first is the one that runs when none is named.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "serve",
        help: "serves the API; without --published, a sample dataset",
        operand: None,
        flags: &[
            Flag {
                name: "listen",
                value: Some("ADDR"),
                help: "address and port to listen on; may be given again (127.0.0.1:8080)",
                repeatable: true,
            },
            flag(
                "published",
                "DIR",
                "the published directory; without it, the sample dataset",
            ),
            flag(
                "base-url",
                "URL",
                "the service's own address in links (the first --listen)",
            ),
            flag("workers", "N", "threads that serve (the machine's cores)"),
            flag(
                "memory",
                "BYTES",
                "for bodies and pages beside rows and orders; 64MiB also reads (256MiB)",
            ),
            flag(
                "state",
                "DIR",
                "where keys and counters are kept; without it, no keys, and counts end with the server",
            ),
            KEY_PREFIX,
            Flag {
                name: "trusted-proxy",
                value: Some("CIDR"),
                help: "a network whose X-Forwarded-For is believed; may be given again",
                repeatable: true,
            },
            flag(
                "limit-anonymous",
                "N",
                "requests a UTC day for an address without a key, 1 to 65535 (100)",
            ),
            flag(
                "limit-free",
                "N",
                "requests a UTC day for a free key (1000)",
            ),
            flag(
                "limit-starter",
                "N",
                "requests a UTC day for a starter key (20000)",
            ),
            flag(
                "limit-pro",
                "N",
                "requests a UTC day for a pro key (100000)",
            ),
            flag(
                "quota-clients",
                "N",
                "addresses a day that the counters have room for, 72 MiB (5000000)",
            ),
            flag(
                "connections",
                "N",
                "connections in all (as many as there are descriptors for, but 128)",
            ),
            flag(
                "connections-per-address",
                "N",
                "connections of one address, an IPv6 /64 being one; trusted proxies have no limit (1024)",
            ),
            flag(
                "connection-requests",
                "N",
                "requests of a connection before it is closed (10000)",
            ),
            flag(
                "connection-seconds",
                "N",
                "age at which a connection is closed behind its next answer (3600)",
            ),
            flag(
                "first-byte-seconds",
                "N",
                "from a connection to its first byte (10)",
            ),
            flag(
                "head-seconds",
                "N",
                "from the first byte of a request to the end of its head (10)",
            ),
            flag(
                "idle-seconds",
                "N",
                "from an answer to the next request; more than a proxy in front waits (75)",
            ),
            flag(
                "send-seconds",
                "N",
                "in which a client has to take some of an answer (10)",
            ),
            flag(
                "drain-seconds",
                "N",
                "for requests under way after SIGTERM; a second signal ends at once (25)",
            ),
            flag(
                "admin",
                "ADDR",
                "where /metrics, /livez and /readyz are answered; nowhere if not given",
            ),
            flag(
                "access-log",
                "PATH",
                "a file that gets a line for each request; SIGHUP and SIGUSR1 reopen it",
            ),
        ],
    },
    Command {
        name: "publish",
        help: "publishes a dataset to a directory, atomically",
        operand: None,
        flags: &[
            flag("dataset", "DIR", "the dataset"),
            flag("to", "DIR", "the published directory, made if need be"),
            flag(
                "generated-at",
                "TIME",
                "the publish timestamp, as 2026-11-20T12:05:00Z (now)",
            ),
            flag(
                "credit",
                "LINE",
                "what users of the dumps are to show (Data: island-metrics, CC BY 4.0)",
            ),
            switch(
                "force",
                "replaces what is published even if it is newer; renders everything",
            ),
            switch("full", "renders everything, whatever has changed"),
        ],
    },
    Command {
        name: "check",
        help: "validates a dataset, or a published directory, and writes nothing",
        operand: None,
        flags: &[
            flag("dataset", "DIR", "the dataset to validate"),
            flag("published", "DIR", "the published directory to validate"),
        ],
    },
    Command {
        name: "keys issue",
        help: "issues a key and prints it, alone, this once",
        operand: None,
        flags: &[
            STATE,
            flag(
                "address",
                "ADDRESS",
                "the e-mail or IP address that the key is for",
            ),
            flag("tier", "TIER", "free, starter or pro (free)"),
            KEY_PREFIX,
        ],
    },
    Command {
        name: "keys list",
        help: "lists all keys, without their secrets, which nobody has",
        operand: None,
        flags: &[STATE, switch("json", "as a JSON array")],
    },
    Command {
        name: "keys revoke",
        help: "disables a key; a running server knows within a second",
        operand: Some("ID"),
        flags: &[STATE],
    },
    Command {
        name: "keys restore",
        help: "makes a revoked key active again",
        operand: Some("ID"),
        flags: &[STATE],
    },
    Command {
        name: "synth",
        help: "writes a realistic synthetic dataset; same arguments, same bytes",
        operand: None,
        flags: &[
            flag("islands", "N", "islands (2000)"),
            flag("creators", "N", "creators (800)"),
            flag("days", "N", "days with daily files (30)"),
            flag(
                "long-run-days",
                "N",
                "days with long-run peaks before those (twice as many, at most 60)",
            ),
            flag(
                "rows",
                "N",
                "islands that have a row on a day (three in ten)",
            ),
            flag("seed", "N", "which of the datasets of this size (1)"),
            flag("to", "DIR", "where to write it; a new or empty directory"),
        ],
    },
    Command {
        name: "openapi",
        help: "prints the OpenAPI document",
        operand: None,
        flags: &[flag(
            "base-url",
            "URL",
            "the one server it names (http://127.0.0.1:8080)",
        )],
    },
];

/// The environment variable of a flag.
pub(crate) fn variable(flag: &Flag) -> String {
    format!(
        "ISLAND_METRICS_{}",
        flag.name.to_uppercase().replace('-', "_")
    )
}

/// Whether a command's name is this, or begins with these words.
pub(crate) fn is_begun_by(command: &Command, words: &str) -> bool {
    let rest = command.name.strip_prefix(words);
    words.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What `--help` prints: the commands that a name, or its first words, mean; without one, all.
pub(crate) fn help(name: &str) -> String {
    let mut text = String::from(
        "island-metrics: a read-only JSON API over game islands\n\nusage: island-metrics [COMMAND] [FLAGS]\n",
    );
    for command in COMMANDS.iter().filter(|command| is_begun_by(command, name)) {
        let _ = write!(
            text,
            "\nisland-metrics {}{}\n  {}\n",
            command.name,
            command
                .operand
                .map_or_else(String::new, |operand| format!(" {operand}")),
            command.help
        );
        for flag in command.flags {
            let shown = format!("--{} {}", flag.name, flag.value.unwrap_or_default());
            let _ = writeln!(text, "    {shown:<24} {}", flag.help);
        }
    }
    text.push_str(
        "\nEach flag may be set in the environment: --base-url as ISLAND_METRICS_BASE_URL.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_names_a_flag_twice() {
        for command in COMMANDS {
            for (at, flag) in command.flags.iter().enumerate() {
                assert!(
                    command.flags[..at]
                        .iter()
                        .all(|other| other.name != flag.name),
                    "{}",
                    flag.name
                );
            }
        }
    }
}
