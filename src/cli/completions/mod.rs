//! `completions`: what a shell needs to know to complete the command line.

mod bash;
mod fish;
mod zsh;

use super::arguments::Arguments;
use super::failure::Failure;
use super::flags::COMMANDS;
use super::print;

/// Prints the completions of the shell that the operand names.
pub(super) fn completions(arguments: &Arguments) -> Result<(), Failure> {
    let shell: String = arguments.operand("bash, zsh or fish")?;
    match shell.as_str() {
        "bash" => print(&bash::script()),
        "zsh" => print(&zsh::script()),
        "fish" => print(&fish::script()),
        _ => Err(Failure::usage("completions wants bash, zsh or fish")),
    }
}

/// Words that begin a command or are one: `keys`, `keys issue`.
fn begun_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for command in COMMANDS {
        let ends = command.name.match_indices(' ').map(|(at, _)| at);
        for end in ends.chain([command.name.len()]) {
            let name = &command.name[..end];
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The words that may follow words that begin a command, with what the commands do; after none,
/// the first words of all commands.
fn next_words(begun: &str) -> Vec<(&'static str, &'static str)> {
    let mut words: Vec<(&str, &str)> = Vec::new();
    for command in COMMANDS {
        let rest = match begun {
            "" => Some(command.name),
            _ => command
                .name
                .strip_prefix(begun)
                .and_then(|rest| rest.strip_prefix(' ')),
        };
        let Some(rest) = rest else { continue };
        let (word, help) = match rest.split_once(' ') {
            None => (rest, command.help),
            Some((word, _)) => (word, "commands of this name"),
        };
        if words.iter().all(|(other, _)| *other != word) {
            words.push((word, help));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_two_words_are_completed_word_by_word() {
        assert!(begun_names().contains(&"keys"));
        assert!(begun_names().contains(&"keys issue"));
        let words = |begun| {
            next_words(begun)
                .into_iter()
                .map(|(word, _)| word)
                .collect::<Vec<_>>()
        };
        assert_eq!(words("keys"), ["issue", "list", "revoke", "restore"]);
        assert!(words("serve").is_empty());
        assert_eq!(words("").iter().filter(|word| **word == "keys").count(), 1);
    }
}
