//! Directions that are over: what they lost, and their sums.

use model::{PathDirection, PathLoss};

use super::delays::DelayHistogram;
use crate::time::Nanos;

/// What is reported of a direction, or of all of them.
#[derive(Debug, Default)]
pub(super) struct DirectionTotals {
    pub(super) report: PathDirection,
    pub(super) delays: DelayHistogram,
}

impl DirectionTotals {
    /// Adds a direction.
    pub(super) fn add(&mut self, other: &DirectionTotals) {
        self.delays.merge(&other.delays);
        let (sum, more) = (&mut self.report, &other.report);
        sum.segments += more.segments;
        sum.bytes += more.bytes;
        sum.matched += more.matched;
        add_loss(&mut sum.lost_between, &more.lost_between);
        add_loss(&mut sum.lost_before, &more.lost_before);
        add_loss(&mut sum.lost_after, &more.lost_after);
        sum.bursts += more.bursts;
        sum.lost_in_bursts += more.lost_in_bursts;
        sum.longest_burst = sum.longest_burst.max(more.longest_burst);
        sum.reordered += more.reordered;
        sum.duplicated += more.duplicated;
        sum.spurious += more.spurious;
        sum.pure_acks_lost += more.pure_acks_lost;
        sum.not_captured_arriving += more.not_captured_arriving;
        sum.not_captured_leaving += more.not_captured_leaving;
    }

    /// Segments lost before the first capture, between both, behind the second.
    pub(super) fn lost_segments(&self) -> [u64; 3] {
        let PathDirection { lost_before, lost_between, lost_after, .. } = &self.report;
        [lost_before.segments, lost_between.segments, lost_after.segments]
    }

    /// The report with the delays: beyond the shortest of all, which took this long.
    pub(super) fn finish(self, shortest: Nanos, shortest_took: Option<f64>) -> PathDirection {
        let delay = self.delays.report(shortest, shortest_took);
        PathDirection { delay, ..self.report }
    }
}

fn add_loss(sum: &mut PathLoss, more: &PathLoss) {
    sum.segments += more.segments;
    sum.bytes += more.bytes;
    let first = [sum.first_packet, more.first_packet].into_iter().filter(|number| *number > 0);
    sum.first_packet = first.min().unwrap_or(0);
    sum.last_packet = sum.last_packet.max(more.last_packet);
}
