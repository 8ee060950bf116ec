//! Suggestions for mistyped words, by edit distance.

/// Words longer than this match no name, as the work grows with the square of the length.
const CHARS_MAX: usize = 64;
/// Words from this length on match a name that they are a prefix of.
const PREFIX_CHARS_MIN: usize = 3;

/// The name closest to a word; `None` if none is close enough.
pub(crate) fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let chars = word.chars().count();
    if chars > CHARS_MAX {
        return None;
    }
    // One edit, and another one for every four characters.
    let max = 1 + chars / 4;
    let scored = names.filter_map(|name| {
        let is_prefix = chars >= PREFIX_CHARS_MIN && name.starts_with(word);
        let edits = if is_prefix {
            1
        } else {
            edit_distance(word, name)
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
    let mut table: Vec<Vec<usize>> = (0..=a.len()).map(|i| (i..=i + b.len()).collect()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substituted = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let inserted_or_deleted = table[i - 1][j].min(table[i][j - 1]) + 1;
            table[i][j] = substituted.min(inserted_or_deleted);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                table[i][j] = table[i][j].min(table[i - 2][j - 2] + 1);
            }
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_insertions_deletions_substitutions_and_swaps() {
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
    fn the_closest_name_is_found_if_any_is_close() {
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
