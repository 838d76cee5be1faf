//! Packets of the window in which a host is watched: `netwhy --capture`.
//!
//! A thread of its own takes them from the ring and adds them up; nothing but their headers is kept,
//! and no longer than that takes. What cannot be captured is a gap: the window goes on without.

use std::sync::mpsc;
use std::thread::JoinHandle;

use model::{Evidence, Focus, MissingEvidence, Packets};
use sys::ErrorKind;
use sys::packet_ring::{ANY, Settings};

use super::analysis::{Analysis, HEADERS};
use super::capture_loop::{self, Source, Until};
use crate::failure::Failure;
use crate::options::PacketOptions;
use sys::Stop;

/// What makes the kernel drop fewer packets.
const FEWER: &str = "--interface, --port or --peer capture fewer";

/// Packets that are captured beside the other observers.
pub(crate) struct Background {
    what: String,
    running: Result<Running, MissingEvidence>,
}

struct Running {
    thread: JoinHandle<anyhow::Result<(Packets, Vec<MissingEvidence>)>>,
    stop: Stop,
}

impl Background {
    /// Begins to capture, if that is asked for; packets come when this returns, `most` in all.
    ///
    /// # Errors
    ///
    /// There is no such interface, or what is asked cannot be told of packets.
    pub(crate) fn start(
        options: &PacketOptions,
        focus: &Focus,
        most: Option<u64>,
    ) -> anyhow::Result<Option<Self>> {
        if !options.capture {
            return Ok(None);
        }
        if !focus.pids.is_empty() {
            let words = "packets do not tell their process: with --capture give --port or --peer \
                         in place of --pid";
            return Err(Failure::Usage(words.to_string()).into());
        }
        let mut names = options.interface.clone();
        if names.is_empty() {
            names.push(ANY.to_string());
        }
        if let Some(twice) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            let words = format!("--interface {} is given twice", names[twice]);
            return Err(Failure::Usage(words).into());
        }
        let what = match &names[..] {
            [name] if name == ANY => "packets of all interfaces".to_string(),
            _ => format!("packets of {}", names.join(", ")),
        };
        let (stop, filter) = (Stop::new(), filter(focus));
        let (started, hears) = mpsc::channel();
        let until = stop.clone();
        // The rings are opened there: they stay with their thread.
        let thread = std::thread::Builder::new().name("packets".to_string()).spawn(move || {
            let sources = match open(&names, &filter) {
                Ok(sources) => sources,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return Ok(Default::default());
                }
            };
            let _ = started.send(Ok(()));
            run(sources, most, &until)
        });
        let gap = |why: String, closes_with: Option<&str>| MissingEvidence {
            capability: model::Capability::Broken,
            source: model::Source::Packets,
            what: what.clone(),
            why,
            how_to_observe: closes_with.map(str::to_string),
        };
        let running = match thread.map(|thread| (thread, hears.recv())) {
            Err(error) => Err(gap(format!("cannot start a thread for them: {error}"), None)),
            Ok((thread, Ok(Ok(())))) => Ok(Running { thread, stop }),
            Ok((_, Ok(Err(error)))) => match error.kind {
                ErrorKind::NotFound => return Err(Failure::Usage(error.to_string()).into()),
                ErrorKind::PermissionDenied => {
                    Err(gap("capturing needs CAP_NET_RAW".to_string(), Some("run as root")))
                }
                _ => Err(gap(error.to_string(), None)),
            },
            Ok((_, Err(_))) => Err(gap("their thread ended at once".to_string(), None)),
        };
        Ok(Some(Background { what, running }))
    }

    /// The window is over.
    pub(crate) fn stop(&self) {
        if let Ok(running) = &self.running {
            running.stop.set();
        }
    }

    /// Puts the packets into the evidence.
    pub(crate) fn finish(self, evidence: &mut Evidence) {
        self.stop();
        let captured = match self.running {
            Err(gap) => {
                evidence.missing_evidence.push(gap);
                return;
            }
            Ok(running) => running.thread.join(),
        };
        let why = match captured {
            Ok(Ok((packets, gaps))) => {
                evidence.packets = Some(packets);
                evidence.missing_evidence.extend(gaps);
                return;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "a fault of netwhy while they were analysed".to_string(),
        };
        let source = model::Source::Packets;
        evidence.missing_evidence.push(MissingEvidence {
            capability: model::Capability::Broken,
            source,
            what: self.what,
            why,
            how_to_observe: None,
        });
    }
}

/// The interfaces, whose packets come from now on.
fn open(names: &[String], filter: &str) -> sys::Result<Vec<Source>> {
    let settings = Settings { snap_length: HEADERS, ..Settings::default() };
    let mut sources = Vec::new();
    for name in names {
        let source = capture_loop::source(name, settings, filter)?;
        sources.push(source.map_err(|refused| {
            sys::Error::new("capture on", name, refused.to_string(), ErrorKind::Other)
        })?);
    }
    capture_loop::start(&mut sources)?;
    Ok(sources)
}

/// Packets until the window is over: the evidence, and what was not seen.
fn run(
    mut sources: Vec<Source>,
    most: Option<u64>,
    stop: &Stop,
) -> anyhow::Result<(Packets, Vec<MissingEvidence>)> {
    let mut analysis = Analysis::new(&sources, None, FEWER);
    let until = Until { time: None, count: most, stop };
    let mut gaps = Vec::new();
    let mut note = |why: String| {
        let (source, what) = (model::Source::Packets, "packets of an interface".to_string());
        gaps.push(MissingEvidence {
            capability: model::Capability::Broken,
            source,
            what,
            why,
            how_to_observe: None,
        });
    };
    capture_loop::run(&mut sources, &until, &mut analysis, &mut note)?;
    let (packets, more) = analysis.finish()?;
    gaps.extend(more);
    Ok((packets, gaps))
}

/// Which packets are in focus: TCP, and of it these ports and peers; with no focus look-ups of names
/// too.
fn filter(focus: &Focus) -> String {
    let any = |words: Vec<String>| match words.is_empty() {
        true => String::new(),
        false => format!(" and ({})", words.join(" or ")),
    };
    let ports = focus.ports.iter().map(|port| format!("port {port}")).collect();
    let peers = focus.peers.iter().map(|peer| format!("host {}", peer.to_canonical())).collect();
    if focus.ports.is_empty() && focus.peers.is_empty() {
        return "tcp or udp port 53".to_string();
    }
    format!("tcp{}{}", any(ports), any(peers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focus_is_the_filter() {
        assert_eq!(filter(&Focus::default()), "tcp or udp port 53");
        let focus = Focus {
            ports: vec![80, 443],
            peers: vec!["::ffff:198.18.0.7".parse().unwrap()],
            ..Focus::default()
        };
        assert_eq!(filter(&focus), "tcp and (port 80 or port 443) and (host 198.18.0.7)");
        for link in [wire::capture::LinkType::LINUX_SLL2, wire::capture::LinkType::ETHERNET] {
            let filter = sys::filter::Filter::compile(&filter(&focus), link, HEADERS).unwrap();
            assert!(filter.kernel_program().is_some(), "{link}");
        }
    }
}
