//! Sysctls: read, written, read back.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use sys::{Error, ErrorKind, Result};

/// Where the kernel has its sysctls.
const PROC_SYS: &str = "/proc/sys";

/// Writes sysctls.
///
/// Those under `net` are of the calling thread's network namespace, if they exist for each namespace.
#[derive(Debug, Clone)]
pub struct Sysctls {
    root: PathBuf,
}

/// A sysctl that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Name: `net.core.somaxconn`.
    pub name: String,
    /// Value before.
    pub before: String,
    /// Value after, as it was read back.
    pub after: String,
}

impl Sysctls {
    /// Those of this machine.
    pub fn of_this_machine() -> Self {
        Sysctls::in_folder(PROC_SYS)
    }

    /// Those in a folder that is laid out as `/proc/sys`.
    pub fn in_folder(root: impl Into<PathBuf>) -> Self {
        Sysctls { root: root.into() }
    }

    /// The value of a sysctl: its words, divided by single blanks.
    ///
    /// # Errors
    ///
    /// The name is not one of a sysctl, or the kernel has no such sysctl.
    pub fn get(&self, name: &str) -> Result<String> {
        self.read(name, &self.path("read the sysctl", name)?)
    }

    /// Sets a sysctl and reads it back. If the kernel has made something else of the value, as it does
    /// with numbers beyond a limit, the old value is restored.
    ///
    /// # Errors
    ///
    /// The name is not one of a sysctl, the kernel has no such sysctl or does not accept the value, no
    /// right to write it. The sysctl is then as it was, unless the error says that it is not.
    pub fn set(&self, name: &str, value: &str) -> Result<Changed> {
        let path = self.path("set the sysctl", name)?;
        let before = self.read(name, &path)?;
        let wanted = words(value);
        write(&path, &wanted).map_err(|error| set_error(name, &wanted, &error))?;
        let after = self.read(name, &path)?;
        if after == wanted {
            return Ok(Changed { name: name.to_string(), before, after });
        }
        let restored = write(&path, &before).is_ok() && self.read(name, &path)? == before;
        let now = if restored { "the old value is restored" } else { "and it cannot be restored" };
        let reason = format!("the kernel made it {after}; {now} ({before})");
        Err(Error::new("set the sysctl", target(name, &wanted), reason, ErrorKind::Other))
    }

    /// The file of a sysctl. As with sysctl(8), a `/` in a name is a dot in the name of a file:
    /// `net.ipv4.conf.eth0/100.rp_filter`.
    fn path(&self, action: &'static str, name: &str) -> Result<PathBuf> {
        let relative: PathBuf = name.split('.').map(|part| part.replace('/', ".")).collect();
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if name.split('.').any(str::is_empty) || !plain || name.contains('\0') {
            return Err(Error::new(action, name, "no sysctl has such a name", ErrorKind::NotFound));
        }
        Ok(self.root.join(relative))
    }

    fn read(&self, name: &str, path: &Path) -> Result<String> {
        let text = fs::read_to_string(path).map_err(|error| {
            let mut failed = Error::from_io("read the sysctl", name, &error);
            if failed.kind == ErrorKind::NotFound {
                failed.reason = "this kernel has no such sysctl".to_string();
                failed.kind = ErrorKind::Unsupported;
            }
            failed
        })?;
        Ok(words(&text))
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    // In one write, as the kernel parses each write for itself. Nothing is created.
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(format!("{value}\n").as_bytes())
}

/// A value's words, divided by single blanks: the kernel divides them by tabs.
fn words(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn target(name: &str, value: &str) -> String {
    format!("{name} to {value}")
}

fn set_error(name: &str, value: &str, error: &io::Error) -> Error {
    let mut failed = Error::from_io("set the sysctl", target(name, value), error);
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; /proc/sys is read-only here, as in most containers: set it on their host"
        }
        io::ErrorKind::InvalidInput => "; the kernel does not accept this value",
        _ => "",
    };
    failed.reason.push_str(hint);
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysctls) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let sysctls = Sysctls::in_folder(root.path());
        (root, sysctls)
    }

    #[test]
    fn a_value_is_set_and_read_back() {
        let (root, sysctls) = machine(&[
            ("net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("net/ipv4/conf/eth0.100/rp_filter", "1\n"),
        ]);
        let changed = sysctls.set("net.ipv4.tcp_rmem", "4096  131072 9000000").unwrap();
        assert_eq!(changed.before, "4096 131072 6291456");
        assert_eq!(changed.after, "4096 131072 9000000");
        assert_eq!(sysctls.get("net.ipv4.tcp_rmem").unwrap(), changed.after);
        let file = fs::read_to_string(root.path().join("net/ipv4/tcp_rmem")).unwrap();
        assert_eq!(file, "4096 131072 9000000\n");
        assert_eq!(sysctls.set("net.ipv4.conf.eth0/100.rp_filter", "0").unwrap().before, "1");
    }

    #[test]
    fn errors_name_what_was_tried() {
        let (root, sysctls) = machine(&[("net/core/somaxconn", "4096\n"), ("secret", "1\n")]);
        let message = |name: &str| sysctls.set(name, "1").unwrap_err().to_string();
        assert_eq!(
            message("net.core.none"),
            "cannot read the sysctl net.core.none: this kernel has no such sysctl"
        );
        for name in ["", ".", "net..core", "net.core.", "a\0b", "net.core.//"] {
            let error = sysctls.set(name, "1").unwrap_err();
            assert_eq!(error.reason, "no sysctl has such a name", "{name:?}");
        }
        for name in ["/", "//.secret", "net.//.secret", "net.core.//.//.//.secret"] {
            let error = sysctls.get(name).unwrap_err();
            assert_eq!(
                error.reason, "no sysctl has such a name",
                "{name:?} leads out of the folder"
            );
        }
        let folder = root.path().join("net/core");
        assert!(sysctls.set("net.core", "1").is_err(), "{} is a folder", folder.display());
    }

    #[test]
    fn a_value_that_the_kernel_changes_is_an_error() {
        let (root, sysctls) = machine(&[]);
        // Accepts every write and keeps none.
        std::os::unix::fs::symlink("/dev/null", root.path().join("limit")).unwrap();
        let error = sysctls.set("limit", "7").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot set the sysctl limit to 7: the kernel made it "),
            "{error}"
        );
        assert!(error.contains("the old value is restored"), "{error}");
    }

    #[test]
    fn the_kernel_is_changed_in_a_namespace_of_its_own() {
        if !test_support::is_root() {
            return;
        }
        let set = || {
            sys::namespace::isolate_network()?;
            let sysctls = Sysctls::of_this_machine();
            sysctls.set("net.ipv4.ip_local_port_range", "40000 40099")?;
            let refused = sysctls.set("net.ipv4.ip_local_port_range", "7 x").unwrap_err();
            sysctls.get("net.ipv4.ip_local_port_range").map(|value| (value, refused.to_string()))
        };
        // Only the thread enters the namespace.
        let (value, refused) = std::thread::spawn(set).join().unwrap().unwrap();
        assert_eq!(value, "40000 40099");
        assert!(refused.ends_with("the kernel does not accept this value"), "{refused}");
    }
}
