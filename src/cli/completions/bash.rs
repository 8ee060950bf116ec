//! Completions of bash, 3.2 and later.

use std::fmt::Write as _;

use super::{begun_names, next_words};
use crate::cli::flag::{Command, Value};
use crate::cli::flags::COMMANDS;

const HEAD: &str = r#"# Completions of island-metrics for bash: source <(island-metrics completions bash)
_island_metrics() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command= words= flags= again= kind= at=1 found
    COMPREPLY=()
    # bash makes three words of --flag=value.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    while ((at < COMP_CWORD)); do
        case "${command:+$command }${COMP_WORDS[at]}" in
"#;

const MIDDLE: &str = r"            *) break ;;
        esac
        ((at++))
    done
    case $command in
";

const TAIL: &str = r#"    esac
    case $kind in
        directory)
            compopt -o filenames 2>/dev/null
            while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -d -- "$word")
            return ;;
        file)
            compopt -o filenames 2>/dev/null
            while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$word")
            return ;;
        text) return ;;
        words) flags= ;;
    esac
    local used=" ${COMP_WORDS[*]:0:COMP_CWORD} "
    for found in $words; do
        [[ $found == "$word"* ]] && COMPREPLY+=("$found")
    done
    [[ -n $words && $word != -* ]] && return
    for found in $flags; do
        [[ $used == *" $found "* && " $again " != *" $found "* ]] && continue
        [[ $found == "$word"* ]] && COMPREPLY+=("$found")
    done
}
complete -F _island_metrics island-metrics
"#;

/// The script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    let begun = begun_names();
    let quoted: Vec<String> = begun.iter().map(|name| format!("'{name}'")).collect();
    let list = quoted.join(" | ");
    let _ = writeln!(
        text,
        "            {list}) command=${{command:+$command }}${{COMP_WORDS[at]}} ;;"
    );
    text.push_str(MIDDLE);
    for name in [""].iter().chain(&begun) {
        let _ = writeln!(text, "        '{name}')");
        let words: Vec<&str> = next_words(name).iter().map(|(word, _)| *word).collect();
        // Without a name it is the first command.
        let named = COMMANDS.iter().find(|command| command.name == *name);
        let command = named.or(COMMANDS.first().filter(|_| name.is_empty()));
        write_case(&mut text, &words, command);
        text.push_str("            ;;\n");
    }
    text.push_str(TAIL);
    text
}

fn write_case(text: &mut String, words: &[&str], command: Option<&Command>) {
    let mut words = words.to_vec();
    let flags = command.map_or(&[][..], |command| command.flags);
    if let Some(Value::Words(_, more)) = command.and_then(|command| command.operand) {
        words.extend(more);
    }
    let names = |repeatable: bool| -> Vec<String> {
        let flags = flags.iter().filter(|flag| !repeatable || flag.repeatable);
        flags.map(|flag| format!("--{}", flag.name)).collect()
    };
    let _ = writeln!(
        text,
        "            words='{}' flags='{} --help' again='{}'",
        words.join(" "),
        names(false).join(" "),
        names(true).join(" ")
    );
    let values = flags
        .iter()
        .filter_map(|flag| Some((flag.name, flag.value?)));
    let mut lines = String::new();
    for (name, value) in values {
        let kind = match value {
            Value::Text(_) | Value::Number(..) => "kind=text".to_owned(),
            Value::Directory => "kind=directory".to_owned(),
            Value::File => "kind=file".to_owned(),
            Value::Words(_, words) => format!("kind=words words='{}'", words.join(" ")),
        };
        let _ = writeln!(lines, "                --{name}) {kind} ;;");
    }
    if !lines.is_empty() {
        let _ = writeln!(text, "            case $before in\n{lines}            esac");
    }
}
