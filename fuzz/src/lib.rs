//! The table of fuzz targets: what each does with any bytes, and what must hold whatever they are.
//!
//! Two read this table: the programs in `fuzz_targets`, and a test of the main workspace that
//! replays the inputs in `fixtures` with the stable compiler.
//!
//! - `captures`: capture files, packets, streams
//! - `kernel`: answers of the kernel: netlink, `/proc`, `/dev/kmsg`
//! - `applications`: logs and configuration of applications
//! - `answers`: replies to probes
//! - `evidence`: saved evidence, its diagnosis and reports

mod answers;
mod applications;
mod captures;
mod evidence;
mod kernel;

/// A target.
pub struct Target {
    /// Its name: that of the program, of its corpus, and of its folder in `fixtures`.
    pub name: &'static str,
    /// What it does; it panics when something does not hold.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "capture", run: captures::capture },
    Target { name: "capture_file", run: captures::file },
    Target { name: "packet", run: captures::packet },
    Target { name: "segments", run: captures::segments },
    Target { name: "collector", run: captures::collector },
    Target { name: "payload", run: captures::payload },
    Target { name: "netlink", run: kernel::netlink },
    Target { name: "sock_diag", run: kernel::sock_diag },
    Target { name: "unix_diag", run: kernel::unix_diag },
    Target { name: "conntrack", run: kernel::conntrack },
    Target { name: "proc_net", run: kernel::proc_net },
    Target { name: "proc_pid", run: kernel::proc_pid },
    Target { name: "kmsg", run: kernel::kmsg },
    Target { name: "ports", run: kernel::ports },
    Target { name: "applog", run: applications::log },
    Target { name: "access_format", run: applications::access_format },
    Target { name: "nginx_config", run: applications::nginx },
    Target { name: "ini_config", run: applications::ini },
    Target { name: "icmp", run: answers::icmp },
    Target { name: "http_answer", run: answers::http },
    Target { name: "evidence", run: evidence::evidence },
];

/// Runs the target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        panic!("there is no target {name}");
    };
    (target.run)(bytes);
}
