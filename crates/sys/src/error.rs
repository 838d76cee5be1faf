//! Errors of the machine: what was tried, on what, what happened.

/// Result of asking the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// The machine said no.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {tried} {on}: {what}")]
pub struct Error {
    /// What was tried: `read`, `list`, `ask netlink for`.
    pub tried: &'static str,
    /// On what: a path, a netlink protocol.
    pub on: String,
    /// What happened, in words.
    pub what: String,
    /// What kind of no it was.
    pub kind: Kind,
}

/// What kind of no the machine said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It does not exist (ENOENT, ESRCH, ENOTDIR).
    NotFound,
    /// It needs more rights (EPERM, EACCES).
    Permission,
    /// This kernel cannot do it (ENOSYS, EOPNOTSUPP, EPROTONOSUPPORT, EINVAL of a new flag).
    Unsupported,
    /// It took too long.
    Timeout,
    /// Anything else.
    Other,
}

impl Error {
    /// An error from the system's error number.
    pub fn os(tried: &'static str, on: impl Into<String>, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let kind = match errno {
            Errno::NOENT | Errno::SRCH | Errno::NOTDIR => Kind::NotFound,
            Errno::PERM | Errno::ACCESS => Kind::Permission,
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => Kind::Unsupported,
            Errno::TIMEDOUT => Kind::Timeout,
            _ => Kind::Other,
        };
        let io = std::io::Error::from(errno).to_string();
        let what = io.split(" (os error").next().unwrap_or(&io).to_lowercase();
        Error { tried, on: on.into(), what, kind }
    }

    /// An error from the number that the kernel put in an answer; positive. A number that no
    /// kernel gives is told as it is.
    pub fn kernel(tried: &'static str, on: impl Into<String>, number: i32) -> Self {
        // MAX_ERRNO of the kernel; rustix refuses others with a panic.
        if (1..4096).contains(&number) {
            Error::os(tried, on, rustix::io::Errno::from_raw_os_error(number))
        } else {
            Error::new(tried, on, format!("error {number}"), Kind::Other)
        }
    }

    /// An error in words.
    pub fn new(
        tried: &'static str,
        on: impl Into<String>,
        what: impl Into<String>,
        kind: Kind,
    ) -> Self {
        Error { tried, on: on.into(), what: what.into(), kind }
    }
}
