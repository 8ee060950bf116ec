//! The one table of commands and flags: parsing, defaults, environment names, help, man page and
//! shell completions come from it.

use super::flag::Value::{Directory, File, Number, Text, Words};
use super::flag::{Command, Flag, Value, flag, switch};
use crate::quota::TableSize;

const STATE: Flag = flag("state", Directory, "the state directory of the server");
const KEY_PREFIX: Flag = flag("key-prefix", Text("TEXT"), "what keys begin with").or("im");

/// A count of anything, or of seconds where the service sets no bound of its own.
const COUNT: Value = Number(1, u32::MAX as u64);
const UP_TO_A_DAY: Value = Number(1, 86_400);
/// What synthetic datasets are measured in.
const ANY: Value = Number(0, u32::MAX as u64);

/// Every command; the first is the one that runs when none is named.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "serve",
        help: "serves the API; without --published, a sample dataset",
        operand: None,
        flags: SERVE,
    },
    Command {
        name: "publish",
        help: "publishes a dataset to a directory, atomically",
        operand: None,
        flags: &[
            flag("dataset", Directory, "the dataset"),
            flag("to", Directory, "the published directory, made if need be"),
            flag(
                "generated-at",
                Text("TIME"),
                "the publish timestamp, as 2026-11-20T12:05:00Z",
            )
            .or_else("now"),
            flag(
                "credit",
                Text("LINE"),
                "what users of the dumps are to show",
            )
            .or("Data: island-metrics, CC BY 4.0"),
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
            flag("dataset", Directory, "the dataset to validate"),
            flag(
                "published",
                Directory,
                "the published directory to validate",
            ),
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
                Text("ADDRESS"),
                "the e-mail or IP address that the key is for",
            ),
            flag(
                "tier",
                Words("TIER", &["free", "starter", "pro"]),
                "free, starter or pro",
            )
            .or("free"),
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
        operand: Some(Text("ID")),
        flags: &[STATE],
    },
    Command {
        name: "keys restore",
        help: "makes a revoked key active again",
        operand: Some(Text("ID")),
        flags: &[STATE],
    },
    Command {
        name: "synth",
        help: "writes a realistic synthetic dataset; same arguments, same bytes",
        operand: None,
        flags: &[
            flag("islands", ANY, "islands").or("2000"),
            flag("creators", ANY, "creators").or("800"),
            flag("days", ANY, "days with daily files").or("30"),
            flag(
                "long-run-days",
                ANY,
                "days with long-run peaks before those",
            )
            .or_else("twice as many, at most 60"),
            flag("rows", ANY, "islands that have a row on a day").or_else("three in ten"),
            flag(
                "seed",
                Number(0, u64::MAX),
                "which of the datasets of this size",
            )
            .or("1"),
            flag(
                "to",
                Directory,
                "where to write it; a new or empty directory",
            ),
        ],
    },
    Command {
        name: "openapi",
        help: "prints the OpenAPI document",
        operand: None,
        flags: &[
            flag("base-url", Text("URL"), "the one server it names").or("http://127.0.0.1:8080")
        ],
    },
    Command {
        name: "completions",
        help: "prints the completions of a shell",
        operand: Some(Words("SHELL", &["bash", "zsh", "fish"])),
        flags: &[],
    },
    Command {
        name: "man",
        help: "prints the manual page; read it with `island-metrics man | man -l -`",
        operand: None,
        flags: &[],
    },
];

/// What a server may be told.
const SERVE: &[Flag] = &[
    flag("listen", Text("ADDR"), "address and port to listen on")
        .or("127.0.0.1:8080")
        .repeatable(),
    flag("published", Directory, "the published directory").or_else("the sample dataset"),
    flag(
        "base-url",
        Text("URL"),
        "the service's own address in links",
    )
    .or_else("the first --listen"),
    flag("workers", Number(1, 1024), "threads that serve").or_else("the machine's cores"),
    flag(
        "memory",
        Text("BYTES"),
        "for bodies and pages beside rows and orders; 67108864 and 64MiB are the same",
    )
    .or("256MiB"),
    flag("state", Directory, "where keys and counters are kept")
        .or_else("nowhere: no keys, and counts end with the server"),
    KEY_PREFIX,
    flag(
        "signup",
        Words("HOW", &["ip", "email"]),
        "opens /keys: free keys for the client's own IP address, or for an e-mail address",
    )
    .or_else("closed"),
    flag(
        "mailer",
        Text("COMMAND"),
        "for --signup email: sends a mail as `sendmail -i -t` does",
    )
    .or_else("none"),
    flag(
        "signup-daily",
        COUNT,
        "free keys that sign-up gives a UTC day in all",
    )
    .or("1000"),
    flag(
        "trusted-proxy",
        Text("CIDR"),
        "a network whose X-Forwarded-For is believed",
    )
    .or_else("none")
    .repeatable(),
    flag(
        "limit-anonymous",
        Number(1, u16::MAX as u64),
        "requests a UTC day for an address without a key",
    )
    .or("100"),
    flag("limit-free", COUNT, "requests a UTC day for a free key").or("1000"),
    flag(
        "limit-starter",
        COUNT,
        "requests a UTC day for a starter key",
    )
    .or("20000"),
    flag("limit-pro", COUNT, "requests a UTC day for a pro key").or("100000"),
    flag(
        "quota-clients",
        Number(1, TableSize::CLIENTS_MAX),
        "addresses a day that the counters have room for, 15 bytes each",
    )
    .or("5000000"),
    flag(
        "connections",
        // Fewer serve nobody: a browser opens six.
        Number(16, u32::MAX as u64),
        "connections in all",
    )
    .or_else("as many as there are descriptors for, but 128 and a ninth"),
    flag(
        "connections-per-address",
        Number(1, u16::MAX as u64),
        "connections of one address, an IPv6 /64 being one; trusted proxies have no limit",
    )
    .or("1024"),
    flag(
        "connection-requests",
        COUNT,
        "requests of a connection before it is closed",
    )
    .or("100000"),
    flag(
        "connection-seconds",
        UP_TO_A_DAY,
        "age at which a connection is closed behind its next answer",
    )
    .or("3600"),
    flag(
        "first-byte-seconds",
        UP_TO_A_DAY,
        "from a connection to its first byte",
    )
    .or("10"),
    flag(
        "head-seconds",
        UP_TO_A_DAY,
        "from the first byte of a request to the end of its head",
    )
    .or("10"),
    flag(
        "idle-seconds",
        UP_TO_A_DAY,
        "from an answer to the next request; more than a proxy in front waits",
    )
    .or("75"),
    flag(
        "send-seconds",
        UP_TO_A_DAY,
        "in which a client has to take some of an answer",
    )
    .or("10"),
    flag(
        "drain-seconds",
        Number(1, 3600),
        "for requests under way after SIGTERM; a second signal ends at once",
    )
    .or("25"),
    flag(
        "admin",
        Text("ADDR"),
        "where /metrics, /livez and /readyz are answered",
    )
    .or_else("nowhere"),
    flag(
        "access-log",
        File,
        "gets a line for each request; SIGHUP and SIGUSR1 reopen it",
    )
    .or_else("none"),
    switch(
        "print-config",
        "prints every setting with its value and where that comes from, and ends",
    ),
];

/// Whether the words are the command's name, or its first words.
pub(crate) fn is_begun_by(command: &Command, words: &str) -> bool {
    let rest = command.name.strip_prefix(words);
    words.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flag::Unset;
    use crate::server::DESCRIPTORS_ASIDE;

    #[test]
    fn no_command_names_a_flag_twice() {
        for command in COMMANDS {
            for (at, flag) in command.flags.iter().enumerate() {
                let before = &command.flags[..at];
                assert!(
                    before.iter().all(|other| other.name != flag.name),
                    "{}",
                    flag.name
                );
            }
        }
    }

    #[test]
    fn every_setting_of_the_server_says_what_holds_without_it() {
        for flag in SERVE.iter().filter(|flag| flag.value.is_some()) {
            assert!(!matches!(flag.unset, Unset::Nothing), "{}", flag.name);
        }
    }

    #[test]
    fn help_names_no_default_and_no_bound_beside_the_table() {
        for flag in COMMANDS.iter().flat_map(|command| command.flags) {
            assert!(
                !flag.help.contains(['(', '\n']),
                "{}: {}",
                flag.name,
                flag.help
            );
        }
    }

    #[test]
    fn the_words_for_connections_name_the_descriptors_set_aside() {
        let flag = SERVE.iter().find(|flag| flag.name == "connections");
        let Some(Unset::Words(words)) = flag.map(|flag| flag.unset) else {
            panic!("no words for the default of --connections");
        };
        assert!(words.contains(&format!("but {DESCRIPTORS_ASIDE} and")));
    }
}
