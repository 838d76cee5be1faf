//! A stream as evidence.

use model::{
    CapturedDirection, CapturedStream, CapturedTls, LostAfterIdle, NetworkShare, PolicedExchange,
    RoundTrips, ShapedRate, Side, Stalls, StatusCount, StreamEnd, TimeCategory, TimeShare,
};

use crate::application_protocol::{ApplicationProtocol, TlsHandshake};
use crate::even_pace::EvenPace;
use crate::flight_plateau::FlightPlateau;
use crate::idle_period::FatalIdlePeriod;
use crate::network_time::NetworkTimes;
use crate::policing::PolicedResponse;
use crate::round_trip::{LoadStatistics, RoundTripTimes};
use crate::slow_start::SlowStarts;
use crate::stall::StallSum;
use crate::stream::{Stream, StreamState};
use crate::throughput::ShapedThroughput;
use crate::time::{Nanos, micros, micros_between};

/// Round trips from which on more of them are no better.
const ENOUGH_SAMPLES: u64 = 8;

/// The evidence of a stream that is over. `capture_began` is the time of the first packet of the
/// capture.
pub fn captured_stream(stream: &Stream, capture_began: Nanos) -> CapturedStream {
    let (client, server) = (stream.role(Side::Client), stream.role(Side::Server));
    let protocol = stream.application_protocol();
    let idle_periods = stream.idle_periods();
    CapturedStream {
        number: stream.number,
        client: stream.ends.get(client).address,
        server: stream.ends.get(server).address,
        roles_known: stream.roles_known,
        first_us: micros_between(capture_began, stream.first),
        span_us: micros_between(stream.first, stream.last),
        handshake_us: stream.handshake.duration().map(micros),
        greeting_us: stream.greeting().map(micros),
        syn_retransmissions: stream.handshake.syn_retransmissions,
        syn_ack_retransmissions: stream.handshake.syn_ack_retransmissions,
        syn_answered: stream.handshake.syn_ack.is_known() || stream.handshake.completed.is_known(),
        end: match stream.state {
            _ if stream.handshake.refused => StreamEnd::Refused,
            StreamState::Open => StreamEnd::Open,
            StreamState::HalfClosed => StreamEnd::HalfClosed,
            StreamState::Closed => StreamEnd::Closed,
            StreamState::Reset => StreamEnd::Reset,
        },
        exchanges: stream.exchange_count(),
        last_exchange_bytes: stream
            .current_exchange()
            .map_or(0, |exchange| exchange.request_bytes.saturating_add(exchange.response_bytes)),
        late_answers: stream.late_answers.into(),
        unwaited_requests: stream.unwaited_requests.into(),
        to_client_us: stream.ends.get(client).loop_time().map(micros),
        to_server_us: stream.ends.get(server).loop_time().map(micros),
        longest_survived_idle_us: idle_periods.map_or(0, |idle| micros(idle.longest_survived)),
        lost_after_idle: idle_periods
            .and_then(|idle| idle.fatal)
            .map(|fatal| lost_after_idle(&fatal, client, capture_began)),
        tls: protocol.and_then(ApplicationProtocol::tls).map(tls),
        statuses: protocol.map_or_else(Vec::new, |protocol| statuses(protocol.statuses())),
        from_client: direction(stream, client),
        from_server: direction(stream, server),
    }
}

fn direction(stream: &Stream, side: Side) -> CapturedDirection {
    let (end, peer) = (stream.ends.get(side), stream.ends.get(side.other()));
    let own = &end.sent;
    let counts = &own.counts;
    let stalls = end.stall_totals();
    let (timeouts, checksums) = (own.max_timeouts(), own.checksums());
    let (unanswered, unanswered_time) = own.unanswered();
    let waited_for_window = end.times.get(TimeCategory::ReceiveWindow);
    CapturedDirection {
        packets: counts.packets,
        data_segments: counts.data_packets,
        new_bytes: counts.new_bytes,
        not_captured_bytes: own.not_captured_bytes(),
        fast_retransmissions: counts.fast_retransmissions.into(),
        rto_retransmissions: counts.rto_retransmissions.into(),
        retransmissions_original_not_captured: counts.originals_not_captured.into(),
        retransmissions_kind_unknown: counts.retransmissions_kind_unknown.into(),
        max_timeouts_of_segment: timeouts.count,
        max_timeouts_segment_bytes: timeouts.bytes,
        reordered: counts.reordered.into(),
        late_us: micros(counts.late),
        late_originals: counts.late_originals.into(),
        missing_began: counts.missing_began.into(),
        already_acknowledged: counts.already_acknowledged.into(),
        unanswered: unanswered.into(),
        unanswered_us: micros(unanswered_time),
        duplicate_sacks: peer.sent.counts.duplicate_sacks.into(),
        window_probes: counts.window_probes.into(),
        duplicate_acks: counts.duplicate_acks.into(),
        zero_windows: counts.zero_windows.into(),
        ecn_ce_marks: counts.ecn_ce_marks.into(),
        mss: own.mss_option,
        window_scale: own.window_scale,
        options_truncated: own.options_truncated,
        max_window: own.max_window,
        settled_window_us: Some(own.settled_window.waited_us(waited_for_window)),
        reader_behind_us: Some(own.settled_window.reader_behind_us()),
        max_in_flight: own.max_in_flight,
        max_segment_bytes: own.max_segment,
        round_trip: round_trips(stream, side),
        time_breakdown: time_breakdown(stream, side),
        network_breakdown: network_breakdown(&end.network_times()),
        zero_window_stalls: stall_sum(&stalls.closed_window),
        delayed_ack_stalls: stall_sum(&stalls.delayed_ack),
        acknowledged_late: end.acknowledged_late(),
        policed: end.policed().iter().map(|(number, found)| policed(*number, found, 0)).collect(),
        shaped: end.shaped().map(|found| shaped(&found, 0)),
        flight_rate_bps: end.flight_rate(),
        flight_plateau: end.flight_plateau().map(flight_plateau),
        even_pace: end.even_pace().map(even_pace),
        slow_starts: slow_starts(&end.slow_starts()),
        full_size_arrived: own.path_mtu.full_size_arrived(),
        full_size_passed_over: own.path_mtu.passed_over().into(),
        resegmented: own.path_mtu.resegmented().into(),
        checksums_verified: checksums.verified.into(),
        bad_checksums: checksums.bad.into(),
    }
}

/// Round trips of the data of one end: near its sender from acknowledgements, near its receiver from
/// time stamps. Of both, those with more samples, then the longer.
fn round_trips(stream: &Stream, side: Side) -> Option<RoundTrips> {
    let from_data: &RoundTripTimes = &stream.ends.get(side).sent.round_trip;
    let from_timestamps = stream.ends.get(side.other()).sent.timestamp_round_trips.as_deref();
    let samples =
        |times: &RoundTripTimes| times.load().map_or(times.samples, LoadStatistics::samples);
    let times = [Some(from_data), from_timestamps]
        .into_iter()
        .flatten()
        .max_by_key(|times| (samples(times).min(ENOUGH_SAMPLES), times.min()))?;
    let load = times.load();
    // Data is retransmitted wherever its round trips are measured.
    let losses = from_data.load().map_or_else(Default::default, LoadStatistics::losses);
    Some(RoundTrips {
        samples: samples(times),
        min_us: micros(times.min()?),
        mean_us: micros(load.map_or(times.smoothed()?, LoadStatistics::mean)),
        max_us: micros(times.max()?),
        inflated: load.map_or(0.0, LoadStatistics::inflated_share),
        follows_flight: load.and_then(LoadStatistics::flight_correlation),
        losses: losses.count.into(),
        losses_after_long: losses.after_inflated.into(),
        losses_after_longer: Some(losses.after_longer.into()),
    })
}

fn time_breakdown(stream: &Stream, side: Side) -> Vec<TimeShare> {
    let times = stream.ends.get(side).times.iter().filter(|(_, time)| *time > 0);
    times
        .map(|(category, time)| TimeShare {
            category,
            time_us: micros(time),
            exchanges: stream.exchanges_with.get(category).into(),
        })
        .collect()
}

/// The parts that have any time.
pub(crate) fn network_breakdown(times: &NetworkTimes) -> Vec<NetworkShare> {
    let times = times.iter().filter(|(_, time)| *time > 0);
    times.map(|(part, time)| NetworkShare { part, time_us: micros(time) }).collect()
}

fn lost_after_idle(fatal: &FatalIdlePeriod, client: Side, capture_began: Nanos) -> LostAfterIdle {
    LostAfterIdle {
        began_us: micros_between(capture_began, fatal.began),
        idle_us: micros(fatal.duration),
        client_sent_first: fatal.first_sender == client,
        reset: fatal.reset,
    }
}

fn tls(tls: &TlsHandshake) -> CapturedTls {
    CapturedTls {
        server_name: tls.server_name.as_deref().map(str::to_string),
        handshake_us: tls.duration().map(micros),
        alert: tls.alert.map(|alert| alert.number),
    }
}

fn statuses(counts: &[(u16, u32)]) -> Vec<StatusCount> {
    let counts = counts.iter().copied();
    let mut statuses: Vec<StatusCount> =
        counts.map(|(status, count)| StatusCount { status, count: count.into() }).collect();
    statuses.sort_by_key(|one| one.status);
    statuses
}

pub(crate) fn shaped(found: &ShapedThroughput, other_streams: u64) -> ShapedRate {
    ShapedRate {
        before_bps: (found.before * 8.0) as u64,
        rate_bps: (found.rate * 8.0) as u64,
        burst_bytes: found.burst,
        round_trip_before_us: found.round_trip_before_us,
        round_trip_after_us: found.round_trip_after_us,
        after_us: micros(found.after),
        duration_us: micros(found.duration),
        other_streams,
    }
}

fn flight_plateau(found: FlightPlateau) -> model::FlightPlateau {
    model::FlightPlateau {
        flight_bytes: found.flight,
        round_trips: found.rounds.into(),
        duration_us: micros(found.time),
        waited_us: micros(found.waited),
    }
}

fn even_pace(found: EvenPace) -> model::EvenPace {
    let seconds = found.time as f64 / 1e9;
    model::EvenPace {
        rate_bps: (found.bytes as f64 * 8.0 / seconds.max(1e-9)) as u64,
        bytes: found.bytes,
        duration_us: micros(found.time),
        intervals: found.intervals.into(),
        departures: found.departures.into(),
        released: found.released.into(),
    }
}

fn slow_starts(found: &SlowStarts) -> model::SlowStarts {
    model::SlowStarts {
        transfers: found.transfers.into(),
        first_flight: found.first_flight,
        first_segments: found.first_segments.into(),
        first_rounds: found.first_rounds.into(),
        first_bytes: found.first_bytes,
        first_growing: found.first_growing.into(),
        first_saved: found.first_saved.into(),
        restarts: found.restarts.into(),
        restart_us: micros(found.restart_time),
        worst_idle_us: micros(found.worst.idle),
        worst_flight: found.worst.flight,
        worst_before: found.worst.before,
        worst_at: found.worst.packet,
    }
}

pub(crate) fn policed(
    exchange: u32,
    found: &PolicedResponse,
    other_streams: u64,
) -> PolicedExchange {
    PolicedExchange {
        exchange: exchange.into(),
        rate_bps: found.rate_bps,
        min_rate_bps: found.rate_range_bps.0,
        max_rate_bps: found.rate_range_bps.1,
        bucket_bytes: found.bucket_bytes,
        lost: found.lost.into(),
        passed: found.passed.into(),
        bursts: found.bursts.into(),
        duration_us: micros_between(found.first_loss, found.last_loss),
        other_streams,
    }
}

fn stall_sum(sum: &StallSum) -> Stalls {
    Stalls {
        count: sum.count,
        total_us: micros(sum.total),
        longest_us: micros(sum.longest),
        longest_ended_at: sum.longest_ended_at,
    }
}
