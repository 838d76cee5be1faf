//! What is counted of one name server.

use std::net::{IpAddr, SocketAddr};

use model::{Resolver, SlowLookup};
use wire::payload::dns::Message;

use crate::histogram::TimeHistogram;
use crate::time::{Nanos, micros};

/// A name server.
#[derive(Debug, Default, Clone)]
pub(super) struct NameServer {
    pub(super) queries: u64,
    pub(super) answers: u64,
    pub(super) failures: u64,
    pub(super) unanswered: u64,
    pub(super) slow: u64,
    pub(super) answer_times: TimeHistogram,
    pub(super) late: u64,
    pub(super) late_again: u64,
    lost: Nanos,
    lost_late: Nanos,
    /// The look-up that waited longest.
    worst: Option<(Nanos, SlowLookup)>,
}

impl NameServer {
    /// A client waited for this server; `lost` is the part of that time in which it waited for no
    /// other one.
    pub(super) fn add_wait(
        &mut self,
        lost: Nanos,
        waited: Nanos,
        message: &Message<'_>,
        client: IpAddr,
    ) {
        self.lost = self.lost.saturating_add(lost);
        self.note_worst(waited, message, client);
    }

    /// A client waited for an answer that came late, but not very late.
    pub(super) fn add_late(
        &mut self,
        lost: Nanos,
        waited: Nanos,
        message: &Message<'_>,
        client: IpAddr,
    ) {
        self.lost_late = self.lost_late.saturating_add(lost);
        self.note_worst(waited, message, client);
    }

    fn note_worst(&mut self, waited: Nanos, message: &Message<'_>, client: IpAddr) {
        if self.worst.as_ref().is_none_or(|(longest, _)| waited > *longest) {
            let waited_us = micros(waited);
            self.worst = Some((waited, SlowLookup { name: message.text(), client, waited_us }));
        }
    }

    pub(super) fn resolver(&self, server: SocketAddr) -> Resolver {
        Resolver {
            server,
            queries: self.queries,
            answers: self.answers,
            failures: self.failures,
            unanswered: self.unanswered,
            slow: self.slow,
            late: self.late,
            late_again: self.late_again,
            answer_p50_us: self.answer_times.quantile(0.5),
            answer_p99_us: self.answer_times.quantile(0.99),
            lost_us: micros(self.lost),
            lost_late_us: micros(self.lost_late),
            worst: self.worst.as_ref().map(|(_, worst)| worst.clone()),
        }
    }
}
