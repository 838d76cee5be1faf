//! `--annotate`: a copy of the capture, as pcapng, with comments on its packets. Wireshark shows them and
//! finds them with `frame.comment`.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use streams::CollectedSegment;
use wire::capture::write::{Description, Flags, Record, Section, interface, packet, section};
use wire::capture::{LinkType, Packet};

use super::comments;
use crate::failure::Failure;
use crate::saved_file::SavedFile;

/// The file that is written.
pub(super) struct Annotated {
    path: PathBuf,
    file: BufWriter<SavedFile>,
    /// The interfaces described in it: file, number and link type in the capture.
    interfaces: Vec<(usize, usize, LinkType)>,
    block: Vec<u8>,
    /// Packets with a comment.
    pub(super) comments: u64,
}

impl Annotated {
    /// A new file; an existing one is an error, or overwritten.
    pub(super) fn create(path: &Path, overwrites: bool) -> Result<Self, Failure> {
        let file = SavedFile::create_now(path, overwrites)?;
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

    /// Writes a packet of the file with this number; `seen` is what the packet is in its stream.
    pub(super) fn add(
        &mut self,
        file: usize,
        captured: &Packet<'_>,
        seen: Option<CollectedSegment>,
    ) -> Result<(), Failure> {
        let key = (file, captured.interface, captured.link);
        let number = match self.interfaces.iter().position(|known| *known == key) {
            Some(number) => number,
            None => {
                interface(
                    &mut self.block,
                    &Description { link: captured.link, ..Default::default() },
                );
                self.interfaces.push(key);
                self.interfaces.len() - 1
            }
        };
        let comments: Vec<String> = seen
            .map(|seen| comments::of_packet(seen.event.kind, seen.event.stall.as_ref()))
            .unwrap_or_default()
            .iter()
            .map(|comment| format!("netwhy: {comment}"))
            .collect();
        self.comments += u64::from(!comments.is_empty());
        let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
        let record = Record {
            interface: number as u32,
            time_ns: captured.time_ns.unwrap_or(0),
            bytes: captured.bytes,
            length: captured.length,
            flags: Flags::NONE,
            drops: captured.drops,
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

    /// Writes what is buffered; returns the number of packets with a comment.
    pub(super) fn finish(mut self) -> Result<u64, Failure> {
        self.file.flush().map_err(|error| failed(&self.path, &error))?;
        Ok(self.comments)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Observe(format!("cannot write the annotated capture {}: {error}", path.display()))
}
