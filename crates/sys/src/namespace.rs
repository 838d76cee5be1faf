//! Namespaces: entering those of others, by the name `ip netns` gave them or by a process in them,
//! and making a host of one's own out of them.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags, move_into_link_name_space,
    move_into_thread_name_spaces, unshare_unsafe,
};

use crate::error::{Error, ErrorKind, Result};

/// Where `ip netns` keeps names.
const NETNS_FOLDER: &str = "/run/netns";

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
        .ok_or_else(|| Error::new(tried, name_or_pid, missing(name_or_pid), ErrorKind::NotFound))?;
    let told = |errno| {
        let mut error = Error::from_errno(tried, name_or_pid, errno);
        if error.kind == ErrorKind::PermissionDenied {
            error.reason.push_str("; run as root (sudo netwhy)");
        }
        error
    };
    let file =
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(told)?;
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
        .map_err(told)
}

/// Makes the calling thread the first of a host of its own: network, mounts, process ids and host
/// name are no longer shared. Programs that it starts from now on belong to that host; the first
/// of them is its process 1, and when that ends, all others of the host are killed. The thread
/// itself keeps its process id, and can start no other threads.
///
/// # Errors
///
/// No right to do so, or a kernel without these namespaces.
pub fn isolate(host_name: &str) -> Result<()> {
    let tried = "make namespaces for the host";
    let told = |errno| {
        let mut error = Error::from_errno(tried, host_name, errno);
        if error.kind == ErrorKind::PermissionDenied {
            error.reason.push_str("; this needs root (sudo netwhy)");
        }
        error
    };
    let new = UnshareFlags::NEWNET
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWUTS
        | UnshareFlags::FS;
    #[allow(unsafe_code)]
    // SAFETY: file descriptors stay shared (no CLONE_FILES), which is what unshare could break.
    unsafe { unshare_unsafe(new) }.map_err(told)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(told)?;
    rustix::system::sethostname(host_name.as_bytes()).map_err(told)
}

/// Makes the calling thread's network namespace a new, empty one.
///
/// # Errors
///
/// No right to do so.
pub fn isolate_network() -> Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: as above, file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| Error::from_errno("make a network namespace for", "this thread", errno))
}

/// Moves the calling thread into all namespaces of a process that [`isolate`] made the first of a
/// host: programs that it starts from now on are of that host.
///
/// # Errors
///
/// No such process, no right.
pub fn join(pid: u32) -> Result<()> {
    let told = |errno| Error::from_errno("enter the namespaces of process", pid.to_string(), errno);
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let process = number.ok_or(rustix::io::Errno::SRCH).map_err(told)?;
    let handle =
        rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).map_err(told)?;
    // The folder and root of a thread must be its own before it changes mounts.
    #[allow(unsafe_code)]
    // SAFETY: as above, file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }.map_err(told)?;
    let all = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    move_into_thread_name_spaces(std::os::fd::AsFd::as_fd(&handle), all).map_err(told)
}

/// The file of a namespace. A name wins over a process id, as with `ip netns`.
fn find(name_or_pid: &str) -> Option<PathBuf> {
    let plain = !name_or_pid.is_empty()
        && !name_or_pid.contains('/')
        && name_or_pid != "."
        && name_or_pid != "..";
    let name = Path::new(NETNS_FOLDER).join(name_or_pid);
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
    let mut names: Vec<String> = std::fs::read_dir(NETNS_FOLDER)
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
