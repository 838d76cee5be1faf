//! A window for a time, and one for as long as a job runs.

use model::Evidence;
use sys::{Machine, Stop};

use crate::error::Error;
use crate::job::Job;
use crate::plan::Plan;
use crate::session::Session;

/// Observes until the planned time is over, or until stopped; then the evidence says that it was
/// interrupted. `before_step` is called before each step.
///
/// # Errors
///
/// The session cannot begin.
pub fn observe(
    machine: &dyn Machine,
    plan: &Plan,
    stop: &Stop,
    before_step: &mut dyn FnMut(&mut Session<'_>),
) -> Result<Evidence, Error> {
    let mut session = Session::begin(machine, plan)?;
    loop {
        before_step(&mut session);
        if stop.is_set() || session.is_over() {
            return Ok(session.end(stop.is_set()));
        }
        session.step();
    }
}

/// Observes while a job runs. The window begins before the job starts, and ends with it or with the
/// planned time. A stop is passed on to the job, whose end is then awaited. `before_step` is called
/// before each step.
///
/// # Errors
///
/// The session cannot begin, or the job cannot start.
pub fn observe_job<J: Job, E: From<Error>>(
    machine: &dyn Machine,
    plan: &Plan,
    stop: &Stop,
    start: impl FnOnce() -> Result<J, E>,
    before_step: &mut dyn FnMut(&mut Session<'_>, &J),
) -> Result<(Evidence, J), E> {
    let mut session = Session::begin(machine, plan)?;
    let mut job = match start() {
        Ok(job) => job,
        Err(error) => {
            session.end(true);
            return Err(error);
        }
    };
    loop {
        before_step(&mut session, &job);
        if stop.is_set() {
            job.interrupt();
        }
        if session.is_over() || job.has_ended() {
            return Ok((session.end(false), job));
        }
        session.step();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sys::real::RealMachine;

    use super::*;

    /// Ends after so many steps, or when it is interrupted.
    struct Steps {
        left: u32,
        interrupted: bool,
    }

    impl Job for Steps {
        fn has_ended(&mut self) -> bool {
            self.left = self.left.saturating_sub(1);
            self.left == 0 || self.interrupted
        }

        fn interrupt(&mut self) {
            self.interrupted = true;
        }
    }

    fn start(left: u32) -> impl FnOnce() -> Result<Steps, Error> {
        move || Ok(Steps { left, interrupted: false })
    }

    #[test]
    fn a_window_lasts_for_its_time() {
        let plan = Plan { duration: Some(Duration::from_millis(250)), ..Plan::default() };
        let mut steps = 0;
        let evidence =
            observe(&RealMachine::new(), &plan, &Stop::new(), &mut |_| steps += 1).unwrap();
        assert!(evidence.window.duration_ms >= 250 && !evidence.window.interrupted);
        assert!(steps >= 2 && evidence.cost.samples_taken >= 1);
    }

    #[test]
    fn a_stop_interrupts_the_window() {
        let stop = Stop::new();
        stop.set();
        let evidence = observe(&RealMachine::new(), &Plan::default(), &stop, &mut |_| {}).unwrap();
        assert!(evidence.window.interrupted);
    }

    #[test]
    fn a_window_ends_with_its_job() {
        let machine = RealMachine::new();
        let (evidence, job) =
            observe_job(&machine, &Plan::default(), &Stop::new(), start(3), &mut |_, _| {})
                .unwrap();
        assert!(!evidence.window.interrupted && job.left == 0);
    }

    #[test]
    fn a_stop_is_passed_on_to_the_job() {
        let (machine, stop) = (RealMachine::new(), Stop::new());
        stop.set();
        let (evidence, job) =
            observe_job(&machine, &Plan::default(), &stop, start(u32::MAX), &mut |_, _| {})
                .unwrap();
        assert!(job.interrupted && !evidence.window.interrupted, "the job ended it");
    }

    #[test]
    fn a_job_that_cannot_start_ends_the_session() {
        let start = || Err::<Steps, _>(Error::InterfaceTwice("lo".to_string()));
        let machine = RealMachine::new();
        let ended = observe_job(&machine, &Plan::default(), &Stop::new(), start, &mut |_, _| {});
        assert!(ended.is_err());
    }

    #[test]
    fn a_snapshot_has_the_packets_so_far() {
        use std::io::{Read as _, Write as _};
        if !test_support::is_root() {
            return test_support::skip(&test_support::Reason::NotRoot);
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Plan {
            focus: model::Focus { ports: vec![address.port()], ..model::Focus::default() },
            packets: Some(crate::PacketPlan::default()),
            ..Plan::default()
        };
        let machine = RealMachine::new();
        let mut session = Session::begin(&machine, &plan).unwrap();
        let before = session.snapshot().report.packets.expect("packets are captured").packets;
        assert_eq!(before, 0);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let so_far = loop {
            session.step();
            let so_far = session.snapshot().report.packets.expect("packets are captured").packets;
            if so_far >= 4 || std::time::Instant::now() >= deadline {
                break so_far;
            }
        };
        assert!(so_far >= 4, "the handshake and the data: {so_far}");
        drop((client, server));
        let evidence = session.end(false);
        assert!(evidence.packets.expect("packets").packets >= so_far);
    }

    #[test]
    fn what_packets_cannot_show_is_refused() {
        let begin = |plan: &Plan| Session::begin(&RealMachine::new(), plan).err();
        let packets = |names: &[&str]| {
            let interfaces = names.iter().map(ToString::to_string).collect();
            Some(crate::PacketPlan { interfaces, max_packets: None })
        };
        let plan = Plan { packets: packets(&["lo", "lo"]), ..Plan::default() };
        assert!(matches!(begin(&plan), Some(Error::InterfaceTwice(name)) if name == "lo"));
        let focus = model::Focus { pids: vec![1], ..model::Focus::default() };
        let plan = Plan { focus, packets: packets(&[]), ..Plan::default() };
        assert!(matches!(begin(&plan), Some(Error::PacketsOfProcesses)));
    }

    #[test]
    fn a_snapshot_leaves_the_window_as_it_is() {
        let machine = RealMachine::new();
        let mut session = Session::begin(&machine, &Plan::default()).unwrap();
        session.step();
        let snapshot = session.snapshot();
        assert!(!snapshot.series.is_empty(), "the observers give numbers");
        // Not their texts: without root these count processes, which come and go.
        let missing = |snapshot: &crate::Snapshot| -> Vec<_> {
            snapshot.report.missing_evidence.iter().map(|missing| missing.source).collect()
        };
        assert_eq!(missing(&snapshot), missing(&session.snapshot()));
        assert!(session.elapsed() >= snapshot.elapsed);
        session.step();
        let evidence = session.end(false);
        assert!(evidence.window.duration_ms >= 200);
    }
}
