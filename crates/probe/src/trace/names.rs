//! Names of addresses, looked up on the side.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads that ask the resolver; each may wait for seconds.
const THREADS: usize = 8;
/// Most addresses that are asked for.
const MOST: usize = 1024;

/// Names that are asked for once each.
pub(super) struct Names {
    asked: BTreeSet<IpAddr>,
    known: BTreeMap<IpAddr, Option<String>>,
    questions: Sender<IpAddr>,
    answers: Receiver<(IpAddr, Option<String>)>,
}

impl Names {
    /// Starts the threads; they end when this is dropped and the resolver has answered.
    pub(super) fn start() -> Self {
        let (questions, waiting) = channel::<IpAddr>();
        let (give, answers) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let (waiting, give) = (Arc::clone(&waiting), give.clone());
            std::thread::spawn(move || {
                loop {
                    let next = match waiting.lock() {
                        Ok(waiting) => waiting.recv(),
                        Err(_) => return,
                    };
                    let Ok(address) = next else { return };
                    if give.send((address, sys::probe_socket::reverse_dns_name(address))).is_err() {
                        return;
                    }
                }
            });
        }
        Names { asked: BTreeSet::new(), known: BTreeMap::new(), questions, answers }
    }

    /// Asks for a name, unless it was asked for.
    pub(super) fn ask(&mut self, address: IpAddr) {
        if self.asked.len() < MOST && self.asked.insert(address) {
            // Without threads there are no names.
            let _ = self.questions.send(address);
        }
    }

    /// Takes what was answered.
    pub(super) fn take(&mut self) {
        while let Ok((address, name)) = self.answers.try_recv() {
            self.known.insert(address, name);
        }
    }

    /// Waits until all is answered, or for so long.
    pub(super) fn wait(&mut self, time: Duration, stop: &sys::Stop) {
        let until = Instant::now() + time;
        while self.known.len() < self.asked.len() && !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left.min(Duration::from_millis(50))) {
                Ok((address, name)) => {
                    self.known.insert(address, name);
                }
                Err(_) if left.is_zero() => return,
                Err(_) => {}
            }
        }
    }

    /// A name that is known.
    pub(super) fn get(&self, address: IpAddr) -> Option<String> {
        self.known.get(&address).cloned().flatten()
    }
}
