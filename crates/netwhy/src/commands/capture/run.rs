//! Opens interfaces and files, drops root, captures, reports.

use std::time::{Duration, Instant};

use sys::Stop;
use sys::filter::Filter;
use sys::packet_ring::{Counts, Settings};
use sys::privileges::{self, User};
use text::{bytes, count, duration, number};
use wire::capture::write::{self, Flags};
use wire::capture::{LinkType, Packet};

use super::files::{Files, Limits, Total, Unwritten};
use super::names::Names;
use super::options::CaptureOptions;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::{live_findings, window};
use session::packets::{self, Analysis, Sink, Source, Until, source};

/// How to make the kernel drop fewer packets.
const HOW_TO_DROP_FEWER: &str = "a larger --buffer, a filter, a smaller --snap-length";
/// Most bytes of the filter that are printed; the files have all of it.
const MAX_FILTER_BYTES_SHOWN: usize = 200;

/// Where the packets go.
struct Sinks {
    files: Option<Files>,
    analysis: Option<Analysis>,
}

/// `netwhy capture -i INTERFACE -w FILE [FILTER]`
pub(crate) fn run(options: &CaptureOptions) -> anyhow::Result<u8> {
    options.check().map_err(Failure::Usage)?;
    if options.to_standard() && output::stdout_is_terminal() {
        let text = "will not write packets to a terminal: name a file with -w, or use a pipe";
        return Err(Failure::Usage(text.to_string()).into());
    }
    window::enter(&options.netns)?;
    let mut sources = open(options)?;
    // Not before: resolving the names in a filter may take long, and Ctrl-C must end that.
    let stop = Stop::on_signals()?;
    let user = if options.keep_root { None } else { privileges::unprivileged_user() };
    let mut sinks = Sinks { files: files(options, &sources, user.as_ref())?, analysis: None };
    let report = Output::open_now(&options.report)?;
    packets::start(&mut sources).map_err(|error| Failure::Observe(error.to_string()))?;
    drop_privileges(options, user.as_ref())?;
    note(&announcement(options, &sources, user.as_ref()));
    if options.analyse {
        let mut analysis = Analysis::new(&sources, options.one_file(), HOW_TO_DROP_FEWER);
        let to_stderr = findings_to_stderr(options);
        analysis.report_live(move |finding, evidence| {
            live_findings::print(finding, evidence, to_stderr)
        });
        sinks.analysis = Some(analysis);
    }

    let started = Instant::now();
    let until = Until { time: options.time, count: options.count, stop: &stop };
    let captured = packets::run(&mut sources, &until, &mut sinks, &mut |text| note(&text));
    let all_gone = sources.iter().all(Source::is_gone);
    // The last file is ended in any case; the first error is reported.
    let finished = sinks.files.as_mut().map_or(Ok(()), |files| Ok(files.finish()?));
    let captured = captured.and(finished).or_else(|error: anyhow::Error| {
        // A reader that closed the pipe has read enough.
        let unwritten = error.downcast_ref::<Unwritten>().map(|error| &error.source);
        let is_closed =
            unwritten.or_else(|| error.downcast_ref()).is_some_and(output::is_broken_pipe);
        if is_closed { Ok(()) } else { Err(error) }
    });
    let counts = sum(&mut sources);
    note(&summary(&sinks, counts, started.elapsed(), options.to_standard()));
    let code = sinks.analysis.map(|analysis| diagnose(options, analysis, report)).transpose()?;
    captured.map_err(|error| Failure::Observe(format!("{error:#}")))?;
    if all_gone {
        let done = if options.write.is_some() { "written" } else { "reported" };
        return Err(Failure::Observe(format!(
            "no interface is left to capture on; what was captured before is {done}"
        ))
        .into());
    }
    Ok(code.unwrap_or(0))
}

/// The files, the first of which is open; `None`: without `-w`.
fn files(
    options: &CaptureOptions,
    sources: &[Source],
    user: Option<&User>,
) -> anyhow::Result<Option<Files>> {
    let Some(write) = &options.write else { return Ok(None) };
    let head = head(options, sources);
    if options.to_standard() {
        return Ok(Some(Files::standard(head, sources.len())));
    }
    let mut names =
        if options.rotates() { Names::many(write, options.files) } else { Names::one(write) };
    names.prepare(options.report.force, user)?;
    let time = options.file_seconds.map(Duration::from_secs);
    let limits = Limits { bytes: options.file_size, time };
    Ok(Some(Files::begin(names, limits, head, sources.len())?))
}

/// Whether findings go to standard error: something else goes to standard output.
fn findings_to_stderr(options: &CaptureOptions) -> bool {
    options.report.json || options.to_standard()
}

/// Writes the report; the exit code.
fn diagnose(options: &CaptureOptions, analysis: Analysis, to: Output) -> anyhow::Result<u8> {
    if analysis.has_reported() {
        live_findings::print_end(findings_to_stderr(options))?;
    }
    let (packets, missing) = analysis.finish();
    // Not interrupted: Ctrl-C is how a capture ends.
    let report = ::diagnose::diagnose(&packets::evidence(packets, missing, false));
    let style = output::style(&options.report, false);
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
    to.write(&text)?;
    Ok(output::severity_code(&report, &options.report))
}

impl Sink for Sinks {
    fn counted(&mut self, interface: usize, counts: Counts) {
        let sinks = self.files.iter_mut().map(|files| files as &mut dyn Sink);
        let analysis = self.analysis.iter_mut().map(|analysis| analysis as &mut dyn Sink);
        sinks.chain(analysis).for_each(|sink| sink.counted(interface, counts));
    }

    fn packet(&mut self, packet: &Packet<'_>, flags: Flags) -> anyhow::Result<()> {
        if let Some(files) = &mut self.files {
            files.packet(packet, flags)?;
        }
        self.analysis.as_mut().map_or(Ok(()), |analysis| analysis.packet(packet, flags))
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        if let Some(files) = &mut self.files {
            files.idle()?;
        }
        self.analysis.as_mut().map_or(Ok(()), Sink::idle)
    }
}

/// Opens the interfaces and compiles their filters; nothing is captured yet.
fn open(options: &CaptureOptions) -> anyhow::Result<Vec<Source>> {
    let buffer_bytes = usize::try_from(options.buffer).unwrap_or(usize::MAX);
    let (snap_length, promiscuous) = (options.snap_length(), options.promiscuous);
    let settings = Settings { snap_length, promiscuous, buffer_bytes };
    let text = options.filter();
    let refused = |refused: sys::filter::FilterError| Failure::Usage(refused.to_string());
    // A syntax error is reported even without the right to capture.
    if let Err(error) = Filter::compile(&text, LinkType::ETHERNET, snap_length)
        && error.is_syntax()
    {
        return Err(refused(error).into());
    }
    let mut sources = Vec::new();
    for name in &options.interface {
        let source = source(name, settings, &text).map_err(|error| window::no_interface(&error))?;
        sources.push(source.map_err(refused)?);
    }
    Ok(sources)
}

/// The blocks at the beginning of each file.
fn head(options: &CaptureOptions, sources: &[Source]) -> Vec<u8> {
    let uname = rustix::system::uname();
    let system =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let mut head = Vec::new();
    write::section(
        &mut head,
        &write::Section {
            hardware: &uname.machine().to_string_lossy(),
            system: &system,
            application: concat!("netwhy ", env!("CARGO_PKG_VERSION")),
            comment: "",
        },
    );
    let filter = options.filter();
    for source in sources {
        write::interface(
            &mut head,
            &write::Description {
                link: source.ring.link(),
                snap_length: options.snap_length(),
                name: source.ring.name(),
                filter: &filter,
                ..write::Description::default()
            },
        );
    }
    head
}

/// Drops root, or at least all capabilities: interfaces and files are open.
fn drop_privileges(options: &CaptureOptions, user: Option<&User>) -> anyhow::Result<()> {
    let done = match user {
        Some(user) => privileges::become_user(user),
        None if options.keep_root => Ok(()),
        None => privileges::drop_capabilities(),
    };
    Ok(done.map_err(|error| Failure::Observe(error.to_string()))?)
}

fn announcement(options: &CaptureOptions, sources: &[Source], user: Option<&User>) -> String {
    let name = |source: &Source| format!("{} ({})", source.ring.name(), source.ring.link());
    let names: Vec<String> = sources.iter().map(name).collect();
    let mut text = format!("capturing on {}", names.join(", "));
    let filter = options.filter();
    if !filter.is_empty() {
        let end = filter.floor_char_boundary(MAX_FILTER_BYTES_SHOWN);
        let shown = filter.get(..end).unwrap_or_default();
        let more = if shown.len() < filter.len() { "…" } else { "" };
        text.push_str(&format!(", «{shown}{more}»"));
        if sources.iter().any(|source| source.filter.kernel_program().is_none()) {
            text.push_str(" (applied by netwhy, not in the kernel)");
        }
    }
    if let Some(user) = user {
        text.push_str(&format!(", as {} ({}), no longer root", user.name, user.id));
    }
    if options.time.is_none() && options.count.is_none() {
        text.push_str("; Ctrl-C ends");
    }
    text
}

/// The kernel's counters, summed over all interfaces.
fn sum(sources: &mut [Source]) -> Counts {
    let mut all = Counts::default();
    for counts in sources.iter_mut().filter_map(|source| source.ring.counts().ok()) {
        all.received = all.received.saturating_add(counts.received);
        all.dropped = all.dropped.saturating_add(counts.dropped);
    }
    all
}

fn summary(sinks: &Sinks, counts: Counts, time: Duration, to_standard: bool) -> String {
    let mut text = match &sinks.files {
        Some(files) => {
            let Total { packets, packet_bytes, .. } = files.total();
            format!("{} ({}) captured", count(packets, "packet"), bytes(packet_bytes))
        }
        None => {
            let packets = sinks.analysis.as_ref().map_or(0, Analysis::packets);
            format!("{} analysed", count(packets, "packet"))
        }
    };
    text.push_str(&format!(
        " in {}, {} dropped by the kernel",
        duration(time),
        number(counts.dropped)
    ));
    if counts.dropped > 0 {
        text.push_str(&format!(" (to drop fewer: {HOW_TO_DROP_FEWER})"));
    }
    let Some(files) = &sinks.files else { return text };
    let size = bytes(files.total().file_bytes);
    let (first, last, kept) = files.kept();
    text.push_str(&match (to_standard, kept) {
        (true, _) => format!("; {size} written"),
        (false, 1) => format!("; {size} in {}", last.display()),
        (false, _) => format!(
            "; {size} written, {} kept, from {} to {}",
            count(kept, "file"),
            first.display(),
            last.display()
        ),
    });
    text
}

/// Prints a line to standard error, which nobody may read.
fn note(text: &str) {
    output::note(text);
}
