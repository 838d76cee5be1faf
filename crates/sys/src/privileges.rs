//! Dropping root once everything that needs it is open.

use std::ffi::c_int;

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Error, ErrorKind, Result};

/// The list of users and their ids.
const PASSWD: &str = "/etc/passwd";
/// The id of `nobody` and its group where the list of users has none (the default of
/// `/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;

/// A user of this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub id: u32,
    /// Group id.
    pub group: u32,
    /// Name.
    pub name: String,
    /// Whether a person ran sudo as this user; otherwise it is `nobody`.
    pub is_person: bool,
}

/// The user that root should become: the one who ran sudo, or `nobody`. `None`: this is not root.
pub fn unprivileged_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let variable = |name| std::env::var(name).ok();
    let users = std::fs::read_to_string(PASSWD).unwrap_or_default();
    let (id, group, name) = (variable("SUDO_UID"), variable("SUDO_GID"), variable("SUDO_USER"));
    Some(choose(&users, id.as_deref(), group.as_deref(), name.as_deref()))
}

/// The user in sudo's variables, or `nobody` as the list of users has it.
fn choose(users: &str, id: Option<&str>, group: Option<&str>, name: Option<&str>) -> User {
    // Not root; and to the kernel the highest number means "no change".
    let unprivileged =
        |text: &str| text.parse::<u32>().ok().filter(|id| *id != 0 && *id != u32::MAX);
    if let (Some(id), Some(group)) = (id.and_then(unprivileged), group.and_then(unprivileged)) {
        let name = name.map_or_else(|| id.to_string(), str::to_string);
        return User { id, group, name, is_person: true };
    }
    let nobody = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let mut numbers = (fields.next()? == "nobody").then(|| fields.skip(1))?;
        Some((unprivileged(numbers.next()?)?, unprivileged(numbers.next()?)?))
    });
    let (id, group) = nobody.unwrap_or((NOBODY, NOBODY));
    User { id, group, name: "nobody".to_string(), is_person: false }
}

/// Makes this process and all its threads run as a user, for good: with no groups but the user's own,
/// no capabilities, and no way back through programs that it starts.
///
/// # Errors
///
/// The kernel refuses (the user does not exist in this user namespace), or root could be regained.
pub fn become_user(user: &User) -> Result<()> {
    let action = "become the user";
    let failed = |errno| {
        let object = format!("{} ({})", user.name, user.id);
        let mut error = Error::from_errno(action, object, errno);
        error.reason.push_str("; --keep-root stays root");
        error
    };
    // In this order: without the rights of root the groups could no longer be changed.
    let (id, group) = (user.id, user.group);
    // SAFETY: one group is passed, and one is read.
    #[allow(unsafe_code)]
    check(unsafe { libc::setgroups(1, &raw const group) }).map_err(failed)?;
    // SAFETY: only numbers are passed. The C library does it for all threads.
    #[allow(unsafe_code)]
    check(unsafe { libc::setresgid(group, group, group) }).map_err(failed)?;
    // SAFETY: as above.
    #[allow(unsafe_code)]
    check(unsafe { libc::setresuid(id, id, id) }).map_err(failed)?;
    drop_capabilities()?;
    // SAFETY: only a number is passed.
    #[allow(unsafe_code)]
    let back = unsafe { libc::setuid(0) } == 0;
    if back || geteuid().as_raw() != id || getegid().as_raw() != group {
        let reason = "the rights of root could be regained";
        return Err(Error::new(action, &user.name, reason, ErrorKind::Other));
    }
    Ok(())
}

/// Drops all capabilities of the calling thread, for good.
///
/// # Errors
///
/// The kernel refuses, which no kernel does.
pub fn drop_capabilities() -> Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
        .and_then(|()| rustix::thread::set_no_new_privs(true))
        .map_err(|errno| Error::from_errno("drop", "capabilities", errno))
}

fn check(returned: c_int) -> rustix::io::Result<()> {
    if returned == 0 {
        return Ok(());
    }
    let number = std::io::Error::last_os_error().raw_os_error();
    Err(number.map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_becomes_the_user_of_sudo_or_nobody() {
        let users = "root:x:0:0::/:/bin/sh\nnobody:x:99:98:Nobody:/:/bin/false\n";
        let user = |id, group, name| {
            let user = choose(users, id, group, name);
            (user.id, user.group, user.name, user.is_person)
        };
        let ann = (1000, 1001, "ann".to_string(), true);
        assert_eq!(user(Some("1000"), Some("1001"), Some("ann")), ann);
        let nobody = (99, 98, "nobody".to_string(), false);
        for bad in ["0", "4294967295", "-1", "", "x", "1000000000000"] {
            assert_eq!(user(Some(bad), Some("1001"), Some("ann")), nobody, "{bad}");
            assert_eq!(user(Some("1000"), Some(bad), Some("ann")), nobody, "{bad}");
        }
        assert_eq!(user(None, None, None), nobody);
        assert_eq!(choose("nobody:x:0:0\n", None, None, None).id, NOBODY);
    }
}
