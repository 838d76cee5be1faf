//! Values with units, as a scenario file writes them: `20ms`, `100mbit`, `64KiB`, `2%`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use text::parse;

/// A type that is parsed from a string while the file is read, so that an error points to its line.
macro_rules! parsed_from_string {
    ($name:ident, $inner:ty, $expects:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                        to.write_str($expects)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse()
                            .map_err(|()| E::custom(format_args!("\"{text}\" is not {}", $expects)))
                    }
                }
                from.deserialize_str(Text)
            }
        }
    };
}

parsed_from_string!(Time, Duration, "a time such as \"20ms\", \"1.5s\", \"250us\"", "A time.");
parsed_from_string!(
    Rate,
    u64,
    "a rate such as \"100mbit\", \"1.5gbit\", \"64kbit\"",
    "Bits per second."
);
parsed_from_string!(Size, u64, "a size such as \"1500B\", \"64KiB\", \"2MB\"", "Bytes.");
parsed_from_string!(Share, f64, "a share such as \"2%\" or \"0.02\"", "A share, 0 to 1.");
parsed_from_string!(
    QueueLimit,
    Capacity,
    "a size (\"64KiB\") or packets (\"100p\")",
    "Length of a queue."
);

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Capacity {
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u32),
}

impl FromStr for Time {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        /// Eleven days: nothing in a lab takes longer.
        const MAX_TIME: Duration = Duration::from_secs(1_000_000);
        match parse::duration_with_unit(text) {
            Ok(time) if time <= MAX_TIME => Ok(Time(time)),
            _ => Err(()),
        }
    }
}

impl FromStr for Rate {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        parse::bit_rate(text).filter(|rate| *rate > 0).map(Rate).ok_or(())
    }
}

impl FromStr for Size {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        parse::bytes(text, parse::Powers::Binary).map(Size).ok_or(())
    }
}

impl FromStr for Share {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        parse::share(text).map(Share).ok_or(())
    }
}

impl FromStr for QueueLimit {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match parse::scaled(text, &[("p", 1.0), ("packets", 1.0)]) {
            Some(packets) if (1.0..=1e7).contains(&packets) => {
                Ok(QueueLimit(Capacity::Packets(packets as u32)))
            }
            Some(_) => Err(()),
            None => text.parse::<Size>().map(|size| QueueLimit(Capacity::Bytes(size.0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units_are_parsed() {
        assert_eq!("20ms".parse(), Ok(Time(Duration::from_millis(20))));
        assert_eq!("1.5 s".parse(), Ok(Time(Duration::from_millis(1500))));
        assert_eq!("0ms".parse(), Ok(Time(Duration::ZERO)));
        assert_eq!("1.5gbit".parse(), Ok(Rate(1_500_000_000)));
        assert_eq!("64KiB".parse(), Ok(Size(65536)));
        assert_eq!("2%".parse(), Ok(Share(0.02)));
        assert_eq!("0.02".parse(), Ok(Share(0.02)));
        assert_eq!("100p".parse(), Ok(QueueLimit(Capacity::Packets(100))));
        assert_eq!("1500B".parse(), Ok(QueueLimit(Capacity::Bytes(1500))));
    }

    #[test]
    fn values_without_a_unit_or_out_of_range_are_rejected() {
        for text in ["", "20", "ms", "-5ms", "1e9s", "20 parsecs", "9999999999999999s", "1.2.3s"] {
            assert_eq!(text.parse::<Time>(), Err(()), "{text}");
        }
        assert_eq!("0mbit".parse::<Rate>(), Err(()));
        assert_eq!("101%".parse::<Share>(), Err(()));
        assert_eq!("2".parse::<Share>(), Err(()));
        assert_eq!("0p".parse::<QueueLimit>(), Err(()));
    }
}
