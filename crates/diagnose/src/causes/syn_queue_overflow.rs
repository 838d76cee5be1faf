//! # syn-queue-overflow
//!
//! ## What happens
//!
//! A handshake whose SYN was answered and whose last ACK has not come is half
//! open. A listener may have only so many of them: as many as its accept queue
//! may hold. Above that the kernel answers with SYN cookies, which keep no state
//! and cost options, or, without `tcp_syncookies`, drops the SYN: the client
//! waits 1 s, 3 s, 7 s.
//!
//! ## Evidence
//!
//! - `TcpExtTCPReqQFullDrop` grows: SYNs were dropped;
//! - with `tcp_syncookies=0`, the listener's own drops grow beyond what its accept
//!   queue dropped, while its half-open connections are at 3/4 of
//!   `tcp_max_syn_backlog`: the kernel has no other counter for these;
//! - `TcpExtTCPReqQFullDoCookies` grows, and not all cookies that were sent
//!   (`TcpExtSyncookiesSent`) came back (`TcpExtSyncookiesRecv`): clients that
//!   never finish their handshake, or whose path is too slow for it;
//! - half-open connections of one listener near its limit.
//!
//! ## Threshold
//!
//! One dropped SYN is a finding. Cookies are one when 1 in 10 did not come back:
//! cookies that all come back have delayed nobody. Since Linux 4.3 the limit is
//! that of the accept queue (`inet_csk_reqsk_queue_is_full`); without cookies new
//! peers are refused from 3/4 of `tcp_max_syn_backlog` on.
//!
//! ## Looks like it, but is not
//!
//! - accept-queue-overflow: while the accept queue is full, handshakes stay half
//!   open; when it is seen for the same listener, this is its effect.
//! - A burst of real clients: their cookies come back.
//! - A flood of SYNs from forged addresses: few handshakes complete. It looks the
//!   same here; the finding says how many completed.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az 'TcpExtTCPReqQ*' 'TcpExtSyncookies*'
//! ss -tn state syn-recv | wc -l
//! ```
//!
//! ## Mend
//!
//! Keep `net.ipv4.tcp_syncookies=1`. Raise the application's backlog and
//! `net.core.somaxconn` together, and `net.ipv4.tcp_max_syn_backlog`; listen()
//! must be called again. Against a flood: SYNPROXY or a rate limit in the
//! firewall, cleaning upstream.
//!
//! ## References
//!
//! - tcp(7); RFC 4987, TCP SYN flooding attacks and common mitigations
//! - Linux: `tcp_conn_request`, `tcp_syn_flood_action`

use model::{
    Evidence, Finding, Impact, ImpactUnit, Listener, Reach, Severity, Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::make::{WithFigures as _, advice, proof, subject, sysctl};
use crate::words::{command, processes};

/// Share of the cookies sent that did not come back, from which on somebody is harmed.
const LOST_COOKIES: f64 = 0.1;
/// Share of its limit from which on a listener's half-open connections are near it.
const NEAR: f64 = 0.75;
/// Share of SYNs that completed, below which it may be a flood.
const FEW: f64 = 0.5;
/// Half-open connections that are proposed, at least.
const LEAST: u64 = 4096;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let growth = |counter: &str| evidence.increase(counter).unwrap_or(0);
    let refused = refused(evidence);
    let full = growth("TcpExtTCPReqQFullDrop");
    let dropped = full.saturating_add(refused.map_or(0, |(_, drops)| drops));
    let cookies = growth("TcpExtTCPReqQFullDoCookies");
    if dropped == 0 && cookies == 0 {
        return Verdict::RuledOut("half-open connections (no limit reached)".to_string());
    }
    let sent = growth("TcpExtSyncookiesSent").max(cookies);
    let back = growth("TcpExtSyncookiesRecv").min(sent);
    if dropped == 0 && share((sent - back) as f64, sent as f64) < LOST_COOKIES {
        return Verdict::RuledOut(format!("SYN cookies ({} sent, they came back)", number(sent)));
    }
    let listener =
        refused.map(|(listener, _)| listener).filter(|_| full == 0).or_else(|| fullest(evidence));
    if listener.is_none() && !evidence.focus.is_everything() {
        return Verdict::RuledOut("no listener in focus is near its limit".to_string());
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
        |l: &&Listener| l.half_open.is_some_and(|half| half.max as f64 >= NEAR * limit as f64);
    let most = listeners.filter(near).max_by_key(|listener| drops(listener))?;
    Some((most, drops(most))).filter(|(_, drops)| *drops > 0)
}

/// How many connections may be half open before new peers are refused, where cookies are off.
fn limit_without_cookies(evidence: &Evidence) -> Option<u64> {
    let off = evidence.sysctl_number("net.ipv4.tcp_syncookies") == Some(0);
    let most = evidence.sysctl_number("net.ipv4.tcp_max_syn_backlog").filter(|_| off)?;
    Some(most - most / 4)
}

/// The listener whose half-open connections were nearest to their limit.
fn fullest(evidence: &Evidence) -> Option<&Listener> {
    let fill = |l: &&Listener| {
        l.half_open.map_or(0.0, |half| share(half.max as f64, f64::from(l.limit.max(1))))
    };
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    listeners.iter().max_by(|a, b| fill(a).total_cmp(&fill(b))).filter(|l| fill(l) >= NEAR)
}

fn finding(
    evidence: &Evidence,
    listener: Option<&Listener>,
    dropped: u64,
    sent: u64,
    back: u64,
) -> Finding {
    let opened = evidence.increase("TcpPassiveOpens").unwrap_or(0);
    let who = listener.map(|l| processes(evidence, &l.pids)).unwrap_or_default();
    let lost = dropped + (sent - back);
    let part = share(lost as f64, (lost + opened) as f64);
    let impact = if dropped > 0 {
        format!("{} dropped beside {} opened", count(dropped, "SYN"), count(opened, "connection"))
    } else {
        format!(
            "{} answered with cookies, {} did not come back ({})",
            count(sent, "SYN"),
            number(sent - back),
            percent(share((sent - back) as f64, sent as f64)),
        )
    };
    let mut evidences = Vec::new();
    if let Some(listener) = listener {
        let half = listener.half_open.unwrap_or_default();
        let own = u64::from(listener.limit);
        let (limit, rules) = match limit_without_cookies(evidence) {
            Some(limit) if limit < own => {
                (limit, "3/4 of\nnet.ipv4.tcp_max_syn_backlog, as net.ipv4.tcp_syncookies is 0")
            }
            _ => (own, "the smaller of the backlog\ngiven to listen() and net.core.somaxconn"),
        };
        let text = format!(
            "{} half open at most, the limit is {}: {rules}",
            number(half.max),
            number(limit)
        );
        evidences.push(
            proof(Source::Listeners, "queue", text)
                .over_window(evidence, "half open, most", half.max as f64, "connections")
                .at_moment("limit", limit as f64, "connections"),
        );
    }
    let few = share(opened as f64, (opened + lost) as f64) < FEW;
    evidences.push(proof(
        Source::Counters,
        "why",
        if few {
            format!(
                "{} opened: most SYNs come from clients that never finish.\n\
                 It may be a flood from forged addresses",
                count(opened, "connection")
            )
        } else {
            format!("{} opened meanwhile: a burst of clients", count(opened, "connection"))
        },
    ));
    if let Some((listener, drops)) = refused(evidence) {
        let text = format!("this listener dropped {}, its accept queue none", count(drops, "SYN"));
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
            "TcpExtTCPReqQFullDrop +{}, TCPReqQFullDoCookies +{},\n\
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
        if let Some(growth) = evidence.increase(counter) {
            counted = counted.over_window(evidence, counter, growth as f64, "packets");
        }
    }
    evidences.push(counted);
    Finding {
        cause: "syn-queue-overflow".to_string(),
        title: "More handshakes are half open than the listener may have".to_string(),
        severity: if dropped > 0 { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Listener,
            listener.map_or_else(|| "a listener".to_string(), |l| l.local.to_string()),
            listener.map(|l| l.local),
            None,
            who,
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
        checks: vec![
            command(evidence, "nstat -az 'TcpExtTCPReqQ*' 'TcpExtSyncookies*'"),
            command(evidence, "ss -Htn state syn-recv | wc -l"),
        ],
        remedies: remedies(evidence, listener, few),
        also_causes: Vec::new(),
    }
}

fn remedies(evidence: &Evidence, listener: Option<&Listener>, few: bool) -> Vec<model::Remedy> {
    let mut all = Vec::new();
    if evidence.sysctl_number("net.ipv4.tcp_syncookies") == Some(0) {
        all.push(sysctl(evidence, "net.ipv4.tcp_syncookies", "1", Reach::Everything));
    }
    let limit = listener.map_or(0, |l| u64::from(l.limit));
    let wanted = limit.saturating_mul(4).clamp(LEAST, 65_535);
    let mut own = advice(format!("raise the application's backlog to {wanted}"));
    own.reaches = Reach::AfterListen;
    all.push(own);
    for name in ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"] {
        if evidence.sysctl_number(name).is_none_or(|now| now < wanted) {
            all.push(sysctl(evidence, name, &wanted.to_string(), Reach::AfterListen));
        }
    }
    if few {
        all.push(advice("against a flood: SYNPROXY or a rate limit in the firewall, or upstream"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        add_listener, findings_of, gauge, healthy, increase_counter, remove_source, set_sysctl,
    };

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
        assert_eq!(finding.remedies[0].text, "net.ipv4.tcp_syncookies=1");
    }

    #[test]
    fn without_cookies_the_drops_of_the_listener_prove_it() {
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
        assert!(finding.evidence[0].text.contains("the limit is 48: 3/4 of"));
        // Few half open, or drops that the accept queue explains: something else.
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
        let verdict = crate::cause("syn-queue-overflow").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = flooded();
        add_listener(&mut evidence, "[::]:1", 0, &[9]).half_open = Some(gauge(0, u64::MAX));
        increase_counter(&mut evidence, "TcpExtSyncookiesRecv", 99_999);
        increase_counter(&mut evidence, "TcpExtTCPReqQFullDrop", 1);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
