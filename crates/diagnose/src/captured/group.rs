//! Captured streams as rules see them: grouped by who serves and who sends, so that forty streams
//! with one fault are one finding.

use std::net::SocketAddr;

use model::{
    CapturedDirection, CapturedStream, Evidence, Finding, Impact, ImpactUnit, Packets, Proof,
    Remedy, Service, Severity, Source, Subject, SubjectKind, TimeCategory,
};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::make::{WithFigures as _, proof};
use crate::words::command;

/// Findings of one cause: services beyond that are told by number.
const MAX_FINDINGS: usize = 5;
/// Shares of the time in which somebody waited from which a finding is a warning, and critical.
const MIN_TIME_SHARE_WARNING: f64 = 0.01;
const MIN_TIME_SHARE_CRITICAL: f64 = 0.1;

/// One direction of one stream.
#[derive(Clone, Copy)]
pub(crate) struct StreamDirection<'a> {
    pub(crate) stream: &'a CapturedStream,
    /// Whether the server sends.
    pub(crate) server_sends: bool,
}

impl<'a> StreamDirection<'a> {
    /// What is sent.
    pub(crate) fn sent(&self) -> &'a CapturedDirection {
        if self.server_sends { &self.stream.from_server } else { &self.stream.from_client }
    }

    /// What the other end sends.
    pub(crate) fn reverse(&self) -> &'a CapturedDirection {
        if self.server_sends { &self.stream.from_client } else { &self.stream.from_server }
    }

    /// Who sends.
    pub(crate) fn sender(&self) -> SocketAddr {
        if self.server_sends { self.stream.server } else { self.stream.client }
    }

    /// Who receives.
    pub(crate) fn receiver(&self) -> SocketAddr {
        if self.server_sends { self.stream.client } else { self.stream.server }
    }

    /// Whether both ends are one host: between them is no line.
    pub(crate) fn is_within_one_host(&self) -> bool {
        let (sender, receiver) = (self.sender().ip(), self.receiver().ip());
        sender == receiver || (sender.is_loopback() && receiver.is_loopback())
    }
}

/// Streams of one service with the same fault in the same direction, those that lost most first.
pub(crate) struct Group<'a> {
    pub(crate) server: SocketAddr,
    pub(crate) directions: Vec<StreamDirection<'a>>,
    /// Time lost by it, microseconds.
    pub(crate) lost_us: u64,
    service: Option<&'a Service>,
}

/// The streams that a rule hits, grouped; it tells how much time each lost, in microseconds.
pub(crate) fn group_directions<'a>(
    packets: &'a Packets,
    hit: impl Fn(StreamDirection<'a>) -> Option<u64>,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut all: Vec<(u64, StreamDirection<'a>)> = packets
        .worst
        .iter()
        .flat_map(|stream| {
            [false, true].map(|server_sends| StreamDirection { stream, server_sends })
        })
        .filter_map(|direction| Some((hit(direction)?, direction)))
        .collect();
    all.sort_by_key(|(us, direction)| (std::cmp::Reverse(*us), direction.stream.number));
    for (us, direction) in all {
        let server = direction.stream.server;
        let same = |group: &&mut Group<'a>| {
            let known =
                group.directions.first().is_some_and(|w| w.server_sends == direction.server_sends);
            group.server == server && known
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.directions.push(direction);
                group.lost_us = group.lost_us.saturating_add(us);
            }
            None => groups.push(Group {
                server,
                directions: vec![direction],
                lost_us: us,
                service: packets.service(server),
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.lost_us));
    groups.truncate(MAX_FINDINGS);
    groups
}

/// What a rule that reads nothing but packets says: a finding for each group of streams that it hits,
/// or in other words what there was in place of the cause.
pub(crate) fn verdict_from_packets<'a>(
    evidence: &'a Evidence,
    hit: impl Fn(StreamDirection<'a>) -> Option<u64>,
    finding: impl Fn(&Evidence, &Group<'a>) -> Finding,
    otherwise: impl FnOnce(&Packets) -> String,
) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::RuledOut("no packets".to_string());
    };
    let groups = group_directions(packets, hit);
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || otherwise(packets))
}

impl<'a> Group<'a> {
    /// The one that lost most.
    pub(crate) fn worst(&self) -> StreamDirection<'a> {
        self.directions[0]
    }

    /// A sum over its streams.
    pub(crate) fn sum(&self, of: impl Fn(&CapturedDirection) -> u64) -> u64 {
        self.directions.iter().map(|direction| of(direction.sent())).fold(0, u64::saturating_add)
    }

    /// Who sends, for people: the server, the client, or several clients.
    pub(crate) fn sender(&self) -> String {
        self.end(StreamDirection::sender)
    }

    /// Who receives, for people.
    pub(crate) fn receiver(&self) -> String {
        self.end(StreamDirection::receiver)
    }

    fn end(&self, of: impl Fn(&StreamDirection<'a>) -> SocketAddr) -> String {
        let first = of(&self.directions[0]);
        if self.directions.iter().all(|direction| of(direction) == first) {
            first.to_string()
        } else if self.directions.iter().all(|direction| of(direction).ip() == first.ip()) {
            first.ip().to_string()
        } else {
            format!("clients of {}", self.server)
        }
    }

    /// How many streams the service has in all.
    pub(crate) fn streams_of_service(&self) -> u64 {
        self.service.map_or(0, |service| service.streams).max(self.directions.len() as u64)
    }

    /// Median time of a turn with the service, microseconds.
    pub(crate) fn exchange_p50_us(&self) -> u64 {
        self.service.and_then(|service| service.exchange_p50_us).unwrap_or(0)
    }

    /// Share of the time in which somebody waited for the service.
    pub(crate) fn time_share(&self) -> f64 {
        let part = |service: &Service| {
            let all =
                TimeCategory::ALL.into_iter().filter(|part| *part != TimeCategory::ClientIdle);
            all.map(|part| service.time_us(part)).fold(0, u64::saturating_add)
        };
        let own = || {
            self.directions
                .iter()
                .map(|direction| direction.stream.busy_us())
                .fold(0, u64::saturating_add)
        };
        let busy = self.service.map_or_else(own, part);
        share(self.lost_us as f64, busy as f64).min(1.0)
    }

    /// How many streams it hits, in words: `38 of 40 streams to 198.18.0.2:80`.
    pub(crate) fn streams_text(&self) -> String {
        let (hit, all) = (self.directions.len() as u64, self.streams_of_service());
        if all == 1 {
            format!("stream {} to {}", self.worst().stream.number, self.server)
        } else {
            format!("{} of {} to {}", number(hit), count(all, "stream"), self.server)
        }
    }

    /// A finding. `what` is the loss in words; `proofs` must not be empty.
    pub(crate) fn finding(
        &self,
        evidence: &Evidence,
        cause: &str,
        title: String,
        what: &str,
        proofs: Vec<Proof>,
        remedies: Vec<Remedy>,
    ) -> Finding {
        let share = self.time_share();
        let text = format!(
            "{}: {what},\n{} of the time in which somebody waited",
            self.streams_text(),
            percent(share)
        );
        let severity = match share {
            share if share >= MIN_TIME_SHARE_CRITICAL => Severity::Critical,
            share if share >= MIN_TIME_SHARE_WARNING => Severity::Warning,
            _ => Severity::Info,
        };
        let direction = self.worst();
        let one =
            self.directions.iter().all(|other| other.stream.number == direction.stream.number);
        Finding {
            cause: cause.to_string(),
            title,
            severity,
            subject: Subject {
                kind: SubjectKind::Connection,
                name: if one {
                    format!("{} > {}", direction.stream.client, direction.stream.server)
                } else {
                    let streams = count(self.directions.len() as u64, "stream");
                    let client = direction.stream.client.ip();
                    let alone = self
                        .directions
                        .iter()
                        .all(|direction| direction.stream.client.ip() == client);
                    let from =
                        if alone { client.to_string() } else { "several clients".to_string() };
                    format!("{streams} of {} from {from}", self.server)
                },
                local: Some(self.server),
                remote: one.then_some(direction.stream.client),
                processes: Vec::new(),
            },
            impact: Impact {
                text,
                unit: ImpactUnit::SecondsLost,
                amount: self.lost_us as f64 / 1e6,
                share: Some(share),
            },
            evidence: proofs,
            checks: stream_checks(evidence, direction.stream),
            remedies,
            also_causes: Vec::new(),
        }
    }

    /// A proof from packets, with the time that was lost among its figures.
    pub(crate) fn proof(&self, evidence: &Evidence, label: &str, text: String) -> Proof {
        proof(Source::Packets, label, text)
            .over_window(evidence, "streams", self.directions.len() as f64, "streams")
            .over_window(evidence, "time lost", self.lost_us as f64 / 1e3, "ms")
    }
}

/// Commands that show a stream; what was not written, a capture shows when it happens again.
pub(crate) fn stream_checks(evidence: &Evidence, stream: &CapturedStream) -> Vec<String> {
    let Some(packets) = &evidence.packets else { return Vec::new() };
    let interfaces = packets.interfaces();
    if !interfaces.is_empty() {
        let names: Vec<String> =
            interfaces.iter().map(|name| format!("-i {}", quoted(name))).collect();
        let (names, port) = (names.join(" "), stream.server.port());
        let words = format!("netwhy capture {names} -w again.pcapng --for 10s tcp port {port}");
        return vec![command(evidence, &words), "netwhy pcap again.pcapng".to_string()];
    }
    let number = stream.number;
    pasted(evidence).map_or_else(Vec::new, |file| {
        vec![
            format!("netwhy pcap {file} --stream {number}"),
            format!("tshark -r {file} -Y tcp.stream=={number}"),
        ]
    })
}

/// The name of the file that the packets come from, as a shell takes it.
pub(crate) fn pasted(evidence: &Evidence) -> Option<String> {
    match &evidence.packets.as_ref()?.sources[..] {
        [file] if file != "-" && !file.starts_with(Packets::INTERFACE_PREFIX) => Some(quoted(file)),
        _ => None,
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+,=@%".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_string()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{add_stream, healthy};

    #[test]
    fn streams_of_a_service_are_one_group_for_each_direction() {
        let mut evidence = healthy();
        for number in 0..4 {
            add_stream(&mut evidence, "198.18.0.1:40000", "198.18.0.2:80").number = number;
        }
        add_stream(&mut evidence, "198.18.0.1:40000", "198.18.0.2:81");
        let packets = evidence.packets.as_ref().unwrap();
        let groups = group_directions(packets, |direction| {
            direction.server_sends.then_some(direction.stream.number * 1000)
        });
        assert_eq!(groups.iter().map(|group| group.directions.len()).collect::<Vec<_>>(), [4, 1]);
        assert_eq!((groups[0].worst().stream.number, groups[0].lost_us), (3, 6000));
        assert_eq!(groups[0].sender(), "198.18.0.2:80");
        assert_eq!(groups[0].streams_text(), "4 of 4 streams to 198.18.0.2:80");
    }

    #[test]
    fn file_names_can_be_pasted() {
        assert_eq!(quoted("a/b-1.pcap"), "a/b-1.pcap");
        assert_eq!(quoted("a b';rm.pcap"), r"'a b'\'';rm.pcap'");
    }
}
