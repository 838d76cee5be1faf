//! Reads one capture, step by step.

use super::file::FileState;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::types::{Damage, Interface, Packet, Step};

/// Reads one capture.
#[derive(Debug, Default)]
pub struct Reader {
    format: Option<Format>,
    file: FileState,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Reader {
    /// A reader at the beginning of a file.
    pub fn new() -> Self {
        Reader::default()
    }

    /// What is at the front of `buffer`, and how many of its bytes that takes. Call it again with the
    /// rest. [`Step::NeedBytes`] takes none.
    pub fn step<'a>(&mut self, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let (taken, step) = match &mut self.format {
            None => self.begin(buffer),
            _ if self.file.skip.left > 0 => self.file.skip.more(buffer),
            Some(Format::Pcap(pcap)) => pcap.record(&mut self.file, buffer),
            Some(Format::Pcapng(pcapng)) => pcapng.block(&mut self.file, buffer),
        };
        self.file.offset += taken as u64;
        (taken, step)
    }

    /// Adds the packets at the front of `buffer` to `packets`, for as long as there is room in it and
    /// nothing needs more than to be parsed. Returns how many bytes that takes: [`Reader::step`] says
    /// what comes next.
    #[inline]
    pub fn packets<'a>(&mut self, buffer: &'a [u8], packets: &mut Vec<Packet<'a>>) -> usize {
        let Some(Format::Pcap(pcap)) = &self.format else { return 0 };
        if self.file.skip.left > 0 {
            return 0;
        }
        let taken = pcap.records(buffer, packets);
        self.file.offset += taken as u64;
        taken
    }

    /// Bytes so far of a record that is being skipped; 0: none is.
    pub fn bytes_of_skipped_record(&self) -> u64 {
        if self.file.skip.left > 0 { self.file.skip.taken } else { 0 }
    }

    /// The interfaces so far, including those of earlier sections.
    pub fn interfaces(&self) -> &[Interface] {
        &self.file.interfaces
    }

    /// What was odd and could be skipped.
    pub fn warnings(&self) -> &[Damage] {
        &self.file.warnings
    }

    /// Bytes parsed so far.
    pub fn offset(&self) -> u64 {
        self.file.offset
    }

    /// The first bytes show the format.
    fn begin<'a>(&mut self, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let Some(magic) = buffer.first_chunk::<4>() else {
            return (0, Step::NeedBytes(4));
        };
        if *magic == pcapng::SECTION.to_be_bytes() {
            self.format = Some(Format::Pcapng(Pcapng::default()));
            return (0, Step::Skipped);
        }
        match Pcap::begin(buffer) {
            Ok(Some((pcap, interface))) => {
                self.format = Some(Format::Pcap(pcap));
                self.file.interfaces.push(interface);
                (pcap::HEADER_BYTES, Step::Skipped)
            }
            Ok(None) => (0, Step::NeedBytes(pcap::HEADER_BYTES)),
            Err(reason) => (0, self.file.damaged(reason)),
        }
    }
}
