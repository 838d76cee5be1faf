//! Which streams are told: a filter in the words of a capture's, read here and judged stream by
//! stream.
//!
//! `host`, `net`, `port` as in `tcpdump`, `stream` and `min-stall` of our own; `and`, `or`, `not`
//! and parentheses. `and` and `or` side by side need parentheses: tcpdump and most languages
//! disagree on which comes first, and a wrong guess selects other streams without a word.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// Longest filter, bytes.
const LONGEST: usize = 16 << 10;
/// Most parentheses within each other.
const DEPTH: usize = 64;
/// What is said after an error.
const WORDS: &str =
    "words: host IP, net IP/BITS, port N, stream N, min-stall TIME, and, or, not, ( )";

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// As it was written.
    text: String,
    test: Test,
}

/// What is asked of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// It is TCP: all are.
    Tcp,
    /// One of its ends has this address.
    Host(IpAddr),
    /// One of its ends is in this network.
    Net(IpAddr, u8),
    /// One of its ends has this port.
    Port(u16),
    /// It has this number.
    Stream(u64),
    /// One of its stalls lasted so long.
    MinStall(Duration),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
}

/// What is known of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) number: u64,
    /// Its longest stall so far.
    pub(crate) longest_stall: Duration,
    /// Whether the stream is over: no longer stall will come.
    pub(crate) over: bool,
}

impl Filter {
    /// Whether it selects a stream; `None`: only what is still to come tells.
    pub(crate) fn selects(&self, known: &Known) -> Option<bool> {
        self.test.holds(known)
    }

    /// Whether it asks how long stalls lasted: then a stream is selected only when it is over.
    pub(crate) fn asks_for_stalls(&self) -> bool {
        self.test.asks_for_stalls()
    }

    /// The one stream that it asks for by number and nothing else.
    pub(crate) fn number(&self) -> Option<u64> {
        if let Test::Stream(number) = self.test { Some(number) } else { None }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Test {
    fn holds(&self, known: &Known) -> Option<bool> {
        let ip = |end: SocketAddr| end.ip().to_canonical();
        match self {
            Test::Tcp => Some(true),
            Test::Host(host) => Some(known.ends.iter().any(|end| ip(*end) == *host)),
            Test::Net(net, bits) => {
                Some(known.ends.iter().any(|end| within(ip(*end), *net, *bits)))
            }
            Test::Port(port) => Some(known.ends.iter().any(|end| end.port() == *port)),
            Test::Stream(number) => Some(known.number == *number),
            Test::MinStall(least) if known.longest_stall >= *least => Some(true),
            Test::MinStall(_) => known.over.then_some(false),
            Test::Not(test) => test.holds(known).map(|holds| !holds),
            Test::All(tests) => all(tests, known, false),
            Test::Any(tests) => all(tests, known, true),
        }
    }

    fn asks_for_stalls(&self) -> bool {
        match self {
            Test::MinStall(_) => true,
            Test::Not(test) => test.asks_for_stalls(),
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::asks_for_stalls),
            _ => false,
        }
    }
}

/// Whether one of these tests decides (`or` by one that holds, `and` by one that does not), else
/// whether all are known.
fn all(tests: &[Test], known: &Known, decides: bool) -> Option<bool> {
    let mut open = false;
    for test in tests {
        match test.holds(known) {
            Some(holds) if holds == decides => return Some(decides),
            Some(_) => {}
            None => open = true,
        }
    }
    (!open).then_some(!decides)
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

/// A piece of a filter: where it begins, in characters from 1, and what it is.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

/// What a filter cannot be, and where.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    at: usize,
    what: String,
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the filter is longer than {LONGEST} bytes"));
        }
        let mut reading = Reading { tokens: tokens(text), next: 0, word: None, text };
        match reading.whole() {
            Ok(test) => Ok(Filter { text: text.trim().to_string(), test }),
            Err(Wrong { at, what }) => Err(shown(text, at, &what)),
        }
    }
}

/// The error, the filter and a mark under the place. Only what is near is shown of a long filter.
fn shown(text: &str, at: usize, what: &str) -> String {
    let from = at.saturating_sub(40);
    let near: String = text
        .chars()
        .skip(from)
        .take(70)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let mark = " ".repeat(at.saturating_sub(1 + from));
    format!("{what}, at character {at}\n  {near}\n  {mark}^\n{WORDS}")
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut began: Option<(usize, usize)> = None;
    for (at, (byte, c)) in text.char_indices().enumerate() {
        let alone = matches!(c, '(' | ')' | '!');
        if (alone || c.is_whitespace())
            && let Some((at, from)) = began.take()
        {
            tokens.push(Token { at, text: &text[from..byte] });
        }
        if alone {
            tokens.push(Token { at: at + 1, text: &text[byte..byte + c.len_utf8()] });
        } else if !c.is_whitespace() && began.is_none() {
            began = Some((at + 1, byte));
        }
    }
    if let Some((at, from)) = began {
        tokens.push(Token { at, text: &text[from..] });
    }
    tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Host,
    Net,
    Port,
    Stream,
    MinStall,
}

impl Word {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "host" => Word::Host,
            "net" => Word::Net,
            "port" => Word::Port,
            "stream" => Word::Stream,
            "min-stall" => Word::MinStall,
            _ => return None,
        })
    }

    /// The word and its value: what it asks, or what it needs.
    fn with(self, value: &str) -> Result<Test, &'static str> {
        match self {
            Word::Host => value
                .parse::<IpAddr>()
                .map(|ip| Test::Host(ip.to_canonical()))
                .map_err(|_| "host needs an IP address: host 198.18.0.2"),
            Word::Net => net(value).ok_or("net needs a network: net 198.18.0.0/24"),
            Word::Port => {
                value.parse().map(Test::Port).map_err(|_| "port needs a number up to 65535")
            }
            Word::Stream => {
                value.parse().map(Test::Stream).map_err(|_| "stream needs a number from 0")
            }
            Word::MinStall => text::parse::duration_with_unit(value)
                .map(Test::MinStall)
                .map_err(|_| "min-stall needs a time with a unit: min-stall 200ms"),
        }
    }
}

fn net(value: &str) -> Option<Test> {
    let (ip, bits) = match value.split_once('/') {
        Some((ip, bits)) => (ip.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
        None => (value.parse().ok()?, None),
    };
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some(Test::Net(ip, bits))
}

/// A filter that is being read.
struct Reading<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    /// The last word: `port 80 or 443` needs it once.
    word: Option<Word>,
    text: &'a str,
}

impl<'a> Reading<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    /// Something is missing where the filter ends.
    fn end(&self, what: &str) -> Wrong {
        Wrong { at: self.text.trim_end().chars().count() + 1, what: what.to_string() }
    }

    fn whole(&mut self) -> Result<Test, Wrong> {
        let test = self.tests(0)?;
        match self.peek() {
            None => Ok(test),
            Some(token) if token.text == ")" => {
                Err(Wrong { at: token.at, what: "this ) closes no (".to_string() })
            }
            Some(token) => Err(Wrong {
                at: token.at,
                what: format!("«{}» needs and or or before it", short(token.text)),
            }),
        }
    }

    /// Tests with `and` between them, or with `or`.
    fn tests(&mut self, depth: usize) -> Result<Test, Wrong> {
        let first = self.test(depth)?;
        let mut tests = vec![first];
        let mut join: Option<bool> = None;
        while let Some(token) = self.peek() {
            let any = match token.text {
                "and" | "&&" => false,
                "or" | "||" => true,
                _ => break,
            };
            if join.is_some_and(|before| before != any) {
                let what = "and beside or: say with ( ) which comes first".to_string();
                return Err(Wrong { at: token.at, what });
            }
            join = Some(any);
            self.next += 1;
            tests.push(self.test(depth)?);
        }
        Ok(match join {
            Some(true) => Test::Any(tests),
            Some(false) => Test::All(tests),
            None => tests.swap_remove(0),
        })
    }

    fn test(&mut self, depth: usize) -> Result<Test, Wrong> {
        let mut not = false;
        while self.peek().is_some_and(|token| matches!(token.text, "not" | "!")) {
            not = !not;
            self.next += 1;
        }
        let Some(token) = self.take() else {
            let what =
                if self.tokens.is_empty() { "the filter is empty" } else { "it ends too soon" };
            return Err(self.end(what));
        };
        let test = if token.text == "(" { self.group(token, depth)? } else { self.word(token)? };
        Ok(if not { Test::Not(Box::new(test)) } else { test })
    }

    fn group(&mut self, open: Token<'a>, depth: usize) -> Result<Test, Wrong> {
        if depth >= DEPTH {
            let what = format!("more than {DEPTH} parentheses within each other");
            return Err(Wrong { at: open.at, what });
        }
        let test = self.tests(depth + 1)?;
        match self.take() {
            Some(token) if token.text == ")" => Ok(test),
            Some(token) => {
                let what = format!("«{}» needs and or or before it", short(token.text));
                Err(Wrong { at: token.at, what })
            }
            None => Err(Wrong { at: open.at, what: "this ( is never closed".to_string() }),
        }
    }

    fn word(&mut self, token: Token<'a>) -> Result<Test, Wrong> {
        if token.text == "tcp" {
            // All are: `tcp port 80`, or `tcp` alone.
            let Some(next) = self.peek().filter(|next| Word::of(next.text).is_some()) else {
                return Ok(Test::Tcp);
            };
            self.next += 1;
            return self.word(next);
        }
        if let Some(word) = Word::of(token.text) {
            self.word = Some(word);
            let Some(value) = self.take() else {
                let what = word.with("").err().unwrap_or("it ends too soon");
                return Err(self.end(what));
            };
            return word
                .with(value.text)
                .map_err(|what| Wrong { at: value.at, what: what.to_string() });
        }
        let again = self.word.map(|word| word.with(token.text));
        if let Some(Ok(test)) = again {
            return Ok(test);
        }
        let what = match token.text {
            "src" | "dst" => "a stream has both directions: leave src and dst out".to_string(),
            "and" | "or" | "&&" | "||" | ")" => {
                format!("«{}» needs a test before it", token.text)
            }
            text => format!("«{}» is no word of a filter", short(text)),
        };
        Err(Wrong { at: token.at, what })
    }
}

/// As much of a text as an error needs.
fn short(text: &str) -> String {
    let cut: String = text.chars().take(24).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(number: u64, stall_ms: u64, over: bool) -> Known {
        Known {
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
    fn words_and_their_sums() {
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
    fn errors_say_what_is_wrong_and_where() {
        for (text, at, what) in [
            ("", 1, "the filter is empty"),
            ("host", 5, "host needs an IP address"),
            ("host web-3", 6, "host needs an IP address"),
            ("host 198.18.0.2 an port 80", 17, "«an» needs and or or before it"),
            ("host 198.18.0.2 and prt 80", 21, "«prt» is no word of a filter"),
            ("port 80 and", 12, "it ends too soon"),
            ("port 65536", 6, "port needs a number"),
            ("port http", 6, "port needs a number"),
            ("min-stall 200", 11, "min-stall needs a time with a unit"),
            ("net 198.18.0.0/33", 5, "net needs a network"),
            ("(port 80", 1, "this ( is never closed"),
            ("port 80)", 8, "this ) closes no ("),
            ("port 80 and host 198.18.0.2 or stream 1", 29, "and beside or"),
            ("src host 198.18.0.2", 1, "a stream has both directions"),
            ("or port 80", 1, "«or» needs a test before it"),
            ("µ", 1, "«µ» is no word"),
        ] {
            let error = text.parse::<Filter>().unwrap_err();
            let place = format!("at character {at}\n");
            assert!(error.starts_with(what) && error.contains(&place), "{text}: {error}");
            let mark = error.lines().nth(2).unwrap();
            assert_eq!(mark.chars().count(), 2 + at, "{text}: {error}");
        }
    }

    #[test]
    fn deep_and_long_filters_end() {
        let deep = "(".repeat(5000);
        assert!(deep.parse::<Filter>().unwrap_err().starts_with("more than 64 parentheses"));
        let nots = "not ".repeat(4000) + "port 80";
        assert_eq!(selects(&nots), Some(true));
        let long = "port 80 or ".repeat(1400) + "port 80";
        assert_eq!(selects(&long), Some(true));
        assert!("(".repeat(LONGEST + 1).parse::<Filter>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = text.parse::<Filter>();
        }

        #[test]
        fn any_words_are_read_or_refused(words in prop::collection::vec(
            prop::sample::select(vec!["host", "net", "port", "stream", "min-stall", "and", "or",
                "not", "(", ")", "!", "tcp", "80", "198.18.0.2", "10.0.0.0/8", "200ms", "::1"]),
            0..20,
        )) {
            let text = words.join(" ");
            if let Ok(filter) = text.parse::<Filter>() {
                // When the stream is over, the answer is known.
                prop_assert!(filter.selects(&known(0, 100, true)).is_some());
            }
        }
    }
}
