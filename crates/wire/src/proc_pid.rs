//! `/proc/PID`: stat, status, schedstat, limits, the command line.

use crate::netlink::Malformed;

/// Longest command line that is kept, bytes.
const MAX_COMMAND_BYTES: usize = 256;
/// Bytes of a command line in which URLs are searched.
const MAX_COMMAND_BYTES_READ: usize = 16 << 10;

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name; may contain blanks and parentheses.
    pub name: String,
    /// State letter.
    pub state: char,
    /// Parent's process id.
    pub parent: u32,
    /// User time of all threads, clock ticks.
    pub user_ticks: u64,
    /// System time of all threads, clock ticks.
    pub system_ticks: u64,
    /// Threads.
    pub threads: u32,
    /// Start, clock ticks since boot.
    pub started_ticks: u64,
}

/// Parses `/proc/PID/stat`.
///
/// # Errors
///
/// The text does not have that form.
pub fn stat(bytes: &[u8]) -> Result<Stat, Malformed> {
    parse_stat(bytes).ok_or(Malformed::new("/proc/PID/stat"))
}

fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The name ends at the last parenthesis: it may contain others.
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(bytes.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    // Fields as proc(5) numbers them, from 3 on.
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    let field = |number: usize| fields.get(number - 3);
    Some(Stat {
        name,
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        user_ticks: field(14)?.parse().ok()?,
        system_ticks: field(15)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        started_ticks: field(22)?.parse().ok()?,
    })
}

/// Whose rights a process has, from `/proc/PID/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User ids: real, effective, saved, of the file system.
    pub users: [u32; 4],
    /// Group ids, in the same order.
    pub groups: [u32; 4],
    /// Supplementary groups.
    pub supplementary_groups: Vec<u32>,
    /// The effective capabilities, as a bit mask.
    pub capabilities: u64,
    /// Its process ids, one for each PID namespace from the reader's down to its own.
    pub ids: Vec<u32>,
}

/// Parses the credentials in `/proc/PID/status`.
///
/// # Errors
///
/// A line of ids or capabilities is missing or has another form.
pub fn credentials(bytes: &[u8]) -> Result<Credentials, Malformed> {
    parse_credentials(bytes).ok_or(Malformed::new("/proc/PID/status"))
}

fn parse_credentials(bytes: &[u8]) -> Option<Credentials> {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let numbers = |name: &str| -> Option<Vec<u32>> {
        value(name)?.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    Some(Credentials {
        users: numbers("Uid")?.try_into().ok()?,
        groups: numbers("Gid")?.try_into().ok()?,
        supplementary_groups: numbers("Groups")?,
        capabilities: u64::from_str_radix(value("CapEff")?, 16).ok()?,
        ids: numbers("NSpid")?,
    })
}

/// Fields of `schedstat` of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// Time runnable and waiting for a CPU, nanoseconds.
    pub run_delay_ns: u64,
}

/// Parses `/proc/PID/schedstat`.
///
/// # Errors
///
/// The text does not have that form (a kernel without `CONFIG_SCHED_INFO` writes `0 0 0`).
pub fn schedstat(bytes: &[u8]) -> Result<SchedStat, Malformed> {
    let parse = || {
        let mut words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace();
        Some(SchedStat {
            cpu_ns: words.next()?.parse().ok()?,
            run_delay_ns: words.next()?.parse().ok()?,
        })
    };
    parse().ok_or(Malformed::new("/proc/PID/schedstat"))
}

/// Fields of `/proc/PID/limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Soft limit of open files; `None`: unlimited.
    pub open_files: Option<u64>,
}

/// Parses `/proc/PID/limits`.
///
/// # Errors
///
/// The limit of open files is missing.
pub fn limits(bytes: &[u8]) -> Result<Limits, Malformed> {
    let bad = Malformed::new("/proc/PID/limits");
    let text = std::str::from_utf8(bytes).map_err(|_| bad)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).ok_or(bad)?;
    let open_files = match line.split_ascii_whitespace().next().ok_or(bad)? {
        "unlimited" => None,
        number => Some(number.parse().map_err(|_| bad)?),
    };
    Ok(Limits { open_files })
}

/// A command line for people: `/proc/PID/cmdline` with blanks between the words, without the
/// credentials in URLs, cut.
pub fn command(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // Longer than what is kept: a password must not lose the `@` after it.
    let bytes = bytes.get(..end.min(MAX_COMMAND_BYTES_READ)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes).replace('\0', " ");
    let text = model::without_credentials(&text);
    let cut = text.floor_char_boundary(MAX_COMMAND_BYTES);
    text.get(..cut).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_may_contain_parentheses() {
        let line = b"42 (a) R (b) S 1 42 42 0 -1 4194560 100 0 0 0 7 8 0 0 20 0 3 0 999 1 2 3\n";
        let stat = stat(line).unwrap();
        assert_eq!(stat.name, "a) R (b");
        assert_eq!((stat.state, stat.parent), ('S', 1));
        assert_eq!((stat.user_ticks, stat.system_ticks), (7, 8));
        assert_eq!((stat.threads, stat.started_ticks), (3, 999));
        assert!(super::stat(b"42 (a) S 1").is_err());
    }

    #[test]
    fn credentials_are_parsed() {
        let text = b"Name:\tng\\ninx\nUmask:\t0022\nNSpid:\t812\t1\nUid:\t1000\t0\t0\t0\n\
            Gid:\t7\t7\t7\t8\nGroups:\t4 24 \nCapPrm:\tff\nCapEff:\t00000000a80425fb\n";
        let found = credentials(text).unwrap();
        assert_eq!((found.users, found.groups), ([1000, 0, 0, 0], [7, 7, 7, 8]));
        assert_eq!(found.supplementary_groups, [4, 24]);
        assert_eq!((found.capabilities, found.ids), (0xa804_25fb, vec![812, 1]));
        let text = String::from_utf8_lossy(text);
        for line in ["Uid:", "Gid:", "Groups:", "CapEff:", "NSpid:"] {
            assert!(credentials(text.replace(line, "Other:").as_bytes()).is_err(), "{line}");
        }
        assert!(credentials(text.replace("\t7\t8", "\t8").as_bytes()).is_err(), "three groups");
    }

    #[test]
    fn a_command_line_has_no_passwords_of_urls() {
        let command = |text: &str| command(text.replace(' ', "\0").as_bytes());
        assert_eq!(command("curl http://ann:secret@198.18.0.1/ -s"), "curl http://198.18.0.1/ -s");
        // The cut must not take the end by which a password is recognised.
        let long = format!("curl {} http://ann:{}@h/", "x".repeat(230), "secret".repeat(100));
        assert!(!command(&long).contains("secret"), "{}", command(&long));
    }

    #[test]
    fn limits_and_schedstat_are_parsed() {
        let text =
            b"Limit   Soft Limit  Hard Limit  Units\nMax open files   1024   20000   files\n";
        assert_eq!(limits(text).unwrap().open_files, Some(1024));
        assert_eq!(limits(b"Max open files unlimited unlimited files").unwrap().open_files, None);
        assert!(limits(b"Max locked memory 1 2 bytes").is_err());
        assert_eq!(schedstat(b"10 20 3\n").unwrap().run_delay_ns, 20);
        assert!(schedstat(b"").is_err());
    }

    #[test]
    fn command_lines_are_cut_and_have_blanks() {
        assert_eq!(command(b"nginx\0-c\0/etc/nginx.conf\0\0\0"), "nginx -c /etc/nginx.conf");
        assert_eq!(command(b""), "");
        assert_eq!(command(&[b'x'; 9999]).len(), MAX_COMMAND_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (stat(&bytes), schedstat(&bytes), limits(&bytes), command(&bytes));
        }
    }
}
