//! The one table of commands and flags. Parsing, defaults, environment names, `--help`
//! and `--print-config` come from it; tests compare the man page, the shell completions and the
//! commands in the README files with it.

use std::fmt::Write as _;

use self::DefaultValue::{Absent, Described, Literal};
use self::ValueKind::{Integer, Switch, Text};
use crate::model::digits;
use crate::publish::DEFAULT_CREDIT;
use crate::quota::TableSize;

pub(crate) const VARIABLE_PREFIX: &str = "ISLAND_METRICS_";

#[derive(Debug)]
pub(crate) struct Command {
    /// One word, or a group and a subcommand: `keys issue`.
    pub(crate) name: &'static str,
    /// Placeholder of the one positional argument; empty if the command takes none.
    pub(crate) operand: &'static str,
    pub(crate) help: &'static str,
    pub(crate) flags: &'static [Flag],
}

#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) value: ValueKind,
    pub(crate) default: DefaultValue,
    pub(crate) help: &'static str,
    pub(crate) repeatable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// No value: the flag is on if it is given.
    Switch,
    /// Text: its placeholder in help, and its required form for error messages.
    Text(&'static str, &'static str),
    /// An integer within inclusive bounds.
    Integer(u64, u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// None: a switch is off; a value is required or optional.
    Absent,
    /// The same as giving this value.
    Literal(&'static str),
    /// A default computed by the command, described for help.
    Described(&'static str),
}

impl Command {
    /// Whether `words` are the command's name or its first words; no words match every command.
    pub(crate) fn matches(&self, words: &str) -> bool {
        let rest = self.name.strip_prefix(words);
        words.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

impl Flag {
    /// The flag's environment variable: `ISLAND_METRICS_BASE_URL` for `--base-url`.
    pub(crate) fn variable(&self) -> String {
        let name = self.name.to_uppercase().replace('-', "_");
        format!("{VARIABLE_PREFIX}{name}")
    }

    /// The flag with the placeholder of its value: `--workers N`.
    pub(crate) fn usage(&self) -> String {
        match self.value {
            Switch => format!("--{}", self.name),
            Text(placeholder, _) => format!("--{} {placeholder}", self.name),
            Integer(..) => format!("--{} N", self.name),
        }
    }

    /// The help text with bounds and repeatability. Bounds from the width of an integer type are
    /// left out.
    pub(crate) fn description(&self) -> String {
        let mut text = self.help.to_owned();
        if let Integer(min, max) = self.value
            && max < u32::MAX.into()
        {
            let _ = write!(text, "; {min} to {max}");
        }
        if self.repeatable {
            text.push_str("; repeatable");
        }
        text
    }

    /// Whether the value is not an integer, or one within the bounds.
    pub(crate) fn is_in_bounds(&self, value: &str) -> bool {
        let Integer(min, max) = self.value else {
            return true;
        };
        digits(value).is_some_and(|number| (min..=max).contains(&number))
    }

    /// The required form of the value, for error messages.
    pub(crate) fn expected(&self) -> String {
        match self.value {
            Switch => "1, true, 0 or false".to_owned(),
            Text(_, expected) => expected.to_owned(),
            Integer(min, max) => format!("an integer from {min} to {max}"),
        }
    }
}

const fn command(name: &'static str, help: &'static str, flags: &'static [Flag]) -> Command {
    Command {
        name,
        operand: "",
        help,
        flags,
    }
}

const fn flag(
    name: &'static str,
    value: ValueKind,
    default: DefaultValue,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        value,
        default,
        help,
        repeatable: false,
    }
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    flag(name, Switch, Absent, help)
}

const ADDR: ValueKind = Text("ADDR", "an address and port such as 127.0.0.1:8080");
const BYTES: ValueKind = Text(
    "BYTES",
    "a size such as 256MiB, or a number of bytes from 1048576 up",
);
const CIDR: ValueKind = Text(
    "CIDR",
    "a network or an address such as 10.0.0.0/8 or 2001:db8::1",
);
const COMMAND: ValueKind = Text("COMMAND", "a command such as /usr/sbin/sendmail");
const CONTACT: ValueKind = Text(
    "TEXT",
    "an e-mail address or URL of 1 to 200 ASCII characters without parentheses",
);
const CREDIT: ValueKind = Text("LINE", "one line of text");
const DATE: ValueKind = Text(
    "DATE",
    "a day from 2017-01-01 to today by this machine's clock, such as 2026-11-20",
);
const DIRECTORY: ValueKind = Text("DIR", "a directory");
const FILE: ValueKind = Text("PATH", "a file");
const HOW: ValueKind = Text("ip|email", "ip or email");
const KEY_ADDRESS: ValueKind = Text("ADDRESS", "an e-mail or IP address such as ann@example.com");
const PREFIX: ValueKind = Text("TEXT", "1 to 16 letters and digits");
const RATE: ValueKind = Text("N", "a number of requests per second from 0.1 to 1000");
const SERIES: ValueKind = Text("SERIES", "in-match or in-client");
const OUTAGE: ValueKind = Text("POLICY", "share or refuse");
pub(super) const STORE: ValueKind = Text(
    "URL",
    "redis://HOST or rediss://HOST, with an optional user and port and without a password",
);
const TIER: ValueKind = Text("TIER", "free, starter or pro");
const TIME: ValueKind = Text(
    "TIME",
    "a timestamp from 1970 to 9999-12-30, such as 2026-11-20T12:05:00Z",
);
pub(super) const UPSTREAM: ValueKind = Text(
    "URL",
    "an https:// URL without query, or an http:// URL of a loopback address",
);
const URL: ValueKind = Text(
    "URL",
    "http:// or https:// and a host, optionally a port and a path, \
     of at most 256 letters, digits and -._~/+,=@%",
);

/// A count, or a number of seconds, that the service does not bound.
const COUNT: ValueKind = Integer(1, u32::MAX as u64);
const UP_TO_A_DAY: ValueKind = Integer(1, 86_400);
const U16: ValueKind = Integer(1, u16::MAX as u64);
/// Sizes of synthetic datasets, zero included: more rows than any platform has, which still fit in memory.
const SIZE: ValueKind = Integer(0, 10_000_000);
/// A hundred years.
const DAYS: ValueKind = Integer(0, 36_525);
const SEED: ValueKind = Integer(0, u64::MAX);
/// At least 16: a browser opens six connections.
const CONNECTIONS: ValueKind = Integer(16, u32::MAX as u64);
const QUOTA_CLIENTS: ValueKind = Integer(1, TableSize::CLIENTS_MAX);

const STATE: Flag = flag("state", DIRECTORY, Absent, "state directory of the server");
const STRICT: Flag = switch("strict", "treats warnings of the dataset as faults");
const KEY_PREFIX: Flag = flag(
    "key-prefix",
    PREFIX,
    Literal("im"),
    "prefix of all keys of the service",
);

/// All commands; the first one runs when none is named.
#[rustfmt::skip] // one row per flag
pub(crate) const COMMANDS: &[Command] = &[
    command("serve", "serves the API; without --published, a sample dataset", SERVE),
    command("publish", "publishes a dataset to a directory, atomically", &[
        flag("dataset", DIRECTORY, Absent, "dataset directory"),
        flag("to", DIRECTORY, Absent, "published directory; created if missing"),
        flag("generated-at", TIME, Described("now"), "publish timestamp, such as 2026-11-20T12:05:00Z"),
        flag("credit", CREDIT, Literal(DEFAULT_CREDIT),
            "attribution that users of the dumps must show"),
        switch("force", "publishes even if the publish would be refused, and renders everything"),
        switch("full", "renders everything, even what has not changed"),
        STRICT,
    ]),
    command("check", "validates a dataset or a published directory, and writes nothing", &[
        flag("dataset", DIRECTORY, Absent, "dataset to validate"),
        flag("published", DIRECTORY, Absent, "published directory to validate"),
        STRICT,
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
    Command { operand: "ID", ..command("keys revoke", "disables a key; a running server applies the change within a second", &[STATE]) },
    Command { operand: "ID", ..command("keys restore", "enables a revoked key again", &[STATE]) },
    command("synth", "writes a realistic synthetic dataset; with --until, the same arguments give the same bytes", &[
        flag("islands", SIZE, Literal("2000"), "number of islands"),
        flag("creators", SIZE, Literal("800"), "number of creators"),
        flag("days", DAYS, Literal("30"), "number of days with daily files"),
        flag("long-run-days", DAYS, Described("twice --days, at most 60"), "number of earlier days, which have only long-run peaks"),
        flag("rows", SIZE, Described("three in ten"), "number of islands with a row on each day"),
        flag("until", DATE, Described("yesterday"), "last day with a daily file; set it to get the same bytes on any day"),
        flag("seed", SEED, Literal("1"), "seed of the random numbers"),
        flag("to", DIRECTORY, Absent, "directory to write to; must be new or empty"),
    ]),
    command("collect", "keeps a dataset up to date from the public API of the platform", &[
        flag("dataset", DIRECTORY, Absent, "dataset directory; created if missing"),
        flag("state", DIRECTORY, Absent, "state directory of the collector; created if missing"),
        flag("contact", CONTACT, Absent, "e-mail address or URL of the operator, sent in User-Agent"),
        flag("upstream", UPSTREAM, Literal("https://api.fortnite.com/ecosystem/v1"), "base URL of the API"),
        flag("rate", RATE, Literal("3"),
            "maximum number of requests per second, from 0.1 to 1000; more than 10 only for an upstream on this machine"),
        flag("live", Integer(0, 100_000), Literal("800"), "number of islands in the live snapshot; 0 for none"),
        flag("platform", SERIES, Literal("in-match"), "which players the platform total counts: in-match or in-client"),
        flag("codes", FILE, Described("all islands"), "file of the only islands to collect, one code a line"),
        flag("ca-file", FILE, Described("the certificates of the system"), "PEM file of certificates to trust"),
        switch("once", "exits when everything that is due is done"),
        switch("plan", "prints what is due, and requests nothing"),
        flag("admin", ADDR, Described("none"), "address and port of /metrics, /livez and /readyz"),
    ]),
    command("healthcheck", "exits with 0 if a server or collector on this machine is ready, and with 1 otherwise", &[
        flag("admin", ADDR, Literal("127.0.0.1:9108"), "--admin address and port of the server or collector"),
    ]),
    command("openapi", "prints the OpenAPI document", &[
        flag("base-url", URL, Literal("http://127.0.0.1:8080"), "server URL that the document names"),
    ]),
    Command { operand: "SHELL", ..command("completions", "prints the completion script for a shell", &[]) },
    command("man", "prints the manual page; read it with `island-metrics man | man -l -`", &[]),
];

#[rustfmt::skip] // one row per flag
const SERVE: &[Flag] = &[
    Flag { repeatable: true, ..flag("listen", ADDR, Literal("127.0.0.1:8080"), "address and port to listen on") },
    Flag { repeatable: true, ..flag("listen-tls", ADDR, Described("none"),
        "address and port to listen on with TLS; without --listen, no other address is used") },
    flag("tls-certificate", FILE, Described("none"),
        "certificate and its intermediates, in PEM; a new file is used within a second"),
    flag("tls-key", FILE, Described("none"), "private key of the certificate, in PEM"),
    flag("published", DIRECTORY, Described("the sample dataset"), "published directory to serve"),
    flag("base-url", URL, Described("the first listening address"), "base URL of links in responses"),
    flag("contact", CONTACT, Described("none"), "e-mail address or URL of the publisher, shown on pages"),
    flag("workers", Integer(1, 1024), Described("the number of cores"), "worker threads"),
    flag("memory", BYTES, Literal("256MiB"),
        "memory for caches of bodies and pages, such as 67108864 or 64MiB"),
    flag("state", DIRECTORY, Described("none: no keys, and counters are lost on exit"),
        "directory of keys and quota counters"),
    KEY_PREFIX,
    flag("signup", HOW, Described("closed"),
        "opens sign-up at /keys; each free key belongs to an IP address or an e-mail address"),
    flag("mailer", COMMAND, Described("none"), "command that sends mail for --signup email, called like `sendmail -i -t`"),
    flag("signup-daily", COUNT, Literal("1000"), "free keys issued per UTC day in total, also by commands"),
    Flag { repeatable: true, ..flag("trusted-proxy", CIDR, Described("none"), "network whose X-Forwarded-For is trusted") },
    flag("limit-anonymous", U16, Literal("100"), "requests per UTC day for an address without a key"),
    flag("limit-free", COUNT, Literal("1000"), "requests per UTC day for a free key"),
    flag("limit-starter", COUNT, Literal("20000"), "requests per UTC day for a starter key"),
    flag("limit-pro", COUNT, Literal("100000"), "requests per UTC day for a pro key"),
    flag("quota-clients", QUOTA_CLIENTS, Literal("5000000"),
        "number of addresses per day that have their own counter, 15 bytes each"),
    Flag { repeatable: true, ..flag("shared-quota", STORE, Described("none"),
        "Valkey or Redis store through which several servers share the daily quotas; additional values name other nodes of the store") },
    flag("shared-quota-password-file", FILE, Described("none"), "file with the password of the store"),
    flag("shared-quota-ca-file", FILE, Described("the certificates of the system"),
        "PEM file of certificates to trust when connecting to the store"),
    flag("shared-quota-replicas", Integer(1, 1000), Literal("2"), "number of servers that share the quotas"),
    flag("shared-quota-outage", OUTAGE, Literal("share"),
        "policy while the store does not answer: share admits an equal part of each quota; refuse admits only what was leased before"),
    switch("shared-keys", "shares keys too: issuing, revoking or restoring a key on one server takes effect on all"),
    flag("connections", CONNECTIONS, Described("the file-descriptor limit minus 128, minus one ninth of the rest"),
        "maximum number of connections"),
    flag("connections-per-address", U16, Literal("1024"),
        "maximum number of connections per IPv4 address or IPv6 /48, and never more than are left; trusted proxies have no limit"),
    flag("connection-requests", COUNT, Literal("100000"), "requests on a connection before it is closed"),
    flag("connection-seconds", UP_TO_A_DAY, Literal("3600"),
        "age at which a connection is closed after its next response"),
    flag("first-byte-seconds", UP_TO_A_DAY, Literal("10"), "timeout for the first byte on a connection"),
    flag("head-seconds", UP_TO_A_DAY, Literal("10"), "timeout from the first byte of a request to the end of its head"),
    // If the server closed first, a proxy could send a request to a closed connection.
    flag("idle-seconds", UP_TO_A_DAY, Literal("75"),
        "timeout from a response to the next request; must be longer than that of a proxy in front"),
    flag("send-seconds", UP_TO_A_DAY, Literal("10"),
        "timeout for a client to accept more of a response, in addition to the time for what it accepted before at --send-rate"),
    flag("send-rate", COUNT, Literal("1024"),
        "bytes per second that a client must accept of a response; at the limit of connections, four times as many"),
    flag("drain-seconds", Integer(1, 3600), Literal("25"),
        "time to finish requests after SIGTERM; a second signal exits immediately"),
    flag("admin", ADDR, Described("none"), "address and port of /metrics, /livez and /readyz"),
    flag("access-log", FILE, Described("none"), "file to which one line per request is written; SIGHUP and SIGUSR1 reopen it"),
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
    fn every_setting_of_the_server_has_a_default() {
        for flag in SERVE.iter().filter(|flag| flag.value != Switch) {
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
    fn the_default_of_connections_names_the_reserved_descriptors() {
        let flag = SERVE.iter().find(|flag| flag.name == "connections");
        let Some(Described(words)) = flag.map(|flag| flag.default) else {
            panic!("--connections has no described default");
        };
        assert!(words.contains(&format!("minus {OTHER_FDS},")));
    }

    #[test]
    fn the_form_of_a_base_url_names_its_maximum_length() {
        let Text(_, expected) = URL else {
            panic!("a base URL is not of kind Text");
        };
        assert!(expected.contains(&format!("at most {BASE_URL_BYTES_MAX} ")));
    }
}
