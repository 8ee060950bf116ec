//! Suggestions for mistyped words, by edit distance.

/// Words longer than this match no name, as the work grows with the square of the length.
const CHARS_MAX: usize = 64;
/// Words from this length on match a name that they are a prefix of.
const PREFIX_CHARS_MIN: usize = 3;

/// The name closest to a word; `None` if none is close enough.
pub(crate) fn closest<S: AsRef<str>>(word: &str, names: impl Iterator<Item = S>) -> Option<S> {
    let chars = word.chars().count();
    if chars > CHARS_MAX {
        return None;
    }
    // One edit, and another one for every four characters.
    let max = 1 + chars / 4;
    let scored = names.filter_map(|name| {
        let is_prefix = chars >= PREFIX_CHARS_MIN && name.as_ref().starts_with(word);
        let edits = if is_prefix {
            1
        } else {
            edit_distance(word, name.as_ref())
        };
        (edits <= max && edits < chars.max(1)).then_some((edits, name))
    });
    scored.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of two
/// neighbouring characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // table[i][j] is the distance of the first i and the first j characters.
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let substituted = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let edited = (table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1)
                    .min(substituted);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    edited.min(table[i - 2][j - 2] + 1)
                } else {
                    edited
                }
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted_as_a_typist_makes_them() {
        for (a, b, want) in [
            ("", "", 0),
            ("listen", "listen", 0),
            ("lisen", "listen", 1),
            ("listenn", "listen", 1),
            ("lissen", "listen", 1),
            ("lisetn", "listen", 1),
            ("", "abc", 3),
            ("published", "publish", 2),
        ] {
            assert_eq!(edit_distance(a, b), want, "{a} {b}");
            assert_eq!(edit_distance(b, a), want, "{b} {a}");
        }
    }

    #[test]
    fn a_word_is_taken_for_the_nearest_name_or_for_none() {
        let names = ["listen", "limit-free", "limit-pro", "state", "to"];
        for (word, want) in [
            ("lisen", Some("listen")),
            ("limit-fre", Some("limit-free")),
            ("limit-por", Some("limit-pro")),
            ("stat", Some("state")),
            ("lis", Some("listen")),
            ("verbose", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(word, names.iter().copied()), want, "{word}");
        }
        let long = "listen".repeat(1000);
        assert_eq!(closest(&long, names.iter().copied()), None);
    }
}
