//! Reads evidence, diagnoses it, reports.

use super::options::DiagnoseOptions;
use crate::evidence_file;
use crate::output::{Output, severity_code};

/// `netwhy diagnose FILE`
pub(crate) fn run(options: &DiagnoseOptions) -> anyhow::Result<u8> {
    let output = Output::open(&options.report)?;
    let evidence = evidence_file::read(&options.file)?;
    let report = ::diagnose::diagnose(&evidence);
    output.report(&report, &options.report)?;
    Ok(severity_code(&report, &options.report))
}
