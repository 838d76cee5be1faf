//! Samples of the whole table: every socket that is not a listener.
//!
//! With 20,000 sockets one sample costs tens of milliseconds of CPU. Full samples are therefore taken as
//! often as they stay within a share of the window ([`SPACING_PER_COST`]), and always at its beginning
//! and end. In between come samples of the states that pass quickly: connections being opened, and those
//! in CLOSE_WAIT. The kernel still walks its whole hash for them, but writes little.

use std::collections::HashMap;
use std::time::Duration;

use model::{FirstSample, Series, Socket, SocketTable, Source, TableSample, TcpState, TimerKind};
use wire::sock_diag::{Extensions, Family, Record, States, request};

use super::close_wait::CloseWaits;
use super::dump;
use super::listeners::Listeners;
use super::port_use::PortsInUse;
use super::syn_sent::SynSents;
use crate::context::Context;

/// A sample that took a time is followed by another one of its kind after this many times as long: each
/// kind takes 0.2 % of one CPU at most.
const SPACING_PER_COST: u32 = 500;
/// Shortest time between samples of a kind.
const MIN_SPACING: Duration = Duration::from_millis(200);
/// Shortest time between a full sample and one of the passing states.
const MIN_SPACING_AFTER_FULL: Duration = Duration::from_millis(500);
/// Share of the receive buffer above which no window of a segment is left: the kernel advertises none
/// below 1/16 of the space (`__tcp_select_window`).
const RECEIVE_BUFFER_FULL: f64 = 15.0 / 16.0;
/// Number of states, by the kernel's numbers.
const STATES: usize = TcpState::ALL.len() + 1;

/// The whole table, sample by sample.
#[derive(Default)]
pub(super) struct TableSampler {
    samples: Vec<TableSample>,
    /// First samples of the sockets of the last full sample, by cookie.
    tracked: HashMap<u64, Tracked>,
    /// Number of the last full sample.
    generation: u32,
    ports: PortsInUse,
    close_waits: CloseWaits,
    syn_sents: SynSents,
    next_full: Duration,
    next_passing: Duration,
    failed: Option<sys::Error>,
}

struct Tracked {
    first: FirstSample,
    generation: u32,
}

/// What a sample has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All states.
    Full,
    /// The states that pass quickly.
    PassingStates,
    /// All states, and every figure of each socket for the evidence.
    Final,
}

/// Sockets of a final sample.
#[derive(Default)]
struct Kept {
    sockets: Vec<Socket>,
    not_kept: u64,
}

impl TableSampler {
    /// Takes the first sample.
    pub(super) fn begin(&mut self, context: &mut Context<'_>, listeners: &mut Listeners) {
        self.ports.begin(context);
        self.sample(context, listeners, Scope::Full);
    }

    /// Takes a sample, if one is due.
    pub(super) fn sample_if_due(&mut self, context: &mut Context<'_>, listeners: &mut Listeners) {
        let now = context.machine.clock().now();
        if now >= self.next_full {
            self.sample(context, listeners, Scope::Full);
        } else if now >= self.next_passing {
            self.sample(context, listeners, Scope::PassingStates);
        }
    }

    /// Takes a sample; with [`Scope::Final`], its sockets.
    fn sample(
        &mut self,
        context: &mut Context<'_>,
        listeners: &mut Listeners,
        scope: Scope,
    ) -> Kept {
        let mut kept = Kept::default();
        if self.failed.is_some() {
            return kept;
        }
        let clock = context.machine.clock();
        let began = clock.now();
        let mut sample = TableSample { at_ms: context.at_ms, ..TableSample::default() };
        let mut counts = [0u64; STATES];
        let mut half_open = HashMap::new();
        self.generation += u32::from(scope != Scope::PassingStates);
        if scope == Scope::Final {
            self.syn_sents.begin_final_sample();
        }
        let done = dump::sockets(context.machine, &scope.request(), &mut |record| {
            let state = record.state();
            if let Some(count) = counts.get_mut(usize::from(state.kernel())) {
                *count += 1;
            }
            match state {
                TcpState::NewSynRecv | TcpState::SynRecv => {
                    *half_open.entry(record.local()).or_insert(0) += 1;
                }
                TcpState::CloseWait => {
                    self.close_waits.add(record);
                    self.add(record, sample.at_ms, scope, listeners, &mut kept);
                }
                _ => self.add(record, sample.at_ms, scope, listeners, &mut kept),
            }
        });
        if let Err(error) = done {
            context.missing(Source::Sockets, "TCP sockets", &error);
            self.failed = Some(error);
            return kept;
        }
        self.close_waits.end_of_sample();
        self.syn_sents.end_of_sample(context);
        listeners.add_half_open(&half_open);
        let cost = clock.now().saturating_sub(began);
        let next = began + MIN_SPACING.max(cost * SPACING_PER_COST);
        if scope == Scope::PassingStates {
            self.next_passing = next;
            return kept;
        }
        let by_state = TcpState::ALL.iter().zip(counts.iter().skip(1));
        sample.by_state = by_state.map(|(state, n)| (*state, *n)).filter(|(_, n)| *n > 0).collect();
        self.samples.push(sample);
        self.tracked.retain(|_, tracked| tracked.generation == self.generation);
        self.ports.end_of_sample(context);
        self.next_full = next;
        // Soon after a full sample at the earliest: what it costs is not known yet.
        self.next_passing = began + MIN_SPACING_AFTER_FULL;
        kept
    }

    /// Adds one socket of the current sample that is not half open.
    fn add(
        &mut self,
        record: &Record<'_>,
        at_ms: u64,
        scope: Scope,
        listeners: &Listeners,
        kept: &mut Kept,
    ) {
        let (local, remote, cookie) = (record.local(), record.remote(), record.cookie());
        let state = record.state();
        if state != TcpState::TimeWait {
            self.syn_sents.add(cookie, record.inode(), remote, state, record.tries());
        }
        if scope == Scope::PassingStates {
            return;
        }
        if self.ports.contains(local.port()) && !listeners.has_port(local.port()) {
            self.ports.add(local, remote, state, record.inode(), cookie);
        }
        if state == TcpState::TimeWait {
            return;
        }
        if scope == Scope::Final && state == TcpState::Established {
            self.syn_sents.add_established(remote);
        }
        let generation = self.generation;
        let tracked = self
            .tracked
            .entry(cookie)
            .or_insert_with(|| Tracked { first: first_sample(record, at_ms), generation });
        tracked.generation = generation;
        tracked.first.samples += 1;
        tracked.first.samples_stalled += u32::from(is_stalled(record));
        tracked.first.samples_send_buffer_full += u32::from(is_send_buffer_full(record));
        if scope == Scope::Final {
            if kept.sockets.len() >= SocketTable::MAX_SOCKETS {
                kept.not_kept += 1;
                return;
            }
            let mut socket = record.to_socket();
            socket.last_at_ms = at_ms;
            socket.first = (tracked.first.samples > 1).then_some(tracked.first);
            kept.sockets.push(socket);
        }
    }

    /// Sockets by state at the last full sample, and connections that retransmit their SYN.
    pub(super) fn series(&self, into: &mut Vec<Series>) {
        let Some(last) = self.samples.last() else {
            return;
        };
        for (state, count) in &last.by_state {
            // SYN_RECV and NEW_SYN_RECV have one name: ss(8) does not distinguish them either.
            let series = Series::count("tcp_sockets", *count).with_label("state", state.name());
            match into.iter_mut().find(|s| s.name == series.name && s.labels == series.labels) {
                Some(same) => same.value += series.value,
                None => into.push(series),
            }
        }
        let retransmitting = self.syn_sents.count_retransmitting() as u64;
        into.push(Series::count("tcp_syn_retransmitting", retransmitting));
    }

    /// Takes the final sample, and adds up all of them.
    pub(super) fn evidence(
        &mut self,
        context: &mut Context<'_>,
        listeners: &mut Listeners,
    ) -> Option<SocketTable> {
        let Kept { mut sockets, not_kept } = self.sample(context, listeners, Scope::Final);
        if let Some(error) = &self.failed {
            context.missing(Source::Sockets, "TCP sockets", error);
        }
        if self.samples.is_empty() {
            return None;
        }
        self.close_waits.request_owners(context);
        self.ports.request_owners(context);
        let stalled = sockets.iter().filter(|s| s.first.is_some_and(|f| f.samples_stalled > 0));
        stalled.for_each(|socket| context.owners.request(socket.inode));
        context.owners.find_pending(context.machine.files());
        for socket in &mut sockets {
            let known = context.owners.of(socket.inode).first().copied();
            socket.pid = known.or_else(|| listeners.sole_owner(context, socket.local.port()));
        }
        Some(SocketTable {
            samples: self.samples.clone(),
            sockets,
            not_kept,
            port_use: self.ports.evidence(context),
            close_wait: self.close_waits.evidence(context),
            syn_sent: self.syn_sents.evidence(context),
        })
    }
}

impl Scope {
    fn request(self) -> Vec<u8> {
        let all = States::ALL.without(TcpState::Listen);
        let passing = States::only(TcpState::SynSent)
            | States::only(TcpState::SynRecv)
            | States::only(TcpState::NewSynRecv)
            | States::only(TcpState::CloseWait);
        let (states, extensions) = match self {
            Scope::Full => (all, Extensions::INFO | Extensions::MEMORY),
            Scope::PassingStates => (passing, Extensions::INFO),
            Scope::Final => (all, Extensions::INFO | Extensions::MEMORY | Extensions::CONGESTION),
        };
        request(Family::Both, states, extensions)
    }
}

/// Whether data waits and cannot move: at a reader whose unread data leaves no window of a segment, or
/// at a writer to whom the peer's window is zero, so that only probes are sent.
fn is_stalled(record: &Record<'_>) -> bool {
    let reader = record.receive_queue() > 0
        && (matches!((record.rcv_wnd(), record.rcv_mss()), (Some(w), Some(mss)) if w < mss)
            || record.memory().is_some_and(|m| {
                f64::from(m.receive_bytes)
                    >= RECEIVE_BUFFER_FULL * f64::from(m.receive_buffer_bytes)
            }));
    let writer = record.send_queue() > 0
        && (record.timer() == TimerKind::Persist || record.snd_wnd() == Some(0));
    reader || writer
}

/// Whether a larger send buffer would allow more in flight. A writer is woken when a third of the buffer
/// is free (`sk_stream_is_writeable`).
fn is_send_buffer_full(record: &Record<'_>) -> bool {
    let full = record.memory().is_some_and(|memory| {
        memory.send_buffer_bytes > 0
            && u64::from(memory.queued_bytes) * 3 > u64::from(memory.send_buffer_bytes) * 2
    });
    let segment = record.snd_mss().unwrap_or(u32::MAX);
    let in_flight = record.unacked().unwrap_or(0).saturating_mul(segment);
    full && record.notsent_bytes() == Some(0)
        && record.unacked() < record.snd_cwnd()
        && record.snd_wnd().is_some_and(|window| window >= in_flight.saturating_add(segment))
}

fn first_sample(record: &Record<'_>, at_ms: u64) -> FirstSample {
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
