//! Runs `netwhy transfer`.

use std::time::Duration;

use model::{Focus, Probes, Series, Transfer, TransferReport, Unit};
use probe::transfer::{self, Options};
use session::{PacketPlan, Plan};

use super::options::{TransferCommand, TransferOptions};
use super::{judge, serve, show};
use crate::failure::Failure;
use crate::options::FailOn;
use crate::probe_job::{ProbeJob, Progress, value};
use crate::{output, window};

/// Packets after which the capture ends: what limits a transfer shows long before.
const MAX_PACKETS: u64 = 5_000_000;

/// `netwhy transfer`
pub(crate) fn run(options: &TransferOptions) -> anyhow::Result<u8> {
    if let Some(TransferCommand::Serve(options)) = &options.command {
        return serve::run(options);
    }
    window::enter(&options.netns)?;
    let transfers = options.plan()?;
    let packets = PacketPlan { max_packets: Some(MAX_PACKETS), ..PacketPlan::default() };
    let plan = Plan {
        duration: None,
        focus: Focus {
            ports: vec![transfers.address.port()],
            peers: vec![transfers.address.ip()],
            ..Focus::default()
        },
        netns: options.netns.netns.clone(),
        packets: (!options.no_capture).then_some(packets),
    };
    let report_file = output::Output::open(&options.report)?;
    let (mut evidence, running) = window::observe_job(&plan, || start(&transfers))?;
    let transfer = running.result()?;
    evidence.probes = Some(Probes { transfer: Some(transfer.clone()), ..Probes::default() });
    let judged = judge::judge(&evidence, &transfer);
    let all = options.report.verbose.then(|| diagnose::diagnose(&evidence));
    let report = TransferReport {
        schema_version: TransferReport::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        host: evidence.host,
        window: evidence.window,
        transfer,
        findings: judged.findings,
        other_findings: judged.other_findings,
        undecided: judged.undecided,
        missing_evidence: judged.missing_evidence,
        cost: evidence.cost,
    };
    let text = if options.report.json {
        output::json(&report)?
    } else {
        let style = output::style(&options.report, false);
        let mut text = show::text(&report, style);
        if let Some(all) = &all {
            text = output::with_verdicts(text, all, &options.report, style);
        }
        text
    };
    report_file.write(&text)?;
    Ok(exit_code(options, &report))
}

/// Starts the transfers in a thread.
fn start(options: &Options) -> anyhow::Result<ProbeJob<Transfer>> {
    let progress = transfer::Progress::default();
    let (options, counts) = (options.clone(), progress.clone());
    let series = move || {
        vec![
            Series::count("transfers_completed", progress.completed()),
            Series::new("transferred_bytes", Unit::Bytes, progress.bytes() as f64),
        ]
    };
    let progress = Progress { series: Box::new(series), line };
    ProbeJob::start("transfer", move |stop| transfer::run(&options, stop, &counts), progress)
}

/// The progress line.
fn line(series: &[Series], _: Duration) -> String {
    let transfers = text::count(value(series, "transfers_completed"), "transfer");
    let bytes = text::bytes(value(series, "transferred_bytes"));
    format!("{transfers} completed, {bytes} so far")
}

fn exit_code(options: &TransferOptions, report: &TransferReport) -> u8 {
    let Transfer { completed, bytes, interrupted, .. } = report.transfer;
    if completed == 0 && bytes == 0 && !interrupted {
        return Failure::OBSERVE;
    }
    let worst = report.findings.iter().map(|finding| finding.severity).max();
    let limit = options.report.fail_on.map(FailOn::severity);
    u8::from(worst.zip(limit).is_some_and(|(worst, limit)| worst >= limit))
}
