//! Why a file cannot be written, in the words of the operating system.

use std::io;

/// The message of an error, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
