//! Reverse look-ups of addresses in background threads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sys::Stop;

/// Concurrent look-ups; each may take seconds.
const THREADS: usize = 8;
/// Most addresses that are looked up.
const MAX_ADDRESSES: usize = 1024;
/// Longest wait before [`Stop`] is checked again.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Names of addresses, each looked up once.
pub(super) struct Names {
    requested: BTreeSet<IpAddr>,
    resolved: BTreeMap<IpAddr, Option<String>>,
    requests: Sender<IpAddr>,
    results: Receiver<(IpAddr, Option<String>)>,
}

impl Names {
    /// Starts the threads; they end after this is dropped and the resolver has returned.
    pub(super) fn start() -> Self {
        let (requests, queue) = channel::<IpAddr>();
        let (sender, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            std::thread::spawn(move || {
                loop {
                    let next = match queue.lock() {
                        Ok(queue) => queue.recv(),
                        Err(_) => return,
                    };
                    let Ok(address) = next else { return };
                    if sender.send((address, sys::probe_socket::reverse_dns_name(address))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        Names { requested: BTreeSet::new(), resolved: BTreeMap::new(), requests, results }
    }

    /// Requests the name of an address, unless it was requested before.
    pub(super) fn request(&mut self, address: IpAddr) {
        if self.requested.len() < MAX_ADDRESSES && self.requested.insert(address) {
            // Without threads addresses stay without names.
            let _ = self.requests.send(address);
        }
    }

    /// Takes in the finished look-ups.
    pub(super) fn poll(&mut self) {
        while let Ok((address, name)) = self.results.try_recv() {
            self.resolved.insert(address, name);
        }
    }

    /// Waits until all look-ups are finished, at most for this time.
    pub(super) fn wait(&mut self, time: Duration, stop: &Stop) {
        let until = Instant::now() + time;
        while self.resolved.len() < self.requested.len() && !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            match self.results.recv_timeout(left.min(MAX_WAIT)) {
                Ok((address, name)) => {
                    self.resolved.insert(address, name);
                }
                Err(_) if left.is_zero() => return,
                Err(_) => {}
            }
        }
    }

    /// The name of an address; `None`: it has none, or its look-up is not finished.
    pub(super) fn get(&self, address: IpAddr) -> Option<String> {
        self.resolved.get(&address).cloned().flatten()
    }
}
