//! `man`: the manual page, in roff.

use std::fmt::Write as _;

use super::flag::{Command, Unset};
use super::flags::COMMANDS;
use super::help::usage_of;

const HEAD: &str = r".SH NAME
island\-metrics \- a read\-only JSON API over game islands
.SH SYNOPSIS
.B island\-metrics
.RI [ COMMAND ]
.RI [ FLAGS ]
.SH DESCRIPTION
A publisher turns a dataset of CSV files into a published directory; a server answers from it, each
client within a daily quota, and takes up each publish within a second.
Without a command it serves; without a published directory, a sample dataset on 127.0.0.1:8080.
.PP
Data goes to standard output, words to standard error.
Flags win over environment variables, and those over defaults;
.B island\-metrics serve \-\-print\-config
prints what holds, and why.
.SH COMMANDS
";

const TAIL: &str = r".SH SIGNALS
What a server does on
.TP
.B SIGTERM\fR, \fPSIGINT
takes no new connection, lets requests under way end, and exits;
on a second one it ends at once.
.TP
.B SIGHUP
reads keys and published data now, and opens the access log anew.
.TP
.B SIGUSR1
opens the access log anew.
.SH EXIT STATUS
Those of
.BR sysexits.h (3head):
.TP
.B 0
Done.
.TP
.B 64
The command line is not understood.
.TP
.B 65
The data is faulty, and nothing was changed.
.TP
.B 69
An address cannot be listened on.
.TP
.B 70
A fault of the program itself.
.TP
.B 74
Reading or writing failed.
.TP
.B 78
A setting of the server is unknown or cannot be; nothing was bound or opened.
.SH FILES
.TP
.I STATE/keys.jsonl
The keys that were issued, as hashes.
.TP
.I STATE/quota\-*
What clients have asked today.
.TP
.I PUBLISHED/manifest.json
Names the files of the publish that holds.
.TP
.I PUBLISHED/dumps
The dataset as files for everybody.
.SH EXAMPLES
Serve the sample dataset:
.PP
.RS 4
.EX
island\-metrics
.EE
.RE
.PP
Publish a dataset and serve it:
.PP
.RS 4
.EX
island\-metrics check \-\-dataset DIR
island\-metrics publish \-\-dataset DIR \-\-to PUBLISHED
island\-metrics serve \-\-published PUBLISHED \-\-state STATE \-\-listen 0.0.0.0:8080
.EE
.RE
.PP
Issue a key, and disable it again:
.PP
.RS 4
.EX
island\-metrics keys issue \-\-state STATE \-\-address ann@example.com
island\-metrics keys revoke ID \-\-state STATE
.EE
.RE
.SH SEE ALSO
.BR curl (1),
.BR systemd.service (5),
.BR csv (5)
";

/// The page.
pub(super) fn page() -> String {
    let version = roff(env!("CARGO_PKG_VERSION"));
    let mut text = format!(
        ".TH ISLAND\\-METRICS 1 \"\" \"island\\-metrics {version}\" \"User Commands\"\n{HEAD}"
    );
    for command in COMMANDS {
        write_command(&mut text, command);
    }
    text.push_str(".SH ENVIRONMENT\n");
    text.push_str("Each flag has a variable; commas stand between several values.\n");
    text.push_str("A server refuses variables of this kind that it does not know.\n");
    for flag in COMMANDS[0].flags {
        let (variable, name) = (roff(&flag.variable()), roff(flag.name));
        let _ = writeln!(text, ".TP\n.B {variable}\nIs \\fB\\-\\-{name}\\fP.");
    }
    text.push_str(TAIL);
    text
}

fn write_command(text: &mut String, command: &Command) {
    let operand = command.operand.map_or("", |operand| operand.shown());
    let name = roff(command.name);
    let _ = writeln!(text, ".SS {}", format!("{name} {operand}").trim_end());
    let help = command.help;
    let (first, rest) = help.split_at(help.chars().next().map_or(0, char::len_utf8));
    let _ = writeln!(text, "{}{}.", first.to_uppercase(), roff(rest));
    for flag in command.flags {
        let usage = usage_of(flag);
        let _ = match usage.split_once(' ') {
            None => writeln!(text, ".TP\n.B {}", roff(&usage)),
            Some((name, value)) => {
                writeln!(text, ".TP\n\\fB{}\\fP \\fI{value}\\fP", roff(name))
            }
        };
        let default = match flag.unset {
            Unset::Nothing => String::new(),
            Unset::Value(value) | Unset::Words(value) => format!(" Default: {value}."),
        };
        let _ = writeln!(text, "{}", roff(&format!("{}.{default}", flag.described())));
    }
}

/// A text that roff shows as it is.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let text = text.replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}
