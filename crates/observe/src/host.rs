//! The host that is observed: name, kernel, CPUs, memory.

use std::path::Path;

use model::Host;
use sys::Machine;

/// Reads what there is; what cannot be read stays empty.
pub(crate) fn read(machine: &dyn Machine, netns: Option<String>) -> Host {
    let text = |path: &str| {
        let mut buffer = Vec::new();
        match machine.files().read(Path::new(path), &mut buffer) {
            Ok(()) => String::from_utf8_lossy(&buffer).trim().to_string(),
            Err(_) => String::new(),
        }
    };
    let memory_kib = text("/proc/meminfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .unwrap_or(0u64);
    Host {
        name: text("/proc/sys/kernel/hostname"),
        kernel: text("/proc/sys/kernel/osrelease"),
        cpus: count_cpus(&text("/sys/devices/system/cpu/online")),
        memory_bytes: memory_kib.saturating_mul(1024),
        page_bytes: machine.own_process().page_bytes(),
        netns,
        root: machine.own_process().user() == 0,
    }
}

/// Number of CPUs in a list such as `0-3,8`.
fn count_cpus(list: &str) -> u32 {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            last.checked_sub(first).map(|n| n.saturating_add(1))
        })
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::count_cpus;

    #[test]
    fn cpus_of_a_list_are_counted() {
        assert_eq!(count_cpus("0-1"), 2);
        assert_eq!(count_cpus("0"), 1);
        assert_eq!(count_cpus("0-3,8,10-11\n"), 7);
        assert_eq!(count_cpus(""), 0);
        assert_eq!(count_cpus("5-1,x"), 0);
    }
}
