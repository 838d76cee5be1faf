//! Which process holds a socket.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sys::Machine as _;
use sys::real::RealMachine;

use crate::output;

/// Names of processes by inode of a socket.
pub(super) type Owners = HashMap<u32, String>;

/// Who holds which socket: `name(pid)`, of several processes the first and how many more.
pub(super) fn owners(
    machine: &RealMachine,
    wanted: impl Fn(u32) -> bool,
) -> anyhow::Result<Owners> {
    let mut pids = Vec::new();
    machine.files().list(std::path::Path::new("/proc"), &mut |name| {
        if let Ok(pid) = name.parse::<u32>() {
            pids.push(pid);
        }
    })?;
    pids.sort_unstable();
    let mut by_inode: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut denied = 0;
    for pid in pids {
        if !wanted(pid) {
            continue;
        }
        let mut any = false;
        let read = machine.files().sockets_of(pid, &mut |inode| {
            any = true;
            by_inode.entry(inode).and_modify(|(_, more)| *more += 1).or_insert((pid, 0));
            ControlFlow::Continue(())
        });
        match read {
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => denied += 1,
            _ if any => {
                let mut name = Vec::new();
                let path = format!("/proc/{pid}/comm");
                // It may have ended since: then it is known by its id alone.
                let _ = machine.files().read(std::path::Path::new(&path), &mut name);
                names.insert(pid, output::harmless(String::from_utf8_lossy(&name).trim_end()));
            }
            _ => {}
        }
    }
    if denied > 0 {
        eprintln!(
            "netwhy: the open files of {denied} processes cannot be read: their sockets stay \
             without a name; run as root"
        );
    }
    let name = |(pid, more): (u32, u32)| {
        let name = names.get(&pid).map_or("?", String::as_str);
        if more == 0 { format!("{name}({pid})") } else { format!("{name}({pid})+{more}") }
    };
    Ok(by_inode.into_iter().map(|(inode, holder)| (inode, name(holder))).collect())
}
