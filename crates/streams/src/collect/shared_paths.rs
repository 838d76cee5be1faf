//! Streams that pass the same token bucket: neither their rates nor their losses show it one by one,
//! but their sum does.
//!
//! Of the streams that are over, those that lost most and those that sent most are kept, so many of
//! each. When the capture is over, those between the same two hosts are put together, then those of one
//! sender, then those of one receiver.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{CapturedDirection, CapturedStream, PolicedExchange, ShapedRate, Side};

use crate::captured_stream::{policed, shaped};
use crate::policing::{Losses, shared_bucket};
use crate::stream::Stream;
use crate::throughput::{ShapedThroughput, Throughput};

/// Directions that are kept for their losses, and for their throughput.
const MAX_KEPT: usize = 32;
/// Directions that are put together: those that lost or sent most.
const MAX_TOGETHER: usize = 8;
/// The round trip of each stream grows by so many microseconds in the queue of a shaper.
const MIN_QUEUE_DELAY_US: u64 = 20_000;

/// One direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Number of the stream.
    stream: u64,
    from_server: bool,
    sender: IpAddr,
    receiver: IpAddr,
}

/// What is kept of one direction.
#[derive(Debug)]
struct Kept<T> {
    /// What it lost, or sent.
    rank: u64,
    place: Place,
    of: T,
}

/// Directions that may share a bucket.
#[derive(Debug, Default)]
pub(super) struct SharedPaths {
    losses: Vec<Kept<Box<Losses>>>,
    throughputs: Vec<Kept<Box<Throughput>>>,
}

/// Which directions are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    Hosts(IpAddr, IpAddr),
    Sender(IpAddr),
    Receiver(IpAddr),
}

impl Place {
    fn shared(&self) -> [Shared; 3] {
        [
            Shared::Hosts(self.sender, self.receiver),
            Shared::Sender(self.sender),
            Shared::Receiver(self.receiver),
        ]
    }
}

impl SharedPaths {
    /// Takes what may belong to others from a stream that is over.
    pub(super) fn add(&mut self, stream: &mut Stream) {
        for side in [Side::Client, Side::Server] {
            let place = Place {
                stream: stream.number,
                from_server: stream.role(Side::Server) == side,
                sender: stream.ends.get(side).address.ip(),
                receiver: stream.ends.get(side.other()).address.ip(),
            };
            let end = stream.ends.get_mut(side);
            if let Some(losses) = end.sent.policer.take_losses() {
                let rank = u64::from(losses.lost);
                self.losses.push(Kept { rank, place, of: losses });
                keep(&mut self.losses);
            }
            if let Some(throughput) = end.throughput() {
                let rank = throughput.bytes();
                let throughput = Box::new(throughput.clone());
                self.throughputs.push(Kept { rank, place, of: throughput });
                keep(&mut self.throughputs);
            }
        }
    }

    pub(super) fn merge(&mut self, other: SharedPaths) {
        self.losses.extend(other.losses);
        keep(&mut self.losses);
        self.throughputs.extend(other.throughputs);
        keep(&mut self.throughputs);
    }

    /// Names the buckets that streams share in those of them that are reported.
    pub(super) fn name_in<'a>(&self, streams: impl Iterator<Item = &'a mut CapturedStream>) {
        let (policed, shaped) = (self.policed(), self.shaped());
        for stream in streams {
            for (place, found) in &policed {
                if let Some(sent) = direction(stream, place) {
                    sent.policed.retain(|one| one.exchange != found.exchange);
                    sent.policed.push(*found);
                }
            }
            for (place, found) in &shaped {
                if let Some(sent) = direction(stream, place) {
                    sent.shaped = Some(*found);
                }
            }
        }
    }

    /// What one policer dropped of several streams.
    fn policed(&self) -> Vec<(Place, PolicedExchange)> {
        let mut all: Vec<(Place, PolicedExchange)> = Vec::new();
        for group in groups(&self.losses) {
            let is_known = |one: &&Kept<Box<Losses>>| all.iter().any(|(at, _)| *at == one.place);
            // Where a bucket of its own explains each, or one of these streams is explained, it is done.
            if group.iter().all(|one| one.of.is_explained) || group.iter().any(is_known) {
                continue;
            }
            let losses: Vec<&Losses> = group.iter().map(|one| &*one.of).collect();
            let Some(found) = shared_bucket(&losses) else { continue };
            let others = group.len() as u64 - 1;
            all.extend(group.iter().zip(&found).map(|(one, found)| {
                (one.place, policed(one.of.exchange.unwrap_or(0), found, others))
            }));
        }
        all
    }

    /// The shaper that several streams passed.
    fn shaped(&self) -> Vec<(Place, ShapedRate)> {
        let mut all: Vec<(Place, ShapedRate)> = Vec::new();
        for group in groups(&self.throughputs) {
            if group.iter().any(|one| all.iter().any(|(at, _)| *at == one.place)) {
                continue;
            }
            if let Some((found, held)) = shaped_together(&group) {
                let found = shaped(&found, group.len() as u64 - 1);
                all.extend(held.into_iter().map(|place| (place, found)));
            }
        }
        all
    }
}

/// The step of the throughput of these directions together, and which of them it held.
fn shaped_together(group: &[&Kept<Box<Throughput>>]) -> Option<(ShapedThroughput, Vec<Place>)> {
    let throughputs: Vec<&Throughput> = group.iter().map(|one| &*one.of).collect();
    let found = Throughput::shaped_together(&throughputs)?;
    let trips = || group.iter().map(|one| (*one, one.of.round_trips_us(found.at)));
    let hosts = |one: &Kept<Box<Throughput>>| (one.place.sender, one.place.receiver);
    let is_one_way = group.iter().all(|one| group.first().is_some_and(|a| hosts(a) == hosts(one)));
    // Transfers of other hosts may just end, or be farther away: each has to have waited itself.
    let has_waited = |(_, [before, after]): (&Kept<_>, [Option<u64>; 2])| {
        before.zip(after).is_some_and(|(before, after)| after >= before + MIN_QUEUE_DELAY_US)
    };
    if !is_one_way && !trips().all(has_waited) {
        return None;
    }
    let held = trips().filter(|(_, [_, after])| after.is_some()).map(|(one, _)| one);
    // One alone knows its rate better.
    if held.clone().count() == 1 && held.clone().any(|one| one.of.shaped().is_some()) {
        return None;
    }
    Some((found, held.map(|one| one.place).collect()))
}

/// Keeps those with the highest rank; of equal ones the first stream.
fn keep<T>(all: &mut Vec<Kept<T>>) {
    if all.len() > MAX_KEPT {
        sort(all);
        all.truncate(MAX_KEPT);
    }
}

fn sort<T>(all: &mut [Kept<T>]) {
    all.sort_by_key(|one| (Reverse(one.rank), one.place.stream, one.place.from_server));
}

/// Two directions and more that may share a bucket: between two hosts, from one host, to one host.
fn groups<T>(all: &[Kept<T>]) -> Vec<Vec<&Kept<T>>> {
    let mut groups: BTreeMap<Shared, Vec<&Kept<T>>> = BTreeMap::new();
    let mut sorted: Vec<&Kept<T>> = all.iter().collect();
    sorted.sort_by_key(|one| (Reverse(one.rank), one.place.stream, one.place.from_server));
    for one in sorted {
        for shared in one.place.shared() {
            let group = groups.entry(shared).or_default();
            if group.len() < MAX_TOGETHER {
                group.push(one);
            }
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

fn direction<'a>(stream: &'a mut CapturedStream, at: &Place) -> Option<&'a mut CapturedDirection> {
    let sent = if at.from_server { &mut stream.from_server } else { &mut stream.from_client };
    (stream.number == at.stream).then_some(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;

    /// A transfer of some milliseconds with so many bytes in each, and a round trip in milliseconds.
    fn transfer(
        stream: u64,
        sender: u8,
        millis: std::ops::Range<i64>,
        (bytes, trip): (u64, i64),
    ) -> Kept<Box<Throughput>> {
        let mut throughput = Throughput::new(Sequence(0), millis.start * 1_000_000);
        for milli in millis {
            throughput.data(bytes, milli * 1_000_000, trip * 1_000_000);
        }
        let [sender, receiver] = [[198, 18, 0, sender].into(), [198, 18, 1, 1].into()];
        let place = Place { stream, from_server: true, sender, receiver };
        Kept { rank: throughput.bytes(), place, of: Box::new(throughput) }
    }

    /// Streams that a shaper is found for.
    fn shaped(throughputs: Vec<Kept<Box<Throughput>>>) -> Vec<u64> {
        let paths = SharedPaths { throughputs, ..SharedPaths::default() };
        paths.shaped().iter().map(|(place, _)| place.stream).collect()
    }

    #[test]
    fn a_burst_of_another_transfer_counts_between_the_same_hosts_only() {
        let burst = |sender| transfer(1, sender, 0..400, (25_000, 1));
        let long = |trip| transfer(2, 1, 3_000..20_000, (5_000, trip));
        assert_eq!(shaped(vec![burst(1), long(60)]), [2], "the one that was held");
        assert_eq!(shaped(vec![burst(1), long(2)]), [0; 0], "nothing waits");
        assert_eq!(shaped(vec![burst(2), long(60)]), [0; 0], "a server that is farther away");
        assert_eq!(shaped(vec![long(60)]), [0; 0], "it alone");
    }

    #[test]
    fn as_many_are_kept_as_there_is_room_for() {
        let mut all: Vec<Kept<Box<Throughput>>> =
            (0..40).map(|number| transfer(number, 1, 0..1, (100 + number, 1))).collect();
        keep(&mut all);
        assert_eq!(all.len(), MAX_KEPT);
        assert!(all.iter().all(|one| one.place.stream >= 8), "those that sent most");
        assert!(groups(&all).iter().all(|group| group.len() == MAX_TOGETHER));
    }
}
