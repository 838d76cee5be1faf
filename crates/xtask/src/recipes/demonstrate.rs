//! What the cause, observer, probe and command of the recipes do, once they are part of netwhy.

use anyhow::{Context as _, bail};
use model::{Change, Counters, Evidence};
use serde_json::Value;

use super::workspace::Workspace;

/// What was shown, one line each.
pub(super) fn demonstrate(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    Ok(vec![cause(workspace)?, observer(workspace)?, probe(workspace)?, command(workspace)?])
}

/// The cause is named on saved evidence, and has a page.
fn cause(workspace: &Workspace) -> anyhow::Result<String> {
    let counter = ("IpOutNoRoutes".to_string(), Change::new(1_000, 1_040));
    let evidence = Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        counters: Some(Counters([counter].into())),
        ..Evidence::default()
    };
    let file = workspace.scratch("evidence.json");
    std::fs::write(&file, serde_json::to_string(&evidence)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.to_string_lossy();
    let report: Value = serde_json::from_slice(&workspace.netwhy(&["diagnose", &file, "--json"])?)?;
    let findings = report
        .pointer("/findings")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let [finding] = findings else { bail!("netwhy diagnose names no single cause: {findings:?}") };
    if finding["cause"] != "no-route" {
        bail!("netwhy diagnose does not name no-route, but {}", finding["cause"]);
    }
    contains(workspace, &["explain", "no-route"], "ENETUNREACH")?;
    Ok(format!("netwhy diagnose names no-route: {}", finding["title"].as_str().unwrap_or_default()))
}

/// The evidence of the observer is in the file that netwhy record writes.
fn observer(workspace: &Workspace) -> anyhow::Result<String> {
    let bytes = workspace.netwhy(&["record", "--for", "200ms", "-o", "-"])?;
    let evidence: Value = serde_json::from_slice(&zstd::decode_all(bytes.as_slice())?)?;
    let Some(protocols) =
        evidence.pointer("/protocols").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        bail!("netwhy record has no evidence of the observer protocols");
    };
    let tcp = evidence.pointer("/protocols/TCP").unwrap_or(&Value::Null);
    Ok(format!("netwhy record has {} protocols, and {tcp} sockets of TCP", protocols.len()))
}

/// The probe measures.
fn probe(workspace: &Workspace) -> anyhow::Result<String> {
    contains(workspace, &["--help"], "lookup")?;
    let line = contains(workspace, &["lookup", "127.0.0.1", "-c", "2"], "2 look-ups of 127.0.0.1")?;
    Ok(format!("netwhy lookup prints {line}"))
}

/// The command is in the help and runs.
fn command(workspace: &Workspace) -> anyhow::Result<String> {
    let help = contains(workspace, &["--help"], "List the sources of evidence")?;
    contains(workspace, &["sources"], "/proc/net/softnet_stat")?;
    Ok(format!("netwhy --help has {help}"))
}

/// The line of what netwhy prints that contains a text.
fn contains(workspace: &Workspace, arguments: &[&str], expected: &str) -> anyhow::Result<String> {
    let text = workspace.netwhy(arguments)?;
    let text = String::from_utf8_lossy(&text);
    match text.lines().find(|line| line.contains(expected)) {
        Some(line) => Ok(line.trim().to_string()),
        None => bail!("netwhy {} does not print «{expected}»:\n{text}", arguments.join(" ")),
    }
}
