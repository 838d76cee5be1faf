//! The lab as its users have it: every scenario once, and what is left when a lab ends badly.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lab::scenario::Source;
use serde_json::Value;
use test_support::{Reason, is_root, note, skip};

const NF_CONNTRACK_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Scenarios for `make quick`, which sets `NETWHY_QUICK`: less than a minute on two CPUs, one for each
/// mechanism.
const QUICK: [&str; 12] = [
    "accept-queue-overflow",
    "bufferbloat",
    "conntrack-table-full",
    "delayed-ack-nagle",
    "dns-slow",
    // A policer.
    "healthy-burst-credit",
    "healthy-high-rtt",
    "healthy-short-connections",
    "packet-loss-bursts",
    "path-mtu-blackhole",
    "receive-window-limited",
    "reordering",
];
/// Low-CPU scenarios that run at the same time.
const JOBS: &str = "4";
/// The test fails when more than one in this many scenarios fails its first run.
const MAX_FIRST_FAILURES: usize = 20;
/// How often a scenario that failed runs again; it must then be as expected every time.
const REPEATS: usize = 2;

/// One test at a time: they load every CPU.
static ALONE: Mutex<()> = Mutex::new(());

/// `None` if this machine cannot run a lab: the calling test is skipped.
fn lab_or_skip() -> Option<MutexGuard<'static, ()>> {
    if !is_root() {
        return None;
    }
    if !Path::new("/dev/net/tun").exists() {
        skip(&Reason::Kernel("has no /dev/net/tun for emulated links (modprobe tun)".to_string()));
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn netwhy(arguments: &[&str]) -> Command {
    let built = env!("CARGO_BIN_EXE_netwhy").to_string();
    let mut command = Command::new(std::env::var("NETWHY_BIN").unwrap_or(built));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    netwhy(arguments).output().unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "after 20 s not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn scenarios_name_what_they_expect() {
    let Some(_alone) = lab_or_skip() else { return };
    let all = Source::names();
    assert!(all.len() >= 100, "{} scenarios", all.len());
    assert!(QUICK.iter().all(|name| all.iter().any(|known| known == name)), "{all:?}");
    if std::env::var_os("NETWHY_QUICK").is_some() {
        run_and_judge(&QUICK);
    } else {
        run_and_judge(&all.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Runs scenarios once, without their fixes, which `make lab` measures. A machine that others share
/// stands still for moments, and a hundred scenarios meet each of them: what fails runs again and must
/// then be as expected (docs/decisions/0020).
fn run_and_judge(names: &[&str]) {
    let outcomes = outcomes(names, JOBS);
    assert_eq!(outcomes.len(), names.len());
    let failed: Vec<&Value> = outcomes.iter().filter(|one| !is_as_expected(one)).collect();
    for outcome in &failed {
        note_first_failure(outcome);
    }
    let print = |outcomes: &[&Value]| -> String {
        outcomes.iter().map(|outcome| format!("{outcome:#}\n")).collect()
    };
    let max_failed = (names.len() / MAX_FIRST_FAILURES).max(1);
    assert!(failed.len() <= max_failed, "more than {max_failed} failed:\n{}", print(&failed));
    for outcome in failed {
        let name = outcome["scenario"].as_str().expect("a name");
        for _ in 0..REPEATS {
            let again = outcomes_of_one(name);
            assert!(is_as_expected(&again), "failed twice:\n{}", print(&[outcome, &again]));
        }
    }
}

/// The outcomes of a score without fixes.
fn outcomes(names: &[&str], jobs: &str) -> Vec<Value> {
    let arguments = [&["lab", "score", "--no-fix", "--json", "--jobs", jobs], names].concat();
    let score = output(&arguments);
    let all: Value = serde_json::from_slice(&score.stdout)
        .unwrap_or_else(|error| panic!("no score: {error}\n{}", utf8(&score.stderr)));
    let outcomes = all["outcomes"].as_array().expect("outcomes").clone();
    assert_eq!(score.status.success(), outcomes.iter().all(is_as_expected), "{}", score.status);
    outcomes
}

fn outcomes_of_one(name: &str) -> Value {
    outcomes(&[name], "1").swap_remove(0)
}

/// Whether a run named every cause that can be named, and no other.
fn is_as_expected(outcome: &Value) -> bool {
    let verdict = &outcome["steps"][0]["verdict"];
    let wrong = verdict["wrong"].as_array().map_or(0, Vec::len);
    let missed = verdict["missed"].as_array();
    let missed = missed.is_some_and(|all| all.iter().any(|missed| missed["excuse"].is_null()));
    outcome["error"].is_null() && wrong == 0 && !missed
}

/// Prints a run that failed and notes it: by name they can be added up over many tests.
fn note_first_failure(outcome: &Value) {
    let name = outcome["scenario"].as_str().expect("a name");
    let conditions = conditions(outcome);
    // Not to the test's own output, which is shown only when the test fails.
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "first-failure: {name}\n{conditions}\n{outcome:#}");
    note(&["first-failure", "lab", name, &conditions]);
}

/// How late the links of a run were, and how much CPU the machine lacked.
fn conditions(outcome: &Value) -> String {
    let step = match &outcome["failed_step"] {
        Value::Null => &outcome["steps"][0],
        failed => failed,
    };
    let late_max = |link: &Value| link["late_max_us"].as_u64().unwrap_or(0);
    let links = step["links"].as_array();
    let link = links.and_then(|links| links.iter().max_by_key(|link| late_max(link)));
    let late = link.map_or("no emulated link".to_string(), |link| {
        format!("worst link late {}", text::micros(late_max(link)))
    });
    let share = |name: &str| step["cpu_shortage"][name].as_f64().map(text::percent);
    let waiting = share("waiting").map(|share| format!(", a task waited for a CPU {share}"));
    let stolen = share("stolen").map(|share| format!(", {share} of the CPUs stolen"));
    format!("{late}{}{}", waiting.unwrap_or_default(), stolen.unwrap_or_default())
}

#[test]
fn the_conditions_of_a_failed_run_are_reported() {
    let link = |late: u64| serde_json::json!({ "name": "a-b", "late_max_us": late });
    let shortage = serde_json::json!({ "waiting": 0.61, "stolen": 0.03 });
    let step = serde_json::json!({ "links": [link(90), link(75_000)], "cpu_shortage": shortage });
    let expected = "worst link late 75 ms, a task waited for a CPU 61 %, 3.0 % of the CPUs stolen";
    assert_eq!(conditions(&serde_json::json!({ "failed_step": null, "steps": [step] })), expected);
    assert_eq!(conditions(&serde_json::json!({ "failed_step": step, "steps": [] })), expected);
    assert_eq!(conditions(&serde_json::json!({ "steps": [] })), "no emulated link");
}

#[test]
fn a_step_that_fails_has_its_conditions() {
    let Some(_alone) = lab_or_skip() else { return };
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("mine.toml");
    let text = r#"
        title = "a workload without a figure"
        about = "for a test"
        kind = "healthy"
        [hosts.a]
        [hosts.b]
        [[links]]
        between = ["a", "b"]
        both = { delay = "1ms" }
        [workload]
        host = "a"
        run = "python3 -c 'import socket; socket.socket(2, 2).sendto(b\"x\", (\"${b}\", 9))'"
        output = "lines"
        figure = "pings"
        duration = "1s"
        [[observe]]
        host = "a"
        for = "1s"
    "#;
    std::fs::write(&file, text).expect("to write");
    let run = output(&["lab", "run", "--json", &file.to_string_lossy()]);
    let all: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(run.status.code(), Some(3), "{all:#}");
    assert!(all[0]["error"].as_str().expect("an error").contains("printed no pings"), "{all:#}");
    let step = &all[0]["failed_step"];
    let links = step["links"].as_array().expect("links");
    assert!(links.len() == 2 && links[0]["packets"] == 1, "{step:#}");
    assert!(step["cpu_shortage"]["stolen"].is_number(), "{step:#}");
    assert!(conditions(&all[0]).starts_with("worst link late "), "{}", conditions(&all[0]));
}

#[test]
fn each_fix_uncovers_the_next_fault_until_nothing_is_broken() {
    let Some(_alone) = lab_or_skip() else { return };
    let run = output(&["lab", "run", "chain-nginx-php", "--json"]);
    let all: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert!(run.status.success(), "{all:#}");
    let steps = all[0]["steps"].as_array().expect("steps");
    // Five faults, and the network after the last fix.
    assert_eq!(steps.len(), 6);
    assert_eq!(steps[5]["expected"].as_array().map(Vec::len), Some(0));
    assert!(steps[5]["improvement"]["measured"].as_f64().expect("a ratio") > 1.5, "{:#}", steps[5]);
}

/// The directories of the labs of this process.
fn directories_of(pid: u32) -> usize {
    let prefix = format!("netwhy-lab-{pid}-");
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// The processes whose working directory is in that of the lab of this process.
fn programs_of(pid: u32) -> usize {
    let directory = std::env::temp_dir().join(format!("netwhy-lab-{pid}-0"));
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| {
            let cwd = std::fs::read_link(process.path().join("cwd"));
            cwd.is_ok_and(|cwd| cwd.starts_with(&directory))
        })
        .count()
}

#[test]
fn a_killed_lab_leaves_no_program_and_restores_the_limit() {
    let Some(_alone) = lab_or_skip() else { return };
    if !Path::new(NF_CONNTRACK_MAX).exists() {
        skip(&Reason::Kernel("has no connection tracking (modprobe nf_conntrack)".to_string()));
        return;
    }
    let limit = || std::fs::read_to_string(NF_CONNTRACK_MAX).expect("the limit");
    let before = limit();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let mut lab = netwhy(&["lab", "run", "conntrack-table-full"]).spawn().expect("netwhy");
        let pid = lab.id();
        wait_until("the limit is changed", || limit() != before);
        wait_until("programs run", || programs_of(pid) > 1);
        let id = rustix::process::Pid::from_raw(pid as i32).expect("an id");
        rustix::process::kill_process(id, signal).expect("to kill what this test started");
        lab.wait().expect("its end");
        wait_until("the programs are gone", || programs_of(pid) == 0);
        wait_until("the limit is restored", || limit() == before);
        // The next lab removes what a killed one leaves on disk.
        output(&["lab", "run", "nosuch"]);
        assert!(output(&["lab", "shell", "healthy-udp", "client", "--", "true"]).status.success());
        assert_eq!(directories_of(pid), 0);
    }
}

#[test]
fn two_labs_at_once() {
    let Some(_alone) = lab_or_skip() else { return };
    let labs: Vec<_> =
        (0..2).map(|_| netwhy(&["lab", "run", "healthy-udp"]).spawn().expect("netwhy")).collect();
    for lab in labs {
        let output = lab.wait_with_output().expect("its end");
        assert!(output.status.success(), "{}{}", utf8(&output.stdout), utf8(&output.stderr));
    }
}

#[test]
fn a_shell_on_a_host_has_its_network_and_its_processes() {
    let Some(_alone) = lab_or_skip() else { return };
    let line = "hostname; ip -br -4 addr show eth0; ss -Hltn; ls /proc | grep -c '^[0-9]'";
    let shell = output(&["lab", "shell", "healthy-udp", "server", "--", "sh", "-c", line]);
    let printed = utf8(&shell.stdout);
    assert!(shell.status.success(), "{printed}{}", utf8(&shell.stderr));
    assert!(printed.starts_with("server\n") && printed.contains("198.18.0.2/24"), "{printed}");
    assert!(printed.contains(":5201"), "{printed}");
    let processes: usize = printed.lines().last().and_then(|n| n.parse().ok()).expect("a number");
    assert!(processes < 10, "only its own processes: {printed}");
}

#[test]
fn a_host_writes_its_own_configuration_and_not_that_of_the_machine() {
    let Some(_alone) = lab_or_skip() else { return };
    let line =
        "test -w /etc || echo protected; echo 198.18.9.9 own >> /etc/hosts; getent hosts own";
    let shell = output(&["lab", "shell", "mail-greets-late", "server", "--", "sh", "-c", line]);
    let printed = utf8(&shell.stdout);
    assert!(shell.status.success(), "{printed}{}", utf8(&shell.stderr));
    assert!(printed.starts_with("protected\n198.18.9.9"), "{printed}");
    let hosts = std::fs::read_to_string("/etc/hosts").expect("this machine's");
    assert!(!hosts.contains("198.18.9.9"), "{hosts}");
}

/// Whether it is silent is the matter of long runs; here, that every host is watched for so long.
#[test]
fn a_stretched_scenario_is_watched_on_every_host() {
    let Some(_alone) = lab_or_skip() else { return };
    let run = output(&["lab", "run", "healthy-chat", "--for", "10s", "--json"]);
    let outcomes: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(outcomes[0]["error"], Value::Null, "{outcomes}");
    let observations = outcomes[0]["steps"][0]["observations"].as_array().expect("observations");
    let hosts: Vec<&str> = observations.iter().filter_map(|one| one["host"].as_str()).collect();
    assert_eq!(hosts, ["client", "server"]);
    for one in observations {
        assert!(one["seconds"].as_f64().unwrap() >= 8.0, "{one}");
        let memory = one["memory"].as_array().expect("memory");
        assert!(!memory.is_empty() && memory.len() <= 12, "{one}");
        assert!(memory.iter().all(|sample| sample["resident"].as_u64().unwrap() > 0), "{one}");
    }
}

#[test]
fn errors_name_what_is_wrong_and_where() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "title = \"t\"\nabout = \"a\"\nkind = \"fault\"\nhots = 1\n").unwrap();
    let run = output(&["lab", "run", &file.to_string_lossy()]);
    assert_eq!(run.status.code(), Some(2));
    assert!(utf8(&run.stderr).contains("mine.toml:4: unknown field `hots`"), "{run:?}");
    let run = output(&["lab", "run", "no-such-scenario"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(utf8(&run.stderr).contains("netwhy lab list"), "{run:?}");
    for (duration, scenario, what) in [
        ("soon", "healthy-chat", "a time between 10s and 24h"),
        ("1s", "healthy-chat", "a time between 10s and 24h"),
        ("10s", "bufferbloat", "--for: bufferbloat: only healthy scenarios can be stretched"),
    ] {
        let run = output(&["lab", "run", scenario, "--for", duration]);
        assert_eq!(run.status.code(), Some(2));
        assert!(utf8(&run.stderr).contains(what), "{run:?}");
    }
    let run = output(&["lab", "shell", "healthy-udp", "nowhere"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(utf8(&run.stderr).contains("there are: client, server"), "{run:?}");
}
