//! The table of causes by name: one cause, its page, the nearest to a mistyped name.

use crate::cause::Cause;
use crate::causes;

/// The cause with this id.
pub fn cause(id: &str) -> Option<&'static Cause> {
    causes::TABLE.iter().find(|cause| cause.id == id)
}

/// The page of a cause as Markdown, from the comment at the head of its file; `None` when there is
/// no such cause.
pub fn page(id: &str) -> Option<String> {
    let source = cause(id)?.source;
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    Some(lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect())
}

/// The id nearest to a mistyped one, when one is near.
pub fn nearest(id: &str) -> Option<&'static str> {
    let ids = causes::TABLE.iter().map(|cause| cause.id);
    let contains = |known: &&str| id.len() >= 4 && known.contains(id);
    ids.clone().find(contains).or_else(|| {
        ids.map(|known| (edit_distance(id, known), known))
            .filter(|(distance, known)| distance * 3 <= known.len())
            .min()
            .map(|(_, known)| known)
    })
}

/// Edits that make one word of the other (Levenshtein).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Edits from what was read of `from` to each beginning of `to`; the whole of it is the last.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // Longer words are near to no id.
    for (read, letter) in from.chars().take(100).enumerate() {
        let mut next = vec![read + 1];
        let mut left = read + 1;
        for ((other, diagonal), above) in to.iter().zip(&row).zip(row.iter().skip(1)) {
            let edited = diagonal + usize::from(letter != *other);
            left = edited.min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_id_is_near_the_right_one() {
        assert_eq!(nearest("accept-queue-overlow"), Some("accept-queue-overflow"));
        assert_eq!(nearest("conntrack"), Some("conntrack-table-full"));
        assert_eq!(nearest("weather"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
