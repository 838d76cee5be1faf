//! Parts of a line.

use memchr::memmem;

/// The bytes before and after the first `mark`.
pub(super) fn split_at_mark<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (before, rest) = bytes.split_at_checked(memmem::find(bytes, mark)?)?;
    Some((before, rest.get(mark.len()..)?))
}

/// The bytes before the first `mark`.
pub(super) fn before<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    bytes.get(..memmem::find(bytes, mark)?)
}

/// The bytes after the first `mark`.
pub(super) fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    bytes.get(memmem::find(bytes, mark)? + mark.len()..)
}

/// A decimal number at the beginning, and what follows it.
pub(super) fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at_checked(digits)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Whether the beginning of a line has a form, in which `d` stands for a digit and `a` for a letter.
pub(super) fn has_form(line: &[u8], form: &[u8]) -> bool {
    line.len() >= form.len()
        && line.iter().zip(form).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            b'a' => byte.is_ascii_alphabetic(),
            other => byte == other,
        })
}
