//! The processes that hold sockets.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sys::Machine as _;
use sys::real::RealMachine;
use text::sanitize;

use crate::output;

/// The owner of each socket by the socket's inode: `name(pid)`, or `name(pid)+2` if two more processes
/// hold it.
pub(super) type Owners = HashMap<u32, String>;

/// The owners of the sockets of the processes that are selected.
pub(super) fn owners(
    machine: &RealMachine,
    is_selected: impl Fn(u32) -> bool,
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
        if !is_selected(pid) {
            continue;
        }
        let mut has_sockets = false;
        let read = machine.files().sockets_of(pid, &mut |inode| {
            has_sockets = true;
            by_inode.entry(inode).and_modify(|(_, more)| *more += 1).or_insert((pid, 0));
            ControlFlow::Continue(())
        });
        match read {
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => denied += 1,
            _ if has_sockets => {
                let mut name = Vec::new();
                let path = format!("/proc/{pid}/comm");
                // The process may have ended: then only its id is known.
                let _ = machine.files().read(std::path::Path::new(&path), &mut name);
                names.insert(
                    pid,
                    sanitize::line(String::from_utf8_lossy(&name).trim_end()).into_owned(),
                );
            }
            _ => {}
        }
    }
    if denied > 0 {
        let processes = text::count(denied, "process");
        output::note(&format!(
            "netwhy: cannot read the open files of {processes}: their sockets are shown without a \
             process; run as root"
        ));
    }
    let name = |(pid, more): (u32, u32)| {
        let name = names.get(&pid).map_or("?", String::as_str);
        if more == 0 { format!("{name}({pid})") } else { format!("{name}({pid})+{more}") }
    };
    Ok(by_inode.into_iter().map(|(inode, owner)| (inode, name(owner))).collect())
}
