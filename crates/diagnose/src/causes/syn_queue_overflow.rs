//! # syn-queue-overflow
//!
//! ## What happens
//!
//! A connection is half open when its SYN was answered and the last ACK of its
//! handshake has not arrived. A listener may have only as many of them as its
//! accept queue may hold. Above that, the kernel answers with SYN cookies, which
//! keep no state and lose TCP options; without `tcp_syncookies` it drops the SYN,
//! and the client waits 1 s, 3 s, 7 s.
//!
//! ## Evidence
//!
//! - `TcpExtTCPReqQFullDrop` increases: SYNs were dropped;
//! - with `tcp_syncookies=0`, the drops of a listener increase by more than its
//!   accept queue dropped, while its half-open connections are at 3/4 of
//!   `tcp_max_syn_backlog`: the kernel has no other counter for these;
//! - `TcpExtTCPReqQFullDoCookies` increases, and not all cookies that were sent
//!   (`TcpExtSyncookiesSent`) came back (`TcpExtSyncookiesRecv`): some clients
//!   never finish their handshake, or their path is too slow for it;
//! - half-open connections of one listener are near its limit.
//!
//! ## Threshold
//!
//! One dropped SYN is a finding. Cookies are one when 1 in 10 did not come back:
//! cookies that all come back delay nobody. Since Linux 4.3 the limit is that of
//! the accept queue (`inet_csk_reqsk_queue_is_full`); without cookies, new peers
//! are refused from 3/4 of `tcp_max_syn_backlog` on.
//!
//! ## Looks like it, but is not
//!
//! - accept-queue-overflow: while the accept queue is full, handshakes stay half
//!   open. When it is found for the same listener, this is its effect.
//! - A burst of real clients: their cookies come back.
//! - A flood of SYNs from forged addresses looks the same here: few handshakes
//!   complete. The finding says how many did.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az 'TcpExtTCPReqQ*' 'TcpExtSyncookies*'
//! ss -tn state syn-recv | wc -l
//! ```
//!
//! ## Fix
//!
//! Keep `net.ipv4.tcp_syncookies=1`. Raise the application's backlog,
//! `net.core.somaxconn` and `net.ipv4.tcp_max_syn_backlog` together; listen() has
//! to be called again. Against a flood: SYNPROXY or a rate limit in the firewall,
//! or filtering upstream.
//!
//! ## Expected gain
//!
//! The delay of opening a connection, for the slowest in a hundred (model
//! «dropped SYNs»). Not predictable where the SYNs may be those of a flood, or
//! were answered with cookies.
//!
//! ## References
//!
//! - tcp(7); RFC 4987, TCP SYN flooding attacks and common mitigations
//! - Linux: `tcp_conn_request`, `tcp_syn_flood_action`

use model::{
    Evidence, Finding, Impact, ImpactUnit, Listener, Reach, Severity, Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{advice, sysctl};
use crate::words::{processes, subject};

pub(super) const CAUSE: Cause = Cause {
    id: "syn-queue-overflow",
    title: "more connections are half open than a listener may have",
    slows: Slows::Connections,
    needs: &[&[Source::Counters]],
    rule,
    source: include_str!("syn_queue_overflow.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the cookies sent that did not come back from which on clients are harmed.
const MIN_COOKIES_LOST: f64 = 0.1;
/// Share of its limit from which on a listener's half-open connections are near it.
const MIN_FILL: f64 = 0.75;
/// Share of the handshakes that completed below which it may be a flood.
const MIN_COMPLETED: f64 = 0.5;
/// Fewest half-open connections that are proposed.
const MIN_PROPOSED: u64 = 4096;
/// Most: applications often keep their backlog in 16 bits.
const MAX_PROPOSED: u64 = 65_535;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let increase = |counter: &str| evidence.increase(counter).unwrap_or(0);
    let refused = refused(evidence);
    let full = increase("TcpExtTCPReqQFullDrop");
    let dropped = full.saturating_add(refused.map_or(0, |(_, drops)| drops));
    let cookies = increase("TcpExtTCPReqQFullDoCookies");
    if dropped == 0 && cookies == 0 {
        return most_half_open(evidence);
    }
    let sent = increase("TcpExtSyncookiesSent").max(cookies);
    let back = increase("TcpExtSyncookiesRecv").min(sent);
    if dropped == 0 && share(sent.saturating_sub(back) as f64, sent as f64) < MIN_COOKIES_LOST {
        return Verdict::RuledOut(format!(
            "SYN cookies ({} of {} came back)",
            number(back),
            number(sent)
        ));
    }
    let listener =
        refused.map(|(listener, _)| listener).filter(|_| full == 0).or_else(|| fullest(evidence));
    if listener.is_none() && !evidence.focus.is_everything() {
        return most_half_open(evidence);
    }
    Verdict::Found(vec![finding(evidence, listener, dropped, sent, back)])
}

/// Without cookies: the listener that refused most SYNs because its half-open connections were at
/// their limit, and how many.
fn refused(evidence: &Evidence) -> Option<(&Listener, u64)> {
    let limit = limit_without_cookies(evidence)?;
    let overflows = evidence.increase("TcpExtListenOverflows").unwrap_or(0);
    let drops = |listener: &Listener| {
        let all = listener.drops.map_or(0, model::Change::increase);
        all.saturating_sub(overflows)
    };
    let listeners = evidence.listeners.as_deref().unwrap_or_default().iter();
    let near =
        |l: &&Listener| l.half_open.is_some_and(|half| half.max as f64 >= MIN_FILL * limit as f64);
    let most = listeners.filter(near).max_by_key(|listener| drops(listener))?;
    Some((most, drops(most))).filter(|(_, drops)| *drops > 0)
}

/// Half-open connections above which new peers are refused, where cookies are off.
fn limit_without_cookies(evidence: &Evidence) -> Option<u64> {
    let off = evidence.sysctl_number("net.ipv4.tcp_syncookies") == Some(0);
    let most = evidence.sysctl_number("net.ipv4.tcp_max_syn_backlog").filter(|_| off)?;
    Some(most - most / 4)
}

/// The listener that was nearest to its limit, though no SYN was dropped.
fn most_half_open(evidence: &Evidence) -> Verdict {
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    let half_open = listeners.iter().filter_map(|l| Some((l, l.half_open?.max)));
    let fill = |(l, half_open): &(&Listener, u64)| share(*half_open as f64, f64::from(l.limit));
    match half_open.max_by(|a, b| fill(a).total_cmp(&fill(b))) {
        Some((listener, half_open)) => Verdict::RuledOut(format!(
            "half-open connections ({} of {} on port {})",
            number(half_open),
            number(u64::from(listener.limit)),
            listener.local.port()
        )),
        None if evidence.listeners.is_none() && evidence.focus.is_everything() => {
            Verdict::RuledOut("half-open connections (0 SYNs dropped)".to_string())
        }
        None => Verdict::not_checked("no listener"),
    }
}

/// The listener whose half-open connections were nearest to their limit.
fn fullest(evidence: &Evidence) -> Option<&Listener> {
    let fill = |l: &&Listener| {
        l.half_open.map_or(0.0, |half| share(half.max as f64, f64::from(l.limit.max(1))))
    };
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    listeners.iter().max_by(|a, b| fill(a).total_cmp(&fill(b))).filter(|l| fill(l) >= MIN_FILL)
}

fn finding(
    evidence: &Evidence,
    listener: Option<&Listener>,
    dropped: u64,
    sent: u64,
    back: u64,
) -> Finding {
    let opened = evidence.increase("TcpPassiveOpens").unwrap_or(0);
    let owners = listener.map(|l| processes(evidence, &l.pids)).unwrap_or_default();
    let unanswered = sent.saturating_sub(back);
    let lost = dropped.saturating_add(unanswered);
    let part = share(lost as f64, lost.saturating_add(opened) as f64);
    let impact = if dropped > 0 {
        format!("{} dropped, {} opened", count(dropped, "SYN"), count(opened, "connection"))
    } else {
        format!(
            "{} answered with a cookie, {} of the cookies ({}) did not come back",
            count(sent, "SYN"),
            number(unanswered),
            percent(share(unanswered as f64, sent as f64)),
        )
    };
    let mut evidences = Vec::new();
    if let Some(listener) = listener {
        let half = listener.half_open.unwrap_or_default();
        let own = u64::from(listener.limit);
        let (limit, limit_is) = match limit_without_cookies(evidence) {
            Some(limit) if limit < own => {
                (limit, "3/4 of net.ipv4.tcp_max_syn_backlog, since net.ipv4.tcp_syncookies is 0")
            }
            _ => (own, "the smaller of the backlog given to listen() and net.core.somaxconn"),
        };
        let text = format!(
            "up to {} half open, limit {}: {limit_is}",
            count(half.max, "connection"),
            number(limit)
        );
        evidences.push(
            proof(Source::Listeners, "queue", text)
                .over_window(evidence, "half open, maximum", half.max as f64, "connections")
                .at_moment("limit", limit as f64, "connections"),
        );
    }
    let maybe_flood = share(opened as f64, (opened + lost) as f64) < MIN_COMPLETED;
    evidences.push(proof(
        Source::Counters,
        "why",
        if maybe_flood {
            format!(
                "{} opened: most SYNs come from clients that never finish \
                 their handshake. It may be a flood from forged addresses",
                count(opened, "connection")
            )
        } else {
            format!("{} opened in the same time: a burst of clients", count(opened, "connection"))
        },
    ));
    if let Some((listener, drops)) = refused(evidence) {
        let text = format!(
            "this listener dropped {}, none of them at its accept queue",
            count(drops, "SYN")
        );
        evidences.push(proof(Source::Listeners, "proof", text).over_window(
            evidence,
            "drops",
            listener.drops.map_or(0, model::Change::increase) as f64,
            "SYNs",
        ));
    }
    let mut counted = proof(
        Source::Counters,
        "proof",
        format!(
            "TcpExtTCPReqQFullDrop +{}, TCPReqQFullDoCookies +{}, \
             SyncookiesSent +{}, SyncookiesRecv +{}",
            number(dropped),
            number(evidence.increase("TcpExtTCPReqQFullDoCookies").unwrap_or(0)),
            number(evidence.increase("TcpExtSyncookiesSent").unwrap_or(0)),
            number(evidence.increase("TcpExtSyncookiesRecv").unwrap_or(0)),
        ),
    );
    for counter in [
        "TcpExtTCPReqQFullDrop",
        "TcpExtTCPReqQFullDoCookies",
        "TcpExtSyncookiesSent",
        "TcpExtSyncookiesRecv",
        "TcpExtSyncookiesFailed",
    ] {
        if let Some(increase) = evidence.increase(counter) {
            counted = counted.over_window(evidence, counter, increase as f64, "packets");
        }
    }
    evidences.push(counted);
    Finding {
        cause: CAUSE.id.to_string(),
        title: "More connections are half open than the listener may have".to_string(),
        severity: if dropped > 0 { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Listener,
            listener.map_or_else(|| "a listener".to_string(), |l| l.local.to_string()),
            listener.map(|l| l.local),
            None,
            owners,
        ),
        impact: Impact {
            text: impact,
            unit: if dropped > 0 {
                ImpactUnit::ConnectionsLost
            } else {
                ImpactUnit::ConnectionsDelayed
            },
            amount: lost as f64,
            share: Some(part),
        },
        evidence: evidences,
        checks: commands([
            CommandLine::new("nstat -az TcpExtTCPReqQ* TcpExtSyncookies*").in_netns(evidence),
            CommandLine::new("ss -Htn state syn-recv").pipe("wc -l").in_netns(evidence),
        ]),
        remedies: remedies(evidence, listener, maybe_flood),
        gain: match dropped {
            0 => gain::not_predictable("whether those clients wanted a connection is not known"),
            _ if maybe_flood => gain::not_predictable("most of the SYNs may be of a flood"),
            _ => match listener {
                Some(one) => gain::of_syns_dropped_by(evidence, one, dropped as f64, opened as f64),
                None => gain::of_dropped_syns(dropped as f64, opened as f64),
            },
        },
        also_causes: Vec::new(),
    }
}

fn remedies(
    evidence: &Evidence,
    listener: Option<&Listener>,
    maybe_flood: bool,
) -> Vec<model::Remedy> {
    let mut all = Vec::new();
    if evidence.sysctl_number("net.ipv4.tcp_syncookies") == Some(0) {
        all.push(sysctl(evidence, "net.ipv4.tcp_syncookies", "1", Reach::Everything));
    }
    let limit = listener.map_or(0, |l| u64::from(l.limit));
    let wanted = limit.saturating_mul(4).clamp(MIN_PROPOSED, MAX_PROPOSED);
    let mut own = advice(format!("raise the application's backlog to {wanted}"));
    own.needs_root = true;
    own.reaches = Reach::AfterListen;
    all.push(own);
    for name in ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"] {
        if evidence.sysctl_number(name).is_none_or(|now| now < wanted) {
            all.push(sysctl(evidence, name, wanted, Reach::AfterListen));
        }
    }
    if maybe_flood {
        all.push(advice("against a flood: SYNPROXY or a rate limit in the firewall, or upstream"));
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{
        add_listener, findings_of, gauge, healthy, increase_counter, remove_source, set_sysctl,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut without_cookies = flooded();
        increase_counter(&mut without_cookies, "TcpExtTCPReqQFullDrop", 7);
        set_sysctl(&mut without_cookies, "net.ipv4.tcp_syncookies", "0");
        vec![flooded(), without_cookies]
    }

    fn flooded() -> Evidence {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtTCPReqQFullDoCookies", 5_000);
        increase_counter(&mut evidence, "TcpExtSyncookiesSent", 5_000);
        increase_counter(&mut evidence, "TcpExtSyncookiesRecv", 20);
        increase_counter(&mut evidence, "TcpPassiveOpens", 100);
        add_listener(&mut evidence, "0.0.0.0:80", 128, &[]).half_open = Some(gauge(0, 128));
        evidence
    }

    #[test]
    fn fires_when_cookies_do_not_come_back() {
        let finding = &findings_of(rule(&flooded()))[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.subject.local, Some("0.0.0.0:80".parse().unwrap()));
        assert!(finding.evidence[1].text.contains("may be a flood"));
        assert_eq!(finding.impact.amount, 4_980.0);
    }

    #[test]
    fn fires_for_dropped_syns_and_proposes_cookies() {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtTCPReqQFullDrop", 7);
        increase_counter(&mut evidence, "TcpPassiveOpens", 100);
        set_sysctl(&mut evidence, "net.ipv4.tcp_syncookies", "0");
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.remedies[0].text, "set net.ipv4.tcp_syncookies to 1 (now 0)");
    }

    #[test]
    fn fires_without_cookies_by_the_drops_of_the_listener() {
        let mut evidence = healthy();
        set_sysctl(&mut evidence, "net.ipv4.tcp_syncookies", "0");
        set_sysctl(&mut evidence, "net.ipv4.tcp_max_syn_backlog", "64");
        let one = add_listener(&mut evidence, "0.0.0.0:80", 8192, &[]);
        one.half_open = Some(gauge(0, 49));
        one.drops = Some(model::Change::new(5, 905));
        increase_counter(&mut evidence, "TcpPassiveOpens", 4_000);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.subject.local, Some("0.0.0.0:80".parse().unwrap()));
        assert_eq!(finding.impact.amount, 900.0);
        assert!(finding.evidence[0].text.contains("limit 48: 3/4 of"));
        // Few half open, or drops that the accept queue explains: another cause.
        evidence.listeners.as_mut().unwrap()[0].half_open = Some(gauge(0, 10));
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        evidence.listeners.as_mut().unwrap()[0].half_open = Some(gauge(0, 49));
        increase_counter(&mut evidence, "TcpExtListenOverflows", 900);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_cookies_of_a_burst_come_back() {
        let mut evidence = flooded();
        increase_counter(&mut evidence, "TcpExtSyncookiesRecv", 4_990);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_counters() {
        let mut evidence = flooded();
        remove_source(&mut evidence, Source::Counters);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = flooded();
        add_listener(&mut evidence, "[::]:1", 0, &[9]).half_open = Some(gauge(0, u64::MAX));
        increase_counter(&mut evidence, "TcpExtSyncookiesRecv", 99_999);
        increase_counter(&mut evidence, "TcpExtTCPReqQFullDrop", 1);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
