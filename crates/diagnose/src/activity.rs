//! What a healthy host did: a few lines for the headline.

use model::{Evidence, Listener, TcpState};
use text::{count, micros, number, percent, share};

use crate::words::{process_name, processes};

/// A few lines, the busiest first.
pub(crate) fn activity(evidence: &Evidence) -> Vec<String> {
    [listener(evidence), round_trips(evidence), opened(evidence)].into_iter().flatten().collect()
}

/// The fullest accept queue.
fn listener(evidence: &Evidence) -> Option<String> {
    let fill = |l: &Listener| share(l.queue.max as f64, f64::from(l.limit.max(1)));
    let listeners = evidence.listeners.as_ref()?;
    let fullest = listeners
        .iter()
        .max_by(|a, b| fill(a).total_cmp(&fill(b)).then(a.queue.mean.total_cmp(&b.queue.mean)))?;
    if fullest.queue.max == 0 {
        let all = count(listeners.len() as u64, "listener");
        return Some(format!("{all}, all accept queues empty"));
    }
    let owners = processes(evidence, &fullest.pids);
    Some(format!(
        "fullest accept queue: {} {}, up to {} of {}",
        process_name(&owners).unwrap_or_else(|| "a process".to_string()),
        fullest.local,
        number(fullest.queue.max),
        number(u64::from(fullest.limit)),
    ))
}

/// Round trips of the established connections, and the share of segments retransmitted.
fn round_trips(evidence: &Evidence) -> Option<String> {
    let sockets = &evidence.sockets.as_ref()?.sockets;
    let mut round_trips: Vec<u32> = sockets
        .iter()
        .filter(|socket| socket.state == TcpState::Established)
        .filter_map(|socket| socket.tcp.as_ref()?.rtt_us.filter(|rtt| *rtt > 0))
        .collect();
    if round_trips.is_empty() {
        return None;
    }
    round_trips.sort_unstable();
    let quantile = |share: f64| {
        let index = round_trips.len().saturating_sub(1) as f64 * share;
        round_trips.get(index as usize).map(|us| micros(u64::from(*us)))
    };
    let retransmitted =
        share(evidence.increase("TcpRetransSegs")? as f64, evidence.increase("TcpOutSegs")? as f64);
    Some(format!(
        "round trip p50 {}, p99 {} over {}; {} of segments retransmitted",
        quantile(0.5)?,
        quantile(0.99)?,
        count(round_trips.len() as u64, "connection"),
        percent(retransmitted),
    ))
}

/// Connections opened per second.
fn opened(evidence: &Evidence) -> Option<String> {
    let seconds = evidence.window.seconds();
    if seconds <= 0.0 {
        return None;
    }
    let rate =
        |counter: &str| Some(number((evidence.increase(counter)? as f64 / seconds).round() as u64));
    Some(format!(
        "connections opened per second: {} inbound, {} outbound",
        rate("TcpPassiveOpens")?,
        rate("TcpActiveOpens")?
    ))
}
