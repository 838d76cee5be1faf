//! One thread of a load with HTTP/1.1 connections.
//!
//! - [`state`]: its connections, timers and counts
//! - [`exchange`]: connecting, writing requests, reading responses
//! - [`event_loop`]: waits for events, starts what is due
//!
//! Events are edge-triggered and sockets are written to at once: a response costs a read, the next
//! request a write, and nothing else.

mod event_loop;
mod exchange;
mod state;

pub(super) use event_loop::run;
