//! The page of a cause: the comment at the head of its file.

use crate::{cause, causes};

/// The page of a cause as Markdown; `None` when there is no such cause.
pub fn page(id: &str) -> Option<String> {
    let source = cause(id)?.source;
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    Some(lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect())
}

/// The id nearest to a mistyped one, when one is near.
pub fn nearest(id: &str) -> Option<&'static str> {
    let ids = causes::TABLE.iter().map(|cause| cause.id);
    let holds = |known: &&str| id.len() >= 4 && known.contains(id);
    ids.clone().find(holds).or_else(|| {
        ids.map(|known| (distance(id, known), known))
            .filter(|(distance, known)| distance * 3 <= known.len())
            .min()
            .map(|(_, known)| known)
    })
}

/// Edits that lead from one word to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // Longer words are none of ours, whatever they are.
    for (i, a) in from.chars().take(100).enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let edited = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = edited.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
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
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
