//! Runs `netwhy transfer`.

use model::{Focus, Probes, Transfer, TransferReport};
use probe::transfer::{Options, Progress};

use super::options::{TransferCommand, TransferOptions};
use super::{judge, serve, show};
use crate::failure::Failure;
use crate::options::{FailOn, PacketOptions};
use crate::output;
use crate::probing::Probing;
use crate::window::{self, What};

/// Packets after which the capture ends: what limits a transfer shows long before.
const MAX_PACKETS: u64 = 5_000_000;

/// `netwhy transfer`
pub(crate) fn run(options: &TransferOptions) -> anyhow::Result<u8> {
    if let Some(TransferCommand::Serve(options)) = &options.command {
        return serve::run(options);
    }
    window::enter(&options.netns)?;
    let plan = options.plan()?;
    let packets = PacketOptions { capture: !options.no_capture, interface: Vec::new() };
    let what = What {
        time: None,
        focus: Focus {
            ports: vec![plan.address.port()],
            peers: vec![plan.address.ip()],
            ..Focus::default()
        },
        packets: &packets,
        most_packets: Some(MAX_PACKETS),
        netns: options.netns.netns.clone(),
    };
    let (mut evidence, running) = window::observe(&what, Some(&mut || start(&plan)))?;
    let transfer = running.map(Probing::result).transpose()?.unwrap_or_default();
    evidence.probes = Some(Probes { transfer: Some(transfer.clone()), ..Probes::default() });
    let judged = judge::judge(&evidence, &transfer);
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
        let json = serde_json::to_string_pretty(&report)?;
        format!("{}\n", text::sanitize::json(&json))
    } else {
        show::text(&report, output::style(&options.report, false))
    };
    output::print(&text, options.report.output.as_deref(), false)?;
    Ok(exit_code(options, &report))
}

/// Starts the transfers in a thread.
fn start(plan: &Options) -> anyhow::Result<Probing<Transfer>> {
    let progress = Progress::default();
    let (plan, counts) = (plan.clone(), progress.clone());
    let text = move || {
        let transfers = text::count(progress.completed(), "transfer");
        format!("{transfers} completed, {} so far", text::bytes(progress.bytes()))
    };
    Probing::start("transfer", move |stop| probe::transfer::run(&plan, stop, &counts), text)
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
