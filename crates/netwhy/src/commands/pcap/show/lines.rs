//! Lines of the width of a terminal.

/// Columns of a terminal.
pub(super) const WIDTH: usize = 80;

/// A text broken where the terminal ends.
pub(super) fn put(out: &mut String, indent: &str, text: &str) {
    for line in text::wrap(text, indent, &format!("{indent}  "), WIDTH) {
        out.push_str(&line);
        out.push('\n');
    }
}
