//! Looks at the whole table: every socket that is not a listener.
//!
//! At 20,000 sockets one look costs tens of milliseconds of CPU, so looks are made as often as
//! they stay within a share of the window ([`BUDGET`]), and always at its beginning and end.
//! Between them come light looks, at the states that pass quickly: connections being opened and
//! those in CLOSE_WAIT. The kernel still walks its whole hash for them, but writes little.

use std::collections::HashMap;
use std::time::Duration;

use model::{FirstSample, Socket, SocketTable, Source, TableSample, TcpState, TimerKind};
use wire::sock_diag::{Extensions, Family, Record, States, request};

use super::close_wait::CloseWaits;
use super::listeners::Listeners;
use super::port_use::Ports;
use super::syn_sent::SynSents;
use crate::Context;

/// Whole looks between the ends, and light ones, may each take this share of the window: 1 in
/// `BUDGET` (0.2 % of one CPU).
const BUDGET: u32 = 500;
/// Looks are at least this far apart.
const SPACING: Duration = Duration::from_millis(200);
/// A light look comes at least this long after a whole one.
const LIGHT_SPACING: Duration = Duration::from_millis(500);
/// Share of the receive buffer above which no window worth a segment is left: the kernel offers
/// none below 1/16 of the space (`__tcp_select_window`).
const FULL: f64 = 15.0 / 16.0;

/// The whole table, look by look.
#[derive(Default)]
pub(super) struct Whole {
    looks: Vec<TableSample>,
    earlier: HashMap<u64, Tracked>,
    generation: u32,
    ports: Ports,
    close_waits: CloseWaits,
    syn_sents: SynSents,
    sockets: Vec<Socket>,
    not_kept: u64,
    next: Duration,
    next_light: Duration,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Light,
    Last,
}

struct Tracked {
    earlier: FirstSample,
    generation: u32,
}

impl Whole {
    /// The first look.
    pub(super) fn begin(&mut self, context: &mut Context<'_>, listeners: &mut Listeners) {
        self.ports.begin(context);
        self.look(context, listeners, Kind::Whole);
    }

    /// A look, if one is due.
    pub(super) fn look_if_due(&mut self, context: &mut Context<'_>, listeners: &mut Listeners) {
        let now = context.machine.now();
        if self.failed {
        } else if now >= self.next {
            self.look(context, listeners, Kind::Whole);
        } else if now >= self.next_light {
            self.look(context, listeners, Kind::Light);
        }
    }

    fn look(&mut self, context: &mut Context<'_>, listeners: &mut Listeners, kind: Kind) {
        let began = context.machine.now();
        let mut look = TableSample { at_ms: context.at_ms, ..TableSample::default() };
        let mut counts = [0u64; TcpState::ALL.len() + 1];
        let mut half_open = HashMap::new();
        let request = match kind {
            Kind::Whole => {
                request(Family::Both, Self::states(), Extensions::INFO | Extensions::MEMORY)
            }
            Kind::Light => request(Family::Both, Self::passing(), Extensions::INFO),
            Kind::Last => request(
                Family::Both,
                Self::states(),
                Extensions::INFO | Extensions::MEMORY | Extensions::CONGESTION,
            ),
        };
        self.generation += u32::from(kind != Kind::Light);
        let done = super::dump::sockets(context.machine, &request, &mut |record| {
            let state = record.state();
            counts[usize::from(state.kernel())] += 1;
            match state {
                TcpState::NewSynRecv | TcpState::SynRecv => {
                    *half_open.entry(record.local()).or_insert(0) += 1;
                }
                TcpState::CloseWait => {
                    self.close_waits.add(record);
                    self.take(record, state, look.at_ms, kind, listeners);
                }
                _ => self.take(record, state, look.at_ms, kind, listeners),
            }
        });
        if let Err(error) = done {
            self.failed = true;
            return context.missing(Source::Sockets, "TCP sockets", &error);
        }
        self.close_waits.end_of_look();
        self.syn_sents.end_of_look(context);
        listeners.half_open(&half_open);
        let took = context.machine.now().saturating_sub(began);
        self.next_light = began + SPACING.max(took * BUDGET);
        if kind == Kind::Light {
            return;
        }
        look.by_state = TcpState::ALL
            .iter()
            .map(|state| (*state, counts[usize::from(state.kernel())]))
            .filter(|(_, count)| *count > 0)
            .collect();
        self.looks.push(look);
        self.earlier.retain(|_, tracked| tracked.generation == self.generation);
        self.ports.end_of_look(context);
        self.next = began + SPACING.max(took * BUDGET);
        // A light look after a whole one, at the earliest: what it costs is not known yet.
        self.next_light = began + LIGHT_SPACING;
    }

    fn states() -> States {
        States::ALL.without(TcpState::Listen)
    }

    fn passing() -> States {
        States::only(TcpState::SynSent)
            | States::only(TcpState::SynRecv)
            | States::only(TcpState::NewSynRecv)
            | States::only(TcpState::CloseWait)
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        state: TcpState,
        at_ms: u64,
        kind: Kind,
        listeners: &Listeners,
    ) {
        let (local, remote, cookie) = (record.local(), record.remote(), record.cookie());
        if state != TcpState::TimeWait {
            self.syn_sents.add(cookie, record.inode(), remote, state, record.tries());
        }
        if kind == Kind::Light {
            return;
        }
        if self.ports.has(local.port()) && !listeners.has_port(local.port()) {
            self.ports.add(local, remote, state, record.inode(), cookie);
        }
        if state == TcpState::TimeWait {
            return;
        }
        if kind == Kind::Last && state == TcpState::Established {
            self.syn_sents.established(remote);
        }
        let (stalled, send_full) = (stalled(record), send_full(record));
        let generation = self.generation;
        let tracked = self
            .earlier
            .entry(cookie)
            .or_insert_with(|| Tracked { earlier: earlier(record, at_ms), generation });
        tracked.generation = generation;
        tracked.earlier.samples += 1;
        tracked.earlier.samples_stalled += u32::from(stalled);
        tracked.earlier.samples_send_buffer_full += u32::from(send_full);
        if kind == Kind::Last {
            if self.sockets.len() >= SocketTable::MAX_SOCKETS {
                self.not_kept += 1;
                return;
            }
            let mut socket = record.to_socket();
            socket.last_at_ms = at_ms;
            socket.first = (tracked.earlier.samples > 1).then_some(tracked.earlier);
            self.sockets.push(socket);
        }
    }

    /// A few words on what is seen so far.
    pub(super) fn seen(&self) -> Option<String> {
        let look = self.looks.last()?;
        let mut words = format!("{} sockets", look.total());
        let retrying = self.syn_sents.retrying();
        if retrying > 0 {
            words.push_str(&format!(", {retrying} SYNs repeated"));
        }
        Some(words)
    }

    /// The last look and what came of all.
    pub(super) fn finish(
        mut self,
        context: &mut Context<'_>,
        listeners: &mut Listeners,
    ) -> Option<SocketTable> {
        if !self.failed {
            self.look(context, listeners, Kind::Last);
        }
        if self.looks.is_empty() {
            return None;
        }
        self.close_waits.want(context);
        self.ports.want(context);
        let stuck = self.sockets.iter().filter(|s| s.first.is_some_and(|f| f.samples_stalled > 0));
        stuck.for_each(|socket| context.want(socket.inode));
        crate::holders::wanted(context);
        for socket in &mut self.sockets {
            let known = context.holders_of(socket.inode).first().copied();
            socket.pid = known.or_else(|| listeners.sole_holder(context, socket.local.port()));
        }
        Some(SocketTable {
            samples: self.looks,
            sockets: self.sockets,
            not_kept: self.not_kept,
            port_use: self.ports.finish(context),
            close_wait: self.close_waits.finish(context),
            syn_sent: self.syn_sents.finish(context),
        })
    }
}

/// Whether data waits and cannot move: at the reader, unread data leaves no window worth a
/// segment; at the writer, the peer's window is closed and only probes are sent.
fn stalled(record: &Record<'_>) -> bool {
    let reader = record.receive_queue() > 0
        && (matches!((record.rcv_wnd(), record.rcv_mss()), (Some(w), Some(mss)) if w < mss)
            || record.memory().is_some_and(|m| {
                f64::from(m.receive_bytes) >= FULL * f64::from(m.receive_buffer_bytes)
            }));
    let writer = record.send_queue() > 0
        && (record.timer() == TimerKind::Persist || record.snd_wnd() == Some(0));
    reader || writer
}

/// Whether a larger send buffer would let more be on its way. A writer is woken when a third of the
/// buffer is free (`sk_stream_is_writeable`).
fn send_full(record: &Record<'_>) -> bool {
    let full = record.memory().is_some_and(|memory| {
        memory.send_buffer_bytes > 0
            && u64::from(memory.queued_bytes) * 3 > u64::from(memory.send_buffer_bytes) * 2
    });
    let segment = record.snd_mss().unwrap_or(u32::MAX);
    let flight = record.unacked().unwrap_or(0).saturating_mul(segment);
    full && record.notsent_bytes() == Some(0)
        && record.unacked() < record.snd_cwnd()
        && record.snd_wnd().is_some_and(|window| window >= flight.saturating_add(segment))
}

fn earlier(record: &Record<'_>, at_ms: u64) -> FirstSample {
    FirstSample {
        at_ms,
        samples: 0,
        samples_stalled: 0,
        samples_send_buffer_full: 0,
        state: record.state(),
        receive_queue_bytes: record.receive_queue(),
        send_queue_bytes: record.send_queue(),
        bytes_received: record.bytes_received().unwrap_or(0),
        bytes_acked: record.bytes_acked().unwrap_or(0),
        total_retrans: record.total_retrans().unwrap_or(0),
        rwnd_limited_us: record.rwnd_limited_us().unwrap_or(0),
        sndbuf_limited_us: record.sndbuf_limited_us().unwrap_or(0),
        busy_us: record.busy_time_us().unwrap_or(0),
    }
}
