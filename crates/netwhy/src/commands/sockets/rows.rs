//! One socket as text: a line with state, queues and addresses, and lines with its statistics.
//!
//! At 30,000 sockets formatting is most of the work, so numbers are formatted here, without allocating.
//! Statistics that are zero or unknown are left out.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use model::TcpState;
use wire::sock_diag::Record;

use super::options::SocketsOptions;
use super::owners::Owners;

/// Columns of an address and port: `255.255.255.255:65535`.
const ADDRESS_COLUMNS: usize = 21;
/// Where the addresses begin, without and with a column of drops.
const ADDRESSES_AT: usize = 27;
const ADDRESS_AT_OF_LISTENERS: usize = 32;
/// Columns for a process, without which that of a listener stands in a line of its own.
const PROCESS_COLUMNS: usize = 25;
/// Most digits of a `u64`.
const MAX_DIGITS: usize = 20;
/// ssthresh that was never set (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// How sockets are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    form: Form,
    processes: bool,
    /// Columns of a line: a figure that does not fit goes to the next line.
    width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Sockets,
    /// Listeners have a queue with a limit, and no peer.
    Listeners,
}

impl Layout {
    pub(super) fn of(options: &SocketsOptions, width: usize) -> Self {
        let form = match options {
            SocketsOptions { json: true, .. } => Form::Json,
            SocketsOptions { listening: true, .. } => Form::Listeners,
            _ => Form::Sockets,
        };
        Layout { form, processes: options.processes, width }
    }

    /// Whether the remote address, or the process of a listener, stands in a line of its own.
    fn is_narrow(self) -> bool {
        self.width
            < match self.form {
                Form::Listeners => ADDRESS_AT_OF_LISTENERS + ADDRESS_COLUMNS + 2 + PROCESS_COLUMNS,
                _ => ADDRESSES_AT + 1 + 2 * ADDRESS_COLUMNS,
            }
    }
}

/// The line above the sockets.
pub(super) fn header(layout: Layout, out: &mut (impl Write + ?Sized)) -> std::io::Result<()> {
    let process = if layout.processes { "  PROCESS" } else { "" };
    match layout.form {
        Form::Json => Ok(()),
        Form::Listeners => {
            let local = if layout.is_narrow() { 0 } else { ADDRESS_COLUMNS };
            write!(
                out,
                "{:<6} {:>7} {:>7} {:>8} {:<local$}",
                "STATE", "RECV-Q", "SEND-Q", "DROPS", "LOCAL"
            )?;
            writeln!(out, "{}PROCESS", if layout.is_narrow() { "\n    " } else { "  " })
        }
        Form::Sockets if layout.is_narrow() => {
            writeln!(out, "{:<10} {:>7} {:>7} LOCAL", "STATE", "RECV-Q", "SEND-Q")?;
            writeln!(out, "{:ADDRESSES_AT$}REMOTE{process}", "")
        }
        Form::Sockets => writeln!(
            out,
            "{:<10} {:>7} {:>7} {:<ADDRESS_COLUMNS$} {:<ADDRESS_COLUMNS$}{process}",
            "STATE", "RECV-Q", "SEND-Q", "LOCAL", "REMOTE"
        ),
    }
}

/// One socket in a buffer of its own.
pub(super) fn bytes(
    record: &Record<'_>,
    owners: &Owners,
    layout: Layout,
) -> anyhow::Result<Vec<u8>> {
    let mut row = Vec::with_capacity(256);
    write(record, owners, layout, &mut row)?;
    Ok(row)
}

/// Appends one socket.
pub(super) fn write(
    record: &Record<'_>,
    owners: &Owners,
    layout: Layout,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let process = owners.get(&record.inode());
    if layout.form == Form::Json {
        let mut json = serde_json::to_value(record.to_socket())?;
        if let (Some(process), Some(object)) = (process, json.as_object_mut()) {
            object.insert("process".to_string(), process.as_str().into());
        }
        serde_json::to_writer(&mut *out, &json)?;
        out.push(b'\n');
        return Ok(());
    }
    let mut row = Row { start: out.len(), line: out.len(), width: layout.width, out };
    row.text(record.state().name());
    // The state of listeners is shorter.
    let queue_at = if layout.form == Form::Listeners { 14 } else { 18 };
    row.right(queue_at, u64::from(record.receive_queue()));
    row.right(queue_at + 8, u64::from(record.send_queue()));
    if layout.form == Form::Listeners {
        row.right(ADDRESS_AT_OF_LISTENERS - 1, record.memory().map_or(0, |m| m.drops.into()));
        row.text(" ");
        row.address(record.local());
        if layout.is_narrow() {
            row.text("\n    ");
        } else {
            row.column(ADDRESS_AT_OF_LISTENERS + ADDRESS_COLUMNS);
            row.text("  ");
        }
        row.text(process.map_or("-", String::as_str));
        row.text("\n");
        return Ok(());
    }
    row.text(" ");
    row.address(record.local());
    if layout.is_narrow() {
        row.next_line();
        row.column(ADDRESSES_AT - 1);
    } else {
        row.column(ADDRESSES_AT + ADDRESS_COLUMNS);
    }
    row.text(" ");
    row.address(record.remote());
    if let Some(process) = process {
        if !layout.is_narrow() {
            row.column(ADDRESSES_AT + 1 + 2 * ADDRESS_COLUMNS);
        }
        row.word("  ", process);
    }
    row.text("\n");
    info(record, &mut row);
    Ok(())
}

/// The second line: the kernel's `tcp_info`, if there is one. That of a listener has its queue in the
/// fields of segments (`tcp_get_info`), which the first line shows already.
fn info(record: &Record<'_>, row: &mut Row<'_>) {
    let Some(rtt_us) = record.rtt_us().filter(|_| record.state() != TcpState::Listen) else {
        return;
    };
    row.line = row.out.len();
    row.text("   ");
    if rtt_us > 0 {
        row.text(" rtt ");
        row.millis(rtt_us);
        row.text("/");
        row.millis(record.rttvar_us().unwrap_or(0));
        if let Some(min) = record.min_rtt_us().filter(|min| *min != u32::MAX) {
            row.text(" min ");
            row.millis(min);
        }
        row.text(" ms");
    }
    row.figure(" rto ", record.rto_us().map(|us| us / 1000));
    row.figure(" mss ", record.snd_mss());
    row.figure(" cwnd ", record.snd_cwnd());
    if record.snd_ssthresh().is_some_and(|s| s < INFINITE_SSTHRESH) {
        row.figure(" ssthresh ", record.snd_ssthresh());
    }
    row.figure(" in-flight ", record.unacked());
    row.figure(" lost ", record.lost());
    row.figure(" sacked ", record.sacked());
    row.figure(" backoff ", record.backoff().map(u32::from));
    row.figure(" probes ", record.probes().map(u32::from));
    row.big(" acked ", record.bytes_acked());
    row.big(" received ", record.bytes_received());
    row.figure(" segs-out ", record.segs_out());
    row.figure(" segs-in ", record.segs_in());
    row.figure(" retrans ", record.total_retrans());
    row.figure(" reordered ", record.reord_seen());
    row.figure(" dsack ", record.dsack_dups());
    row.figure(" not-sent ", record.notsent_bytes());
    row.big(" rate ", record.delivery_rate());
    row.figure(" peer-window ", record.snd_wnd());
    row.figure(" window ", record.rcv_wnd());
    limits(record, row);
    if let Some((sent, received)) = record.last_data_sent_ms().zip(record.last_data_recv_ms()) {
        row.figure(" idle-ms ", Some(sent.min(received)));
    }
    if let Some(congestion) = record.congestion() {
        row.word(" ", congestion);
    }
    row.text("\n");
}

/// What limited the sender, as shares of the time for which it was busy.
fn limits(record: &Record<'_>, row: &mut Row<'_>) {
    let Some(busy) = record.busy_time_us().filter(|busy| *busy > 0) else {
        return;
    };
    row.big(" busy-ms ", Some(busy / 1000));
    for (name, limited) in [
        (" peer-window-limited ", record.rwnd_limited_us()),
        (" send-buffer-limited ", record.sndbuf_limited_us()),
    ] {
        if let Some(limited) = limited.filter(|limited| *limited > 0) {
            row.big(name, Some(limited.saturating_mul(100) / busy));
            row.text(" %");
        }
    }
}

/// A row that is being written.
struct Row<'a> {
    start: usize,
    line: usize,
    width: usize,
    out: &'a mut Vec<u8>,
}

impl Row<'_> {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Starts a new line unless this many columns are left on the current one.
    fn room(&mut self, columns: usize) {
        if self.out.len() + columns > self.line + self.width {
            self.text("\n   ");
            self.line = self.out.len() - 3;
        }
    }

    /// A word after spaces, on a new line unless it fits.
    fn word(&mut self, spaces: &str, word: &str) {
        self.room(spaces.len() + text::columns(word));
        self.text(spaces);
        self.text(word);
    }

    /// Continues in a new line, whose columns count from its own beginning.
    fn next_line(&mut self) {
        self.text("\n");
        self.line = self.out.len();
        self.start = self.out.len();
    }

    /// Spaces up to a column of the row.
    fn column(&mut self, column: usize) {
        while self.out.len() < self.start + column {
            self.out.push(b' ');
        }
    }

    /// A whole number.
    fn number(&mut self, mut value: u64) {
        let mut digits = [0u8; MAX_DIGITS];
        let mut first = MAX_DIGITS;
        for digit in digits.iter_mut().rev() {
            first -= 1;
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.out.extend_from_slice(digits.get(first..).unwrap_or_default());
    }

    /// A whole number that ends before a column, after at least one space.
    fn right(&mut self, column: usize, value: u64) {
        let width = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        self.out.push(b' ');
        self.column(column.saturating_sub(width));
        self.number(value);
    }

    /// Microseconds as milliseconds, with three decimals.
    fn millis(&mut self, us: u32) {
        self.number(u64::from(us / 1000));
        let rest = us % 1000;
        let digit = |n: u32| b'0' + (n % 10) as u8;
        self.out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    /// A figure, unless it is zero or unknown.
    fn figure(&mut self, name: &str, value: Option<u32>) {
        self.big(name, value.map(u64::from));
    }

    /// A figure of 64 bits, unless it is zero or unknown.
    fn big(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value.filter(|value| *value != 0) {
            let digits = value.checked_ilog10().map_or(1, |log| log as usize + 1);
            self.room(name.len() + digits);
            self.text(name);
            self.number(value);
        }
    }

    /// An address and port.
    fn address(&mut self, address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                self.number(u64::from(a));
                for byte in [b, c, d] {
                    self.out.push(b'.');
                    self.number(u64::from(byte));
                }
            }
            IpAddr::V6(ip) => {
                // Writing to memory does not fail.
                let _ = write!(self.out, "[{ip}]");
            }
        }
        self.out.push(b':');
        self.number(u64::from(address.port()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Row<'_>)) -> String {
        let mut out = b"before\n".to_vec();
        let mut row = Row { start: out.len(), line: out.len(), width: 80, out: &mut out };
        write(&mut row);
        String::from_utf8(out.split_off(7)).unwrap()
    }

    #[test]
    fn numbers_are_formatted_as_by_the_standard_library() {
        for value in [0, 1, 9, 10, 99, 100, 65535, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(written(|row| row.number(value)), value.to_string());
            let right = written(|row| row.right(30, value));
            assert_eq!(right.len(), 30);
            assert_eq!(right.trim_start(), value.to_string());
        }
        for us in [0, 7, 40, 999, 1000, 40_123, u32::MAX] {
            assert_eq!(written(|row| row.millis(us)), format!("{:.3}", f64::from(us) / 1e3));
        }
    }

    #[test]
    fn a_wide_number_keeps_a_space_before_it() {
        assert_eq!(written(|row| row.right(2, 123)), " 123");
    }

    #[test]
    fn addresses_are_formatted_as_by_the_standard_library() {
        for address in
            ["198.18.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[fd00::1]:443", "[::]:1"]
        {
            assert_eq!(written(|row| row.address(address.parse().unwrap())), address);
        }
    }
}
