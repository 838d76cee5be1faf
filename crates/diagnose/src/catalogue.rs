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
    Some(comment_at_head(cause(id)?.source))
}

/// How severe findings are, as Markdown.
pub fn severities() -> String {
    comment_at_head(include_str!("severity.rs"))
}

/// What fixing a cause is expected to give, as Markdown.
pub fn gains() -> String {
    comment_at_head(include_str!("gain.rs"))
}

fn comment_at_head(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// The id nearest to a mistyped one, when one is near.
pub fn nearest(id: &str) -> Option<&'static str> {
    text::nearest(id, causes::TABLE.iter().map(|cause| cause.id))
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
    }
}
