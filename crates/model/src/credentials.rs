//! Credentials in text that is kept or shown.

use std::borrow::Cow;

/// What ends the part of a URL that may hold a user and a password.
const ENDS: [char; 10] = ['/', '?', '#', ' ', '\t', '\n', '"', '\'', ',', ';'];

/// A text without the users and passwords in its URLs: `http://198.18.0.1/` for
/// `http://ann:secret@198.18.0.1/`.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(scheme_end) = rest.find("://").map(|at| at + 3) {
        let (before, authority) = rest.split_at_checked(scheme_end).unwrap_or((rest, ""));
        kept.push_str(before);
        let length = authority.find(ENDS).unwrap_or(authority.len());
        let end = authority.get(..length).unwrap_or_default().rfind('@').map_or(0, |at| at + 1);
        rest = authority.get(end..).unwrap_or_default();
    }
    if kept.len() + rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_credentials_are_removed() {
        for (text, expected) in [
            ("curl http://ann:secret@198.18.0.1/a@b?c=d@e", "curl http://198.18.0.1/a@b?c=d@e"),
            ("proxy_pass https://ann@[fd00::1]:8080;", "proxy_pass https://[fd00::1]:8080;"),
            ("a postgres://u:p@ss@db/x redis://:p@r b", "a postgres://db/x redis://r b"),
            ("x://u:p@", "x://"),
            ("http://é:ü@host", "http://host"),
        ] {
            assert_eq!(without_credentials(text), expected);
        }
        for text in ["", "://", "user@host", "http://host/?mail=a@b", "nginx: worker", "a://b://c"]
        {
            assert!(
                matches!(without_credentials(text), Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
    }
}
