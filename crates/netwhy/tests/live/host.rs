//! Network namespaces and programs that are gone when the test ends, however it ends.

mod permit;

use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use test_support::{are_installed, is_root};

use permit::Permit;

static NUMBER: AtomicU32 = AtomicU32::new(0);
static SWEPT: Once = Once::new();

/// What a test needs; `None` when this machine lacks it: the calling test is skipped. It runs alone: it
/// loads the CPUs, or shares something of the whole host, as the kernel's log.
pub(crate) fn need(programs: &[&str]) -> Option<Permit> {
    has(programs).then(permit::alone)
}

/// The same for a test that mostly waits, on namespaces of its own: others like it run at the same time.
pub(crate) fn need_little(programs: &[&str]) -> Option<Permit> {
    has(programs).then(permit::together)
}

fn has(programs: &[&str]) -> bool {
    let all = is_root() && are_installed(programs);
    if all {
        SWEPT.call_once(sweep);
    }
    all
}

/// Removes namespaces of tests that were killed: their names hold the id of their process.
fn sweep() {
    let Ok(names) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in names.flatten() {
        let name = name.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("netwhy-test-").and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            run(Command::new("ip").args(["netns", "del", &name]));
        }
    }
}

/// A network namespace.
pub(crate) struct Host {
    pub(crate) name: String,
}

impl Host {
    /// A namespace with its loopback up.
    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("netwhy-test-{}-{number}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let host = Host { name };
        host.run("ip link set lo up");
        host
    }

    /// Two namespaces with a wire between them: 198.18.0.1 and 198.18.0.2.
    pub(crate) fn pair() -> (Self, Self) {
        let (a, b) = (Host::new(), Host::new());
        a.wire(&b, "198.18.0.1/24", "198.18.0.2/24");
        (a, b)
    }

    /// A wire to another namespace.
    pub(crate) fn wire(&self, other: &Host, here: &str, there: &str) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        self.run(&format!("ip link add {a} type veth peer name {b} netns {}", other.name));
        for (host, end, address) in [(self, &a, here), (other, &b, there)] {
            host.run(&format!("ip addr add {address} dev {end}"));
            host.run(&format!("ip link set {end} up"));
        }
    }

    /// A command in this namespace.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]);
        command.args(words.split_ascii_whitespace());
        command
    }

    /// Runs a command to its end; it must succeed.
    pub(crate) fn run(&self, words: &str) -> String {
        run(&mut self.command(words))
    }

    /// Sets a sysctl of this namespace.
    pub(crate) fn set(&self, sysctl: &str, value: &str) {
        run(self.command("sysctl -qw").arg(format!("{sysctl}={value}")));
    }

    /// Starts a program that is ended with the test.
    pub(crate) fn start(&self, words: &str) -> Program {
        Program::start(&mut self.command(words))
    }

    /// Starts a line of shell.
    pub(crate) fn start_shell(&self, line: &str) -> Program {
        Program::start(self.command("sh -c").arg(line))
    }

    /// Starts a Python program.
    pub(crate) fn python(&self, program: &str) -> Program {
        Program::start(self.command("python3 -uc").arg(program))
    }

    /// Waits until something listens on a TCP port here.
    pub(crate) fn wait_for_listener(&self, port: u16) {
        let filter = format!("ss -Hltn sport = :{port}");
        wait_until(&format!("nothing listens on port {port}"), || {
            !self.run(&filter).trim().is_empty()
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Programs are ended before: they are declared later. What is left is not worth a panic.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A program that is ended when the test ends.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    /// Starts it without input and output.
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Program(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // First asked, so that a master ends its workers; then made to.
        signal(self.id(), rustix::process::Signal::TERM);
        let patience = Instant::now() + Duration::from_secs(3);
        while Instant::now() < patience {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        // It may have ended.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Runs a command to its end; it must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits for something, 10 seconds at most.
pub(crate) fn wait_until(otherwise: &str, mut is: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !is() {
        assert!(Instant::now() < patience, "waited for 10 s: {otherwise}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a program that has to end now; its exit code. It is killed if it does not.
pub(crate) fn ends_soon(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        if let Some(status) = child.try_wait().expect("its state") {
            return status.code();
        }
        pause(5);
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("it did not end");
}

pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
