//! The client's control connection: who it is, what it wants, and the report at the end.

use std::time::Duration;

use model::{Transfer, TransferError, TransferSender};

use super::line::{Ended, Line, NOBODY, connect};
use super::protocol::{
    Answer, Bad, Challenge, MOST_REPORT, Opening, Plan, REPORT, Session, UNTIL, VERSION,
};
use super::{Options, Report};
use sys::Stop;

use crate::Error;

/// What a session may take beyond what was asked for: handshakes, slow paths.
const MORE: Duration = Duration::from_secs(300);
/// The same of one with a time: the last bytes on their way.
const REST: Duration = Duration::from_secs(10);

/// The control connection of a session.
pub(super) struct Control<'a> {
    line: Line<'a>,
    /// The number of the session.
    pub(super) session: Session,
    streams: u32,
    /// The report is asked for although the stop is set.
    patience: Duration,
}

impl<'a> Control<'a> {
    /// Opens one: the server agreed to what is wanted.
    pub(super) fn open(options: &Options, stop: &'a Stop) -> Result<Self, Error> {
        let address = options.address;
        let failed = |words: String| Error::Failed(words);
        let (mut line, _) = connect(address, None, options.patience, stop).map_err(|error| {
            let words = error.to_string();
            let more = if words.ends_with(NOBODY) {
                ": start it there with netwhy transfer serve --bind ADDRESS"
            } else {
                ""
            };
            failed(format!("{words}{more}"))
        })?;
        let heard = |what: &str, ended: Ended| match ended {
            Ended::Closed => failed(format!(
                "{address} closed the connection before {what}; is it netwhy transfer serve, of \
                 this version?"
            )),
            ended => {
                failed(format!("no {what} of {address}: {ended}; is it netwhy transfer serve?"))
            }
        };
        let greeting = |ended| heard("its greeting", ended);
        line.write(&Opening::Control.bytes()).map_err(greeting)?;
        let bytes = line.exactly().map_err(greeting)?;
        let challenge = Challenge::parse(&bytes).map_err(|bad| match bad {
            Bad::Version(other) => failed(format!(
                "{address} speaks version {other} of the protocol, this netwhy version {VERSION}: \
                 use the same netwhy at both ends"
            )),
            _ => failed(format!(
                "what listens on {address} is not netwhy transfer serve (for a web server give \
                 http://{address}/)"
            )),
        })?;
        if challenge.token && options.token.is_none() {
            return Err(failed(format!(
                "{address} wants a token: give the server's with --token or NETWHY_TOKEN"
            )));
        }
        let token = options.token.as_deref().unwrap_or_default();
        let answer = |ended| heard("its answer", ended);
        line.write(&plan(options).bytes(&challenge, token)).map_err(answer)?;
        let head = line.exactly().map_err(answer)?;
        let mut words = vec![0; Answer::words(&head)];
        line.fill(&mut words).map_err(answer)?;
        match Answer::parse(&head, &words) {
            Answer::Accepted(session) => {
                Ok(Control { line, session, streams: options.streams, patience: options.patience })
            }
            Answer::Refused(words) => Err(failed(format!("{address} refused: {words}"))),
        }
    }

    /// Asks for the sender's side.
    pub(super) fn report(self) -> Result<Report, Ended> {
        let never = Stop::new();
        let mut line = Line { stream: self.line.stream, stop: &never, patience: self.patience };
        line.write(&REPORT)?;
        let length = u32::from_be_bytes(line.exactly()?) as usize;
        if length > MOST_REPORT {
            return Err(Ended::Failed(format!("a report of {length} bytes is too long")));
        }
        // As much memory as there are bytes, whatever was announced.
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let mut part = [0; 16 << 10];
            let want = (length - bytes.len()).min(part.len());
            match line.read(&mut part[..want])? {
                0 => return Err(Ended::Closed),
                more => bytes.extend_from_slice(&part[..more]),
            }
        }
        let mut report: Report = serde_json::from_slice(&bytes)
            .map_err(|error| Ended::Failed(format!("its report cannot be read: {error}")))?;
        report.senders.truncate(self.streams as usize);
        report.failures.truncate(TransferError::MAX_KINDS);
        for sender in &mut report.senders {
            sender.samples.truncate(TransferSender::MAX_SAMPLES);
            sender.starts.truncate(Transfer::MAX_TRANSFERS_KEPT);
        }
        Ok(report)
    }
}

/// What is asked of the server.
fn plan(options: &Options) -> Plan {
    let needed = match (options.time, options.interval, options.count) {
        (Some(time), ..) => time + REST,
        (None, interval, count) => {
            interval.unwrap_or_default().saturating_mul(count.unwrap_or(1)).saturating_add(MORE)
        }
    };
    Plan {
        direction: options.direction,
        streams: options.streams,
        count: options.count.unwrap_or(0),
        size: options.size.unwrap_or(UNTIL),
        buffer: options.buffer,
        source_delay_us: options.source_delay.as_micros() as u32,
        time_ms: u64::try_from(needed.as_millis()).unwrap_or(u64::MAX),
        congestion: options.congestion.clone().unwrap_or_default(),
    }
}
