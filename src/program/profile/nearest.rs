//! The known word that somebody probably meant.

/// The most similar word, if one is similar enough to be a slip of the keyboard.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Words from a file may be long; no known word is.
    if word.chars().count() > 64 {
        return None;
    }
    let most = (word.chars().count() / 3).clamp(1, 3);
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let distances = known.into_iter().map(|known| (distance(&word, &plain(known)), known));
    distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The number of letters to insert, delete or replace, or of neighbours to swap.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_is_recognized_and_another_word_is_not() {
        let known = ["sources", "exclude", "exclude_from", "hash", "tags"];
        for (word, expected) in [
            ("source", Some("sources")),
            ("exlude", Some("exclude")),
            ("exclude-from", Some("exclude_from")),
            ("Tags", Some("tags")),
            ("hsah", Some("hash")),
            ("retention", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), known), None);
    }
}
