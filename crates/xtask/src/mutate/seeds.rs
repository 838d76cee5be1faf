//! The files that are changed: inputs that the fuzzers found, the recorded host, shared captures.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use model::{Evidence, Focus, Packets};
use observe::Window;
use sys::replay::RecordedMachine;

use super::case;
use super::kind::Kind;
use crate::repository;

/// Most bytes of a capture that are taken: more packets make it slower, not worse.
const MAX_CAPTURE_BYTES: usize = 32 << 10;
/// Most streams and most bytes of evidence from a capture.
const MAX_STREAMS: u64 = 16;
const MAX_EVIDENCE_BYTES: usize = 256 << 10;

/// The seeds of a kind, in the order of their names.
pub(super) fn all(kind: Kind) -> anyhow::Result<Vec<Vec<u8>>> {
    let root = repository::root()?;
    let fixtures = root.join("fuzz/fixtures");
    let mut captures = Vec::new();
    for folder in ["capture", "capture_file", "collector"] {
        read_all(&fixtures.join(folder), &mut captures)?;
    }
    let shared = std::env::var_os("NETWHY_CAPTURES")
        .map_or_else(|| root.join("../shared/captures"), PathBuf::from);
    read_all(&shared, &mut captures)?;
    captures.retain(|bytes| !bytes.is_empty());
    let seeds = match kind {
        Kind::Capture => captures,
        Kind::Evidence => {
            let mut seeds = Vec::new();
            read_all(&fixtures.join("evidence"), &mut seeds)?;
            seeds.push(of_recorded_host(&root.join("crates/observe/fixtures/host"))?);
            for capture in &captures {
                seeds.extend(of_capture(capture)?);
            }
            seeds
        }
    };
    anyhow::ensure!(!seeds.is_empty(), "there is nothing to mutate in {}", fixtures.display());
    Ok(seeds)
}

fn read_all(folder: &Path, seeds: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_all(&path, seeds)?;
            continue;
        }
        let mut bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        bytes.truncate(MAX_CAPTURE_BYTES);
        seeds.push(bytes);
    }
    Ok(())
}

/// The evidence of a window on the recorded host.
fn of_recorded_host(folder: &Path) -> anyhow::Result<Vec<u8>> {
    let machine = RecordedMachine::open(folder)?;
    let mut window = Window::begin(&machine, &Focus::default(), None);
    while window.elapsed() < Duration::from_millis(600) {
        window.step();
    }
    Ok(serde_json::to_vec(&window.end(false))?)
}

/// The evidence of a capture, if it is small.
fn of_capture(capture: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(evidence) = case::evidence_of(capture.to_vec()) else { return Ok(None) };
    let is_small = |packets: &Packets| packets.packets > 0 && packets.streams <= MAX_STREAMS;
    if !evidence.packets.as_ref().is_some_and(is_small) {
        return Ok(None);
    }
    let json = serde_json::to_vec::<Evidence>(&evidence)?;
    Ok((json.len() <= MAX_EVIDENCE_BYTES).then_some(json))
}
