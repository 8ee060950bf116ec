//! What a mistyped word was most likely meant to be.

/// Words longer than this resemble no name; the work grows with the square.
const CHARS_MAX: usize = 64;
/// A word that a name begins with is taken for it from this length on.
const PREFIX_CHARS_MIN: usize = 3;

/// The name nearest to a word; `None` where it resembles none.
pub(crate) fn closest<S: AsRef<str>>(word: &str, names: impl Iterator<Item = S>) -> Option<S> {
    let chars = word.chars().count();
    if chars > CHARS_MAX {
        return None;
    }
    // One slip in a short word, one more with every three characters.
    let most = 1 + chars / 4;
    let scored = names.filter_map(|name| {
        let begun = chars >= PREFIX_CHARS_MIN && name.as_ref().starts_with(word);
        let slips = if begun {
            1
        } else {
            edit_distance(word, name.as_ref())
        };
        (slips <= most && slips < chars.max(1)).then_some((slips, name))
    });
    scored.min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// How many characters were left out, added, mistaken for another, or swapped with the next.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Of the first i and j characters of each.
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let one = (table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                let mut least = one.min(table[i - 1][j - 1] + same);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(table[i - 2][j - 2] + 1);
                }
                least
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
