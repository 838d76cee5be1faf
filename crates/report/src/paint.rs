//! Colours and bold, on a terminal only (SGR sequences of ECMA-48, the 16 colours that every
//! theme defines).

use crate::Style;

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// A title or heading.
    Strong,
    /// Emphasis.
    Emphasis,
    /// What may be skipped: labels, the cost.
    Faint,
    /// A command or name to be typed as it is.
    Code,
    /// Something stops or fails.
    Critical,
    /// Something is slower than it need be.
    Warning,
    /// Worth knowing.
    Info,
    /// All is well.
    Good,
}

impl Paint {
    fn sequence(self) -> &'static str {
        match self {
            Paint::Strong => "\x1b[1m",
            Paint::Emphasis => "\x1b[3m",
            Paint::Faint => "\x1b[2m",
            Paint::Code => "\x1b[36m",
            Paint::Critical => "\x1b[1;31m",
            Paint::Warning => "\x1b[1;33m",
            Paint::Info => "\x1b[1;34m",
            Paint::Good => "\x1b[1;32m",
        }
    }
}

/// The text in this paint, or as it is when the style has no colours.
pub(crate) fn paint(text: &str, paint: Paint, style: Style) -> String {
    if !style.colour || text.is_empty() {
        return text.to_string();
    }
    format!("{}{text}\x1b[0m", paint.sequence())
}
