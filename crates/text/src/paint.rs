//! Colours and bold, on a terminal only (SGR sequences of ECMA-48, the 16 colours that every
//! theme defines).

/// How output is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours and bold (SGR sequences).
    pub colour: bool,
    /// Columns that a line may have.
    pub width: usize,
}

impl Style {
    /// Fewest columns that output is laid out for; narrower terminals wrap lines themselves.
    pub const MIN_WIDTH: usize = 40;
    /// Most columns: longer lines are hard to read.
    pub const MAX_WIDTH: usize = 200;
    /// Columns where the output is not a terminal.
    pub const DEFAULT_WIDTH: usize = 80;

    /// The same, with a width between [`Style::MIN_WIDTH`] and [`Style::MAX_WIDTH`].
    pub fn within_bounds(self) -> Self {
        Style { width: self.width.clamp(Self::MIN_WIDTH, Self::MAX_WIDTH), ..self }
    }
}

impl Default for Style {
    /// No colours, 80 columns.
    fn default() -> Self {
        Style { colour: false, width: Self::DEFAULT_WIDTH }
    }
}

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// A title or heading.
    Strong,
    /// Emphasis.
    Emphasis,
    /// Text that readers may skip: labels, the cost.
    Faint,
    /// A command or name to be typed verbatim.
    Code,
    /// Something stops or fails.
    Critical,
    /// Something is slower than necessary.
    Warning,
    /// Worth knowing.
    Info,
    /// All is well.
    Good,
}

/// Ends any paint.
const RESET: &str = "\x1b[0m";

impl Paint {
    const ALL: [Paint; 8] = [
        Paint::Strong,
        Paint::Emphasis,
        Paint::Faint,
        Paint::Code,
        Paint::Critical,
        Paint::Warning,
        Paint::Info,
        Paint::Good,
    ];

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

/// The text in this paint, or unchanged when the style has no colours.
pub fn paint(text: &str, paint: Paint, style: Style) -> String {
    if !style.colour || text.is_empty() {
        return text.to_string();
    }
    format!("{}{text}{RESET}", paint.sequence())
}

/// The sequence at the beginning of a text that starts or ends a paint.
pub(crate) fn sequence_at(text: &str) -> Option<&'static str> {
    let all = Paint::ALL.into_iter().map(Paint::sequence).chain([RESET]);
    all.into_iter().find(|sequence| text.starts_with(sequence))
}
