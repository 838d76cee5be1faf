//! A file through the program itself.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use anyhow::Context as _;

use super::case::controlling;
use super::kind::{Kind, limited};

/// Runs the program on a file, with little memory. Returns its exit code; an error says what it did that it
/// must not do.
pub(super) fn run(program: &Path, kind: Kind, file: &Path) -> anyhow::Result<i32> {
    let command = match kind {
        Kind::Capture => "pcap",
        Kind::Evidence => "diagnose",
    };
    let output = limited()
        .arg(program)
        .arg(command)
        .arg(file)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.signal().is_none() && !errors.contains("panicked at"),
        "{command}: {}: {errors}",
        output.status
    );
    for text in [&String::from_utf8_lossy(&output.stdout), &errors] {
        let control = controlling(text);
        anyhow::ensure!(control.is_none(), "{command} prints {control:?}");
    }
    let code = output.status.code().unwrap_or(-1);
    anyhow::ensure!([0, 1, 3].contains(&code), "{command}: exit code {code}: {errors}");
    Ok(code)
}
