//! A stream as evidence: what rules are told of it.

use model::{
    CapturedDirection, CapturedStream, CapturedTls, LostAfterSilence, Part, PolicedTurn,
    RoundTrips, ShapedRate, Share, SlowStarts, Stalls, StatusCount, StreamEnd,
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
        syns_repeated: stream.syns_repeated,
        syn_acks_repeated: stream.syn_acks_repeated,
        syn_answered: stream.syn_ack.is_known(),
        end: match stream.end {
            _ if stream.refused => StreamEnd::Refused,
            End::Open => StreamEnd::Open,
            End::Half => StreamEnd::HalfClosed,
            End::Closed => StreamEnd::Closed,
            End::Reset => StreamEnd::Reset,
        },
        turns: stream.turns(),
        to_client_us: stream.loop_to(client).map(micros),
        to_server_us: stream.loop_to(server).map(micros),
        tls: stream.spoken().and_then(|spoken| spoken.tls()).map(tls),
        survived_silence_us: stream.silences().map_or(0, |silences| micros(silences.survived)),
        lost_after_silence: stream.silences().and_then(|silences| silences.lost).map(|lost| {
            LostAfterSilence {
                began_us: micros(lost.began.saturating_sub(began)),
                us: micros(lost.lasted),
                client_spoke: lost.side == client,
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
        repeated_fast: counts.fast.into(),
        repeated_timeout: counts.timeouts.into(),
        repeated_unseen: counts.unseen.into(),
        repeated_other: counts.repeated.into(),
        most_timeouts: own.most_timeouts().0,
        most_timeouts_bytes: own.most_timeouts().1,
        reordered: counts.reordered.into(),
        late_originals: counts.late_originals.into(),
        acknowledged_before: counts.acknowledged_before.into(),
        duplicate_sacks: stream.directions[1 - side].counts.duplicate_sacks.into(),
        window_probes: counts.window_probes.into(),
        duplicate_acks: counts.duplicate_acks.into(),
        zero_windows: counts.zero_windows.into(),
        congestion_marks: counts.congestion_marks.into(),
        segment_size: own.segment_size,
        window_scale: own.window_scale,
        options_cut: own.options_cut,
        largest_window: own.largest_window,
        settled_window_us: Some(
            own.settled.since(stream.budget.sides[side][Part::ReceiveWindow as usize]),
        ),
        reader_behind_us: Some(own.settled.behind()),
        greatest_flight: own.greatest_flight,
        largest_segment: own.largest,
        round_trip: round_trips(stream, side),
        budget: shares(stream, side),
        closed_window: stalls(&stalled.window),
        delayed_ack: stalls(&stalled.delayed_ack),
        acknowledged_late: stream.acknowledged_late(side),
        shaped: stream.shaped(side).map(|found| shaped(&found)),
        starts: starts(&stream.starts(side)),
        full_size_arrived: own.sizes.full_size_arrived(),
        cut_smaller: own.sizes.cut_smaller().into(),
        checked: own.checked().0.into(),
        damaged: own.checked().1.into(),
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
        least_us: micros(times.least()?),
        mean_us: micros(times.load().map_or(times.smoothed()?, Load::mean)),
        most_us: micros(times.most()?),
        inflated: times.load().map_or(0.0, Load::inflated),
        follows_flight: times.load().and_then(Load::follows),
        losses: losses.into(),
        losses_after_long: after_long.into(),
    })
}

fn shares(stream: &Stream, side: usize) -> Vec<Share> {
    let parts = Part::ALL.into_iter().zip(stream.budget.sides[side]).zip(stream.turns_with);
    parts
        .filter(|((_, time), _)| *time > 0)
        .map(|((part, time), turns)| Share { part, us: micros(time), turns: u64::from(turns) })
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
        trip_before_us: found.trip_before_us,
        trip_after_us: found.trip_after_us,
        after_us: micros(found.after),
        lasted_us: micros(found.lasted),
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

fn policed(turn: u32, found: &Policed) -> PolicedTurn {
    PolicedTurn {
        turn: turn.into(),
        rate_bps: found.rate_bps,
        least_rate_bps: found.rate_range_bps.0,
        most_rate_bps: found.rate_range_bps.1,
        bucket_bytes: found.bucket_bytes,
        lost: found.lost.into(),
        passed: found.passed.into(),
        bursts: found.bursts.into(),
        us: micros(found.last_loss.saturating_sub(found.first_loss)),
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
