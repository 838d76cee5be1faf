//! Watches and saves the evidence.

use std::path::Path;

use super::options::RecordOptions;
use crate::options::plan;
use crate::window::{enter, observe_command};
use crate::{evidence_file, output};

/// `netwhy record -o FILE [-- COMMAND]`
pub(crate) fn run(options: &RecordOptions) -> anyhow::Result<u8> {
    let plan = plan(options.time, &options.focus, &options.packets, &options.netns)?;
    let file = evidence_file::create(&options.output, options.force)?;
    enter(&options.netns)?;
    let (evidence, code) = observe_command(&plan, &options.exec, None)?;
    let bytes = file.write(&evidence)?;
    if options.output != Path::new("-") {
        let path = options.output.display().to_string();
        output::note(&format!(
            "saved {} of evidence; diagnose it with: netwhy diagnose {}",
            text::bytes(bytes),
            text::sanitize::line(&path)
        ));
    }
    Ok(code.unwrap_or(0))
}
