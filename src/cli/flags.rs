//! The one table of commands and flags. Parsing, defaults, environment names, `--help` and the
//! README's table come from it; tests compare the man page and the shell completions with it.

use super::flag::DefaultValue::{Absent, Described, Literal};
use super::flag::ValueKind::{self, Directory, File, Integer, Text};
use super::flag::{Command, Flag, flag, switch};
use crate::quota::TableSize;

const ADDR: ValueKind = Text("ADDR", "an address and port such as 127.0.0.1:8080");
const BYTES: ValueKind = Text("BYTES", "a number of bytes such as 268435456 or 256MiB");
const CIDR: ValueKind = Text(
    "CIDR",
    "a network or an address such as 10.0.0.0/8 or 2001:db8::1",
);
const COMMAND: ValueKind = Text("COMMAND", "a command such as /usr/sbin/sendmail");
const CREDIT: ValueKind = Text("LINE", "one line of text");
const HOW: ValueKind = Text("HOW", "ip or email");
const KEY_ADDRESS: ValueKind = Text("ADDRESS", "an e-mail or IP address such as ann@example.com");
const PREFIX: ValueKind = Text("TEXT", "1 to 16 letters and digits");
const TIER: ValueKind = Text("TIER", "free, starter or pro");
const TIME: ValueKind = Text("TIME", "a timestamp such as 2026-11-20T12:05:00Z");
const URL: ValueKind = Text(
    "URL",
    "http:// or https:// and a host, optionally a port and a path, \
     of at most 256 letters, digits and -._~/+,=@%",
);

/// A count, or a number of seconds, that the service does not bound.
const COUNT: ValueKind = Integer(1, u32::MAX as u64);
const UP_TO_A_DAY: ValueKind = Integer(1, 86_400);
const U16: ValueKind = Integer(1, u16::MAX as u64);
/// Sizes of synthetic datasets, zero included.
const SIZE: ValueKind = Integer(0, u32::MAX as u64);
const SEED: ValueKind = Integer(0, u64::MAX);
/// At least 16: a browser opens six connections.
const CONNECTIONS: ValueKind = Integer(16, u32::MAX as u64);
const QUOTA_CLIENTS: ValueKind = Integer(1, TableSize::CLIENTS_MAX);

const STATE: Flag = flag("state", Directory, Absent, "state directory of the server");
const KEY_PREFIX: Flag = flag("key-prefix", PREFIX, Literal("im"), "prefix of issued keys");

const fn command(name: &'static str, help: &'static str, flags: &'static [Flag]) -> Command {
    Command {
        name,
        help,
        operand: None,
        flags,
    }
}

/// All commands; the first one runs when none is named.
#[rustfmt::skip] // one row per flag
pub(crate) const COMMANDS: &[Command] = &[
    command("serve", "serves the API; without --published, a sample dataset", SERVE),
    command("publish", "publishes a dataset to a directory, atomically", &[
        flag("dataset", Directory, Absent, "dataset directory"),
        flag("to", Directory, Absent, "published directory; created if missing"),
        flag("generated-at", TIME, Described("now"), "publish timestamp, as 2026-11-20T12:05:00Z"),
        flag("credit", CREDIT, Literal("Data: island-metrics, CC BY 4.0"),
            "attribution that users of the dumps must show"),
        switch("force", "replaces a newer publish, and renders everything"),
        switch("full", "renders everything, even what has not changed"),
    ]),
    command("check", "validates a dataset or a published directory, and writes nothing", &[
        flag("dataset", Directory, Absent, "dataset to validate"),
        flag("published", Directory, Absent, "published directory to validate"),
    ]),
    command("keys issue", "issues a key and prints it; it cannot be shown again", &[
        STATE,
        flag("address", KEY_ADDRESS, Absent, "e-mail or IP address that the key is issued to"),
        flag("tier", TIER, Literal("free"), "free, starter or pro"),
        KEY_PREFIX,
    ]),
    command("keys list", "lists all keys, without their secrets, which are not stored", &[
        STATE,
        switch("json", "prints a JSON array"),
    ]),
    command("keys revoke", "disables a key; a running server applies it within a second", &[STATE]).with_operand("ID"),
    command("keys restore", "enables a revoked key again", &[STATE]).with_operand("ID"),
    command("synth", "writes a realistic synthetic dataset; same arguments, same bytes", &[
        flag("islands", SIZE, Literal("2000"), "number of islands"),
        flag("creators", SIZE, Literal("800"), "number of creators"),
        flag("days", SIZE, Literal("30"), "days with daily files"),
        flag("long-run-days", SIZE, Described("twice --days, at most 60"), "earlier days, with long-run peaks only"),
        flag("rows", SIZE, Described("three in ten"), "islands that have a row on a day"),
        flag("seed", SEED, Literal("1"), "seed of the random numbers"),
        flag("to", Directory, Absent, "directory to write to; must be new or empty"),
    ]),
    command("openapi", "prints the OpenAPI document", &[
        flag("base-url", URL, Literal("http://127.0.0.1:8080"), "server URL that the document names"),
    ]),
    command("completions", "prints the completion script of a shell", &[]).with_operand("SHELL"),
    command("man", "prints the manual page; read it with `island-metrics man | man -l -`", &[]),
];

/// The flags of `serve`.
#[rustfmt::skip] // one row per flag
const SERVE: &[Flag] = &[
    flag("listen", ADDR, Literal("127.0.0.1:8080"), "address and port to listen on").repeatable(),
    flag("published", Directory, Described("the sample dataset"), "published directory to serve"),
    flag("base-url", URL, Described("the first --listen"), "base URL of links in responses"),
    flag("workers", Integer(1, 1024), Described("the number of cores"), "worker threads"),
    flag("memory", BYTES, Literal("256MiB"),
        "memory for bodies and pages, besides rows and row orders; 67108864 and 64MiB are the same"),
    flag("state", Directory, Described("none: no keys, and counters are lost on exit"),
        "directory of keys and quota counters"),
    KEY_PREFIX,
    flag("signup", HOW, Described("closed"),
        "opens /keys: free keys for the client's own IP address, or for an e-mail address"),
    flag("mailer", COMMAND, Described("none"), "for --signup email: command that sends mail like `sendmail -i -t`"),
    flag("signup-daily", COUNT, Literal("1000"), "free keys issued by sign-up per UTC day, in total"),
    flag("trusted-proxy", CIDR, Described("none"), "network whose X-Forwarded-For is trusted").repeatable(),
    flag("limit-anonymous", U16, Literal("100"), "requests per UTC day for an address without a key"),
    flag("limit-free", COUNT, Literal("1000"), "requests per UTC day for a free key"),
    flag("limit-starter", COUNT, Literal("20000"), "requests per UTC day for a starter key"),
    flag("limit-pro", COUNT, Literal("100000"), "requests per UTC day for a pro key"),
    flag("quota-clients", QUOTA_CLIENTS, Literal("5000000"),
        "capacity of the counters: addresses per day, 15 bytes each"),
    flag("connections", CONNECTIONS, Described("the file-descriptor limit minus 128, minus one ninth"),
        "maximum number of connections"),
    flag("connections-per-address", U16, Literal("1024"),
        "maximum per IPv4 address or IPv6 /64; trusted proxies have no limit"),
    flag("connection-requests", COUNT, Literal("100000"), "requests on a connection before it is closed"),
    flag("connection-seconds", UP_TO_A_DAY, Literal("3600"),
        "age at which a connection is closed after its next response"),
    flag("first-byte-seconds", UP_TO_A_DAY, Literal("10"), "timeout for the first byte on a connection"),
    flag("head-seconds", UP_TO_A_DAY, Literal("10"), "timeout from the first byte of a request to the end of its head"),
    flag("idle-seconds", UP_TO_A_DAY, Literal("75"),
        "timeout from a response to the next request; longer than that of a proxy in front"),
    flag("send-seconds", UP_TO_A_DAY, Literal("10"), "timeout for a client to accept more of a response"),
    flag("drain-seconds", Integer(1, 3600), Literal("25"),
        "time to finish requests after SIGTERM; a second signal exits immediately"),
    flag("admin", ADDR, Described("none"), "address and port of /metrics, /livez and /readyz"),
    flag("access-log", File, Described("none"), "file that gets one line per request; SIGHUP and SIGUSR1 reopen it"),
    switch("print-config", "prints every setting with its value and source, and exits"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::BASE_URL_BYTES_MAX;
    use crate::server::OTHER_FDS;

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
            assert!(!matches!(flag.default, Absent), "{}", flag.name);
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
        let Some(Described(words)) = flag.map(|flag| flag.default) else {
            panic!("no words for the default of --connections");
        };
        assert!(words.contains(&format!("minus {OTHER_FDS},")));
    }

    #[test]
    fn the_form_of_a_base_url_names_its_greatest_length() {
        let Text(_, expected) = URL else {
            panic!("a base URL is no text");
        };
        assert!(expected.contains(&format!("at most {BASE_URL_BYTES_MAX} ")));
    }
}
