//! One entry as a line, in the format of `conntrack -L`; or as JSON.

use std::io::Write;

use wire::conntrack::{Entry, Tuple, protocol_name};

/// Appends one entry.
pub(super) fn write(entry: &Entry<'_>, json: bool, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = if json { as_json(entry, out) } else { as_text(entry, out) };
}

fn as_text(entry: &Entry<'_>, out: &mut Vec<u8>) -> std::io::Result<()> {
    match protocol_name(entry.protocol()) {
        Some(name) => write!(out, "{name:<8}")?,
        None => write!(out, "{:<8}", entry.protocol())?,
    }
    if let Some(timeout) = entry.timeout_s() {
        write!(out, " {timeout}")?;
    }
    if let Some(state) = entry.tcp_state_name() {
        write!(out, " {state}")?;
    }
    tuple(entry.original(), out)?;
    if !entry.seen_reply() {
        out.extend_from_slice(b" [UNREPLIED]");
    }
    tuple(entry.reply(), out)?;
    if entry.assured() {
        out.extend_from_slice(b" [ASSURED]");
    }
    if let Some(mark) = entry.mark().filter(|mark| *mark != 0) {
        write!(out, " mark={mark}")?;
    }
    if let Some(zone) = entry.zone().filter(|zone| *zone != 0) {
        write!(out, " zone={zone}")?;
    }
    out.push(b'\n');
    Ok(())
}

fn tuple(tuple: Tuple, out: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(source) = tuple.source {
        write!(out, " src={source}")?;
    }
    if let Some(destination) = tuple.destination {
        write!(out, " dst={destination}")?;
    }
    if let Some(port) = tuple.source_port {
        write!(out, " sport={port}")?;
    }
    if let Some(port) = tuple.destination_port {
        write!(out, " dport={port}")?;
    }
    if let Some(icmp) = tuple.icmp {
        write!(out, " type={} code={} id={}", icmp.kind, icmp.code, icmp.id)?;
    }
    Ok(())
}

fn as_json(entry: &Entry<'_>, out: &mut Vec<u8>) -> std::io::Result<()> {
    let tuple = |tuple: Tuple| {
        serde_json::json!({
            "source": tuple.source, "destination": tuple.destination,
            "source_port": tuple.source_port, "destination_port": tuple.destination_port,
        })
    };
    let json = serde_json::json!({
        "protocol": entry.protocol(),
        "protocol_name": protocol_name(entry.protocol()),
        "state": entry.tcp_state_name(),
        "timeout_s": entry.timeout_s(),
        "original": tuple(entry.original()),
        "reply": tuple(entry.reply()),
        "assured": entry.assured(),
        "seen_reply": entry.seen_reply(),
        "mark": entry.mark(),
        "zone": entry.zone(),
    });
    writeln!(out, "{json}")
}
