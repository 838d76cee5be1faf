//! A load from start to end: prepared, then run in threads.

use std::sync::Arc;
use std::time::Instant;

use sys::Stop;

use super::first_connections::FirstConnections;
use super::non_empty::NonEmpty;
use super::origin::{Origin, resolve_origins};
use super::plan::{Plan, RequestLimit};
use super::stats::{LoadResult, Stats};
use super::thread::{LiveCounts, ThreadSetup};
use super::{http2, open_files, tls, worker};
use crate::Error;

/// A load that is ready to run: names are resolved, limits are checked.
#[derive(Debug)]
pub struct PreparedLoad {
    plan: Plan,
    origins: Arc<NonEmpty<Origin>>,
    name_lookup_us: Vec<u64>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// Resolves the names, and checks what can be checked before the first packet is sent.
///
/// # Errors
///
/// An unusable plan, a name that does not resolve, too few open files for the connections, an
/// unreadable certificate file.
pub fn prepare(plan: Plan) -> Result<PreparedLoad, Error> {
    open_files::raise_limit(plan.connections, plan.threads)?;
    let (origins, name_lookup_us) = resolve_origins(&plan)?;
    let tls = match origins.iter().any(|origin| origin.tls.is_some()) {
        true => Some(Arc::new(tls::config(&plan.trust)?)),
        false => None,
    };
    Ok(PreparedLoad { plan, origins: Arc::new(origins), name_lookup_us, tls })
}

impl PreparedLoad {
    /// Ports of the servers.
    pub fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.origins.iter().filter_map(|origin| origin.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Runs the load until its end or until `stop` is set.
    ///
    /// # Errors
    ///
    /// A thread or its event queue cannot be created; no connection can be established.
    pub fn run(self, stop: &Stop, live: &Arc<LiveCounts>) -> Result<LoadResult, Error> {
        let start = Instant::now();
        let limit = RequestLimit::new(self.plan.count);
        let stop = &stop.child();
        let first = Arc::new(FirstConnections::new(self.plan.connections, stop.clone()));
        let mut threads = Vec::new();
        for number in 0..self.plan.threads {
            let setup = ThreadSetup {
                number,
                plan: self.plan.clone(),
                origins: Arc::clone(&self.origins),
                tls: self.tls.clone(),
                limit: limit.clone(),
                start,
                stop: stop.clone(),
                live: Arc::clone(live),
                first: Arc::clone(&first),
            };
            let builder = std::thread::Builder::new().name(format!("http {number}"));
            let run = if self.plan.http2 { http2::run } else { worker::run };
            let thread = builder.spawn(move || run(setup));
            threads.push(thread.map_err(|error| {
                stop.set();
                Error::Failed(format!("cannot start a thread of the load: {error}"))
            })?);
        }
        let mut all = Stats::new(&self.plan, self.origins.len())?;
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(stats)) => all.add_thread(stats),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(Error::Failed("a thread of the load panicked".to_string())),
            }
        }
        match failed.or_else(|| first.error(&self.origins)) {
            Some(error) => Err(error),
            None => all.into_result(&self.plan, &self.origins, &self.name_lookup_us),
        }
    }
}
