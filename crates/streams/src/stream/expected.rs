//! A short way for most packets: those that are as expected, of a stream in which nothing is wrong.
//!
//! The next data in order, or an acknowledgement of more than before, with room left in every window
//! (header prediction, as in kernels: `tcp_rcv_established` of Linux). It changes what
//! [`Stream::take_any`] would change, without the questions that only other packets need: where tests
//! are built, each such packet is taken the long way too, and the results are compared.

use model::Side;
use wire::packet::{Ip, Tcp, identity};

use super::state::{SegmentEvent, Stream, StreamState};
use crate::direction::IpFields;
use crate::idle_period::MIN_IDLE;
use crate::segment::SegmentKind;
use crate::time::Nanos;

impl Stream {
    /// Notes whether the next packets may be as expected.
    #[inline]
    pub(super) fn note_calm(&mut self) {
        let handshake = &self.handshake;
        let is_open = self.state == StreamState::Open
            && (handshake.completed.is_known()
                || !(handshake.syn.is_known() || handshake.syn_ack.is_known()));
        let are_roles_clear = self.roles_known || self.exchanges.requester().is_some();
        let (client, server) = self.ends.own_and_peer(Side::Client);
        self.is_calm = is_open
            && are_roles_clear
            && self.idle_periods.is_none()
            && !self.spurious_at.is_known()
            && !(client.stalls.is_closed() || server.stalls.is_closed())
            && client.sent.is_calm(&server.sent)
            && server.sent.is_calm(&client.sent);
    }

    /// Takes a packet if it is as expected. Returns whether it is.
    #[inline(always)]
    pub(super) fn take_expected(
        &mut self,
        side: Side,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        event: &mut SegmentEvent,
    ) -> bool {
        if !self.is_calm || !(0..MIN_IDLE).contains(&at.saturating_sub(self.last)) {
            return false;
        }
        let timestamps = tcp.time_stamps();
        let (own, peer) = self.ends.own_and_peer(side);
        let Some(expected) = own.sent.expects(tcp, &peer.sent) else { return false };
        self.duplicates.remember(&identity(ip, tcp), ip.ttl, at);
        self.last = at;
        let new = (u64::from(tcp.length), own.sent.last_data_at);
        own.sent.take_expected(&expected, tcp, timestamps, at, IpFields::of(ip), &mut peer.sent);
        if tcp.length > 0 {
            self.follow_up(side, ip, tcp, at, packet, (SegmentKind::New, true), new, event);
        } else {
            self.follow_up(side, ip, tcp, at, packet, (SegmentKind::NoData, true), new, event);
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::ops::ControlFlow;

    use sys::capture::Capture;

    use super::*;
    use crate::Collector;

    thread_local! {
        /// Packets that this thread has taken, and those of them that took the long way too.
        static TAKEN: Cell<u64> = const { Cell::new(0) };
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }
    /// Of so many packets, the first are all compared; then one in so many.
    const ALL_COMPARED: u64 = 1_000;
    const ONE_IN: u64 = 16;

    /// Whether the next packet is compared: the state of long streams takes long to print.
    pub(in crate::stream) fn is_compared() -> bool {
        let taken = TAKEN.replace(TAKEN.get() + 1);
        taken < ALL_COMPARED || taken.is_multiple_of(ONE_IN)
    }

    /// A packet was taken the short way and the long one: all that is known must be the same.
    pub(in crate::stream) fn compare(
        short: (&Stream, &SegmentEvent),
        long: (&Stream, &SegmentEvent),
    ) {
        assert_eq!(format!("{short:?}"), format!("{long:?}"), "the short way and the long one");
        COMPARED.set(COMPARED.get() + 1);
    }

    /// Packets of each capture that are compared.
    const PACKETS: usize = 2_000;

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        for folder in ["labelled", "policing", "wild"] {
            let Some(folder) = test_support::captures(folder) else { return };
            let files = std::fs::read_dir(&folder).expect("a folder").flatten();
            let (mut packets, before) = (0, COMPARED.get());
            for file in files.filter(|file| file.path().is_file()) {
                let Ok(mut capture) = Capture::open(&file.path()) else { continue };
                TAKEN.set(0);
                let (mut collector, mut left) = (Collector::new(None), PACKETS);
                let read = capture.for_each_packet(|packet| {
                    collector.take(&packet);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                // Some are damaged on purpose.
                if read.is_ok() {
                    packets += collector.packets();
                }
            }
            let compared = COMPARED.get() - before;
            println!("{}: {compared} of {packets} packets", folder.display());
            assert!(compared > packets / 20, "{compared} of {packets} packets");
        }
    }
}
