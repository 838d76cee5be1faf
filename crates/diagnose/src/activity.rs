//! What a healthy host did: a few lines for the headline.

use model::{Evidence, Listener, TcpState};
use text::{count, number, percent, share};

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
        return Some(format!("{all}, no accept queue used"));
    }
    let who = processes(evidence, &fullest.pids);
    Some(format!(
        "fullest accept queue: {} {}, {} of {} at most",
        process_name(&who).unwrap_or("a process"),
        fullest.local,
        number(fullest.queue.max),
        number(u64::from(fullest.limit)),
    ))
}

/// Round trips of the established connections, and what share was sent again.
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
    let at = |share: f64| {
        let index = (round_trips.len() - 1) as f64 * share;
        f64::from(round_trips[index as usize]) / 1e3
    };
    let again =
        share(evidence.increase("TcpRetransSegs")? as f64, evidence.increase("TcpOutSegs")? as f64);
    Some(format!(
        "round trip p50 {:.1} ms, p99 {:.1} ms over {} connections; {} sent again",
        at(0.5),
        at(0.99),
        number(round_trips.len() as u64),
        percent(again),
    ))
}

/// Connections opened a second.
fn opened(evidence: &Evidence) -> Option<String> {
    let seconds = evidence.window.seconds();
    if seconds <= 0.0 {
        return None;
    }
    let rate =
        |counter: &str| Some(number((evidence.increase(counter)? as f64 / seconds).round() as u64));
    Some(format!(
        "connections opened: {} a second in, {} out",
        rate("TcpPassiveOpens")?,
        rate("TcpActiveOpens")?
    ))
}
