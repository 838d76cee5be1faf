//! TCP sockets and listeners by sock_diag, Unix listeners by unix_diag.
//!
//! - [`dump`]: one request, its answers
//! - [`listeners`]: at every look
//! - [`whole`]: the whole table, as often as it is cheap
//! - [`port_use`], [`close_wait`], [`syn_sent`]: what the whole table adds up to
//! - [`unix`]: Unix listeners

use std::time::Duration;

use model::{Evidence, Source};
use wire::sock_diag::{Extensions, Family, States, request};

use crate::{Context, Observe};

mod close_wait;
pub mod dump;
mod listeners;
mod port_use;
mod syn_sent;
mod unix;
mod whole;

/// Between looks at the Unix listeners.
const UNIX_SPACING: Duration = Duration::from_millis(200);

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<Sockets>::default()
}

#[derive(Default)]
struct Sockets {
    listeners: listeners::Listeners,
    listeners_failed: bool,
    whole: whole::Whole,
    unix: unix::UnixListeners,
    unix_next: Duration,
}

impl Observe for Sockets {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.look_at_listeners(context);
        self.whole.begin(context, &mut self.listeners);
        self.unix.look(context);
    }

    fn look(&mut self, context: &mut Context<'_>) {
        self.look_at_listeners(context);
        self.whole.look_if_due(context, &mut self.listeners);
        if context.machine.now() >= self.unix_next {
            self.unix_next = context.machine.now() + UNIX_SPACING;
            self.unix.look(context);
        }
    }

    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.look_at_listeners(context);
        self.unix.look(context);
        let whole = std::mem::take(&mut self.whole);
        evidence.sockets = whole.finish(context, &mut self.listeners);
        let listeners = std::mem::take(&mut self.listeners);
        evidence.listeners = (!self.listeners_failed).then(|| listeners.finish(context));
        evidence.unix_listeners = std::mem::take(&mut self.unix).finish(context);
    }

    fn seen(&self) -> Option<String> {
        let words: Vec<String> =
            [self.whole.seen(), self.listeners.seen()].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl Sockets {
    fn look_at_listeners(&mut self, context: &mut Context<'_>) {
        if self.listeners_failed {
            return;
        }
        let states = States::only(model::TcpState::Listen);
        let request = request(Family::Both, states, Extensions::MEMORY);
        let listeners = &mut self.listeners;
        let done = dump::sockets(context.machine, &request, &mut |record| listeners.add(record));
        match done {
            Ok(()) => self.listeners.end_of_look(context),
            Err(error) => {
                self.listeners_failed = true;
                context.missing(Source::Listeners, "TCP listeners", &error);
            }
        }
    }
}
