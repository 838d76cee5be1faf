//! `netwhy explain`: the pages of the causes.

use std::io::IsTerminal as _;

use text::Style;

use super::options::ExplainOptions;
use crate::failure::Failure;
use crate::output;

/// `netwhy explain [CAUSE]`
pub(crate) fn run(options: &ExplainOptions) -> anyhow::Result<u8> {
    let colour = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let style = Style { colour, ..Style::default() };
    let text = match &options.cause {
        None if options.json => {
            let list: Vec<_> = diagnose::causes::TABLE
                .iter()
                .map(|cause| serde_json::json!({ "cause": cause.id, "title": cause.title }))
                .collect();
            format!("{}\n", serde_json::to_string_pretty(&list)?)
        }
        None => {
            let width = diagnose::causes::TABLE.iter().map(|c| c.id.len()).max().unwrap_or(0);
            let mut text = "The causes that netwhy can name:\n\n".to_string();
            for cause in diagnose::causes::TABLE {
                text.push_str(&format!("  {:width$}  {}\n", cause.id, cause.title));
            }
            text.push_str("\nMore of one: netwhy explain CAUSE\n");
            text
        }
        Some(id) => {
            let Some(cause) = diagnose::cause(id) else {
                let nearest = diagnose::nearest(id)
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                anyhow::bail!(Failure::Usage(format!(
                    "no cause is called {id}{nearest} (netwhy explain lists them all)"
                )));
            };
            let page = diagnose::page(cause.id).unwrap_or_default();
            if options.json {
                let json = serde_json::json!({
                    "cause": cause.id, "title": cause.title, "page": page,
                });
                format!("{}\n", serde_json::to_string_pretty(&json)?)
            } else {
                report::markdown_to_terminal(&page, style)
            }
        }
    };
    output::print(&text, None, false)?;
    Ok(0)
}
