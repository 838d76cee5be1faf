//! How a file is changed.

use std::io::Write as _;

use super::kind::Kind;

/// Most changes of one file: of text, of which a parser forgives nothing, fewer.
const MAX_CHANGES: u64 = 8;
const MAX_TEXT_CHANGES: u64 = 3;
/// Most bytes that one change adds or removes.
const MAX_PIECE_BYTES: u64 = 4096;
/// Most bytes of a changed file.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Numbers at which sums overflow, and lengths end.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x0004_0000,
    0x0400_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// The same as text, and others that JSON has.
const TEXT_NUMBERS: [&str; 12] = [
    "18446744073709551615",
    "9223372036854775807",
    "4294967295",
    "65535",
    "255",
    "100",
    "1",
    "0",
    "1e308",
    "0.5",
    "-1",
    "null",
];
/// What a terminal would obey, as bytes and as JSON.
const CONTROLS: [&str; 6] =
    ["\x1b]0;owned\x07", "\\u001b[2J", "\\u001b[31m", "\\u202e", "\\r\\n", "\u{9b}2J"];

/// Numbers that look random and are the same in every run (the finaliser of `splitmix64`).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len() as u64) as usize).copied()
    }
}

/// The file with this number.
pub(super) fn file(kind: Kind, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Random::new(number ^ kind.name().len() as u64);
    let mut seed = || {
        let place = random.below(seeds.len() as u64) as usize;
        seeds.get(place).cloned().unwrap_or_default()
    };
    let (mut bytes, other) = (seed(), seed());
    let max_changes = if kind == Kind::Evidence { MAX_TEXT_CHANGES } else { MAX_CHANGES };
    for _ in 0..=random.below(max_changes) {
        change(kind, &mut bytes, &other, &mut random);
        bytes.truncate(MAX_FILE_BYTES);
    }
    // Some are compressed, and damaged once more.
    if random.below(16) == 0 {
        bytes = compressed(&bytes, random.below(2) == 0);
        if random.below(2) == 0 {
            change(Kind::Capture, &mut bytes, &other, &mut random);
        }
    }
    bytes
}

fn compressed(bytes: &[u8], gzip: bool) -> Vec<u8> {
    if !gzip {
        return zstd::encode_all(bytes, 1).unwrap_or_default();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn change(kind: Kind, bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let length = bytes.len() as u64;
    let at = random.below(length) as usize;
    let end = (at + random.below(MAX_PIECE_BYTES) as usize + 1).min(bytes.len());
    let piece = bytes.get(at..end).unwrap_or_default().to_vec();
    // Most changes of text leave it well-formed.
    let is_text = kind == Kind::Evidence && random.below(16) > 0;
    match if is_text { 9 + random.below(4) } else { random.below(9) } {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        // A number, where lengths are: at a multiple of four.
        2 | 3 => {
            let number = random.one_of(&NUMBERS).unwrap_or(0);
            let width = random.one_of(&[1usize, 2, 4, 4, 8]).unwrap_or(4);
            let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
            let number =
                if random.below(2) == 0 { little.get(..width) } else { big.get(8 - width..) };
            let at = if random.below(2) == 0 { at & !3 } else { at };
            for (byte, new) in bytes.iter_mut().skip(at).zip(number.unwrap_or_default()) {
                *byte = *new;
            }
        }
        4 => bytes.truncate(at),
        5 => _ = bytes.splice(at..end, []),
        6 => {
            for _ in 0..=random.below(4) {
                bytes.splice(at..at, piece.iter().copied());
            }
        }
        7 => {
            let from = random.below(other.len() as u64) as usize;
            let taken = other.get(from..).unwrap_or_default().iter().take(piece.len()).copied();
            bytes.splice(at..at, taken.collect::<Vec<_>>());
        }
        8 => {
            let control = random.one_of(&CONTROLS).unwrap_or("");
            bytes.splice(at..at, control.bytes());
        }
        9 | 10 => replace_number(bytes, at, random),
        11 => control_in_text(bytes, at, random),
        _ => repeat_item(bytes, at, random),
    }
}

fn replace_number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(first) = bytes.iter().skip(at).position(is_digit).map(|offset| at + offset) else {
        return;
    };
    let length = bytes.iter().skip(first).take_while(|byte| is_digit(byte)).count();
    let number = random.one_of(&TEXT_NUMBERS).unwrap_or("0");
    bytes.splice(first..first + length, number.bytes());
}

/// A control character at the beginning of a value that is text.
fn control_in_text(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let mut pairs = bytes.windows(2).enumerate().skip(at);
    let Some((place, _)) = pairs.find(|(_, pair)| *pair == b":\"") else { return };
    let control = random.one_of(&CONTROLS).unwrap_or("");
    bytes.splice(place + 2..place + 2, control.bytes());
}

fn repeat_item(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let place = |wanted: u8, from: usize| {
        let found = bytes.iter().skip(from).position(|byte| *byte == wanted);
        found.map(|offset| from + offset)
    };
    let Some(open) = place(b'{', at) else { return };
    let Some(close) = place(b'}', open) else { return };
    let mut item = bytes.get(open..=close).unwrap_or_default().to_vec();
    item.push(b',');
    let times = random.one_of(&[1, 2, 20, 200]).unwrap_or(1);
    bytes.splice(open..open, item.repeat(times));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_file_each_time() {
        let seeds = [b"{\"a\": [{\"b\": 17}]}".to_vec(), vec![7; 100]];
        let files: Vec<Vec<u8>> =
            (0..200).map(|number| file(Kind::Evidence, &seeds, number)).collect();
        assert!(
            files
                .iter()
                .zip(0..)
                .all(|(made, number)| *made == file(Kind::Evidence, &seeds, number))
        );
        let changed = files.iter().filter(|file| !seeds.contains(file)).count();
        assert!(changed > 100, "{changed}");
    }
}
