//! Text of `/proc/net`: counters, numbers of sockets, packets by CPU.
//!
//! Names of counters are those that `nstat` prints: protocol and field without a blank.

use crate::netlink::Malformed;

/// Calls for each counter of `/proc/net/snmp` or `/proc/net/netstat`: pairs of lines, the first with names,
/// the second with values, each after the protocol. Negative values (`Tcp MaxConn -1`) and lines that do
/// not match are skipped.
pub fn counters(text: &str, mut counter: impl FnMut(&str, &str, u64)) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if protocol != same {
            continue;
        }
        let values = values.split_ascii_whitespace();
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            if let Ok(value) = value.parse() {
                counter(protocol, name, value);
            }
        }
    }
}

/// Calls for each counter of `/proc/net/snmp6`: a name (`Ip6InReceives`) and a value on each line.
pub fn counters6(text: &str, mut counter: impl FnMut(&str, u64)) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) {
            counter(name, value);
        }
    }
}

/// One figure of `/proc/net/sockstat` or `sockstat6`: `TCP: inuse 3 orphan 0 …`.
pub fn sockstat(text: &str, protocol: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == field {
            return value.parse().ok();
        }
    }
    None
}

/// One line of `/proc/net/softnet_stat` (`softnet_seq_show`): hexadecimal columns, more of them in
/// newer kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// CPU: a column since Linux 5.10, before that the number of the line.
    pub cpu: u32,
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped: the backlog was full.
    pub dropped: u64,
    /// Times the softirq stopped with work left.
    pub time_squeeze: u64,
    /// Wake-ups by other CPUs (RPS), since Linux 2.6.35.
    pub received_rps: u64,
    /// Packets dropped by the flow limit, since Linux 3.11.
    pub flow_limit: u64,
    /// Packets in the backlog, since Linux 5.10.
    pub backlog: Option<u64>,
}

/// Parses `/proc/net/softnet_stat`.
///
/// # Errors
///
/// A line with fewer than three hexadecimal columns.
pub fn softnet(text: &str) -> Result<Vec<Softnet>, Malformed> {
    let bad = Malformed::new("/proc/net/softnet_stat");
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            let columns: Vec<u64> = line
                .split_ascii_whitespace()
                .map(|word| u64::from_str_radix(word, 16))
                .collect::<Result<_, _>>()
                .map_err(|_| bad)?;
            let column = |index: usize| columns.get(index).copied();
            let cpu = column(12).unwrap_or(number as u64);
            Ok(Softnet {
                cpu: u32::try_from(cpu).map_err(|_| bad)?,
                processed: column(0).ok_or(bad)?,
                dropped: column(1).ok_or(bad)?,
                time_squeeze: column(2).ok_or(bad)?,
                received_rps: column(9).unwrap_or(0),
                flow_limit: column(10).unwrap_or(0),
                backlog: column(11),
            })
        })
        .collect()
}

/// Sums the columns of `/proc/net/stat/nf_conntrack` over the CPUs: a line of names, then a line
/// of hexadecimal values for each CPU. `entries` is the same on every line and not summed.
pub fn conntrack(text: &str, mut statistic: impl FnMut(&str, u64)) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            if let Ok(value) = u64::from_str_radix(value, 16)
                && *name != "entries"
            {
                statistic(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_of_lines_are_counters() {
        let text =
            "Tcp: MaxConn InSegs\nTcp: -1 12\nTcpExt: ListenOverflows X\nTcpExt: 7 8 9\nIp: a\n";
        let mut found = Vec::new();
        counters(text, |protocol, name, value| found.push(format!("{protocol}{name}={value}")));
        assert_eq!(found, ["TcpInSegs=12", "TcpExtListenOverflows=7", "TcpExtX=8"]);
        let mut found = Vec::new();
        counters6("Ip6InReceives   \t5\nbad\nIp6X y\n", |name, value| {
            found.push((name.to_string(), value))
        });
        assert_eq!(found, [("Ip6InReceives".to_string(), 5)]);
    }

    #[test]
    fn figures_of_sockstat_are_parsed() {
        let text =
            "sockets: used 290\nTCP: inuse 5 orphan 0 tw 3 alloc 9 mem 2\nUDP: inuse 1 mem 4\n";
        assert_eq!(sockstat(text, "TCP", "tw"), Some(3));
        assert_eq!(sockstat(text, "UDP", "mem"), Some(4));
        assert_eq!(sockstat(text, "sockets", "used"), Some(290));
        assert_eq!(sockstat(text, "TCP", "none"), None);
        assert_eq!(sockstat(text, "TCP6", "inuse"), None);
    }

    #[test]
    fn softnet_of_old_and_new_kernels_is_parsed() {
        let old = "0000000a 00000001 00000002 0 0 0 0 0 0\n0000000b 0 0 0 0 0 0 0 0\n";
        let lines = softnet(old).unwrap();
        assert_eq!((lines[0].processed, lines[0].dropped, lines[0].time_squeeze), (10, 1, 2));
        assert_eq!((lines[1].cpu, lines[1].backlog), (1, None));
        let new = "1 0 0 0 0 0 0 0 0 5 6 7 00000003 0 0\n";
        let line = softnet(new).unwrap()[0];
        assert_eq!((line.cpu, line.received_rps, line.flow_limit), (3, 5, 6));
        assert_eq!(line.backlog, Some(7));
        assert!(softnet("1 2\n").is_err());
        assert!(softnet("x y z\n").is_err());
    }

    #[test]
    fn conntrack_statistics_are_summed_by_the_caller() {
        let text = "entries  clashres drop early_drop\n00000010 1 2 0\n00000010 0 a 1\n";
        let mut drops = 0;
        let mut names = Vec::new();
        conntrack(text, |name, value| {
            names.push(name.to_string());
            drops += if name == "drop" { value } else { 0 };
        });
        assert_eq!(drops, 12);
        assert!(!names.contains(&"entries".to_string()));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-zA-Z0-9: \n-]{0,200}") {
            counters(&text, |_, _, _| {});
            counters6(&text, |_, _| {});
            conntrack(&text, |_, _| {});
            let _ = (sockstat(&text, "TCP", "mem"), softnet(&text));
        }
    }
}
