//! `netwhy transfer`: bulk and request-answer transfers beside what theory says, and what held them.

use super::judge;
use super::options;
use super::serve;
use super::show;

use model::{Probes, Transfer, TransferReport};
use probe::transfer::{Options, Progress};

use super::options::TransferOptions;

use crate::failure::Failure;
use crate::options::PacketOptions;
use crate::output;
use crate::probing::Probing;
use crate::window::{self, What};

/// Packets after which no more are captured: what holds a transfer shows long before.
const MOST_PACKETS: u64 = 5_000_000;

/// `netwhy transfer`
pub(crate) fn run(options: &TransferOptions) -> anyhow::Result<u8> {
    if let Some(options::TransferCommand::Serve(options)) = &options.command {
        return serve::run(options);
    }
    window::enter(&options.netns)?;
    let plan = options.plan()?;
    let packets = PacketOptions { capture: !options.no_capture, interface: Vec::new() };
    let what = What {
        time: None,
        focus: model::Focus {
            ports: vec![plan.address.port()],
            peers: vec![plan.address.ip()],
            ..model::Focus::default()
        },
        packets: &packets,
        most_packets: Some(MOST_PACKETS),
        netns: options.netns.netns.clone(),
    };
    let (mut evidence, job) = window::observe(&what, Some(&mut || start(&plan)))?;
    let measured = job.map(Probing::result).transpose()?;
    let transfer = measured.unwrap_or_default();
    evidence.probes = Some(Probes { transfer: Some(transfer.clone()), ..Probes::default() });
    let judged = judge::judge(&evidence, &transfer);
    let report = TransferReport {
        schema_version: TransferReport::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        host: evidence.host,
        window: evidence.window,
        transfer,
        findings: judged.findings,
        other_findings: judged.others,
        undecided: judged.undecided,
        missing_evidence: judged.gaps,
        cost: evidence.cost,
    };
    let text = if options.report.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        show::text(&report, output::style(&options.report, false))
    };
    output::print(&text, options.report.output.as_deref(), false)?;
    Ok(code(options, &report))
}

/// Makes the transfers in a thread.
fn start(plan: &Options) -> anyhow::Result<Probing<Transfer>> {
    let progress = Progress::default();
    let (plan, seen) = (plan.clone(), progress.clone());
    let says = move || {
        let (done, bytes) = (progress.completed(), progress.bytes());
        format!("{} so far, {} done", text::bytes(bytes), text::number(done))
    };
    Probing::start("transfer", move |stop| probe::transfer::run(&plan, stop, &seen), says)
}

fn code(options: &TransferOptions, report: &TransferReport) -> u8 {
    let Transfer { completed: done, bytes, interrupted, .. } = report.transfer;
    if done == 0 && bytes == 0 && !interrupted {
        return Failure::OBSERVE;
    }
    let worst = report.findings.iter().map(|finding| finding.severity).max();
    let limit = options.report.fail_on.map(crate::options::FailOn::severity);
    u8::from(matches!((worst, limit), (Some(worst), Some(limit)) if worst >= limit))
}
