//! Prints the page of a cause, or the list of causes.

use diagnose::causes::TABLE;
use text::{Column, Style, Table};

use super::options::ExplainOptions;
use crate::failure::Failure;
use crate::output;

/// `netwhy explain [CAUSE]`
pub(crate) fn run(options: &ExplainOptions) -> anyhow::Result<u8> {
    let style = output::stdout_style();
    let text = match &options.cause {
        None => list(options.json, style)?,
        Some(id) => page(id, options.json, style)?,
    };
    output::print(&text, false)?;
    Ok(0)
}

/// All causes.
fn list(json: bool, style: Style) -> anyhow::Result<String> {
    if json {
        let causes: Vec<_> = TABLE
            .iter()
            .map(|cause| serde_json::json!({ "cause": cause.id, "title": cause.title }))
            .collect();
        return output::json(&causes);
    }
    let mut table = Table::new([Column::left(""), Column::left("")]);
    for cause in TABLE {
        table.row([cause.id, cause.title]);
    }
    Ok(format!(
        "The causes that netwhy can name:\n\n{}\nThe page of one: netwhy explain CAUSE\n",
        table.text("  ", style.width)
    ))
}

/// The page of one cause.
fn page(id: &str, json: bool, style: Style) -> anyhow::Result<String> {
    let Some(cause) = diagnose::cause(id) else {
        let nearest = diagnose::nearest(id)
            .map(|nearest| format!("; did you mean {nearest}?"))
            .unwrap_or_default();
        anyhow::bail!(Failure::Usage(format!(
            "unknown cause {id}{nearest} (netwhy explain lists all causes)"
        )));
    };
    let page = diagnose::page(cause.id).unwrap_or_default();
    if json {
        let json = serde_json::json!({ "cause": cause.id, "title": cause.title, "page": page });
        return output::json(&json);
    }
    Ok(report::markdown_to_terminal(&page, style))
}
