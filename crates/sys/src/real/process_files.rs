//! Files that a process of this machine names.
//!
//! A name is resolved inside the process's root (`openat2` with `RESOLVE_IN_ROOT`, or its equal where
//! the kernel has none) with the process's rights, to a descriptor that only identifies the file
//! (`O_PATH`): nothing blocks on it, and nothing happens to a device. Only what is then known to be a
//! regular file, and none of the kernel's, is opened for reading.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pathrs::RootRef;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::bounded_calls::BoundedCalls;
use super::rights::{Rights, credentials_of};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{FileKind, FileName, OpenFile, Opened, ProcessFiles, Stat, descriptor_of};

/// Most links followed at the end of a path, as in the kernel (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Most names in a folder that is listed.
const MAX_NAMES: usize = 20_000;

/// File systems of the kernel's own state (`include/uapi/linux/magic.h`): a file there may block when it
/// is read, or do something.
const KERNEL_FILE_SYSTEMS: [u32; 21] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
    0x0765_5821, // resctrl
    0x1980_0202, // mqueue
    0x6e73_6673, // nsfs
    0x0904_1934, // anonymous inodes
    0x5049_4446, // pidfs
    0x6769_7061, // rpc_pipefs
];

/// The files of one process.
pub(super) struct RealProcessFiles {
    process: Arc<Process>,
    calls: Arc<BoundedCalls>,
}

struct Process {
    pid: u32,
    /// `/proc/PID`: it does not become another process that gets the same id.
    folder: OwnedFd,
    root: OwnedFd,
    rights: Rights,
}

impl RealProcessFiles {
    pub(super) fn of(calls: &Arc<BoundedCalls>, pid: u32) -> Result<Self> {
        let object = format!("process {pid}");
        let failed = |errno| Error::from_errno("examine", object.clone(), errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty()).map_err(failed)?;
        let credentials = credentials_of(folder.as_fd())?;
        let [user, ..] = credentials.users;
        let examine = move || {
            let nested = credentials.ids.len() != 1;
            let rights = Rights::of(folder.as_fd(), credentials)?;
            let root = open_root(folder.as_fd(), pid, nested)?;
            Ok(Process { pid, folder, root, rights })
        };
        let process = calls
            .call(user, examine)
            .map_err(|reason| Error::new("examine", object, reason, ErrorKind::TimedOut))??;
        Ok(RealProcessFiles { process: Arc::new(process), calls: Arc::clone(calls) })
    }

    fn call<T: Send + 'static>(
        &self,
        action: &'static str,
        object: String,
        call: impl FnOnce(&Process, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (process, name) = (Arc::clone(&self.process), object.clone());
        self.calls
            .call(self.process.rights.user, move || call(&process, &name))
            .map_err(|reason| Error::new(action, object, reason, ErrorKind::TimedOut))?
    }
}

impl ProcessFiles for RealProcessFiles {
    fn user(&self) -> u32 {
        self.process.rights.user
    }

    fn open(&self, name: &FileName) -> Result<Opened> {
        let (name, object) = (name.clone(), text_of(name));
        let opened = self.call("read", object.clone(), move |process, object| {
            process.open(&name).map_err(|errno| process.error("read", object, errno))
        })?;
        Ok(match opened {
            Found::File(file, stat) => Opened::File(Arc::new(RealOpenFile {
                file: Arc::new(file),
                stat,
                object,
                user: self.process.rights.user,
                calls: Arc::clone(&self.calls),
            })),
            Found::Other(kind) => Opened::Other(kind),
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.call("list", folder.to_string(), |process, folder| {
            let names =
                process.list(folder).map_err(|errno| process.error("list", folder, errno))?;
            names.ok_or_else(|| {
                let reason = format!("it has more than {MAX_NAMES} names");
                Error::new("list", folder, reason, ErrorKind::Other)
            })
        })
    }
}

enum Found {
    File(OwnedFd, Stat),
    Other(FileKind),
}

impl Process {
    fn open(&self, name: &FileName) -> rustix::io::Result<Found> {
        let handle = match name {
            FileName::Path(path) => match self.resolve(path)? {
                Resolved::Handle(handle) => handle,
                Resolved::Descriptor(number) => self.descriptor(number)?,
            },
            FileName::Descriptor(number) => self.descriptor(*number)?,
        };
        if let Some(kind) = kind_of(handle.as_fd())? {
            return Ok(Found::Other(kind));
        }
        // A lease of somebody else must not block either.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.reopen(handle.as_fd(), flags)?;
        let stat = stat_of(file.as_fd())?;
        Ok(Found::File(file, stat))
    }

    /// Up to [`MAX_NAMES`] names; `None` when there are more.
    fn list(&self, folder: &str) -> rustix::io::Result<Option<Vec<String>>> {
        let handle = {
            let _rights = self.rights()?;
            let root = RootRef::from_fd(self.root.as_fd());
            OwnedFd::from(root.resolve(folder).map_err(|error| errno_of(&error))?)
        };
        match kind_of(handle.as_fd())? {
            Some(FileKind::Folder) => {}
            _ => return Err(Errno::NOTDIR),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::new(self.reopen(handle.as_fd(), flags)?)? {
            let entry = entry?;
            // A name that is not UTF-8 is in no configuration that is understood.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                if names.len() == MAX_NAMES {
                    return Ok(None);
                }
                names.push(name.to_string());
            }
        }
        Ok(Some(names))
    }

    /// A file that it has open. Its link in `/proc` identifies the file whatever its name is now.
    fn descriptor(&self, number: u32) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, format!("fd/{number}"), flags, Mode::empty())
    }

    /// The file that a path names. The links at its end are followed one by one: one that leads to an
    /// open file of the process (`/dev/stderr`) is none that the kernel may follow for this process.
    fn resolve(&self, path: &str) -> rustix::io::Result<Resolved> {
        let _rights = self.rights()?;
        let root = RootRef::from_fd(self.root.as_fd());
        let mut path = path.to_string();
        for _ in 0..MAX_LINKS {
            if let Some(number) = descriptor_of(&path) {
                return Ok(Resolved::Descriptor(number));
            }
            let handle = root.resolve_nofollow(&path).map_err(|error| errno_of(&error))?;
            let handle = OwnedFd::from(handle);
            let stat = rustix::fs::fstat(&handle)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Ok(Resolved::Handle(handle));
            }
            let target = rustix::fs::readlinkat(&handle, "", Vec::new())?;
            let target = target.to_str().map_err(|_| Errno::ILSEQ)?;
            path = match path.trim_end_matches('/').rsplit_once('/') {
                _ if target.starts_with('/') => target.to_string(),
                Some((folder, _)) => format!("{folder}/{target}"),
                None => target.to_string(),
            };
        }
        Err(Errno::LOOP)
    }

    /// Opens what a handle identifies, with the rights of the process.
    fn reopen(&self, handle: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let _rights = self.rights()?;
        let path = format!("/proc/thread-self/fd/{}", handle.as_raw_fd());
        rustix::fs::open(path, flags, Mode::empty())
    }

    fn rights(&self) -> rustix::io::Result<super::rights::Assumed> {
        self.rights.assume().map_err(|_| Errno::PERM)
    }

    fn error(&self, action: &'static str, object: &str, errno: Errno) -> Error {
        let mut error = Error::from_errno(action, object, errno);
        match errno {
            Errno::LOOP | Errno::XDEV => {
                error.reason = "its links lead in a circle, or out of the process's root".into();
            }
            Errno::PERM | Errno::ACCESS if rustix::process::geteuid().is_root() => {
                // More rights for netwhy would not help: it has taken those of the process.
                error.reason = format!("user {} of process {} may not", self.rights.user, self.pid);
                error.kind = ErrorKind::Other;
            }
            _ => {}
        }
        error
    }
}

enum Resolved {
    Handle(OwnedFd),
    Descriptor(u32),
}

/// The root of a process; where it may not be followed, that of this process, which is the same unless
/// the process is in a container.
fn open_root(folder: BorrowedFd<'_>, pid: u32, nested: bool) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |errno| Error::from_errno("follow", format!("the root of process {pid}"), errno);
    match rustix::fs::openat(folder, "root", flags, Mode::empty()) {
        Ok(root) => Ok(root),
        Err(Errno::ACCESS | Errno::PERM) if !nested => {
            rustix::fs::open("/", flags, Mode::empty()).map_err(failed)
        }
        Err(errno) => Err(failed(errno)),
    }
}

/// What is not a regular file; `None`: it is one.
fn kind_of(handle: BorrowedFd<'_>) -> rustix::io::Result<Option<FileKind>> {
    let stat = rustix::fs::fstat(handle)?;
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let magic = rustix::fs::fstatfs(handle)?.f_type as u32;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Some(FileKind::Pipe),
        FileType::Socket => Some(FileKind::Socket),
        FileType::CharacterDevice if (major, minor) == (1, 3) => Some(FileKind::Null),
        // Documentation/admin-guide/devices.txt: virtual consoles, ttys, pseudo-terminals.
        FileType::CharacterDevice if matches!(major, 4 | 5 | 136..=143) => Some(FileKind::Terminal),
        FileType::CharacterDevice | FileType::BlockDevice => Some(FileKind::Device),
        _ if KERNEL_FILE_SYSTEMS.contains(&magic) => Some(FileKind::Kernel),
        FileType::Directory => Some(FileKind::Folder),
        FileType::RegularFile => None,
        _ => Some(FileKind::Kernel),
    })
}

fn stat_of(file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
    let stat = rustix::fs::fstat(file)?;
    Ok(Stat {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        inode: stat.st_ino,
        device: stat.st_dev,
        regular: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
    })
}

fn errno_of(error: &pathrs::error::Error) -> Errno {
    match error.kind() {
        pathrs::error::ErrorKind::OsError(Some(number @ 1..4096)) => {
            Errno::from_raw_os_error(number)
        }
        // It changed while it was resolved.
        _ => Errno::XDEV,
    }
}

fn text_of(name: &FileName) -> String {
    match name {
        FileName::Path(path) => path.clone(),
        FileName::Descriptor(number) => format!("open file {number}"),
    }
}

struct RealOpenFile {
    file: Arc<OwnedFd>,
    stat: Stat,
    object: String,
    user: u32,
    calls: Arc<BoundedCalls>,
}

impl OpenFile for RealOpenFile {
    fn stat(&self) -> Stat {
        self.stat
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (file, length) = (Arc::clone(&self.file), into.len());
        let read = move || {
            let mut bytes = vec![0; length];
            loop {
                match rustix::io::pread(&*file, &mut bytes[..], offset) {
                    Err(Errno::INTR) => {}
                    read => return read.map(|read| (bytes, read)),
                }
            }
        };
        let (bytes, read) = self
            .calls
            .call(self.user, read)
            .map_err(|reason| Error::new("read", &self.object, reason, ErrorKind::TimedOut))?
            .map_err(|errno| Error::from_errno("read", &self.object, errno))?;
        into.iter_mut().zip(bytes.iter().take(read)).for_each(|(to, byte)| *to = *byte);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use test_support::{Reason, skip};

    use super::*;

    /// A process that sees a folder as its root, with these rights.
    fn process(root: &Path, user: Option<u32>) -> RealProcessFiles {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let folder = open(Path::new("/proc/self"));
        let mut credentials = credentials_of(folder.as_fd()).unwrap();
        if let Some(user) = user {
            (credentials.users, credentials.groups) = ([user; 4], [user; 4]);
            credentials.supplementary_groups.clear();
        }
        let rights = Rights::of(folder.as_fd(), credentials).unwrap();
        let process = Process { pid: std::process::id(), folder, root: open(root), rights };
        RealProcessFiles { process: Arc::new(process), calls: Arc::default() }
    }

    fn read(files: &RealProcessFiles, path: &str) -> std::result::Result<String, String> {
        match files.open(&FileName::Path(path.to_string())) {
            Ok(Opened::File(file)) => {
                let mut bytes = vec![0; 100];
                let read = file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
                Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
            }
            Ok(Opened::Other(kind)) => Err(kind.name().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn no_path_leads_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("box");
        for folder in ["etc", "proc"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(outside.path().join("secret"), "outside").unwrap();
        std::fs::write(root.join("etc/conf"), "inside").unwrap();
        let whole = outside.path().join("secret");
        let links: [(&str, &Path); 7] = [
            ("absolute", &whole),
            ("up", Path::new("../../../../../secret")),
            ("etc/up", Path::new("../../secret")),
            ("magic", Path::new("/proc/self/root/etc/passwd")),
            ("folder", Path::new("..")),
            ("circle", Path::new("circle")),
            ("good", Path::new("/etc/link")),
        ];
        for (name, target) in links {
            symlink(target, root.join(name)).unwrap();
        }
        symlink("conf", root.join("etc/link")).unwrap();
        let files = process(&root, None);
        assert_eq!(read(&files, "/good").unwrap(), "inside");
        assert_eq!(read(&files, "/folder/../etc/../../etc/./conf").unwrap(), "inside");
        let whole = whole.to_str().unwrap();
        for path in
            ["absolute", "up", "etc/up", "magic", "folder/secret", "../secret", "circle", whole]
        {
            assert!(read(&files, path).unwrap_err().contains("cannot read"), "{path}");
        }
        assert_eq!(files.list("/folder").unwrap().len(), links.len() - 1 + 2);
        // With the kernel's own files inside, as in every container.
        let files = process(Path::new("/"), None);
        for path in ["/proc/self/root/etc/passwd", "/proc/self/cwd/Cargo.toml"] {
            let error = read(&files, path).unwrap_err();
            assert!(error.contains("out of the process's root"), "{error}");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o666)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let files = process(root.path(), None);
        assert_eq!(read(&files, "/pipe").unwrap_err(), "a pipe");
        assert_eq!(read(&files, "/socket").unwrap_err(), "a socket");
        assert_eq!(read(&files, "/").unwrap_err(), "a folder");
        assert_eq!(files.list("/pipe").unwrap_err().kind, ErrorKind::NotFound);
        let files = process(Path::new("/"), None);
        for (path, kind) in [
            ("/dev/null", "/dev/null"),
            ("/dev/zero", "a device"),
            ("/dev/ptmx", "a terminal"),
            ("/proc/kmsg", "a file of the kernel"),
            ("/proc/self/status", "a file of the kernel"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "a file of the kernel"),
        ] {
            assert_eq!(read(&files, path).unwrap_err(), kind, "{path}");
        }
        assert!(files.list("/proc/self/fd").is_err(), "a folder of the kernel");
    }

    #[test]
    fn a_pipe_put_in_the_place_of_a_file_blocks_nobody() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let (file, other) = (at("file"), at("other"));
        std::fs::write(&file, "text").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &other, Mode::from_raw_mode(0o666)).unwrap();
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let swaps = std::thread::spawn({
            let done = Arc::clone(&done);
            move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    let cwd = rustix::fs::CWD;
                    rustix::fs::renameat_with(cwd, &file, cwd, &other, exchange).unwrap();
                }
            }
        });
        let files = process(root.path(), None);
        for _ in 0..2000 {
            match read(&files, "/file") {
                Ok(text) => assert_eq!(text, "text"),
                Err(kind) => assert_eq!(kind, "a pipe"),
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        swaps.join().unwrap();
    }

    #[test]
    fn files_are_read_with_the_rights_of_the_process() {
        if !test_support::is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(root.path().join(name), permissions).unwrap();
        };
        mode("", 0o755);
        for (name, bits) in [("open", 0o644), ("secret", 0o600)] {
            std::fs::write(root.path().join(name), name).unwrap();
            mode(name, bits);
        }
        std::fs::create_dir(root.path().join("closed")).unwrap();
        mode("closed", 0o711);
        let (own, other) = (process(root.path(), None), process(root.path(), Some(4321)));
        assert_eq!(read(&own, "/secret").unwrap(), "secret");
        assert_eq!(read(&other, "/open").unwrap(), "open");
        let refused = read(&other, "/secret").unwrap_err();
        assert!(refused.contains("user 4321 of process"), "{refused}");
        assert_eq!(own.list("/closed").unwrap().len(), 0);
        assert!(other.list("/closed").is_err());
        // A file that is open for writing only, as standard error of a program that another user
        // started, is not read for that.
        let log = std::fs::File::options().append(true).open(root.path().join("secret")).unwrap();
        let descriptor = FileName::Descriptor(log.as_raw_fd().cast_unsigned());
        assert!(matches!(own.open(&descriptor), Ok(Opened::File(_))));
        assert!(other.open(&descriptor).is_err());
    }

    #[test]
    fn a_folder_with_very_many_names_is_not_listed() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..=MAX_NAMES {
            std::fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let files = process(root.path(), None);
        assert!(files.list("/").unwrap_err().reason.contains("more than 20000 names"));
        std::fs::remove_file(root.path().join("0")).unwrap();
        assert_eq!(files.list("/").unwrap().len(), MAX_NAMES);
    }

    /// A file system of a user's own, whose server never answers.
    #[test]
    fn a_file_system_that_never_answers_costs_a_second_at_most() {
        if !test_support::is_root() {
            return;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(server) = rustix::fs::open("/dev/fuse", flags, Mode::empty()) else {
            skip(&Reason::Kernel("has no /dev/fuse".to_string()));
            return;
        };
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().to_path_buf();
        // In a thread with mounts of its own, which go with it; its worker inherits them.
        let test = std::thread::spawn(move || {
            let mounts = rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS;
            // SAFETY: file descriptors stay shared.
            #[allow(unsafe_code)]
            unsafe { rustix::thread::unshare_unsafe(mounts) }.unwrap();
            use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            let options = format!(
                "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
                server.as_raw_fd()
            );
            let options = std::ffi::CString::new(options).unwrap();
            mount("test", &folder, "fuse", MountFlags::empty(), Some(&*options)).unwrap();
            let files = process(Path::new("/"), None);
            let began = Instant::now();
            let path = folder.join("nginx.conf").display().to_string();
            let errors: Vec<String> = (0..20).map(|_| read(&files, &path).unwrap_err()).collect();
            // Generous: three calls are waited for, a second each.
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
            assert!(errors[0].contains("no answer within 1 s"), "{}", errors[0]);
            assert!(errors[19].contains("files of user 0 took"), "{}", errors[19]);
            drop(server);
        });
        test.join().unwrap();
    }
}
