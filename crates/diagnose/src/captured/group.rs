//! Captured streams grouped by service and direction, so that forty streams with one fault are one
//! finding.

use std::net::{IpAddr, SocketAddr};

use model::{
    CapturedDirection, Evidence, Finding, Impact, ImpactUnit, Packets, Proof, Remedy, Service,
    Source, Subject, SubjectKind,
};
use text::{count, micros, number, percent, share};

use super::checks::stream_checks;
use super::direction::StreamDirection;
use super::what_is_there::NO_PACKETS;
use crate::cause::Verdict;
use crate::proofs::{WithFigures as _, proof};
use crate::reach::{belongs_to_others, without_remedies_of};
use crate::severity;

/// Findings of one cause from one capture; the services that lost most.
const MAX_FINDINGS: usize = 5;

/// Streams of one service with the same fault in the same direction, those that lost most first.
pub(crate) struct Group<'a> {
    pub(crate) server: SocketAddr,
    pub(crate) directions: Vec<StreamDirection<'a>>,
    /// Time lost to the fault, microseconds, summed over the streams.
    pub(crate) lost_us: u64,
    worst: StreamDirection<'a>,
    service: Option<&'a Service>,
    packets: &'a Packets,
}

/// What the streams share that send from one host to another.
pub(crate) struct SharedPath {
    /// How many send at a time, on average.
    pub(crate) streams_at_once: f64,
    /// The highest rate at which the path delivered a flight of one of them, bits of data a second.
    pub(crate) rate_bps: Option<f64>,
}

/// The directions that a rule hits, grouped; the rule says how much time each lost, in microseconds.
pub(crate) fn group_directions<'a>(
    packets: &'a Packets,
    hit: impl Fn(StreamDirection<'a>) -> Option<u64>,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut all: Vec<(u64, StreamDirection<'a>)> = packets
        .worst
        .iter()
        .flat_map(StreamDirection::both)
        .filter_map(|direction| Some((hit(direction)?, direction)))
        .collect();
    all.sort_by_key(|(us, direction)| (std::cmp::Reverse(*us), direction.stream.number));
    for (lost_us, direction) in all {
        let server = direction.stream.server;
        let same = |group: &&mut Group<'a>| {
            group.server == server && group.worst.server_sends == direction.server_sends
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.directions.push(direction);
                group.lost_us = group.lost_us.saturating_add(lost_us);
            }
            None => groups.push(Group {
                server,
                directions: vec![direction],
                lost_us,
                worst: direction,
                service: packets.service(server),
                packets,
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.lost_us));
    groups.truncate(MAX_FINDINGS);
    groups
}

impl SharedPath {
    /// What the streams share that send as this one does, from the same host to the same host.
    pub(crate) fn of(packets: &Packets, one: StreamDirection<'_>) -> Self {
        let hosts = |of: &StreamDirection<'_>| (of.sender().ip(), of.receiver().ip());
        let is_like =
            |other: &StreamDirection<'_>| hosts(other) == hosts(&one) && other.sent().new_bytes > 0;
        let (mut sending_us, mut began_us, mut ended_us) = (0u64, u64::MAX, 0);
        let mut rate_bps = None;
        for direction in packets.worst.iter().flat_map(StreamDirection::both).filter(is_like) {
            let stream = direction.stream;
            sending_us = sending_us.saturating_add(direction.sending_us());
            began_us = began_us.min(stream.first_us);
            ended_us = ended_us.max(stream.first_us.saturating_add(stream.span_us));
            rate_bps = rate_bps.max(direction.sent().flight_rate_bps);
        }
        let span_us = ended_us.saturating_sub(began_us);
        SharedPath {
            streams_at_once: share(sending_us as f64, span_us as f64).max(1.0),
            rate_bps: rate_bps.map(|rate| rate as f64),
        }
    }
}

/// The verdict of a rule that reads nothing but packets: a finding for each group of streams that it
/// hits, or what the packets show in place of the cause.
pub(crate) fn verdict_from_packets<'a>(
    evidence: &'a Evidence,
    hit: impl Fn(StreamDirection<'a>) -> Option<u64>,
    finding: impl Fn(&Evidence, &Group<'a>) -> Finding,
    otherwise: impl FnOnce(&Packets) -> Verdict,
) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let groups = group_directions(packets, hit);
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || otherwise(packets))
}

impl<'a> Group<'a> {
    /// The direction that lost most.
    pub(crate) fn worst(&self) -> StreamDirection<'a> {
        self.worst
    }

    /// What all streams share that send as the worst one does, from the same host to the same host.
    pub(crate) fn path(&self) -> SharedPath {
        SharedPath::of(self.packets, self.worst)
    }

    /// A sum over what is sent in the directions of the group.
    pub(crate) fn sum(&self, of: impl Fn(&CapturedDirection) -> u64) -> u64 {
        self.directions.iter().map(|direction| of(direction.sent())).fold(0, u64::saturating_add)
    }

    /// The sending ends, for people: the server, the client, or several clients.
    pub(crate) fn sender(&self) -> String {
        self.end_text(StreamDirection::sender)
    }

    /// The receiving ends, for people.
    pub(crate) fn receiver(&self) -> String {
        self.end_text(StreamDirection::receiver)
    }

    /// The host that sends, for people: its address, or that there are several.
    pub(crate) fn sending_host(&self) -> String {
        self.host_text(StreamDirection::sender)
    }

    /// The host that receives, for people.
    pub(crate) fn receiving_host(&self) -> String {
        self.host_text(StreamDirection::receiver)
    }

    fn end_text(&self, of: impl Fn(&StreamDirection<'a>) -> SocketAddr) -> String {
        let first = of(&self.worst);
        if self.directions.iter().all(|direction| of(direction) == first) {
            first.to_string()
        } else {
            self.host_text(of)
        }
    }

    fn host_text(&self, of: impl Fn(&StreamDirection<'a>) -> SocketAddr) -> String {
        let first = of(&self.worst).ip();
        if self.directions.iter().all(|direction| of(direction).ip() == first) {
            first.to_string()
        } else {
            format!("the clients of {}", self.server)
        }
    }

    /// How many streams the service has, whether they are hit or not.
    pub(crate) fn streams_of_service(&self) -> u64 {
        self.service.map_or(0, |service| service.streams).max(self.directions.len() as u64)
    }

    /// Exchanges of the streams in the group.
    pub(crate) fn exchanges(&self) -> u64 {
        let exchanges = self.directions.iter().map(|direction| direction.stream.exchanges);
        exchanges.fold(0, u64::saturating_add)
    }

    /// Median time of an exchange with the service, microseconds.
    pub(crate) fn exchange_p50_us(&self) -> u64 {
        self.service.and_then(|service| service.exchange_p50_us).unwrap_or(0)
    }

    /// Share of the service's active time that was lost.
    pub(crate) fn time_share(&self) -> f64 {
        let own = || {
            let active = self.directions.iter().map(|direction| direction.stream.busy_us());
            active.fold(0, u64::saturating_add)
        };
        let active = self.service.map_or_else(own, Service::busy_us);
        share(self.lost_us as f64, active as f64).min(1.0)
    }

    /// The time that was lost, for people: `5 h 33 min summed over 4,000 streams`.
    pub(crate) fn lost_text(&self) -> String {
        match self.directions.len() {
            1 => micros(self.lost_us),
            streams => {
                format!("{} summed over {}", micros(self.lost_us), count(streams as u64, "stream"))
            }
        }
    }

    /// How many streams it hits, for people: `38 of 40 streams to 198.18.0.2:80`.
    pub(crate) fn streams_text(&self) -> String {
        let (hit, all) = (self.directions.len() as u64, self.streams_of_service());
        if all == 1 {
            format!("stream {} to {}", self.worst.stream.number, self.server)
        } else {
            format!("{} of {} to {}", number(hit), count(all, "stream"), self.server)
        }
    }

    /// A finding: `harm` is what the fault costs, in words; `proofs` are not empty.
    pub(crate) fn finding(
        &self,
        evidence: &Evidence,
        cause: &str,
        title: String,
        harm: &str,
        proofs: Vec<Proof>,
        remedies: Vec<Remedy>,
    ) -> Finding {
        let share = self.time_share();
        let mut text = format!("{}: {harm}", self.streams_text());
        if self.lost_us > 0 {
            text.push_str(&format!(", {} of the service's active time", percent(share)));
        }
        let stream = self.worst.stream;
        let one = self.directions.iter().all(|other| other.stream.number == stream.number);
        Finding {
            cause: cause.to_string(),
            title,
            severity: severity::of_lost_time(self.lost_us, share),
            subject: Subject {
                kind: SubjectKind::Connection,
                name: if one {
                    format!("{} > {}", stream.client, stream.server)
                } else {
                    self.streams_and_clients()
                },
                local: Some(self.server),
                remote: one.then_some(stream.client),
                processes: Vec::new(),
            },
            impact: Impact {
                text,
                unit: ImpactUnit::SecondsLost,
                amount: self.lost_us as f64 / 1e6,
                share: Some(share),
            },
            evidence: proofs,
            checks: stream_checks(evidence, stream),
            remedies: self.within_reach(remedies),
            gain: self.gain(),
            also_causes: Vec::new(),
        }
    }

    fn streams_and_clients(&self) -> String {
        let client = self.worst.stream.client.ip();
        let clients = self.directions.iter().map(|direction| direction.stream.client.ip());
        let from = if clients.clone().all(|other| other == client) {
            client.to_string()
        } else {
            "several clients".to_string()
        };
        format!("{} of {} from {from}", count(self.directions.len() as u64, "stream"), self.server)
    }

    /// Without what only the owners of the end can do that belongs to others.
    fn within_reach(&self, remedies: Vec<Remedy>) -> Vec<Remedy> {
        match self.host_of_others() {
            Some(host) => without_remedies_of(host, remedies),
            None => remedies,
        }
    }

    /// The end that is likely to belong to somebody else.
    pub(crate) fn host_of_others(&self) -> Option<IpAddr> {
        let (server, client) = (self.server.ip(), self.worst.stream.client.ip());
        let of_others = [(server, client), (client, server)];
        of_others
            .into_iter()
            .find(|(host, own)| belongs_to_others(*host, *own))
            .map(|(host, _)| host)
    }

    /// A proof from packets, with the time that was lost among its figures.
    pub(crate) fn proof(&self, evidence: &Evidence, label: &str, text: String) -> Proof {
        proof(Source::Packets, label, text)
            .over_window(evidence, "streams", self.directions.len() as f64, "streams")
            .over_window(evidence, "time lost", self.lost_us as f64 / 1e3, "ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{add_stream, healthy};
    use crate::remedies::advice_about;

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
        let sizes: Vec<usize> = groups.iter().map(|group| group.directions.len()).collect();
        assert_eq!(sizes, [4, 1]);
        assert_eq!((groups[0].worst().stream.number, groups[0].lost_us), (3, 6000));
        assert_eq!(groups[0].sender(), "198.18.0.2:80");
        assert_eq!(groups[0].receiving_host(), "198.18.0.1");
        assert_eq!(groups[0].streams_text(), "4 of 4 streams to 198.18.0.2:80");
        assert_eq!(groups[0].lost_text(), "6.0 ms summed over 4 streams");
    }

    #[test]
    fn remedies_for_a_public_server_of_others_are_left_out() {
        let fix = |client: &str, server: &str| {
            let mut evidence = healthy();
            add_stream(&mut evidence, client, server);
            let packets = evidence.packets.as_ref().unwrap();
            let groups = group_directions(packets, |direction| direction.server_sends.then_some(1));
            let host = groups[0].sending_host();
            let all = vec![advice_about(&host, format!("run netwhy on {host}"))];
            groups[0].within_reach(all).remove(0).text
        };
        assert_eq!(fix("10.0.0.9:4000", "10.0.0.2:80"), "run netwhy on 10.0.0.2");
        let of_others = "only the operator of 11.0.0.2 can fix this";
        assert_eq!(fix("192.168.1.9:4000", "11.0.0.2:80"), of_others);
    }
}
