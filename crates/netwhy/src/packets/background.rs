//! Background capture during the window in which a host is watched: `netwhy --capture`.
//!
//! A separate thread takes the packets from the ring and analyses them; only headers are captured, and
//! none is kept. If capturing fails, that is missing evidence: the window continues without packets.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread::JoinHandle;

use model::{Capability, Evidence, Focus, MissingEvidence, Packets};
use sys::ErrorKind;
use sys::packet_ring::{ANY, Settings};

use super::analysis::{Analysis, HEADER_SNAP_LENGTH};
use super::capture_loop::{self, Source, Until};
use crate::failure::Failure;
use crate::options::PacketOptions;
use sys::Stop;

/// How to make the kernel drop fewer packets.
const HOW_TO_DROP_FEWER: &str = "capture fewer packets with --interface, --port or --peer";

/// A capture that runs together with the observers.
pub(crate) struct Background {
    /// What is captured, in words.
    what: String,
    running: Result<Running, MissingEvidence>,
}

struct Running {
    thread: JoinHandle<anyhow::Result<(Packets, Vec<MissingEvidence>)>>,
    stop: Stop,
}

impl Background {
    /// Starts to capture, if the options say so, up to `max_packets`. Packets are captured when this
    /// returns.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the focus is a process, which packets do not show.
    pub(crate) fn start(
        options: &PacketOptions,
        focus: &Focus,
        max_packets: Option<u64>,
    ) -> anyhow::Result<Option<Self>> {
        if !options.capture {
            return Ok(None);
        }
        if !focus.pids.is_empty() {
            let text = "packets do not show their process: with --capture use --port or --peer \
                        instead of --pid";
            return Err(Failure::Usage(text.to_string()).into());
        }
        let mut names = options.interface.clone();
        if names.is_empty() {
            names.push(ANY.to_string());
        }
        let mut known = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !known.insert(*name)) {
            return Err(Failure::Usage(format!("--interface {twice} is given twice")).into());
        }
        let what = match names.as_slice() {
            [name] if name == ANY => "packets of all interfaces".to_string(),
            _ => format!("packets of {}", names.join(", ")),
        };
        let (stop, filter) = (Stop::new(), filter(focus));
        let (started, has_started) = mpsc::channel();
        let until = stop.clone();
        // The thread opens the rings, because they cannot be sent to another one.
        let thread = std::thread::Builder::new().name("packets".to_string()).spawn(move || {
            let sources = match open(&names, &filter) {
                Ok(sources) => sources,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return Ok(Default::default());
                }
            };
            let _ = started.send(Ok(()));
            run(sources, max_packets, &until)
        });
        let missing = |capability: Capability, why: String| MissingEvidence {
            capability,
            source: model::Source::Packets,
            what: what.clone(),
            why,
            how_to_observe: (capability == Capability::NotPermitted)
                .then(|| "run as root".to_string()),
        };
        let broken = |why: String| Err(missing(Capability::Broken, why));
        let running = match thread.map(|thread| (thread, has_started.recv())) {
            Err(error) => broken(format!("cannot start a thread: {error}")),
            Ok((thread, Ok(Ok(())))) => Ok(Running { thread, stop }),
            Ok((_, Ok(Err(error)))) => match error.kind {
                ErrorKind::NotFound => return Err(Failure::Usage(error.to_string()).into()),
                ErrorKind::PermissionDenied => {
                    let why = "capturing needs CAP_NET_RAW".to_string();
                    Err(missing(Capability::NotPermitted, why))
                }
                _ => broken(error.to_string()),
            },
            Ok((_, Err(_))) => broken("its thread ended at once (a bug of netwhy)".to_string()),
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
            Err(missing) => {
                evidence.missing_evidence.push(missing);
                return;
            }
            Ok(running) => running.thread.join(),
        };
        let why = match captured {
            Ok(Ok((packets, missing))) => {
                evidence.packets = Some(packets);
                evidence.missing_evidence.extend(missing);
                return;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "analysing them failed (a bug of netwhy)".to_string(),
        };
        let source = model::Source::Packets;
        evidence.missing_evidence.push(MissingEvidence {
            capability: Capability::Broken,
            source,
            what: self.what,
            why,
            how_to_observe: None,
        });
    }
}

/// Opens the interfaces and starts to capture.
fn open(names: &[String], filter: &str) -> sys::Result<Vec<Source>> {
    let settings = Settings { snap_length: HEADER_SNAP_LENGTH, ..Settings::default() };
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

/// Captures until the window is over: the packets, and what of them was not observed.
fn run(
    mut sources: Vec<Source>,
    max_packets: Option<u64>,
    stop: &Stop,
) -> anyhow::Result<(Packets, Vec<MissingEvidence>)> {
    let mut analysis = Analysis::new(&sources, None, HOW_TO_DROP_FEWER);
    let until = Until { time: None, count: max_packets, stop };
    let mut missing = Vec::new();
    let mut note = |why: String| {
        missing.push(MissingEvidence {
            capability: Capability::Broken,
            source: model::Source::Packets,
            what: "packets of an interface".to_string(),
            why,
            how_to_observe: None,
        });
    };
    capture_loop::run(&mut sources, &until, &mut analysis, &mut note)?;
    let (packets, more) = analysis.finish()?;
    missing.extend(more);
    Ok((packets, missing))
}

/// The packets in focus: TCP with these ports and peers; without a focus all TCP, and DNS.
fn filter(focus: &Focus) -> String {
    let any_of = |terms: Vec<String>| match terms.is_empty() {
        true => String::new(),
        false => format!(" and ({})", terms.join(" or ")),
    };
    let ports = focus.ports.iter().map(|port| format!("port {port}")).collect();
    let peers = focus.peers.iter().map(|peer| format!("host {}", peer.to_canonical())).collect();
    if focus.ports.is_empty() && focus.peers.is_empty() {
        return "tcp or udp port 53".to_string();
    }
    format!("tcp{}{}", any_of(ports), any_of(peers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focus_becomes_the_filter() {
        assert_eq!(filter(&Focus::default()), "tcp or udp port 53");
        let focus = Focus {
            ports: vec![80, 443],
            peers: vec!["::ffff:198.18.0.7".parse().unwrap()],
            ..Focus::default()
        };
        assert_eq!(filter(&focus), "tcp and (port 80 or port 443) and (host 198.18.0.7)");
        for link in [wire::capture::LinkType::LINUX_SLL2, wire::capture::LinkType::ETHERNET] {
            let filter =
                sys::filter::Filter::compile(&filter(&focus), link, HEADER_SNAP_LENGTH).unwrap();
            assert!(filter.kernel_program().is_some(), "{link}");
        }
    }
}
