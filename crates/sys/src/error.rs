//! Errors of the machine: what was tried, on what, what happened.

/// Result of asking the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// The machine said no.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {action} {object}: {reason}")]
pub struct Error {
    /// What was tried: `read`, `list`, `ask netlink for`.
    pub action: &'static str,
    /// On what: a path, a netlink protocol.
    pub object: String,
    /// What happened, in words.
    pub reason: String,
    /// What kind of no it was.
    pub kind: ErrorKind,
}

/// What kind of no the machine said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It does not exist (ENOENT, ESRCH, ENOTDIR).
    NotFound,
    /// It needs more rights (EPERM, EACCES).
    PermissionDenied,
    /// This kernel cannot do it (ENOSYS, EOPNOTSUPP, EPROTONOSUPPORT, EINVAL of a new flag).
    Unsupported,
    /// It took too long.
    TimedOut,
    /// Anything else.
    Other,
}

impl Error {
    /// An error from the system's error number.
    pub fn from_errno(
        tried: &'static str,
        on: impl Into<String>,
        errno: rustix::io::Errno,
    ) -> Self {
        use rustix::io::Errno;
        let kind = match errno {
            Errno::NOENT | Errno::SRCH | Errno::NOTDIR => ErrorKind::NotFound,
            Errno::PERM | Errno::ACCESS => ErrorKind::PermissionDenied,
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => ErrorKind::Unsupported,
            Errno::TIMEDOUT => ErrorKind::TimedOut,
            _ => ErrorKind::Other,
        };
        let io = std::io::Error::from(errno).to_string();
        let what = io.split(" (os error").next().unwrap_or(&io).to_lowercase();
        Error { action: tried, object: on.into(), reason: what, kind }
    }

    /// An error from the number that the kernel put in an answer; positive. A number that no
    /// kernel gives is told as it is.
    pub fn from_kernel(tried: &'static str, on: impl Into<String>, number: i32) -> Self {
        // MAX_ERRNO of the kernel; rustix refuses others with a panic.
        if (1..4096).contains(&number) {
            Error::from_errno(tried, on, rustix::io::Errno::from_raw_os_error(number))
        } else {
            Error::new(tried, on, format!("error {number}"), ErrorKind::Other)
        }
    }

    /// An error in words.
    pub fn new(
        tried: &'static str,
        on: impl Into<String>,
        what: impl Into<String>,
        kind: ErrorKind,
    ) -> Self {
        Error { action: tried, object: on.into(), reason: what.into(), kind }
    }
}
