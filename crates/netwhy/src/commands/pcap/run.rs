//! `netwhy pcap`: reads the captures, diagnoses them, prints the report or one stream.

use sys::Stop;

use super::depth;
use super::filter::Filter;
use super::follow::follow;
use super::options::{PcapOptions, StreamChoice};
use super::parallel::read_files;
use super::path;
use super::reader::{CaptureReader, Finished};
use super::show;
use super::tables::Tables;
use super::watcher::{Recording, StreamNumbers, Watcher};
use crate::failure::Failure;
use crate::output::{self, Output};

/// Most packets recorded of each stream, when it is not known yet which one is shown.
const MAX_PACKETS_OF_CANDIDATE: usize = 2_000;

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
            one_stream(options, choice, &stop)?;
            Ok(0)
        }
    }
}

/// The report, and tables if they are wanted.
fn report(options: &PcapOptions, stop: &Stop) -> anyhow::Result<u8> {
    let report_file = Output::open(&options.report)?;
    let tables = Tables::create(options)?;
    let filter = &options.filter;
    let mut known = None;
    let asks_for_stalls = filter.as_ref().is_some_and(Filter::asks_for_stalls);
    if asks_for_stalls && (tables.is_some() || options.annotate.is_some()) {
        // Which streams it selects is known only at their end: the capture is read twice.
        let selected = Some(StreamNumbers::default());
        let watcher = Watcher { filter: filter.clone(), selected, ..Watcher::default() };
        let first_pass = read_once(options, Some(watcher), stop, Pass::First)?;
        known = first_pass.watcher.and_then(|watcher| watcher.selected);
    }
    let watcher = (filter.is_some() || tables.is_some()).then(|| Watcher {
        filter: filter.clone(),
        known,
        tables,
        ..Watcher::default()
    });
    let Finished { evidence, watcher } = read_once(options, watcher, stop, Pass::Last)?;
    let mut written = String::new();
    if let Some(mut watcher) = watcher {
        if let Some(error) = watcher.failed.take() {
            return Err(error);
        }
        if let Some(tables) = watcher.tables.take() {
            written = tables.finish()?;
        }
    }
    let report = diagnose::diagnose(&evidence);
    let style = output::style(&options.report, false);
    if !options.prints_table() {
        let text = if options.report.json {
            report::json(&report)
        } else {
            output::with_verdicts(
                report::capture(&report, options.top, style),
                &report,
                &options.report,
                style,
            )
        };
        report_file.write(&text)?;
    }
    output::print(&written, true)?;
    Ok(output::severity_code(&report, &options.report))
}

/// One stream in depth.
fn one_stream(options: &PcapOptions, choice: &StreamChoice, stop: &Stop) -> anyhow::Result<()> {
    let report_file = Output::open(&options.report)?;
    let (number, filter) = match choice {
        StreamChoice::Number(number) => (Some(*number), None),
        StreamChoice::Worst(filter) if options.can_read_twice() && !options.follow => {
            (Some(worst(options, filter, stop)?), Some(filter))
        }
        StreamChoice::Worst(filter) => (None, Some(filter)),
    };
    let recording = match number {
        Some(number) => Recording::One { number, max_packets: options.ladder() },
        None => Recording::First { max_packets: options.ladder().min(MAX_PACKETS_OF_CANDIDATE) },
    };
    let watcher = Watcher {
        filter: if number.is_none() { filter.cloned() } else { None },
        recording,
        ..Watcher::default()
    };
    let Finished { evidence, watcher } = read_once(options, Some(watcher), stop, Pass::Last)?;
    let packets = evidence.packets.unwrap_or_default();
    let number = number.or(packets.worst.first().map(|worst| worst.number));
    let Some(number) = number else {
        let failure = filter.map(|filter| none_selected(filter, packets.streams));
        let none = || Failure::Usage("the capture has no TCP stream".to_string());
        return Err(failure.unwrap_or_else(none).into());
    };
    let recorded = watcher.and_then(|mut watcher| watcher.recorded.remove(&number));
    let (stream, recorded) = match recorded {
        Some((stream, recorded)) => (stream, recorded),
        None => {
            let worst = packets.worst.into_iter().find(|stream| stream.number == number);
            let Some(stream) = worst else {
                let streams = text::count(packets.streams, "stream");
                let text = format!(
                    "there is no stream {number}: the capture has {streams}, numbered from 0"
                );
                return Err(Failure::Usage(text).into());
            };
            (stream, None)
        }
    };
    let depth = recorded.map(|recorded| depth::of(recorded, &stream));
    let text = if options.report.json {
        let schema_version = model::StreamInDepth::SCHEMA_VERSION;
        let document = model::StreamInDepth { schema_version, stream, depth };
        output::json(&document)?
    } else {
        show::stream(&stream, depth.as_ref(), filter, output::style(&options.report, false))
    };
    report_file.write(&text)
}

/// The number of the stream that lost most time of those that a filter selects.
fn worst(options: &PcapOptions, filter: &Filter, stop: &Stop) -> anyhow::Result<u64> {
    let watcher = Watcher { filter: Some(filter.clone()), ..Watcher::default() };
    let first_pass = read_once(options, Some(watcher), stop, Pass::First)?;
    if stop.is_set() {
        let text = format!("interrupted before the worst stream of {} was known", filter.text());
        return Err(Failure::Observe(text).into());
    }
    let packets = first_pass.evidence.packets.unwrap_or_default();
    let worst = packets.worst.first().ok_or_else(|| none_selected(filter, packets.streams))?;
    Ok(worst.number)
}

fn none_selected(filter: &Filter, streams: u64) -> Failure {
    Failure::Usage(format!(
        "no stream is selected by: {} (the capture has {})",
        filter.text(),
        text::count(streams, "stream")
    ))
}

/// Which reading of the capture it is, if it is read more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Finds out which streams are wanted.
    First,
    /// Follows the file and writes the annotated copy, if the options say so.
    Last,
}

/// Reads the capture once.
fn read_once(
    options: &PcapOptions,
    watcher: Option<Watcher>,
    stop: &Stop,
    pass: Pass,
) -> anyhow::Result<Finished> {
    let mut reader = CaptureReader::new(options, watcher, stop);
    let annotated_path = options.annotate.as_deref().filter(|_| pass == Pass::Last);
    reader.annotate(annotated_path, options.report.force)?;
    if options.follow {
        follow(&mut reader, options, stop)?;
    } else {
        read_files(&mut reader, options)?;
    }
    reader.finish(annotated_path)
}
