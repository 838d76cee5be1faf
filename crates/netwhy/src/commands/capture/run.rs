//! `netwhy capture`: packets of interfaces into pcapng files, or diagnosed as they come.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use super::options::CaptureOptions;
use sys::filter::Filter;
use sys::packet_ring::{Counts, Settings};
use sys::privileges::{self, User};
use text::{bytes, duration, number};
use wire::capture::write::{self, Flags};
use wire::capture::{LinkType, Packet};

use crate::failure::Failure;
use crate::output::{self, Output};
use crate::packets::{self, Analysis, Sink, Source, Until, source};
use crate::window;
use sys::Stop;

use super::files::{Files, Limits, Total, Unwritten};
use super::names::Names;

/// What makes the kernel drop fewer packets.
const FEWER: &str = "a larger --buffer, a filter, a smaller --snap-length";

/// Where the packets go.
struct Sinks {
    files: Option<Files>,
    analysis: Option<Analysis>,
}

/// `netwhy capture -i INTERFACE -w FILE [FILTER]`
pub(crate) fn run(options: &CaptureOptions) -> anyhow::Result<u8> {
    options.check().map_err(Failure::Usage)?;
    if options.to_standard() && io::stdout().is_terminal() {
        let words = "a capture is no text for a terminal: name a file with -w, or pipe it";
        return Err(Failure::Usage(words.to_string()).into());
    }
    window::enter(&options.netns)?;
    let mut sources = open(options)?;
    // Not before: names in a filter may take long to look up, and Ctrl-C must end that.
    let stop = Stop::on_signals()?;
    let lesser = if options.keep_root { None } else { privileges::unprivileged_user() };
    let mut sinks = Sinks { files: files(options, &sources, lesser.as_ref())?, analysis: None };
    let report = Output::open(options.report.output.as_deref())?;
    packets::start(&mut sources).map_err(|error| Failure::Observe(error.to_string()))?;
    give_up_rights(options, lesser.as_ref())?;
    note(&announcement(options, &sources, lesser.as_ref()));
    if options.analyse {
        let mut analysis = Analysis::new(&sources, options.one_file(), FEWER);
        analysis.tell(options.report.json || options.to_standard());
        sinks.analysis = Some(analysis);
    }

    let begun = Instant::now();
    let until = Until { time: options.time, count: options.count, stop: &stop };
    let mut told = |text: String| note(&text);
    let captured = packets::run(&mut sources, &until, &mut sinks, &mut told);
    let all_gone = sources.iter().all(Source::is_gone);
    // The last file is ended in any case; the first error is the one to tell.
    let finished = sinks.files.as_mut().map_or(Ok(()), |files| Ok(files.finish()?));
    let captured = captured.and(finished).or_else(|error: anyhow::Error| {
        // A reader that went away has seen enough.
        let unwritten = error.downcast_ref::<Unwritten>().map(|error| &error.source);
        let enough = unwritten.or_else(|| error.downcast_ref()).is_some_and(output::is_broken_pipe);
        if enough { Ok(()) } else { Err(error) }
    });
    let counts = sum(&mut sources);
    note(&summary(&sinks, counts, begun.elapsed(), options.to_standard()));
    let code = sinks.analysis.map(|analysis| tell(options, analysis, report)).transpose()?;
    captured.map_err(|error| Failure::Observe(format!("{error:#}")))?;
    if all_gone {
        let words = "no interface is left to capture on; what came before is ";
        let done = if options.write.is_some() { "written" } else { "told" };
        return Err(Failure::Observe(format!("{words}{done}")).into());
    }
    Ok(code.unwrap_or(0))
}

/// The files, the first of which is open; `None`: none are wanted.
fn files(
    options: &CaptureOptions,
    sources: &[Source],
    lesser: Option<&User>,
) -> anyhow::Result<Option<Files>> {
    let Some(write) = &options.write else { return Ok(None) };
    let head = head(options, sources);
    if options.to_standard() {
        return Ok(Some(Files::standard(head, sources.len())));
    }
    let mut names =
        if options.rotates() { Names::many(write, options.files) } else { Names::one(write) };
    names.prepare(options.force, lesser)?;
    let time = options.file_seconds.map(Duration::from_secs);
    let limits = Limits { bytes: options.file_size, time };
    Ok(Some(Files::begin(names, limits, head, sources.len())?))
}

/// The report, and the exit code that it asks for.
fn tell(options: &CaptureOptions, analysis: Analysis, to: Output) -> anyhow::Result<u8> {
    let (packets, gaps) = analysis.finish()?;
    // Ctrl-C is how a capture ends.
    let report = diagnose::diagnose(&crate::packets::evidence(packets, gaps, false));
    let style = output::style(&options.report, false);
    let text = if options.report.json {
        report::json(&report)
    } else {
        report::capture(&report, options.top, style)
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

/// The interfaces and their filters, not started yet.
fn open(options: &CaptureOptions) -> anyhow::Result<Vec<Source>> {
    let buffer_bytes = usize::try_from(options.buffer).unwrap_or(usize::MAX);
    let (snap_length, promiscuous) = (options.snap_length(), options.promiscuous);
    let settings = Settings { snap_length, promiscuous, buffer_bytes };
    let text = options.filter();
    let refused = |refused: sys::filter::FilterError| Failure::Usage(refused.to_string());
    // What is not in the language at all can be told without any rights.
    if let Err(error) = Filter::compile(&text, LinkType::ETHERNET, snap_length)
        && error.is_syntax()
    {
        return Err(refused(error).into());
    }
    let mut sources = Vec::new();
    for name in &options.interface {
        let source = source(name, settings, &text).map_err(|error| match error.kind {
            sys::ErrorKind::NotFound => Failure::Usage(error.to_string()),
            _ => Failure::Observe(error.to_string()),
        })?;
        sources.push(source.map_err(refused)?);
    }
    Ok(sources)
}

/// What each file begins with.
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

/// From here on only what is open is needed.
fn give_up_rights(options: &CaptureOptions, lesser: Option<&User>) -> anyhow::Result<()> {
    let done = match lesser {
        Some(user) => privileges::become_user(user),
        None if options.keep_root => Ok(()),
        None => privileges::drop_capabilities(),
    };
    Ok(done.map_err(|error| Failure::Observe(error.to_string()))?)
}

fn announcement(options: &CaptureOptions, sources: &[Source], lesser: Option<&User>) -> String {
    let name = |source: &Source| format!("{} ({})", source.ring.name(), source.ring.link());
    let names: Vec<String> = sources.iter().map(name).collect();
    let mut text = format!("capturing on {}", names.join(", "));
    let filter = options.filter();
    if !filter.is_empty() {
        /// Most bytes of the filter that are shown; all of it is in the file.
        const SHOWN: usize = 200;
        let short = &filter[..filter.floor_char_boundary(SHOWN)];
        let more = if short.len() < filter.len() { "…" } else { "" };
        text.push_str(&format!(", «{short}{more}»"));
        if sources.iter().any(|source| source.filter.kernel_program().is_none()) {
            text.push_str(" (not in the kernel, which sees these packets otherwise)");
        }
    }
    if let Some(user) = lesser {
        text.push_str(&format!(", as {} ({}) and no longer root", user.name, user.id));
    }
    if options.time.is_none() && options.count.is_none() {
        text.push_str("; Ctrl-C ends");
    }
    text
}

/// What the kernel counted on all interfaces.
fn sum(sources: &mut [Source]) -> Counts {
    let mut all = Counts::default();
    for counts in sources.iter_mut().filter_map(|source| source.ring.counts().ok()) {
        all.received += counts.received;
        all.dropped += counts.dropped;
    }
    all
}

fn summary(sinks: &Sinks, counts: Counts, time: Duration, to_standard: bool) -> String {
    let plural = |packets: u64| if packets == 1 { "packet" } else { "packets" };
    let mut text = match &sinks.files {
        Some(files) => {
            let Total { packets, packet_bytes, .. } = files.total();
            format!("{} {} ({}) captured", number(packets), plural(packets), bytes(packet_bytes))
        }
        None => {
            let packets = sinks.analysis.as_ref().map_or(0, Analysis::packets);
            format!("{} {} analysed", number(packets), plural(packets))
        }
    };
    text.push_str(&format!(
        " in {}, {} dropped by the kernel",
        duration(time),
        number(counts.dropped)
    ));
    if counts.dropped > 0 {
        text.push_str(&format!(" (fewer with {FEWER})"));
    }
    let Some(files) = &sinks.files else { return text };
    let size = bytes(files.total().file_bytes);
    let (first, last, there) = files.there_are();
    text.push_str(&match (to_standard, there) {
        (true, _) => format!("; {size} written"),
        (false, 1) => format!("; {size} in {}", last.display()),
        (false, _) => format!(
            "; {size}, of which there are {} files, from {} to {}",
            number(there),
            first.display(),
            last.display()
        ),
    });
    text
}

/// A line to standard error; nobody may be there to read it.
fn note(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(io::stderr(), "{}", output::harmless(text));
}
