//! Fills the corpora of the fuzz targets: from the fixtures of this repository, and from the shared
//! captures where there are any (`NETWHY_CAPTURES` names their folder).
//!
//! usage: cargo run --example seed

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Evidence, Focus};
use observe::Window;
use streams::Collector;
use sys::replay::RecordedMachine;
use wire::capture::{Packet, Reader, Step};

/// Most bytes of a capture that become a seed: small inputs are fuzzed faster.
const MOST: usize = 16 << 10;
/// Targets that read text: they get a dictionary of the words in their seeds.
const TEXTS: [&str; 8] = [
    "proc_net",
    "proc_pid",
    "kmsg",
    "applog",
    "access_format",
    "nginx_config",
    "ini_config",
    "evidence",
];
/// Numbers at which sums overflow; every dictionary has them.
const NUMBERS: [&str; 5] =
    ["18446744073709551615", "9223372036854775807", "4294967295", "1e308", "-1"];
/// Most words of a dictionary.
const WORDS: usize = 600;
/// Packets of each capture that become seeds of their own.
const PACKETS: usize = 3;

fn main() -> std::io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = Seeds(here.join("corpus"));
    let crates = here.join("../crates");
    seeds.kept(&here.join("fixtures"))?;
    seeds.host(&crates.join("observe/fixtures/host"))?;
    seeds.applications(&crates)?;
    let default = here.join("../../shared/captures");
    let captures = std::env::var_os("NETWHY_CAPTURES").map_or(default, PathBuf::from);
    if !captures.is_dir() {
        println!("there are no captures: NETWHY_CAPTURES names their folder");
    }
    for path in files(&captures) {
        if path.extension().is_some_and(|end| end == "pcap" || end == "pcapng") {
            seeds.capture(&fs::read(&path)?)?;
        } else if path.extension().is_some_and(|end| end == "gz") {
            let bytes = fs::read(&path)?;
            seeds.add("capture_file", &bytes[..bytes.len().min(MOST)])?;
        }
    }
    seeds.made_up()?;
    TEXTS.iter().try_for_each(|target| seeds.words(target))
}

/// All files in a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

/// The folder of the corpora.
struct Seeds(PathBuf);

impl Seeds {
    /// Its name comes from what is in it: twice the same is one.
    fn add(&self, target: &str, bytes: &[u8]) -> std::io::Result<()> {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        fs::write(folder.join(format!("seed-{hash:016x}")), bytes)
    }

    /// Writes the dictionary of a target: `corpus/NAME.dict`.
    fn words(&self, target: &str) -> std::io::Result<()> {
        let mut words = BTreeSet::new();
        for path in files(&self.0.join(target)) {
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")) {
                let text = fs::read(path)?;
                let pieces =
                    text.split(|b| !b.is_ascii_alphanumeric() && !b"_.$:-/[]()".contains(b));
                let pieces = pieces.filter(|piece| (3..=40).contains(&piece.len()));
                words.extend(
                    pieces
                        .filter(|piece| piece[0].is_ascii_alphabetic() || piece[0] == b'$')
                        .map(<[u8]>::to_vec),
                );
            }
        }
        let step = words.len() / WORDS + 1;
        let lines =
            words.iter().step_by(step).map(|word| format!("{:?}\n", String::from_utf8_lossy(word)));
        let numbers = NUMBERS.iter().map(|number| format!("{number:?}\n"));
        fs::write(self.0.join(format!("{target}.dict")), lines.chain(numbers).collect::<String>())
    }

    /// Findings of earlier runs.
    fn kept(&self, folder: &Path) -> std::io::Result<()> {
        for target in fuzz::TARGETS {
            for path in files(&folder.join(target.name)) {
                self.add(target.name, &fs::read(path)?)?;
            }
        }
        Ok(())
    }

    /// A recorded machine: its answers, file by file, and the evidence of a window on it.
    fn host(&self, folder: &Path) -> std::io::Result<()> {
        for path in files(&folder.join("netlink")) {
            let text = fs::read_to_string(&path)?;
            for datagram in text.lines().filter_map(hex) {
                let datagram = &datagram[..datagram.len().min(2048)];
                for target in ["netlink", "sock_diag", "unix_diag", "conntrack"] {
                    self.add(target, datagram)?;
                }
                let payloads = wire::netlink::messages(datagram).flatten().take(4);
                for payload in payloads.map(|message| message.payload) {
                    for target in ["sock_diag", "unix_diag", "conntrack"] {
                        self.add(target, payload)?;
                    }
                }
            }
        }
        for path in files(&folder.join("files/proc")) {
            let name = path.to_string_lossy().into_owned();
            let bytes = fs::read(&path)?;
            if name.contains("/proc/net/") {
                self.add("proc_net", &bytes)?;
            } else if !name.contains("/proc/sys/") {
                self.add("proc_pid", &bytes)?;
            }
        }
        for path in files(&folder.join("events")) {
            for line in fs::read_to_string(&path)?.lines().take(40) {
                self.add("kmsg", line.split_once(' ').map_or(line, |(_, text)| text).as_bytes())?;
            }
        }
        let Ok(machine) = RecordedMachine::open(folder) else { return Ok(()) };
        let mut window = Window::begin(&machine, &Focus::default(), None);
        while window.elapsed() < Duration::from_millis(600) {
            window.step();
        }
        let evidence = window.end(false);
        self.evidence(&evidence)
    }

    /// The evidence, and each of its parts alone.
    fn evidence(&self, evidence: &Evidence) -> std::io::Result<()> {
        self.add("evidence", &serde_json::to_vec(evidence)?)?;
        let parts: [fn(&mut Evidence, Evidence); 5] = [
            |to, from| (to.sockets, to.sysctls) = (from.sockets, from.sysctls),
            |to, from| (to.listeners, to.counters) = (from.listeners, from.counters),
            |to, from| (to.conntrack, to.kernel_log) = (from.conntrack, from.kernel_log),
            |to, from| (to.processes, to.logs) = (from.processes, from.logs),
            |to, from| (to.packets, to.missing_evidence) = (from.packets, from.missing_evidence),
        ];
        for part in parts {
            let mut alone = Evidence { window: evidence.window, ..Evidence::default() };
            part(&mut alone, evidence.clone());
            self.add("evidence", &serde_json::to_vec(&alone)?)?;
        }
        Ok(())
    }

    fn applications(&self, crates: &Path) -> std::io::Result<()> {
        for path in files(&crates.join("wire/src/applog/fixtures")) {
            let bytes = fs::read(&path)?;
            for dialect in 0..6u8 {
                self.add("applog", &[&[dialect], &bytes[..bytes.len().min(2000)]].concat())?;
            }
        }
        for path in files(&crates.join("observe/fixtures/applications")) {
            for target in ["nginx_config", "ini_config"] {
                self.add(target, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    fn capture(&self, bytes: &[u8]) -> std::io::Result<()> {
        let start = &bytes[..bytes.len().min(MOST)];
        for target in ["capture", "capture_file", "collector"] {
            self.add(target, start)?;
        }
        let (mut reader, mut rest, mut packets) = (Reader::new(), bytes, 0);
        let mut collector = Collector::new(None);
        loop {
            let (taken, step) = reader.step(rest);
            rest = &rest[taken..];
            match step {
                Step::Packet(packet) => {
                    packets += 1;
                    if packets <= PACKETS {
                        self.packet(&packet)?;
                    }
                    collector.take(&packet);
                }
                Step::Skipped | Step::Comment(_) => {}
                Step::NeedBytes(_) | Step::Damaged(_) => break,
            }
        }
        let packets = collector.finish(vec!["a file".to_string()], 0).packets;
        // Evidence of few streams only: such inputs are small.
        if (1..=4).contains(&packets.streams) {
            let schema_version = Evidence::SCHEMA_VERSION;
            let evidence =
                Evidence { schema_version, packets: Some(packets), ..Evidence::default() };
            self.add("evidence", &serde_json::to_vec(&evidence)?)?;
        }
        Ok(())
    }

    fn packet(&self, packet: &Packet<'_>) -> std::io::Result<()> {
        let more = packet.length.saturating_sub(packet.bytes.len() as u32).min(65_535) as u16;
        let head = [packet.link.0.to_le_bytes(), more.to_le_bytes()].concat();
        let bytes = &packet.bytes[..packet.bytes.len().min(1024)];
        self.add("packet", &[&head[..], &[0xf0], bytes].concat())
    }

    /// What no fixture has.
    fn made_up(&self) -> std::io::Result<()> {
        let ports = ["32768\t60999\n\n", "1000 2000\n80,1003,1008-2000,1003\n", "0 65535\n0-65535"];
        ports.iter().try_for_each(|text| self.add("ports", text.as_bytes()))?;
        let lines = ["6,339,5140900,-;text\\x0a\n SUBSYSTEM=x\n", "30,1,2,c,more;a\\\\x"];
        lines.iter().try_for_each(|text| self.add("kmsg", text.as_bytes()))?;
        let templates = [
            "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\"\n\nGET /\" 200 x",
            "{\"time\":\"$time_iso8601\",\"uri\":\"$uri\",\"status\":$status}\njson\n\", \"status\": 200",
            "$request_time [$status] $http_user_agent\n\nx [200]",
            "$status|$request\n2\n200 x",
            "$http_referer - ${status} - $request_time\n\n - 200 - 1",
        ];
        templates.iter().try_for_each(|text| self.add("access_format", text.as_bytes()))?;
        // Segments of a connection that opens, sends, repeats and ends, in the short form.
        let mut bytes = Vec::new();
        for (who, flags, data) in
            [(0, 2, 0), (1, 18, 0), (0, 16, 0), (0, 24, 200u16), (1, 24, 1448), (1, 24, 1448)]
        {
            let [low, high] = data.to_le_bytes();
            bytes.extend([who, 200, 14, 0, 0, 0, 0, flags, 255, low, high, 2]);
        }
        bytes.extend([1, 9, 27, 0x58, 0xfa, 0, 0, 24, 255, 0xa8, 5, 2]);
        bytes.extend([0, 200, 14, 0, 0, 0, 0, 17, 0, 0, 0, 3]);
        self.add("segments", &bytes)
    }
}

/// The bytes of a line of hexadecimal.
fn hex(line: &str) -> Option<Vec<u8>> {
    let digits = line.trim().as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}
