//! Reads evidence, diagnoses it, reports.

use super::options::DiagnoseOptions;
use crate::evidence_file;
use crate::output::{print_report, severity_code};

/// `netwhy diagnose FILE`
pub(crate) fn run(options: &DiagnoseOptions) -> anyhow::Result<u8> {
    let evidence = evidence_file::read(&options.file)?;
    let report = ::diagnose::diagnose(&evidence);
    print_report(&report, &options.report, false)?;
    Ok(severity_code(&report, &options.report))
}
