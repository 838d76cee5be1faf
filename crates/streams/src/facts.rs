//! A stream as evidence: what rules are told of it.

use model::{
    CapturedDirection, CapturedStream, CapturedTls, LostAfterIdle, PolicedExchange, RoundTrips,
    ShapedRate, SlowStarts, Stalls, StatusCount, StreamEnd, TimeCategory, TimeShare,
};

use crate::Nanos;
use crate::growth::Starts;
use crate::policing::Policed;
use crate::rates::Shaped;
use crate::round_trip::{Load, Times};
use crate::spoken::Tls;
use crate::stream::{End, Stream, Sum};

/// What is told of a stream that is over. `began` is the time of the first packet of the capture.
pub fn of(stream: &Stream, began: Nanos) -> CapturedStream {
    // Without a handshake: servers have the lower port.
    let turned = !stream.roles_known && stream.ends[0].port() < stream.ends[1].port();
    let (client, server) = if turned { (1, 0) } else { (0, 1) };
    CapturedStream {
        number: stream.number,
        client: stream.ends[client],
        server: stream.ends[server],
        roles_known: stream.roles_known,
        first_us: micros(stream.first.saturating_sub(began)),
        span_us: micros(stream.last.saturating_sub(stream.first)),
        handshake_us: stream.handshake_time().map(micros),
        syn_retransmissions: stream.syns_repeated,
        syn_ack_retransmissions: stream.syn_acks_repeated,
        syn_answered: stream.syn_ack.is_known(),
        end: match stream.end {
            _ if stream.refused => StreamEnd::Refused,
            End::Open => StreamEnd::Open,
            End::Half => StreamEnd::HalfClosed,
            End::Closed => StreamEnd::Closed,
            End::Reset => StreamEnd::Reset,
        },
        exchanges: stream.turns(),
        to_client_us: stream.loop_to(client).map(micros),
        to_server_us: stream.loop_to(server).map(micros),
        tls: stream.spoken().and_then(|spoken| spoken.tls()).map(tls),
        longest_survived_idle_us: stream.silences().map_or(0, |silences| micros(silences.survived)),
        lost_after_idle: stream.silences().and_then(|silences| silences.lost).map(|lost| {
            LostAfterIdle {
                began_us: micros(lost.began.saturating_sub(began)),
                idle_us: micros(lost.lasted),
                client_sent_first: lost.side == client,
                reset: lost.reset,
            }
        }),
        statuses: stream.spoken().map_or_else(Vec::new, |spoken| statuses(spoken.statuses())),
        from_client: direction(stream, client),
        from_server: direction(stream, server),
    }
}

fn direction(stream: &Stream, side: usize) -> CapturedDirection {
    let own = &stream.directions[side];
    let counts = &own.counts;
    let stalled = stream.stalled(side);
    CapturedDirection {
        packets: counts.packets,
        data_segments: counts.data,
        new_bytes: counts.new_bytes,
        fast_retransmissions: counts.fast.into(),
        rto_retransmissions: counts.timeouts.into(),
        retransmissions_original_not_captured: counts.unseen.into(),
        retransmissions_kind_unknown: counts.repeated.into(),
        max_timeouts_of_segment: own.most_timeouts().0,
        max_timeouts_segment_bytes: own.most_timeouts().1,
        reordered: counts.reordered.into(),
        late_originals: counts.late_originals.into(),
        already_acknowledged: counts.acknowledged_before.into(),
        duplicate_sacks: stream.directions[1 - side].counts.duplicate_sacks.into(),
        window_probes: counts.window_probes.into(),
        duplicate_acks: counts.duplicate_acks.into(),
        zero_windows: counts.zero_windows.into(),
        ecn_ce_marks: counts.congestion_marks.into(),
        mss: own.segment_size,
        window_scale: own.window_scale,
        options_truncated: own.options_cut,
        max_window: own.largest_window,
        settled_window_us: Some(
            own.settled.since(stream.budget.sides[side][TimeCategory::ReceiveWindow as usize]),
        ),
        reader_behind_us: Some(own.settled.behind()),
        max_in_flight: own.greatest_flight,
        max_segment_bytes: own.largest,
        round_trip: round_trips(stream, side),
        time_breakdown: shares(stream, side),
        zero_window_stalls: stalls(&stalled.window),
        delayed_ack_stalls: stalls(&stalled.delayed_ack),
        acknowledged_late: stream.acknowledged_late(side),
        shaped: stream.shaped(side).map(|found| shaped(&found)),
        slow_starts: starts(&stream.starts(side)),
        full_size_arrived: own.sizes.full_size_arrived(),
        resegmented: own.sizes.cut_smaller().into(),
        checksums_verified: own.checked().0.into(),
        bad_checksums: own.checked().1.into(),
        policed: stream.policed(side).iter().map(|(turn, found)| policed(*turn, found)).collect(),
    }
}

/// Samples that tell something.
const SAMPLES: u64 = 8;

/// The longer of the two ways to see it: near the sender of the data its acknowledgements, near the
/// receiver time stamps.
fn round_trips(stream: &Stream, side: usize) -> Option<RoundTrips> {
    let there = &*stream.directions[side].round_trip;
    let times = [Some(there), stream.directions[1 - side].echo.as_deref()];
    let samples = |times: &Times| times.load().map_or(times.samples, Load::samples);
    let best = |times: &&Times| (samples(times).min(SAMPLES), times.least());
    let times = times.into_iter().flatten().max_by_key(best)?;
    let (losses, after_long) = times.load().map_or((0, 0), Load::losses);
    Some(RoundTrips {
        samples: samples(times),
        min_us: micros(times.least()?),
        mean_us: micros(times.load().map_or(times.smoothed()?, Load::mean)),
        max_us: micros(times.most()?),
        inflated: times.load().map_or(0.0, Load::inflated),
        follows_flight: times.load().and_then(Load::follows),
        losses: losses.into(),
        losses_after_long: after_long.into(),
    })
}

fn shares(stream: &Stream, side: usize) -> Vec<TimeShare> {
    let parts = TimeCategory::ALL.into_iter().zip(stream.budget.sides[side]).zip(stream.turns_with);
    parts
        .filter(|((_, time), _)| *time > 0)
        .map(|((part, time), turns)| TimeShare {
            category: part,
            time_us: micros(time),
            exchanges: u64::from(turns),
        })
        .collect()
}

fn tls(tls: &Tls) -> CapturedTls {
    CapturedTls {
        server_name: tls.server_name.as_deref().map(str::to_string),
        handshake_us: tls.handshake().map(micros),
        alert: tls.alert.map(|(_, number)| number),
    }
}

fn statuses(counts: &[(u16, u32)]) -> Vec<StatusCount> {
    let mut told: Vec<StatusCount> = counts
        .iter()
        .map(|(status, count)| StatusCount { status: *status, count: (*count).into() })
        .collect();
    told.sort_by_key(|one| one.status);
    told
}

fn shaped(found: &Shaped) -> ShapedRate {
    ShapedRate {
        before_bps: (found.before * 8.0) as u64,
        rate_bps: (found.rate * 8.0) as u64,
        burst_bytes: found.burst,
        round_trip_before_us: found.trip_before_us,
        round_trip_after_us: found.trip_after_us,
        after_us: micros(found.after),
        duration_us: micros(found.lasted),
    }
}

fn starts(starts: &Starts) -> SlowStarts {
    SlowStarts {
        transfers: starts.transfers.into(),
        first_flight: starts.first_flight,
        first_segments: starts.first_segments.into(),
        first_rounds: starts.first_rounds.into(),
        first_bytes: starts.first_bytes,
        first_saved: starts.first_saved.into(),
        restarts: starts.restarts.into(),
        restart_us: micros(starts.restart_time),
        worst_idle_us: micros(starts.worst.idle),
        worst_flight: starts.worst.flight,
        worst_before: starts.worst.before,
        worst_at: starts.worst.packet,
    }
}

fn policed(turn: u32, found: &Policed) -> PolicedExchange {
    PolicedExchange {
        exchange: turn.into(),
        rate_bps: found.rate_bps,
        min_rate_bps: found.rate_range_bps.0,
        max_rate_bps: found.rate_range_bps.1,
        bucket_bytes: found.bucket_bytes,
        lost: found.lost.into(),
        passed: found.passed.into(),
        bursts: found.bursts.into(),
        duration_us: micros(found.last_loss.saturating_sub(found.first_loss)),
    }
}

fn stalls(sum: &Sum) -> Stalls {
    Stalls {
        count: sum.count,
        total_us: micros(sum.total),
        longest_us: micros(sum.longest),
        longest_ended_at: sum.longest_ended_at,
    }
}

fn micros(nanos: Nanos) -> u64 {
    u64::try_from(nanos / 1_000).unwrap_or(0)
}
