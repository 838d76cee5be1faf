//! Errors of the machine: what was tried, on what, and why it failed.

/// Result of asking the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// A request to the machine failed: `cannot read /dev/kmsg: permission denied`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {action} {object}: {reason}")]
pub struct Error {
    /// What was tried: `read`, `list`, `capture on`.
    pub action: &'static str,
    /// On what: a path, a netlink protocol.
    pub object: String,
    /// Why it failed, and what to do about it where that is known.
    pub reason: String,
    /// The same reason for code.
    pub kind: ErrorKind,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It does not exist (ENOENT, ESRCH, ENOTDIR).
    NotFound,
    /// It needs more rights (EPERM, EACCES).
    PermissionDenied,
    /// This kernel cannot do it (ENOSYS, EOPNOTSUPP, EPROTONOSUPPORT).
    Unsupported,
    /// It took too long (ETIMEDOUT, or no answer at all).
    TimedOut,
    /// Anything else.
    Other,
}

impl Error {
    /// An error from the system's error number.
    pub fn from_errno(
        action: &'static str,
        object: impl Into<String>,
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
        let reason = io.split(" (os error").next().unwrap_or(&io).to_lowercase();
        Error { action, object: object.into(), reason, kind }
    }

    /// An error from an input or output of the standard library.
    pub fn from_io(
        action: &'static str,
        object: impl Into<String>,
        error: &std::io::Error,
    ) -> Self {
        match rustix::io::Errno::from_io_error(error) {
            Some(errno) => Error::from_errno(action, object, errno),
            None => Error::new(action, object, error.to_string().to_lowercase(), ErrorKind::Other),
        }
    }

    /// An error from the number in a netlink answer, which is positive here. A number that no kernel
    /// uses is printed as it is.
    pub fn from_kernel(action: &'static str, object: impl Into<String>, number: i32) -> Self {
        // MAX_ERRNO of the kernel; rustix panics on others.
        if (1..4096).contains(&number) {
            Error::from_errno(action, object, rustix::io::Errno::from_raw_os_error(number))
        } else {
            Error::new(action, object, format!("error {number}"), ErrorKind::Other)
        }
    }

    /// An error with a reason in words.
    pub fn new(
        action: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
        kind: ErrorKind,
    ) -> Self {
        Error { action, object: object.into(), reason: reason.into(), kind }
    }
}
