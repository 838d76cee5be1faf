//! What is wrong with a scenario file, and where.

/// What is wrong with a scenario, and where in its text.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) span: Option<std::ops::Range<usize>>,
    pub(super) what: String,
}

impl Problem {
    /// A problem with this value.
    pub(super) fn at<T>(value: &toml::Spanned<T>, what: impl Into<String>) -> Self {
        Problem { span: Some(value.span()), what: what.into() }
    }

    /// A problem of the whole file.
    pub(super) fn anywhere(what: impl Into<String>) -> Self {
        Problem { span: None, what: what.into() }
    }
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Self {
        Problem { span: error.span(), what: error.message().to_string() }
    }
}
