//! HTTP load: closed loop as wrk and ab make it, open loop with intended send times.
//!
//! - [`plan`]: what is asked for: URLs, connections, rate, limits
//! - [`site`]: a server and the requests to it, as bytes
//! - [`answer`]: where an answer ends, whatever pieces it comes in
//! - [`transport`]: a connection's bytes, with TLS or without
//! - [`connection`]: one connection and the requests on it
//! - [`exchange`]: what happens on a connection
//! - [`failure`]: why a connection failed
//! - [`http2`]: one thread that speaks HTTP/2
//! - [`worker`]: one thread: connections, timers, the loop
//! - [`schedule`]: when a request is due
//! - [`tls`]: whom to trust
//! - [`limits`]: files and ports
//! - [`figures`]: histograms and counts, joined and told
//!
//! Every request begins once, ends once, and is counted once: answered, failed by kind, or
//! unfinished. Nothing is kept of a request that is over.

pub mod answer;
mod connection;
mod exchange;
mod failure;
mod figures;
mod http2;
mod limits;
mod plan;
mod schedule;
mod site;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tls;
mod tls;
mod transport;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::HttpLoad;

use sys::Stop;

use crate::Error;
pub use figures::Histograms;
pub use plan::{Ask, Plan, Trust, read_urls};

/// Longest time that requests are waited for once the time is up, in an open loop.
const LINGER: Duration = Duration::from_secs(1);

/// Figures of a load that runs.
#[derive(Debug, Default)]
pub struct Live {
    /// Answers so far.
    pub requests: AtomicU64,
    /// Bytes received so far.
    pub bytes: AtomicU64,
    /// Errors so far.
    pub errors: AtomicU64,
}

impl Live {
    fn add(&self, requests: u64, bytes: u64, errors: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.errors.fetch_add(errors, Ordering::Relaxed);
    }
}

/// What a load gives: figures, and the histograms that they are of.
#[derive(Debug)]
pub struct Outcome {
    /// The figures.
    pub load: HttpLoad,
    /// Their histograms.
    pub histograms: Histograms,
}

/// Something that is ready to load: names are looked up, limits are checked.
#[derive(Debug)]
pub struct Ready {
    plan: Plan,
    sites: Arc<Vec<site::Site>>,
    name_us: Vec<u64>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// Looks up the names and checks what can be checked before the first packet is sent.
///
/// # Errors
///
/// A name without an address, too few files for so many connections, a certificate file that
/// cannot be read.
pub fn prepare(plan: Plan) -> Result<Ready, Error> {
    limits::files(plan.connections, plan.threads)?;
    let (sites, name_us) = site::sites(&plan)?;
    let tls = match sites.iter().any(|site| site.tls.is_some()) {
        true => Some(Arc::new(tls::config(&plan.trust)?)),
        false => None,
    };
    Ok(Ready { plan, sites: Arc::new(sites), name_us, tls })
}

impl Ready {
    /// Ports of the servers, for whoever looks at their connections.
    pub fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.sites.iter().filter_map(|site| site.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Makes the load, until it is over or `stop` is set. Threads start and end in here.
    ///
    /// # Errors
    ///
    /// A thread or its event queue cannot be made.
    pub fn run(self, stop: &Stop, live: &Arc<Live>) -> Result<Outcome, Error> {
        let begun = Instant::now();
        let budget = plan::Budget::new(self.plan.count);
        let mut threads = Vec::new();
        for number in 0..self.plan.threads {
            let setup = worker::Setup {
                number,
                plan: self.plan.clone(),
                sites: Arc::clone(&self.sites),
                tls: self.tls.clone(),
                budget: budget.clone(),
                begun,
                stop: stop.clone(),
                live: Arc::clone(live),
            };
            let named = std::thread::Builder::new().name(format!("http {number}"));
            let run = if self.plan.http2 { http2::run } else { worker::run };
            let started = named.spawn(move || run(setup));
            threads.push(started.map_err(|error| {
                stop.set();
                Error::Failed(format!("cannot start a thread for the load: {error}"))
            })?);
        }
        let mut all = figures::Figures::new();
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(figures)) => all.join(figures),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(Error::Failed("a thread of the load ended".to_string())),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(all.told(&self.plan, &self.sites, &self.name_us)),
        }
    }
}
