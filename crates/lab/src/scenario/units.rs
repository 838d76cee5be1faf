//! Figures with their units, as they are written in a scenario: `20ms`, `100mbit`, `64KiB`, `2%`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A figure that is written as text: parsed where it stands, so that an error names its line.
macro_rules! written {
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

written!(Time, Duration, "a time such as \"20ms\", \"1.5s\", \"250us\"", "A time.");
written!(Rate, u64, "a rate such as \"100mbit\", \"1.5gbit\", \"64kbit\"", "Bits a second.");
written!(Size, u64, "a size such as \"1500B\", \"64KiB\", \"2MB\"", "Bytes.");
written!(Share, f64, "a share such as \"2%\" or \"0.02\"", "A share, 0 to 1.");
written!(Limit, Room, "a size (\"64KiB\") or packets (\"100p\")", "Room of a queue.");

/// Room of a queue.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Room {
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u32),
}

/// The number and the unit of a text.
fn split(text: &str) -> Result<(f64, &str), ()> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| ())?;
    (number.is_finite()).then_some((number, text[end..].trim())).ok_or(())
}

/// A number of units as a whole number; none that is absurd.
fn whole(number: f64, unit: f64) -> Result<u64, ()> {
    let value = (number * unit).round();
    (0.0..=1e15).contains(&value).then_some(value as u64).ok_or(())
}

impl FromStr for Time {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, unit) = split(text)?;
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            _ => return Err(()),
        };
        whole(number, seconds * 1e9).map(|ns| Time(Duration::from_nanos(ns)))
    }
}

impl FromStr for Rate {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, unit) = split(text)?;
        let bits = match unit {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => return Err(()),
        };
        whole(number, bits).and_then(|rate| if rate > 0 { Ok(Rate(rate)) } else { Err(()) })
    }
}

impl FromStr for Size {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, unit) = split(text)?;
        let bytes = match unit {
            "B" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1048576.0,
            "GiB" => 1073741824.0,
            _ => return Err(()),
        };
        whole(number, bytes).map(Size)
    }
}

impl FromStr for Share {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let share = match split(text)? {
            (number, "%") => number / 100.0,
            (number, "") => number,
            _ => return Err(()),
        };
        (0.0..=1.0).contains(&share).then_some(Share(share)).ok_or(())
    }
}

impl FromStr for Limit {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match split(text)? {
            (number, "p" | "packets") if (1.0..=1e7).contains(&number) => {
                Ok(Limit(Room::Packets(number as u32)))
            }
            _ => text.parse::<Size>().map(|size| Limit(Room::Bytes(size.0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_with_units() {
        assert_eq!("20ms".parse(), Ok(Time(Duration::from_millis(20))));
        assert_eq!("1.5 s".parse(), Ok(Time(Duration::from_millis(1500))));
        assert_eq!("0ms".parse(), Ok(Time(Duration::ZERO)));
        assert_eq!("1.5gbit".parse(), Ok(Rate(1_500_000_000)));
        assert_eq!("64KiB".parse(), Ok(Size(65536)));
        assert_eq!("2%".parse(), Ok(Share(0.02)));
        assert_eq!("0.02".parse(), Ok(Share(0.02)));
        assert_eq!("100p".parse(), Ok(Limit(Room::Packets(100))));
        assert_eq!("1500B".parse(), Ok(Limit(Room::Bytes(1500))));
    }

    #[test]
    fn what_has_no_unit_or_no_sense_is_refused() {
        for text in ["", "20", "ms", "-5ms", "1e9s", "20 parsecs", "9999999999999999s", "1.2.3s"] {
            assert_eq!(text.parse::<Time>(), Err(()), "{text}");
        }
        assert_eq!("0mbit".parse::<Rate>(), Err(()));
        assert_eq!("101%".parse::<Share>(), Err(()));
        assert_eq!("2".parse::<Share>(), Err(()));
        assert_eq!("0p".parse::<Limit>(), Err(()));
    }
}
