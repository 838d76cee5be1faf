//! Which streams are selected: a filter like tcpdump's, but of streams instead of packets.
//!
//! `host`, `net` and `port` are those of tcpdump, `stream` and `min-stall` our own; `and`, `or`, `not`
//! and parentheses combine them. `and` next to `or` needs parentheses: tcpdump and most languages
//! disagree on which binds tighter, and a wrong guess would silently select other streams.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// Longest filter, bytes.
const MAX_FILTER_BYTES: usize = 16 << 10;
/// Most nested parentheses.
const MAX_NESTING: usize = 64;
/// The last line of an error.
const SYNTAX: &str =
    "syntax: host IP, net IP/BITS, port N, stream N, min-stall TIME, and, or, not, ( )";

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// As it was written.
    text: String,
    condition: Condition,
}

/// A condition on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// It is TCP: always true.
    Tcp,
    /// One of its ends has this address.
    Host(IpAddr),
    /// One of its ends is in this network.
    Net(IpAddr, u8),
    /// One of its ends has this port.
    Port(u16),
    /// It has this number.
    Stream(u64),
    /// Its longest stall is at least this long.
    MinStall(Duration),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// What is known of a stream at some moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownStream {
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) number: u64,
    /// Its longest stall so far.
    pub(crate) longest_stall: Duration,
    /// Whether the stream is over: no more stalls can follow.
    pub(crate) over: bool,
}

impl Filter {
    /// Whether it selects a stream; `None`: that depends on packets still to come.
    pub(crate) fn selects(&self, known: &KnownStream) -> Option<bool> {
        self.condition.holds(known)
    }

    /// Whether it depends on stalls: then it is known only at the end of a stream whether it is selected.
    pub(crate) fn asks_for_stalls(&self) -> bool {
        self.condition.asks_for_stalls()
    }

    /// The number of the stream, if the filter is nothing but `stream N`.
    pub(crate) fn number(&self) -> Option<u64> {
        if let Condition::Stream(number) = self.condition { Some(number) } else { None }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Condition {
    fn holds(&self, known: &KnownStream) -> Option<bool> {
        let ip = |end: SocketAddr| end.ip().to_canonical();
        match self {
            Condition::Tcp => Some(true),
            Condition::Host(host) => Some(known.ends.iter().any(|end| ip(*end) == *host)),
            Condition::Net(net, bits) => {
                Some(known.ends.iter().any(|end| within(ip(*end), *net, *bits)))
            }
            Condition::Port(port) => Some(known.ends.iter().any(|end| end.port() == *port)),
            Condition::Stream(number) => Some(known.number == *number),
            Condition::MinStall(min) if known.longest_stall >= *min => Some(true),
            Condition::MinStall(_) => known.over.then_some(false),
            Condition::Not(condition) => condition.holds(known).map(|holds| !holds),
            Condition::All(conditions) => join(conditions, known, false),
            Condition::Any(conditions) => join(conditions, known, true),
        }
    }

    fn asks_for_stalls(&self) -> bool {
        match self {
            Condition::MinStall(_) => true,
            Condition::Not(condition) => condition.asks_for_stalls(),
            Condition::All(conditions) | Condition::Any(conditions) => {
                conditions.iter().any(Condition::asks_for_stalls)
            }
            _ => false,
        }
    }
}

/// Joins conditions: by `or` if `decisive` is true (one that holds decides), by `and` if it is false (one
/// that does not hold decides). `None`: none decides, and some are not known yet.
fn join(conditions: &[Condition], known: &KnownStream, decisive: bool) -> Option<bool> {
    let mut all_known = true;
    for condition in conditions {
        match condition.holds(known) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => all_known = false,
        }
    }
    all_known.then_some(!decisive)
}

fn within(ip: IpAddr, net: IpAddr, bits: u8) -> bool {
    let (ip, net, of) = match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => (ip.to_bits().into(), net.to_bits().into(), 32),
        (IpAddr::V6(ip), IpAddr::V6(net)) => (ip.to_bits(), net.to_bits(), 128_u32),
        _ => return false,
    };
    let differ: u128 = ip ^ net;
    differ.checked_shr(of.saturating_sub(bits.into())).unwrap_or(0) == 0
}

/// A word or parenthesis of a filter, and where it begins: in characters, from 1.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

/// A syntax error, and where it is: in characters, from 1.
#[derive(Debug, PartialEq, Eq)]
struct SyntaxError {
    at: usize,
    what: String,
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > MAX_FILTER_BYTES {
            return Err(format!("the filter is longer than {MAX_FILTER_BYTES} bytes"));
        }
        let mut parser = Parser { tokens: tokens(text), next: 0, keyword: None, text };
        match parser.filter() {
            Ok(condition) => Ok(Filter { text: text.trim().to_string(), condition }),
            Err(error) => Err(error.message(text)),
        }
    }
}

impl SyntaxError {
    /// The error, the filter and a mark below the place; of a long filter only the part around it.
    fn message(&self, filter: &str) -> String {
        const COLUMNS_BEFORE: usize = 40;
        const COLUMNS_SHOWN: usize = 70;
        let SyntaxError { at, what } = self;
        let from = at.saturating_sub(COLUMNS_BEFORE);
        let near: String = filter
            .chars()
            .skip(from)
            .take(COLUMNS_SHOWN)
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let mark = " ".repeat(at.saturating_sub(1 + from));
        format!("{what}, at character {at}\n  {near}\n  {mark}^\n{SYNTAX}")
    }
}

/// The words and parentheses of a filter.
fn tokens(filter: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = filter;
    let mut at = 1;
    while let Some(first) = rest.chars().next() {
        let stands_alone = |c: char| matches!(c, '(' | ')' | '!');
        let length = if stands_alone(first) || first.is_whitespace() {
            first.len_utf8()
        } else {
            rest.find(|c: char| stands_alone(c) || c.is_whitespace()).unwrap_or(rest.len())
        };
        let Some((text, after)) = rest.split_at_checked(length) else { break };
        if !first.is_whitespace() {
            tokens.push(Token { at, text });
        }
        at += text.chars().count();
        rest = after;
    }
    tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Host,
    Net,
    Port,
    Stream,
    MinStall,
}

impl Keyword {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "host" => Keyword::Host,
            "net" => Keyword::Net,
            "port" => Keyword::Port,
            "stream" => Keyword::Stream,
            "min-stall" => Keyword::MinStall,
            _ => return None,
        })
    }

    /// The condition that it makes with a value, or the value that it needs.
    fn condition(self, value: &str) -> Result<Condition, &'static str> {
        match self {
            Keyword::Host => value
                .parse::<IpAddr>()
                .map(|ip| Condition::Host(ip.to_canonical()))
                .map_err(|_| "host needs an IP address: host 198.18.0.2"),
            Keyword::Net => net(value).ok_or("net needs a network: net 198.18.0.0/24"),
            Keyword::Port => {
                value.parse().map(Condition::Port).map_err(|_| "port needs a number up to 65535")
            }
            Keyword::Stream => {
                value.parse().map(Condition::Stream).map_err(|_| "stream needs a number from 0")
            }
            Keyword::MinStall => text::parse::duration_with_unit(value)
                .map(Condition::MinStall)
                .map_err(|_| "min-stall needs a time with a unit: min-stall 200ms"),
        }
    }
}

fn net(value: &str) -> Option<Condition> {
    let (ip, bits) = match value.split_once('/') {
        Some((ip, bits)) => (ip.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
        None => (value.parse().ok()?, None),
    };
    let max_bits = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(max_bits);
    (bits <= max_bits).then_some(Condition::Net(ip, bits))
}

/// A recursive-descent parser.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    /// The last keyword, which `port 80 or 443` does not repeat.
    keyword: Option<Keyword>,
    text: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    /// Something is missing at the end of the filter.
    fn error_at_end(&self, what: &str) -> SyntaxError {
        SyntaxError { at: self.text.trim_end().chars().count() + 1, what: what.to_string() }
    }

    fn filter(&mut self) -> Result<Condition, SyntaxError> {
        let condition = self.conditions(0)?;
        match self.peek() {
            None => Ok(condition),
            Some(token) if token.text == ")" => {
                Err(SyntaxError { at: token.at, what: "this ) has no matching (".to_string() })
            }
            Some(token) => Err(SyntaxError {
                at: token.at,
                what: format!("«{}» needs «and» or «or» before it", short(token.text)),
            }),
        }
    }

    /// Conditions joined by `and`, or by `or`.
    fn conditions(&mut self, depth: usize) -> Result<Condition, SyntaxError> {
        let first = self.condition(depth)?;
        let mut others = Vec::new();
        let mut is_any: Option<bool> = None;
        while let Some(token) = self.peek() {
            let any = match token.text {
                "and" | "&&" => false,
                "or" | "||" => true,
                _ => break,
            };
            if is_any.is_some_and(|before| before != any) {
                let what = "«and» next to «or»: group them with ( )".to_string();
                return Err(SyntaxError { at: token.at, what });
            }
            is_any = Some(any);
            self.next += 1;
            others.push(self.condition(depth)?);
        }
        let all = |first| std::iter::once(first).chain(others).collect();
        Ok(match is_any {
            Some(true) => Condition::Any(all(first)),
            Some(false) => Condition::All(all(first)),
            None => first,
        })
    }

    fn condition(&mut self, depth: usize) -> Result<Condition, SyntaxError> {
        let mut not = false;
        while self.peek().is_some_and(|token| matches!(token.text, "not" | "!")) {
            not = !not;
            self.next += 1;
        }
        let Some(token) = self.take() else {
            let what = if self.tokens.is_empty() {
                "the filter is empty"
            } else {
                "the filter is incomplete"
            };
            return Err(self.error_at_end(what));
        };
        let condition =
            if token.text == "(" { self.group(token, depth)? } else { self.keyword(token)? };
        Ok(if not { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn group(&mut self, open: Token<'a>, depth: usize) -> Result<Condition, SyntaxError> {
        if depth >= MAX_NESTING {
            let what = format!("more than {MAX_NESTING} nested parentheses");
            return Err(SyntaxError { at: open.at, what });
        }
        let condition = self.conditions(depth + 1)?;
        match self.take() {
            Some(token) if token.text == ")" => Ok(condition),
            Some(token) => {
                let what = format!("«{}» needs «and» or «or» before it", short(token.text));
                Err(SyntaxError { at: token.at, what })
            }
            None => Err(SyntaxError { at: open.at, what: "this ( has no matching )".to_string() }),
        }
    }

    fn keyword(&mut self, token: Token<'a>) -> Result<Condition, SyntaxError> {
        if token.text == "tcp" {
            // All streams are TCP: `tcp port 80` is `port 80`, and `tcp` alone is always true.
            let Some(next) = self.peek().filter(|next| Keyword::of(next.text).is_some()) else {
                return Ok(Condition::Tcp);
            };
            self.next += 1;
            return self.keyword(next);
        }
        if let Some(keyword) = Keyword::of(token.text) {
            self.keyword = Some(keyword);
            let Some(value) = self.take() else {
                let what = keyword.condition("").err().unwrap_or("the filter is incomplete");
                return Err(self.error_at_end(what));
            };
            return keyword
                .condition(value.text)
                .map_err(|what| SyntaxError { at: value.at, what: what.to_string() });
        }
        if let Some(Ok(condition)) = self.keyword.map(|keyword| keyword.condition(token.text)) {
            return Ok(condition);
        }
        let what = match token.text {
            "src" | "dst" => "a stream has both directions: leave src and dst out".to_string(),
            "and" | "or" | "&&" | "||" | ")" => {
                format!("«{}» needs a condition before it", token.text)
            }
            text => format!("«{}» is no keyword of a filter", short(text)),
        };
        Err(SyntaxError { at: token.at, what })
    }
}

/// A text, truncated for an error message.
fn short(text: &str) -> String {
    let cut: String = text.chars().take(24).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(number: u64, stall_ms: u64, over: bool) -> KnownStream {
        KnownStream {
            ends: ["198.18.0.1:5000", "198.18.0.2:80"].map(|end| end.parse().unwrap()),
            number,
            longest_stall: Duration::from_millis(stall_ms),
            over,
        }
    }

    fn selects(text: &str) -> Option<bool> {
        text.parse::<Filter>().unwrap().selects(&known(3, 250, false))
    }

    #[test]
    fn conditions_and_their_combinations() {
        for yes in [
            "host 198.18.0.2",
            "host ::ffff:198.18.0.2",
            "net 198.18.0.0/15",
            "net 198.18.0.1",
            "net 0.0.0.0/0",
            "port 80",
            "port 443 or 80",
            "tcp port 80",
            "tcp",
            "stream 3",
            "min-stall 200ms",
            "not port 443",
            "!port 443",
            "not not port 80",
            "host 198.18.0.2 and port 80",
            "host 198.18.0.2 && (port 443 || port 80)",
            "((port 80))",
            "port 443 or min-stall 1ms",
        ] {
            assert_eq!(selects(yes), Some(true), "{yes}");
        }
        for no in [
            "host 198.18.0.3",
            "net 10.0.0.0/8",
            "net ::/0",
            "port 8080",
            "stream 0",
            "not port 80",
            "not (port 80 or stream 9)",
            "port 443 and min-stall 1s",
            "not min-stall 200ms",
        ] {
            assert_eq!(selects(no), Some(false), "{no}");
        }
    }

    #[test]
    fn a_longer_stall_may_still_come() {
        let filter: Filter = "port 80 and min-stall 1s".parse().unwrap();
        assert_eq!(filter.selects(&known(0, 250, false)), None);
        assert_eq!(filter.selects(&known(0, 250, true)), Some(false));
        assert_eq!(filter.selects(&known(0, 1000, false)), Some(true));
        assert!(filter.asks_for_stalls());
        assert_eq!("stream 7".parse::<Filter>().unwrap().number(), Some(7));
    }

    #[test]
    fn syntax_errors_have_a_reason_and_a_place() {
        for (text, at, what) in [
            ("", 1, "the filter is empty"),
            ("host", 5, "host needs an IP address"),
            ("host web-3", 6, "host needs an IP address"),
            ("host 198.18.0.2 an port 80", 17, "«an» needs «and» or «or» before it"),
            ("host 198.18.0.2 and prt 80", 21, "«prt» is no keyword of a filter"),
            ("port 80 and", 12, "the filter is incomplete"),
            ("port 65536", 6, "port needs a number"),
            ("port http", 6, "port needs a number"),
            ("min-stall 200", 11, "min-stall needs a time with a unit"),
            ("net 198.18.0.0/33", 5, "net needs a network"),
            ("(port 80", 1, "this ( has no matching )"),
            ("port 80)", 8, "this ) has no matching ("),
            ("port 80 and host 198.18.0.2 or stream 1", 29, "«and» next to «or»"),
            ("src host 198.18.0.2", 1, "a stream has both directions"),
            ("or port 80", 1, "«or» needs a condition before it"),
            ("µ", 1, "«µ» is no keyword"),
        ] {
            let error = text.parse::<Filter>().unwrap_err();
            let place = format!("at character {at}\n");
            assert!(error.starts_with(what) && error.contains(&place), "{text}: {error}");
            let mark = error.lines().nth(2).unwrap();
            assert_eq!(mark.chars().count(), 2 + at, "{text}: {error}");
        }
    }

    #[test]
    fn deep_and_long_filters_are_parsed_or_refused() {
        let deep = "(".repeat(5000);
        assert!(deep.parse::<Filter>().unwrap_err().starts_with("more than 64 nested parentheses"));
        let nots = "not ".repeat(4000) + "port 80";
        assert_eq!(selects(&nots), Some(true));
        let long = "port 80 or ".repeat(1400) + "port 80";
        assert_eq!(selects(&long), Some(true));
        assert!("(".repeat(MAX_FILTER_BYTES + 1).parse::<Filter>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,80}") {
            let _ = text.parse::<Filter>();
        }

        #[test]
        fn any_tokens_are_parsed_or_refused(words in prop::collection::vec(
            prop::sample::select(vec!["host", "net", "port", "stream", "min-stall", "and", "or",
                "not", "(", ")", "!", "tcp", "80", "198.18.0.2", "10.0.0.0/8", "200ms", "::1"]),
            0..20,
        )) {
            let text = words.join(" ");
            if let Ok(filter) = text.parse::<Filter>() {
                // At the end of the stream it is known.
                prop_assert!(filter.selects(&known(0, 100, true)).is_some());
            }
        }
    }
}
