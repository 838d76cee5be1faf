//! A capture during a window.
//!
//! A separate thread takes the packets from the ring and analyses them; only headers are captured, and
//! none is kept. If capturing fails, that is missing evidence: the window continues without packets.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use model::{Capability, Evidence, Focus, MissingEvidence, Packets};
use streams::KnownSockets;
use sys::packet_ring::{ANY, Settings};
use sys::{ErrorKind, Stop};

use super::analysis::{Analysis, HEADER_SNAP_LENGTH, SnapshotRequest};
use super::capture_loop::{self, Source, Until};
use crate::error::Error;
use crate::plan::PacketPlan;

/// How long a snapshot waits for the thread that analyses packets.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);
/// How to make the kernel drop fewer packets.
const HOW_TO_DROP_FEWER: &str = "capture fewer packets with --interface, --port or --peer";

/// A capture that runs together with the observers.
pub struct BackgroundCapture {
    /// What is captured, in words.
    what: String,
    running: Result<Running, MissingEvidence>,
}

struct Running {
    thread: JoinHandle<anyhow::Result<(Packets, Vec<MissingEvidence>)>>,
    stop: Stop,
    snapshot_requests: mpsc::Sender<SnapshotRequest>,
}

impl BackgroundCapture {
    /// Starts to capture. Packets are captured when this returns; if they cannot be, that becomes missing
    /// evidence. `known` are the connections that are open already.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the focus is a process, which packets do not show.
    pub fn start(plan: &PacketPlan, focus: &Focus, known: KnownSockets) -> Result<Self, Error> {
        if !focus.pids.is_empty() {
            return Err(Error::PacketsOfProcesses);
        }
        let mut names = plan.interfaces.clone();
        if names.is_empty() {
            names.push(ANY.to_string());
        }
        let mut named = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !named.insert(*name)) {
            return Err(Error::InterfaceTwice(twice.clone()));
        }
        let what = match names.as_slice() {
            [name] if name == ANY => "packets of all interfaces".to_string(),
            _ => format!("packets of {}", names.join(", ")),
        };
        let (stop, filter) = (Stop::new(), filter(focus));
        let (started, has_started) = mpsc::channel();
        let (snapshot_requests, requests) = mpsc::channel();
        let (until, max_packets) = (stop.clone(), plan.max_packets);
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
            run(sources, known, max_packets, &until, requests)
        });
        let running = match thread.map(|thread| (thread, has_started.recv())) {
            Err(error) => Err(broken(&what, format!("cannot start a thread: {error}"))),
            Ok((thread, Ok(Ok(())))) => Ok(Running { thread, stop, snapshot_requests }),
            Ok((_, Ok(Err(error)))) => match error.kind {
                ErrorKind::NotFound => return Err(Error::NoInterface(error)),
                ErrorKind::PermissionDenied => Err(MissingEvidence {
                    capability: Capability::NotPermitted,
                    how_to_observe: Some("run as root".to_string()),
                    ..broken(&what, "capturing needs CAP_NET_RAW".to_string())
                }),
                _ => Err(broken(&what, error.to_string())),
            },
            Ok((_, Err(_))) => {
                Err(broken(&what, "its thread ended at once (a bug of netwhy)".to_string()))
            }
        };
        Ok(BackgroundCapture { what, running })
    }

    /// Puts the packets so far into the evidence of a snapshot.
    pub(crate) fn evidence_so_far(&self, evidence: &mut Evidence) {
        let running = match &self.running {
            Ok(running) => running,
            Err(missing) => return evidence.missing_evidence.push(missing.clone()),
        };
        let (reply, replied) = mpsc::sync_channel(1);
        let snapshot = match running.snapshot_requests.send(reply) {
            Ok(()) => replied.recv_timeout(SNAPSHOT_TIMEOUT).ok(),
            Err(_) => None,
        };
        match snapshot {
            Some(packets) => evidence.packets = Some(packets),
            None => {
                let why = format!(
                    "their analysis did not answer within {}",
                    text::duration(SNAPSHOT_TIMEOUT)
                );
                evidence.missing_evidence.push(broken(&self.what, why));
            }
        }
    }

    /// The window is over.
    pub fn stop(&self) {
        if let Ok(running) = &self.running {
            running.stop.set();
        }
    }

    /// Puts the packets into the evidence.
    pub fn finish(self, evidence: &mut Evidence) {
        self.stop();
        let broken = |why: String| broken(&self.what, why);
        let captured = match self.running {
            Err(missing) => return evidence.missing_evidence.push(missing),
            Ok(running) => running.thread.join(),
        };
        let why = match captured {
            Ok(Ok((packets, missing))) => {
                evidence.packets = Some(packets);
                return evidence.missing_evidence.extend(missing);
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "analysing them failed (a bug of netwhy)".to_string(),
        };
        evidence.missing_evidence.push(broken(why));
    }
}

fn broken(what: &str, why: String) -> MissingEvidence {
    MissingEvidence {
        capability: Capability::Broken,
        source: model::Source::Packets,
        what: what.to_string(),
        why,
        how_to_observe: None,
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
    known: KnownSockets,
    max_packets: Option<u64>,
    stop: &Stop,
    snapshot_requests: mpsc::Receiver<SnapshotRequest>,
) -> anyhow::Result<(Packets, Vec<MissingEvidence>)> {
    let mut analysis = Analysis::new(&sources, None, HOW_TO_DROP_FEWER);
    analysis.answer(snapshot_requests);
    analysis.know(known);
    let until = Until { time: None, count: max_packets, stop };
    let mut missing = Vec::new();
    let mut note = |why: String| missing.push(broken("packets of an interface", why));
    capture_loop::run(&mut sources, &until, &mut analysis, &mut note)?;
    let (packets, more) = analysis.finish();
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
