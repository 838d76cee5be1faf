//! The report for programs: the shape of `--json`, described by `docs/schema/report-v1.json`.

use model::Report;

use crate::clean::acts;

/// The report as JSON, indented, keys in the order of the schema, with a line feed at the end.
/// Characters that could act on a terminal are `\u` escapes: the same value to a JSON reader.
pub fn json(report: &Report) -> String {
    match serde_json::to_string_pretty(report) {
        Ok(text) => harmless(&text),
        // Only a map whose keys are not strings could fail, and a report has none.
        Err(error) => format!("{}\n", serde_json::json!({ "error": error.to_string() })),
    }
}

/// JSON escapes characters below U+0020 only; C1 controls and bidirectional overrides pass.
/// Outside of strings a JSON text has none of them, so that replacing them everywhere is safe.
fn harmless(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if acts(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_and_reads_the_same() {
        let value = serde_json::json!({ "name": "a\x1b[2J\u{9b}1m\u{202e}\u{e0041}\u{7f}µ" });
        let text = harmless(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.contains(r#""a\u001b[2J\u009b1m\u202e\udb40\udc41\u007fµ""#), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
