//! A CPU quota for a program: a cgroup (v1 or v2), removed when the program is gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Period of the quota, microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Smallest quota that the kernel accepts, microseconds.
const MIN_QUOTA_US: u64 = 1_000;

/// A cgroup of the lab; dropping it removes it.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup whose processes may use this share of one CPU.
    pub(crate) fn new(name: &str, share: f64) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let (root, version) = controller(&mounts).ok_or_else(|| {
            Error::new(format!("cannot limit the CPU of {name}: no cgroup with a cpu controller"))
        })?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{PREFIX}{}-{number}-{name}", std::process::id()));
        let failed = |path: &Path, error: std::io::Error| {
            let path = path.display();
            Error::new(format!("cannot limit the CPU of {name}: {path}: {error}"))
        };
        let write = |file: PathBuf, text: String| {
            std::fs::write(&file, text).map_err(|error| failed(&file, error))
        };
        if version == 2 {
            write(root.join("cgroup.subtree_control"), "+cpu".to_string())?;
        }
        std::fs::create_dir(&path).map_err(|error| failed(&path, error))?;
        let group = Cgroup(path);
        let quota = ((share * PERIOD_US as f64) as u64).max(MIN_QUOTA_US);
        if version == 2 {
            write(group.0.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
        } else {
            write(group.0.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            write(group.0.join("cpu.cfs_quota_us"), quota.to_string())?;
        }
        Ok(group)
    }

    /// A shell command that moves the shell into the cgroup.
    pub(crate) fn enter(&self) -> String {
        // 0 is the writing process, in any PID namespace.
        format!("echo 0 > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

const PREFIX: &str = "netwhy-lab-";

/// Removes a cgroup; its processes may take a moment to be gone.
fn remove(path: &Path) {
    for _ in 0..50 {
        if std::fs::remove_dir(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Removes cgroups of labs that are gone.
pub(crate) fn sweep(is_gone: &dyn Fn(u32) -> bool) {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let Some((root, _)) = controller(&mounts) else { return };
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if owner.is_some_and(is_gone) {
            remove(&entry.path());
        }
    }
}

/// Where the cpu controller is mounted, and the version of cgroups; v1 where both have it.
fn controller(mounts: &str) -> Option<(PathBuf, u8)> {
    let find = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (place, this, options) = (words.next()?, words.next()?, words.next()?);
            let has = option.is_none_or(|option| options.split(',').any(|o| o == option));
            (this == kind && has).then(|| PathBuf::from(place))
        })
    };
    find("cgroup", Some("cpu")).map(|root| (root, 1)).or_else(|| Some((find("cgroup2", None)?, 2)))
}

#[cfg(test)]
mod tests {
    use super::controller;

    #[test]
    fn the_cpu_controller_is_found() {
        let old = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup \
                   rw,cpuset 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                   cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(controller(old).unwrap(), ("/sys/fs/cgroup/cpu".into(), 1));
        let new = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(controller(new).unwrap(), ("/sys/fs/cgroup".into(), 2));
        assert!(controller("").is_none());
    }
}
