//! `--annotate`: the capture again, as pcapng, with what netwhy saw as comments on packets: Wireshark
//! shows them, and finds them with `frame.comment`.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use streams::CollectedSegment;
use wire::capture::write::{Description, Flags, Record, Section, interface, packet, section};
use wire::capture::{LinkType, Packet};

use super::comments;
use crate::failure::Failure;

/// The file that is written.
pub(super) struct Annotated {
    path: PathBuf,
    file: BufWriter<File>,
    /// Interfaces that are described in it: those of the capture, by file, number and link type.
    interfaces: Vec<(usize, usize, LinkType)>,
    block: Vec<u8>,
    /// Packets with a comment.
    pub(super) comments: u64,
}

impl Annotated {
    /// A new file; one that exists is left alone.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create_new(path).map_err(|error| failed(path, &error))?;
        let mut block = Vec::new();
        let application = format!("netwhy {}", env!("CARGO_PKG_VERSION"));
        section(&mut block, &Section { application: &application, ..Section::default() });
        let mut annotated = Annotated {
            path: path.to_path_buf(),
            file: BufWriter::with_capacity(1 << 20, file),
            interfaces: Vec::new(),
            block,
            comments: 0,
        };
        annotated.flush_block()?;
        Ok(annotated)
    }

    /// A packet of the capture's file with this number, and what it was.
    pub(super) fn add(
        &mut self,
        file: usize,
        seen: &Packet<'_>,
        was: Option<CollectedSegment>,
    ) -> Result<(), Failure> {
        let key = (file, seen.interface, seen.link);
        let number = match self.interfaces.iter().position(|known| *known == key) {
            Some(number) => number,
            None => {
                interface(&mut self.block, &Description { link: seen.link, ..Default::default() });
                self.interfaces.push(key);
                self.interfaces.len() - 1
            }
        };
        let comments: Vec<String> = was
            .map(|was| comments::of(was.event.kind, was.event.stall.as_ref()))
            .unwrap_or_default()
            .iter()
            .map(|comment| format!("netwhy: {comment}"))
            .collect();
        self.comments += u64::from(!comments.is_empty());
        let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
        let record = Record {
            interface: number as u32,
            time_ns: seen.time_ns.unwrap_or(0),
            bytes: seen.bytes,
            length: seen.length,
            flags: Flags::NONE,
            drops: seen.drops,
            comments: &comments,
        };
        packet(&mut self.block, &record);
        self.flush_block()
    }

    fn flush_block(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.block);
        self.block.clear();
        written.map_err(|error| failed(&self.path, &error))
    }

    /// All is written.
    pub(super) fn finish(mut self) -> Result<u64, Failure> {
        self.file.flush().map_err(|error| failed(&self.path, &error))?;
        Ok(self.comments)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Observe(format!("cannot write the annotated capture {}: {error}", path.display()))
}
