//! The evidence narrowed to what the user asked for: rules then see nothing else.
//!
//! Counters of the whole host stay. A rule that finds nothing in focus that shows what they count
//! has no proof.

use std::borrow::Cow;

use model::Evidence;

/// The part of the evidence that is in focus.
pub(crate) fn narrow(evidence: &Evidence) -> Cow<'_, Evidence> {
    let focus = &evidence.focus;
    if focus.is_everything() {
        return Cow::Borrowed(evidence);
    }
    let mut in_focus = evidence.clone();
    let pid = |pid: Option<u32>| pid.map_or_else(Vec::new, |pid| vec![pid]);
    if let Some(sockets) = &mut in_focus.sockets {
        sockets.sockets.retain(|s| focus.has(s.local, Some(s.remote), &pid(s.pid)));
        sockets
            .port_use
            .retain(|use_| focus.has((use_.local, 0).into(), Some(use_.remote), &use_.pids));
        sockets.syn_sent.retain(|syn| focus.has(syn.remote, Some(syn.remote), &syn.pids));
        sockets.close_wait.retain(|group| {
            let port = focus.ports.is_empty()
                || group.local_port.is_some_and(|p| focus.ports.contains(&p))
                || group.remote.is_some_and(|r| focus.ports.contains(&r.port()));
            let peer = focus.peers.is_empty()
                || group.remote.is_some_and(|r| {
                    focus.peers.iter().any(|p| p.to_canonical() == r.ip().to_canonical())
                });
            port && peer && focus.has_pid(&pid(group.pid))
        });
    }
    if let Some(listeners) = &mut in_focus.listeners {
        listeners.retain(|listener| focus.has(listener.local, None, &listener.pids));
    }
    if let Some(listeners) = &mut in_focus.unix_listeners {
        listeners.retain(|listener| focus.has_pid(&listener.pids));
    }
    if let Some(logs) = &mut in_focus.logs {
        logs.retain(|log| focus.has_pid(&log.pids));
    }
    Cow::Owned(in_focus)
}

/// Whether the user asked for something, and nothing of it was observed.
pub(crate) fn is_empty(in_focus: &Evidence) -> bool {
    fn none<T>(all: Option<&Vec<T>>) -> bool {
        all.is_none_or(Vec::is_empty)
    }
    !in_focus.focus.is_everything()
        && in_focus.sockets.as_ref().is_some_and(|table| {
            table.sockets.is_empty()
                && table.port_use.is_empty()
                && table.syn_sent.is_empty()
                && table.close_wait.is_empty()
        })
        && none(in_focus.listeners.as_ref())
        && (in_focus.focus.pids.is_empty() || none(in_focus.unix_listeners.as_ref()))
        && in_focus.packets.as_ref().is_none_or(|packets| packets.worst.is_empty())
}
