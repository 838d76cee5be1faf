//! The observers of a step, each at its time.

use std::time::{Duration, Instant};

use super::capture::Capture;
use super::{Lab, POLL_INTERVAL};
use crate::error::{Error, Result};
use crate::judge::Observation;
use crate::process::ProcessGroup;
use crate::scenario::types::{Method, Observe};

/// When netwhy begins unless the scenario says otherwise, from the start of the workload.
const DEFAULT_WARM_UP: Duration = Duration::from_millis(500);

impl Lab<'_> {
    /// Runs all observers and returns their results.
    pub(super) fn observe(
        &self,
        workload: &mut ProcessGroup,
        begin: Instant,
        captures: Vec<Capture>,
    ) -> Result<Vec<Observation>> {
        let stop = self.options.stop;
        let mut observations = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut captures = captures.into_iter();
            for observe in &self.scenario.observe {
                match observe.by {
                    Method::Path => {}
                    Method::Capture => {
                        let capture = captures.next();
                        let capture =
                            capture.ok_or_else(|| Error::new("a capture was not started"))?;
                        let observer = self.options.observer;
                        threads.push(scope.spawn(move || capture.diagnose(begin, observer, stop)));
                    }
                    Method::Live | Method::LiveCapture | Method::Probe => {
                        let run = self.netwhy(observe)?;
                        let after = observe.after.map_or(DEFAULT_WARM_UP, |after| after.0);
                        threads.push(scope.spawn(move || {
                            while begin.elapsed() < after && !stop.is_set() {
                                std::thread::sleep(POLL_INTERVAL);
                            }
                            run()
                        }));
                    }
                }
            }
            while threads.iter().any(|thread| !thread.is_finished()) && !stop.is_set() {
                self.network.apply_timelines(self.scenario, begin.elapsed());
                // Reaps it: a zombie would count among the processes of its host.
                let _ = workload.0.try_wait();
                std::thread::sleep(POLL_INTERVAL);
            }
            let panicked = |_| Error::new("an observer panicked: this is a bug of netwhy");
            let all = threads.into_iter().map(|thread| thread.join().map_err(panicked)?).collect();
            if stop.is_set() { Err(Error::new("interrupted")) } else { all }
        })?;
        self.compare_paths(&mut observations)?;
        Ok(observations)
    }

    /// netwhy, ready to observe a host live or to probe from it.
    fn netwhy(&self, observe: &Observe) -> Result<impl FnOnce() -> Result<Observation> + Send> {
        let host = self.network.host(observe.host.get_ref())?;
        let (name, pid) = (host.name.clone(), host.pid);
        let arguments =
            observe.run.as_ref().map(|run| self.substitute(run.get_ref())).transpose()?;
        let observer = self.options.observer;
        let (duration, by, stop) = (observe.window(), observe.by, self.options.stop);
        Ok(move || {
            let start = Instant::now();
            let diagnosis = match &arguments {
                None if by == Method::LiveCapture => observer.watch_host(pid, duration, stop),
                None => observer.observe_host(pid, duration),
                Some(arguments) => observer.probe(pid, arguments),
            };
            let diagnosis = diagnosis
                .map_err(|what| Error::new(format!("netwhy could not observe {name}: {what}")))?;
            Ok(Observation::new(&name, start.elapsed().as_secs_f64(), &diagnosis))
        })
    }
}
