//! One client's session at the server: its data connections, and the report at its end.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{TransferDirection, TransferSender};
use rustix::event::PollFlags;
use sys::Stop;
use text::figures::bytes_as_given;

use super::connection::{Connection, ConnectionError, set_congestion};
use super::protocol::{
    Confirmation, MAX_REPORT_BYTES, Plan, SessionReport, TransferRequest, UNTIL_TIME_IS_OVER,
};
use super::recorder::{Recorder, add_connection};
use super::sender::{BYTE_LIMIT_REACHED, ByteLimit, Outgoing, send, wait_for_acknowledgements};
use super::sysctl;

/// A data connection without progress for this long is closed.
const DATA_TIMEOUT: Duration = Duration::from_secs(15);
/// Connections that may still be closing while the next ones are open.
const MAX_CLOSING_CONNECTIONS: u32 = 4;
/// Most failures in the report.
const MAX_FAILURES_REPORTED: usize = 8;
/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;
/// How long data connections have time to end after the client has requested the report.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two checks for that.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// One client's session.
pub(super) struct Session {
    pub(super) plan: Plan,
    pub(super) peer: SocketAddr,
    pub(super) until: Instant,
    pub(super) limit: ByteLimit,
    pub(super) stop: Stop,
    open_connections: AtomicU32,
    senders: Mutex<BTreeMap<u32, TransferSender>>,
    /// Why connections ended early; bounded.
    failures: Mutex<Vec<String>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// A session that may last until this time and transfer this many bytes.
    pub(super) fn new(plan: Plan, peer: SocketAddr, until: Instant, max_bytes: u64) -> Self {
        Session {
            plan,
            peer,
            until,
            limit: ByteLimit::new(max_bytes),
            stop: Stop::new(),
            open_connections: AtomicU32::new(0),
            senders: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// What the client requested.
    pub(super) fn description(&self) -> String {
        let plan = &self.plan;
        let direction = match plan.direction {
            TransferDirection::Down => "down",
            TransferDirection::Up => "up",
        };
        let size = if plan.size == UNTIL_TIME_IS_OVER {
            format!("bulk for {}", text::duration(Duration::from_millis(plan.duration_ms)))
        } else {
            format!("{} per transfer", bytes_as_given(plan.size))
        };
        format!("{direction}, {size}, {}", text::count(plan.streams.into(), "stream"))
    }

    /// Serves one data connection; it sends from this buffer.
    pub(super) fn serve(&self, stream: TcpStream, number: u32, buffer: &[u8]) {
        let open = self.open_connections.fetch_add(1, Ordering::AcqRel);
        if open < self.plan.streams + MAX_CLOSING_CONNECTIONS {
            let congestion = &self.plan.congestion;
            let current = rustix::net::sockopt::tcp_congestion(&stream).ok();
            if !congestion.is_empty() && current.as_deref() != Some(&**congestion) {
                // The listener has that of another client's session.
                let _ = set_congestion(&stream, congestion);
            }
            let mut connection = Connection { stream, stop: &self.stop, timeout: DATA_TIMEOUT };
            let mut recorder = Recorder::new(number, &connection.stream);
            match self.serve_transfers(&mut connection, &mut recorder, buffer) {
                Ok(()) | Err(ConnectionError::Closed | ConnectionError::Stopped) => {}
                Err(error) => {
                    let mut failures = lock(&self.failures);
                    if failures.len() < MAX_FAILURES_REPORTED {
                        failures.push(error.to_string());
                    }
                }
            }
            if self.plan.direction == TransferDirection::Down {
                let sender = recorder.finish();
                add_connection(lock(&self.senders).entry(number).or_default(), sender);
            }
        }
        self.open_connections.fetch_sub(1, Ordering::AcqRel);
    }

    /// The transfers of a connection, one after the other.
    fn serve_transfers(
        &self,
        connection: &mut Connection<'_>,
        recorder: &mut Recorder,
        buffer: &[u8],
    ) -> Result<(), ConnectionError> {
        let buffer = buffer.get(..self.plan.buffer_bytes as usize).unwrap_or(buffer);
        loop {
            // The next request comes after the client's interval.
            if !connection.wait(PollFlags::IN, self.until)? {
                return Ok(());
            }
            let request = TransferRequest::parse(&connection.read_array()?);
            if self.plan.direction == TransferDirection::Up {
                let received_bytes = self.receive(connection, request.size)?;
                connection.write(&Confirmation { received_bytes }.bytes())?;
                continue;
            }
            let bulk = request.size == UNTIL_TIME_IS_OVER;
            let duration = Duration::from_millis(request.duration_ms.into());
            let until = if bulk { self.until.min(Instant::now() + duration) } else { self.until };
            let outgoing = Outgoing {
                number: request.number,
                size: (!bulk).then_some(request.size),
                until,
                limit: Some(&self.limit),
                source_delay: Duration::from_micros(self.plan.source_delay_us.into()),
            };
            let (sent, result) = send(connection, &outgoing, buffer, recorder);
            result?;
            if bulk {
                let _ = connection.stream.shutdown(std::net::Shutdown::Write);
            }
            wait_for_acknowledgements(connection, sent, recorder)?;
        }
    }

    /// Receives an upload of this size, or to the end of the stream: its bytes.
    fn receive(&self, connection: &mut Connection<'_>, size: u64) -> Result<u64, ConnectionError> {
        let mut buffer = vec![0; READ_BYTES];
        let mut received = 0;
        while received < size {
            if self.limit.is_reached() {
                return Err(ConnectionError::Failed(BYTE_LIMIT_REACHED.to_string()));
            }
            if Instant::now() >= self.until {
                let why = "the time of the session is over".to_string();
                return Err(ConnectionError::Failed(why));
            }
            match connection.read_up_to(size - received, &mut buffer)? as u64 {
                0 if size == UNTIL_TIME_IS_OVER => break,
                0 => return Err(ConnectionError::Closed),
                read => {
                    received += read;
                    self.limit.add(read);
                }
            }
        }
        Ok(received)
    }

    /// Waits until the client's data connections have ended.
    pub(super) fn wait_for_connections(&self) {
        let until = Instant::now() + CLOSE_TIMEOUT;
        while self.open_connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(CLOSE_CHECK_INTERVAL);
        }
    }

    /// The report, with its length before it.
    pub(super) fn report(&self) -> Vec<u8> {
        let mut senders: Vec<TransferSender> = lock(&self.senders).values().cloned().collect();
        let slow_start_after_idle = sysctl::slow_start_after_idle();
        for sender in &mut senders {
            sender.slow_start_after_idle = slow_start_after_idle;
            sender.tcp_wmem = sysctl::tcp_wmem();
        }
        let mut report = SessionReport { senders, failures: lock(&self.failures).clone() };
        let mut bytes = serde_json::to_vec(&report).unwrap_or_default();
        if bytes.len() > MAX_REPORT_BYTES {
            // Many streams with many transfers: only the sums of each are reported.
            for sender in &mut report.senders {
                sender.samples.clear();
                sender.starts.clear();
            }
            bytes = serde_json::to_vec(&report).unwrap_or_default();
        }
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        [&length.to_be_bytes()[..], &bytes].concat()
    }
}
