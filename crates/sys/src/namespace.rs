//! Namespaces: entering existing ones, by the name that `ip netns` gave them or by a process in them,
//! and making new ones for a host of the lab.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags, move_into_link_name_space,
    move_into_thread_name_spaces, unshare_unsafe,
};

use crate::error::{Error, ErrorKind, Result};

/// Where `ip netns` keeps the names of network namespaces.
const NETNS_FOLDER: &str = "/run/netns";

/// Moves the calling thread into a network namespace. Threads that it starts later inherit the
/// namespace, those that run already do not: call this first.
///
/// `/proc/net` of the process remains that of its first thread; `/proc/thread-self/net` and
/// `/proc/sys/net` follow the calling thread.
///
/// # Errors
///
/// No such namespace (the error lists those that exist), no such process, no right to enter it.
pub fn enter(name_or_pid: &str) -> Result<()> {
    let action = "enter the network namespace";
    let path = find(name_or_pid).ok_or_else(|| {
        Error::new(action, name_or_pid, missing(name_or_pid), ErrorKind::NotFound)
    })?;
    let failed = |errno| {
        let mut error = Error::from_errno(action, name_or_pid, errno);
        if error.kind == ErrorKind::PermissionDenied {
            error.reason.push_str("; run as root (sudo netwhy)");
        }
        error
    };
    let file =
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
        .map_err(failed)
}

/// Makes a new host out of the calling thread: its network, mounts, process ids and host name are no
/// longer shared. Programs that it starts from now on belong to that host; the first of them is its
/// process 1, and when that ends the kernel kills all others of the host. The thread itself keeps its
/// process id, and cannot start other threads.
///
/// # Errors
///
/// No right to make namespaces, or a kernel without them.
pub fn isolate(host_name: &str) -> Result<()> {
    let action = "make namespaces for the host";
    let failed = |errno| {
        let mut error = Error::from_errno(action, host_name, errno);
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
    unsafe { unshare_unsafe(new) }.map_err(failed)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(failed)?;
    rustix::system::sethostname(host_name.as_bytes()).map_err(failed)
}

/// Moves the calling thread into a new, empty network namespace.
///
/// # Errors
///
/// No right to make namespaces.
pub fn isolate_network() -> Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: as above, file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| Error::from_errno("make a network namespace for", "this thread", errno))
}

/// Moves the calling thread into all namespaces of the process 1 of a host that [`isolate`] made:
/// programs that it starts from now on belong to that host.
///
/// # Errors
///
/// No such process, no right.
pub fn join(pid: u32) -> Result<()> {
    let failed =
        |errno| Error::from_errno("enter the namespaces of process", pid.to_string(), errno);
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let process = number.ok_or(rustix::io::Errno::SRCH).map_err(failed)?;
    let handle = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
        .map_err(failed)?;
    // A thread must not share its working directory and root when it changes mounts.
    #[allow(unsafe_code)]
    // SAFETY: as above, file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }.map_err(failed)?;
    let all = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    move_into_thread_name_spaces(std::os::fd::AsFd::as_fd(&handle), all).map_err(failed)
}

/// The file of a namespace. A name takes precedence over a process id, as with `ip netns`.
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
    // The link itself may not be readable without rights: opening it gives that error.
    Path::new(&format!("/proc/{pid}")).exists().then_some(process)
}

fn missing(name_or_pid: &str) -> String {
    if name_or_pid.parse::<u32>().is_ok() {
        return "no namespace has that name, and no process has that id".into();
    }
    let names = names();
    if names.is_empty() {
        "no namespace has that name, nor any other (ip netns list)".into()
    } else {
        format!("no namespace has that name; these exist: {}", names.join(", "))
    }
}

/// The names that `ip netns` gave to network namespaces.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(NETNS_FOLDER).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
