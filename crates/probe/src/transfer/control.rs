//! The client's control connection: authentication, the plan, and the report at the end.

use std::net::SocketAddr;
use std::time::Duration;

use model::{Transfer, TransferError, TransferSender};
use sys::Stop;

use super::connection::{Connection, ConnectionError, NOTHING_LISTENS, connect};
use super::options::Options;
use super::protocol::{
    Challenge, FrameError, MAX_REPORT_BYTES, Opening, Plan, PlanReply, REPORT_REQUEST, SessionId,
    SessionReport, UNTIL_TIME_IS_OVER, VERSION,
};
use crate::Error;

/// What a session may take in addition to its transfers: handshakes, slow paths.
const EXTRA_TIME: Duration = Duration::from_secs(300);
/// The same when its duration is given: for the last bytes.
const EXTRA_TIME_AFTER_DURATION: Duration = Duration::from_secs(10);
/// Bytes of a read of the report.
const READ_BYTES: usize = 16 << 10;

/// The control connection of a session.
pub(super) struct Control<'a> {
    connection: Connection<'a>,
    pub(super) session: SessionId,
    streams: u32,
}

impl<'a> Control<'a> {
    /// Connects and sends the plan, which the server has then accepted.
    pub(super) fn open(options: &Options, stop: &'a Stop) -> Result<Self, Error> {
        let address = options.address;
        let failed = |text: String| Error::Failed(text);
        let (mut connection, _) =
            connect(address, None, options.timeout, stop).map_err(|error| {
                let text = error.to_string();
                let hint = if text.ends_with(NOTHING_LISTENS) {
                    ": start it there with netwhy transfer serve --bind ADDRESS"
                } else {
                    ""
                };
                failed(format!("{text}{hint}"))
            })?;
        let lost = |what: &str, error: ConnectionError| match error {
            ConnectionError::Closed => failed(format!(
                "{address} closed the connection before its {what}; is it netwhy transfer serve, of \
                 the same version, or has it too many connections?"
            )),
            error => {
                failed(format!("no {what} from {address}: {error}; is it netwhy transfer serve?"))
            }
        };
        let no_greeting = |error| lost("greeting", error);
        connection.write(&Opening::Control.bytes()).map_err(no_greeting)?;
        let challenge = connection.read_array().map_err(no_greeting)?;
        let challenge =
            Challenge::parse(&challenge).map_err(|error| other_protocol(address, &error))?;
        if challenge.token && options.token.is_none() {
            return Err(failed(format!(
                "{address} requires a token: give the server's with --token or NETWHY_TOKEN"
            )));
        }
        let token = options.token.as_deref().unwrap_or_default();
        let no_reply = |error| lost("reply", error);
        let sent = connection.write(&plan(options).bytes(&challenge, token));
        // A server that refused before it got the plan has closed the connection, after its reason.
        let head =
            connection.read_array().map_err(|error| no_reply(sent.err().unwrap_or(error)))?;
        let mut reason = vec![0; PlanReply::reason_bytes(&head)];
        connection.read_exact(&mut reason).map_err(no_reply)?;
        match PlanReply::parse(&head, &reason) {
            PlanReply::Accepted(session) => {
                Ok(Control { connection, session, streams: options.streams })
            }
            PlanReply::Refused(reason) => {
                let reason = text::sanitize::line(&reason);
                Err(failed(format!("{address} refused: {reason}")))
            }
        }
    }

    /// Requests the server's report, also when the stop is set.
    pub(super) fn report(self) -> Result<SessionReport, ConnectionError> {
        let Connection { stream, timeout, .. } = self.connection;
        let never = Stop::new();
        let mut connection = Connection { stream, stop: &never, timeout };
        connection.write(&REPORT_REQUEST)?;
        let length = u32::from_be_bytes(connection.read_array()?) as usize;
        if length > MAX_REPORT_BYTES {
            return Err(ConnectionError::Failed(format!(
                "its report of {} is too long",
                text::bytes(length as u64)
            )));
        }
        // Memory grows with what arrives, not with what was announced.
        let mut bytes = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        while bytes.len() < length {
            match connection.read_up_to((length - bytes.len()) as u64, &mut buffer)? {
                0 => return Err(ConnectionError::Closed),
                read => bytes.extend(buffer.iter().take(read)),
            }
        }
        let mut report: SessionReport = serde_json::from_slice(&bytes).map_err(|error| {
            ConnectionError::Failed(format!("its report cannot be parsed: {error}"))
        })?;
        report.senders.truncate(self.streams as usize);
        report.failures.truncate(TransferError::MAX_KINDS);
        for sender in &mut report.senders {
            sender.samples.truncate(TransferSender::MAX_SAMPLES);
            sender.starts.truncate(Transfer::MAX_TRANSFERS_KEPT);
        }
        Ok(report)
    }
}

/// The peer sent no valid challenge.
fn other_protocol(address: SocketAddr, error: &FrameError) -> Error {
    Error::Failed(match error {
        FrameError::Version(other) => format!(
            "{address} has version {other} of the protocol, this netwhy version {VERSION}: use the \
             same netwhy at both ends"
        ),
        _ => format!(
            "what listens on {address} is not netwhy transfer serve (for a web server give \
             http://{address}/)"
        ),
    })
}

/// The plan that is sent to the server.
fn plan(options: &Options) -> Plan {
    let duration = match (options.duration, options.interval, options.count) {
        (Some(duration), ..) => duration + EXTRA_TIME_AFTER_DURATION,
        (None, interval, count) => {
            let intervals = interval.unwrap_or_default().saturating_mul(count.unwrap_or(1));
            intervals.saturating_add(EXTRA_TIME)
        }
    };
    Plan {
        direction: options.direction,
        streams: options.streams,
        count: options.count.unwrap_or(0),
        size: options.size.unwrap_or(UNTIL_TIME_IS_OVER),
        buffer_bytes: options.buffer_bytes,
        source_delay_us: options.source_delay.as_micros() as u32,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        congestion: options.congestion.clone().unwrap_or_default(),
    }
}
