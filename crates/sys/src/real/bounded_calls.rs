//! Calls into the kernel that another user can delay: a file system of his own (FUSE), one on a network,
//! a command line that lies in memory which he provides page by page. A thread makes them; its caller
//! does not wait for long, and not at all for users whose files have taken too long before.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait until the thread runs: on a host that lacks CPU, that is nobody's file.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for one call that runs. A read from a disk that is busy takes some hundred milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Calls that take less than this are not slow: nobody counts them.
const SLOW_CALL: Duration = Duration::from_millis(100);
/// Longest wait for all slow calls of one user.
const MAX_WAIT_OF_USER: Duration = Duration::from_secs(3);
/// Longest wait for all slow calls of all users but root together: a user may have many ids.
const MAX_WAIT_OF_USERS: Duration = Duration::from_secs(6);

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes calls, and the time that users have cost.
#[derive(Default)]
pub(super) struct BoundedCalls(Mutex<State>);

#[derive(Default)]
struct State {
    /// Missing before the first call, and after one that did not return.
    worker: Option<Sender<Call>>,
    waited: HashMap<u32, Duration>,
}

impl BoundedCalls {
    /// Makes a call about what belongs to a user.
    ///
    /// # Errors
    ///
    /// The reason why there is no answer, in words.
    pub(super) fn call<T: Send + 'static>(
        &self,
        user: u32,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.check(user)?;
        let (starts, started) = channel();
        let (answer, answered) = channel();
        state.start(Box::new(move || {
            // Nobody may be waiting any more.
            let _ = starts.send(());
            let began = Instant::now();
            let result = call();
            let _ = answer.send((result, began.elapsed()));
        }))?;
        let result = started
            .recv_timeout(START_TIMEOUT)
            .map_err(|error| (error, Duration::ZERO))
            .and_then(|()| answered.recv_timeout(CALL_TIMEOUT).map_err(|e| (e, CALL_TIMEOUT)));
        let took = match &result {
            Ok((_, took)) | Err((_, took)) => *took,
        };
        if took >= SLOW_CALL {
            *state.waited.entry(user).or_default() += took;
        }
        result.map(|(result, _)| result).map_err(|(error, _)| {
            // The thread stays behind; it ends when its call does, or with this process.
            state.worker = None;
            match error {
                RecvTimeoutError::Timeout => {
                    format!("no answer within {} s", CALL_TIMEOUT.as_secs())
                }
                RecvTimeoutError::Disconnected => "the thread that reads has ended".to_string(),
            }
        })
    }
}

impl State {
    fn check(&self, user: u32) -> Result<(), String> {
        let of_user = self.waited.get(&user).copied().unwrap_or_default();
        let of_users: Duration =
            self.waited.iter().filter(|(user, _)| **user != 0).map(|(_, waited)| *waited).sum();
        if of_user >= MAX_WAIT_OF_USER {
            Err(format!("files of user {user} took {:.1} s before", of_user.as_secs_f64()))
        } else if user != 0 && of_users >= MAX_WAIT_OF_USERS {
            Err(format!("files of users took {:.1} s before", of_users.as_secs_f64()))
        } else {
            Ok(())
        }
    }

    fn start(&mut self, call: Call) -> Result<(), String> {
        let call = match &self.worker {
            None => call,
            Some(worker) => match worker.send(call) {
                Ok(()) => return Ok(()),
                Err(unsent) => unsent.0, // its last call panicked
            },
        };
        let (worker, calls) = channel::<Call>();
        std::thread::Builder::new()
            .name("files".to_string())
            .spawn(move || calls.iter().for_each(|call| call()))
            .map_err(|error| format!("no thread can be started ({error})"))?;
        worker.send(call).map_err(|_| "the thread that reads has ended".to_string())?;
        self.worker = Some(worker);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_blocks_costs_only_its_own_user() {
        let calls = BoundedCalls::default();
        assert_eq!(calls.call(0, || 7), Ok(7));
        let (hold, held) = channel::<()>();
        let held = std::sync::Arc::new(Mutex::new(held));
        let block = |user| {
            let held = std::sync::Arc::clone(&held);
            calls.call(user, move || {
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
            })
        };
        for _ in 0..3 {
            assert!(block(1000).unwrap_err().contains("no answer within 1 s"));
        }
        assert!(block(1000).unwrap_err().contains("files of user 1000 took 3.0 s"));
        assert_eq!(calls.call(0, || 7), Ok(7));
        assert_eq!(calls.call(1001, || 7), Ok(7));
        // Somebody with many ids is bounded too.
        for user in 1001..1004 {
            assert!(block(user).unwrap_err().contains("no answer"));
        }
        assert!(calls.call(1004, || 7).unwrap_err().contains("files of users took 6"));
        assert_eq!(calls.call(0, || 7), Ok(7));
        drop(hold);
    }

    #[test]
    fn a_call_that_panics_ends_only_its_thread() {
        let calls = BoundedCalls::default();
        let failed = calls.call(5, || assert_eq!(1, 2, "on purpose"));
        assert_eq!(failed, Err("the thread that reads has ended".to_string()));
        assert_eq!(calls.call(5, || 7), Ok(7));
    }
}
