//! `netwhy pcap`: captures become evidence and are diagnosed by the rules that watch a host.

use super::depth;
use super::follow;
use super::path;
use super::shares;
use super::show;
use super::watcher;

use super::filter::Filter;
use super::options::Choice;
use super::read::{Read, Whole};
use super::rows::Rows;
use super::watcher::{Record, Watcher};
use crate::failure::Failure;
use crate::output;
use sys::Stop;

use super::options::PcapOptions;

/// Packets that are kept of each stream that may be the one that is shown.
const EACH: usize = 2_000;

/// `netwhy pcap FILE...`: all files are one capture.
pub(crate) fn run(options: &PcapOptions) -> anyhow::Result<u8> {
    options.check().map_err(Failure::Usage)?;
    let stop = Stop::on_signals()?;
    if let Some((client, server)) = options.client.as_deref().zip(options.server.as_deref()) {
        return path::run(options, [client, server], &stop);
    }
    match &options.stream {
        None => report(options, &stop),
        Some(choice) => {
            one(options, choice, &stop)?;
            Ok(0)
        }
    }
}

/// The causes, and rows if they are asked for.
fn report(options: &PcapOptions, stop: &Stop) -> anyhow::Result<u8> {
    let rows = Rows::create(options)?;
    let filter = &options.filter;
    let mut known = None;
    let asks_for_stalls = filter.as_ref().is_some_and(Filter::asks_for_stalls);
    if asks_for_stalls && (rows.is_some() || options.annotate.is_some()) {
        // Which streams have rows is known only when they are over.
        let selected = Some(watcher::Numbers::default());
        let watcher = Watcher { filter: filter.clone(), selected, ..Watcher::default() };
        let whole = once(options, Some(watcher), stop, false)?;
        known = whole.watcher.and_then(|watcher| watcher.selected);
    }
    let watcher = (filter.is_some() || rows.is_some()).then(|| Watcher {
        filter: filter.clone(),
        known,
        rows,
        ..Watcher::default()
    });
    let Whole { evidence, watcher } = once(options, watcher, stop, true)?;
    let mut wrote = String::new();
    if let Some(mut watcher) = watcher {
        if let Some(error) = watcher.failed.take() {
            return Err(error);
        }
        if let Some(rows) = watcher.rows.take() {
            wrote = rows.finish()?;
        }
    }
    let report = diagnose::diagnose(&evidence);
    let style = output::style(&options.report, false);
    if !options.prints_rows() {
        let text = if options.report.json {
            report::json(&report)
        } else {
            report::capture(&report, options.top, style)
        };
        output::print(&text, options.report.output.as_deref(), false)?;
    }
    eprint!("{}", output::harmless(&wrote));
    Ok(crate::output::severity_code(&report, &options.report))
}

/// One stream in depth.
fn one(options: &PcapOptions, choice: &Choice, stop: &Stop) -> anyhow::Result<()> {
    let (number, filter) = match choice {
        Choice::Number(number) => (Some(*number), None),
        Choice::Worst(filter) if options.can_read_twice() && !options.follow => {
            // Which one it is, the whole capture tells; its packets are looked at then.
            let watcher = Watcher { filter: Some(filter.clone()), ..Watcher::default() };
            let whole = once(options, Some(watcher), stop, false)?;
            if stop.is_set() {
                let text =
                    format!("interrupted before the worst stream of {} was known", filter.text());
                return Err(Failure::Observe(text).into());
            }
            let packets = whole.evidence.packets.unwrap_or_default();
            let Some(worst) = packets.worst.first() else {
                return Err(none(filter, packets.streams).into());
            };
            (Some(worst.number), Some(filter))
        }
        Choice::Worst(filter) => (None, Some(filter)),
    };
    let record = match number {
        Some(number) => Record::One(number, options.ladder()),
        None => Record::First(options.ladder().min(EACH)),
    };
    let watcher = Watcher {
        filter: if number.is_none() { filter.cloned() } else { None },
        record,
        ..Watcher::default()
    };
    let Whole { evidence, watcher } = once(options, Some(watcher), stop, true)?;
    let packets = evidence.packets.unwrap_or_default();
    let number = number.or(packets.worst.first().map(|worst| worst.number));
    let Some(number) = number else {
        let none = filter.map(|filter| none(filter, packets.streams));
        return Err(none.unwrap_or(Failure::Usage("there is no stream".to_string())).into());
    };
    let recorded = watcher.and_then(|mut watcher| watcher.recorded.remove(&number));
    let (stream, recorded) = match recorded {
        Some((stream, recorded)) => (stream, recorded),
        None => {
            let worst = packets.worst.into_iter().find(|stream| stream.number == number);
            let Some(stream) = worst else {
                let streams = text::number(packets.streams);
                let text =
                    format!("there is no stream {number}: {streams} streams, numbered from 0");
                return Err(Failure::Usage(text).into());
            };
            (stream, None)
        }
    };
    let depth = recorded.map(|recorded| depth::of(recorded, &stream));
    let text = if options.report.json {
        format!(
            "{}\n",
            serde_json::to_string_pretty(&model::StreamInDepth {
                schema_version: model::StreamInDepth::SCHEMA_VERSION,
                stream,
                depth
            })?
        )
    } else {
        output::harmless(&show::stream(&stream, depth.as_ref(), filter))
    };
    output::print(&text, options.report.output.as_deref(), false)
}

fn none(filter: &Filter, streams: u64) -> Failure {
    Failure::Usage(format!(
        "no stream is selected by: {} (the capture has {})",
        filter.text(),
        text::number(streams)
    ))
}

/// Reads the capture once. The last time it is read, it is followed and annotated.
fn once(
    options: &PcapOptions,
    watcher: Option<Watcher>,
    stop: &Stop,
    last: bool,
) -> anyhow::Result<Whole> {
    let mut read = Read::new(options, watcher, stop)?;
    let annotate = options.annotate.as_deref().filter(|_| last);
    read.annotate(annotate)?;
    if options.follow {
        follow::file(&mut read, options, stop)?;
    } else {
        shares::files(&mut read, options)?;
    }
    read.finish(annotate)
}
