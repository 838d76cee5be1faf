//! TCP sockets and listeners by sock_diag, Unix listeners by unix_diag.
//!
//! - [`dump`]: one request and its answer
//! - `listeners`: at every sample
//! - [`open_connections`]: those before a window
//! - `table`: the whole table, as often as it is cheap
//! - `port_use`, `close_wait`, `syn_sent`: what the samples of the table add up to
//! - `unix_listeners`: Unix listeners

use std::time::Duration;

use model::{Evidence, Series, Source, TcpState};
use wire::sock_diag::{Extensions, Family, States, request};

use crate::context::Context;
use crate::observer::Observe;

mod close_wait;
pub mod dump;
mod listeners;
mod open_connections;
mod pids;
mod port_use;
mod syn_sent;
mod table;
mod unix_listeners;

use listeners::Listeners;
pub use open_connections::open_connections;
use table::TableSampler;
use unix_listeners::UnixListeners;

/// Time between samples of the Unix listeners.
const UNIX_SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<SocketsObserver>::default()
}

#[derive(Default)]
struct SocketsObserver {
    listeners: Listeners,
    listeners_failed: Option<sys::Error>,
    table: TableSampler,
    unix: UnixListeners,
    next_unix_sample: Duration,
}

impl Observe for SocketsObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.sample_listeners(context);
        self.table.begin(context, &mut self.listeners);
        self.unix.sample(context);
    }

    fn sample(&mut self, context: &mut Context<'_>) {
        self.sample_listeners(context);
        self.table.sample_if_due(context, &mut self.listeners);
        let now = context.machine.clock().now();
        if now >= self.next_unix_sample {
            self.next_unix_sample = now + UNIX_SAMPLE_INTERVAL;
            self.unix.sample(context);
        }
    }

    fn series(&self, into: &mut Vec<Series>) {
        self.table.series(into);
        self.listeners.series(into);
        self.unix.series(into);
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.sample_listeners(context);
        self.unix.sample(context);
        evidence.sockets = self.table.evidence(context, &mut self.listeners);
        evidence.unix_listeners = self.unix.evidence(context);
        match &self.listeners_failed {
            None => evidence.listeners = Some(self.listeners.evidence(context)),
            Some(error) => context.missing(Source::Listeners, "TCP listeners", error),
        }
    }
}

impl SocketsObserver {
    fn sample_listeners(&mut self, context: &mut Context<'_>) {
        if self.listeners_failed.is_some() {
            return;
        }
        let states = States::only(TcpState::Listen);
        let request = request(Family::Both, states, Extensions::MEMORY);
        let listeners = &mut self.listeners;
        let done = dump::sockets(context.machine, &request, &mut |record| listeners.add(record));
        match done {
            Ok(()) => self.listeners.end_of_sample(context),
            Err(error) => {
                context.missing(Source::Listeners, "TCP listeners", &error);
                self.listeners_failed = Some(error);
            }
        }
    }
}
