//! The rights of another process with regard to files, and taking them for a while.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};
use wire::proc_pid::{Credentials, credentials};

use crate::error::{Error, ErrorKind, Result};

/// Capabilities with which a thread reads what the permissions of a file deny.
const READ_ANYTHING: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::MAC_OVERRIDE);
/// Capabilities that a thread needs to take the ids of another user.
const CHANGE_IDS: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);
/// Set-user-ID and set-group-ID.
const SET_ID_BITS: u32 = 0o6000;
/// Longest `status` of a process: with 65,536 groups.
const MAX_STATUS_BYTES: usize = 1 << 20;

/// The rights of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) user: u32,
    group: u32,
    groups: Vec<u32>,
    /// Which of [`READ_ANYTHING`] it has itself.
    keeps: CapabilitySet,
}

impl Rights {
    /// The rights of the process whose folder in `/proc` is open.
    ///
    /// # Errors
    ///
    /// It has ended; or it runs a set-user-ID program, whose arguments are those of its caller, and does
    /// not say who that is.
    pub(super) fn of(process: BorrowedFd<'_>, found: Credentials) -> Result<Rights> {
        let Credentials { users, groups, supplementary_groups, capabilities, .. } = found;
        let [real_user, ..] = users;
        let [real_group, ..] = groups;
        let one_identity =
            users.iter().all(|id| *id == real_user) && groups.iter().all(|id| *id == real_group);
        let refused = |reason: &str| {
            let object = "the rights of the process";
            Err(Error::new("take", object, reason, ErrorKind::Other))
        };
        if real_user == 0 && !one_identity {
            return refused("its ids differ: it may act for another user");
        }
        if real_user == 0 && runs_set_id_program(process) {
            return refused("it runs a set-user-ID program: it may act for another user");
        }
        // The capabilities of another user namespace are none here.
        let full = real_user == 0 && is_in_this_user_namespace(process);
        let own = CapabilitySet::from_bits_truncate(capabilities);
        Ok(Rights {
            user: real_user,
            group: real_group,
            groups: supplementary_groups,
            keeps: if full { READ_ANYTHING.intersection(own) } else { CapabilitySet::empty() },
        })
    }

    /// Gives the calling thread these rights until the result is dropped. Where this process may not
    /// change its ids, the thread only gives up what permissions don't give it.
    ///
    /// # Errors
    ///
    /// The kernel refuses: an id does not exist in this user namespace.
    pub(super) fn assume(&self) -> Result<Assumed> {
        let failed =
            |errno| Error::from_errno("take", format!("the rights of user {}", self.user), errno);
        let before = capabilities(None).map_err(failed)?;
        let mut assumed = Assumed { before, ids: None };
        if before.effective.contains(CHANGE_IDS) {
            let groups = getgroups().map_err(failed)?;
            let wanted: Vec<Gid> = self.groups.iter().filter_map(|id| group(*id)).collect();
            if wanted.len() != self.groups.len() {
                return Err(failed(Errno::INVAL));
            }
            set_thread_groups(&wanted).map_err(failed)?;
            // From here on dropping restores.
            assumed.ids = Some((groups, set_fs_group(self.group), set_fs_user(self.user)));
            if current_fs_group() != self.group || current_fs_user() != self.user {
                return Err(failed(Errno::PERM));
            }
        }
        // The kernel takes them from a thread that is not root now, but not from root.
        let mut now = capabilities(None).map_err(failed)?;
        now.effective = now.effective.difference(READ_ANYTHING.difference(self.keeps));
        set_capabilities(None, now).map_err(failed)?;
        Ok(assumed)
    }
}

/// The rights of another process, held by this thread.
pub(super) struct Assumed {
    before: CapabilitySets,
    /// The groups and ids of before.
    ids: Option<(Vec<Gid>, u32, u32)>,
}

impl Drop for Assumed {
    fn drop(&mut self) {
        // What fails here leaves the thread with fewer rights; assuming some again then fails.
        if let Some((groups, group, user)) = &self.ids {
            set_fs_user(*user);
            set_fs_group(*group);
            let _ = set_thread_groups(groups);
        }
        let _ = set_capabilities(None, self.before);
    }
}

/// The credentials of the process whose folder in `/proc` is open.
///
/// # Errors
///
/// It has ended.
pub(super) fn credentials_of(process: BorrowedFd<'_>) -> Result<Credentials> {
    let failed = |errno| Error::from_errno("read", "the status of the process", errno);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let status = rustix::fs::openat(process, "status", flags, Mode::empty()).map_err(failed)?;
    let mut text = Vec::with_capacity(4096);
    while text.len() < MAX_STATUS_BYTES {
        text.reserve(4096);
        match rustix::io::read(&status, rustix::buffer::spare_capacity(&mut text)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    credentials(&text).map_err(|error| {
        let object = "the status of the process";
        Error::new("read", object, error.to_string(), ErrorKind::Other)
    })
}

/// Whether it runs a program that acts with other rights than those of its caller. If it cannot be
/// examined, it does.
fn runs_set_id_program(process: BorrowedFd<'_>) -> bool {
    rustix::fs::statat(process, "exe", AtFlags::empty())
        .map_or(true, |program| program.st_mode & SET_ID_BITS != 0)
}

fn is_in_this_user_namespace(process: BorrowedFd<'_>) -> bool {
    let theirs = rustix::fs::statat(process, "ns/user", AtFlags::empty());
    let ours = rustix::fs::stat("/proc/self/ns/user");
    matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs.st_ino == ours.st_ino)
}

fn group(id: u32) -> Option<Gid> {
    // The highest number stands for "no group".
    (id != u32::MAX).then(|| Gid::from_raw(id))
}

fn set_fs_user(id: u32) -> u32 {
    // SAFETY: only a number is passed. Of all threads only this one changes.
    #[allow(unsafe_code)]
    let before = unsafe { libc::setfsuid(id) };
    before.cast_unsigned()
}

fn set_fs_group(id: u32) -> u32 {
    // SAFETY: as above.
    #[allow(unsafe_code)]
    let before = unsafe { libc::setfsgid(id) };
    before.cast_unsigned()
}

/// The kernel changes nothing for an id that does not exist, and returns the present one.
fn current_fs_user() -> u32 {
    set_fs_user(u32::MAX)
}

fn current_fs_group() -> u32 {
    set_fs_group(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    fn of_own(change: impl FnOnce(&mut Credentials)) -> Result<Rights> {
        let own = rustix::fs::open("/proc/self", OFlags::PATH, Mode::empty()).unwrap();
        let mut credentials = credentials_of(own.as_fd()).unwrap();
        change(&mut credentials);
        Rights::of(own.as_fd(), credentials)
    }

    #[test]
    fn a_process_that_may_act_for_another_user_has_no_rights_of_root() {
        // As after exec of a set-user-ID program: the arguments are those of user 1000.
        let rights = of_own(|found| found.users = [1000, 0, 0, 0]).unwrap();
        assert_eq!((rights.user, rights.keeps), (1000, CapabilitySet::empty()));
        for users in [[0, 1000, 0, 0], [0, 0, 1000, 0], [0, 0, 0, 1000]] {
            let refused = of_own(|found| found.users = users).unwrap_err();
            assert!(refused.reason.contains("its ids differ"), "{refused}");
        }
        let refused = of_own(|found| (found.users, found.groups) = ([0; 4], [0, 0, 5, 0]));
        assert!(refused.is_err());
    }

    #[test]
    fn rights_are_taken_and_given_back() {
        if !test_support::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "root only").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode;
        std::fs::set_permissions(folder.path(), mode(0o755)).unwrap();
        std::fs::set_permissions(&secret, mode(0o640)).unwrap();
        std::os::unix::fs::chown(&secret, None, Some(4321)).unwrap();
        let readable = |rights: &Rights| {
            let assumed = rights.assume().unwrap();
            let found = std::fs::read(&secret).is_ok();
            drop(assumed);
            found
        };
        let user = |groups: &[u32], keeps| Rights {
            user: 1000,
            group: 1000,
            groups: groups.to_vec(),
            keeps,
        };
        let none = CapabilitySet::empty();
        let before = (capabilities(None).unwrap(), getgroups().unwrap());
        assert!(!readable(&user(&[4320], none)), "as another user");
        assert!(readable(&user(&[4321, 4320], none)), "as a member of its group");
        // Root of a container may have lost its capabilities.
        std::os::unix::fs::chown(&secret, Some(1000), None).unwrap();
        let root = |keeps| Rights { user: 0, group: 0, groups: Vec::new(), keeps };
        assert!(!readable(&root(none)));
        assert!(readable(&root(READ_ANYTHING)));
        let after = (capabilities(None).unwrap(), getgroups().unwrap());
        assert_eq!((before.0.effective, before.1), (after.0.effective, after.1));
        assert_eq!((current_fs_user(), current_fs_group()), (0, 0));
        assert!(std::fs::read(&secret).is_ok(), "root again");
    }
}
