//! Entering a network namespace, by the name `ip netns` gave it or by a process in it.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Kind, Result};

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// Moves the calling thread into a network namespace. Threads started later inherit it, those
/// that run already do not: call it first.
///
/// `/proc/net` of the process stays that of its first thread; `/proc/thread-self/net` and
/// `/proc/sys/net` follow.
///
/// # Errors
///
/// No such namespace (with those there are), no such process, no right to enter it.
pub fn enter(name_or_pid: &str) -> Result<()> {
    let tried = "enter the network namespace";
    let path = find(name_or_pid)
        .ok_or_else(|| Error::new(tried, name_or_pid, missing(name_or_pid), Kind::NotFound))?;
    let told = |errno| {
        let mut error = Error::os(tried, name_or_pid, errno);
        if error.kind == Kind::Permission {
            error.what.push_str("; run as root (sudo netwhy)");
        }
        error
    };
    let file =
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(told)?;
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
        .map_err(told)
}

/// The file of a namespace. A name wins over a process id, as with `ip netns`.
fn find(name_or_pid: &str) -> Option<PathBuf> {
    let plain = !name_or_pid.is_empty()
        && !name_or_pid.contains('/')
        && name_or_pid != "."
        && name_or_pid != "..";
    let name = Path::new(NAMES).join(name_or_pid);
    if plain && name.exists() {
        return Some(name);
    }
    let pid: u32 = name_or_pid.parse().ok()?;
    let process = PathBuf::from(format!("/proc/{pid}/ns/net"));
    // The link itself may be unreadable for want of rights: opening it says so.
    Path::new(&format!("/proc/{pid}")).exists().then_some(process)
}

fn missing(asked: &str) -> String {
    if asked.parse::<u32>().is_ok() {
        return "there is neither a namespace of that name nor a process with that id".into();
    }
    let mut names: Vec<String> = std::fs::read_dir(NAMES)
        .map(|entries| {
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    names.sort();
    if names.is_empty() {
        "there is none of that name, and none at all (ip netns list)".into()
    } else {
        format!("there is none of that name; there are: {}", names.join(", "))
    }
}
