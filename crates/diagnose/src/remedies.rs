//! How remedies are made: typed changes, their commands, and lines of configuration files.

use model::{Command, ConfigPlace, Evidence, Reach, Remedy, RemedyChange, Setting};

use crate::commands::CommandLine;
use crate::words::line;

/// A sysctl to set in the network namespace that was watched.
pub(crate) fn sysctl(
    evidence: &Evidence,
    name: &'static str,
    value: impl ToString,
    reaches: Reach,
) -> Remedy {
    let current = evidence.sysctl(name).map(|text| text.replace('\t', " "));
    let change = RemedyChange::Sysctl { name: name.to_string(), current, value: value.to_string() };
    let in_netns = |change: &RemedyChange| command_line(change)?.in_netns(evidence);
    Remedy {
        netns: evidence.host.netns.clone(),
        undo: change.undo().as_ref().and_then(in_netns),
        command: in_netns(&change),
        ..remedy(change, reaches)
    }
}

/// A sysctl that there is once for the whole machine, whichever namespace was watched.
pub(crate) fn sysctl_of_machine(
    evidence: &Evidence,
    name: &'static str,
    value: impl ToString,
    reaches: Reach,
) -> Remedy {
    let remedy = sysctl(evidence, name, value, reaches);
    Remedy {
        netns: None,
        command: command_here(&remedy.change),
        undo: remedy.change.undo().as_ref().and_then(command_here),
        ..remedy
    }
}

/// A sysctl to set on another host, where its present value is not known.
pub(crate) fn sysctl_on(
    host: &str,
    name: &'static str,
    value: impl ToString,
    reaches: Reach,
) -> Remedy {
    let change =
        RemedyChange::Sysctl { name: name.to_string(), current: None, value: value.to_string() };
    let command = command_line(&change).and_then(|command| command.on(host));
    on_host(host, Remedy { command, ..remedy(change, reaches) })
}

/// The limit of open files of a running process.
pub(crate) fn open_files_limit(
    process: &str,
    pid: u32,
    current: Option<u64>,
    value: u64,
) -> Remedy {
    let change = RemedyChange::Rlimit {
        process: process.to_string(),
        pid,
        limit: "nofile".to_string(),
        current,
        value,
    };
    // The soft limit alone: a hard limit that was raised does no harm.
    let undo = current.and_then(|current| {
        let limit = format!("--nofile={current}:");
        CommandLine::new("prlimit --pid").arg(pid).arg(limit).here()
    });
    let command = command_here(&change);
    Remedy { command, undo, ..remedy(change, Reach::Everything) }
}

/// A setting of a network card of the host that was watched, of that with the errors where its name
/// is not known.
pub(crate) fn ethtool(
    evidence: &Evidence,
    interface: Option<&str>,
    setting: &'static str,
    value: &'static str,
) -> Remedy {
    let change = ethtool_change(interface, setting, value);
    let command = command_line(&change).and_then(|command| command.in_netns(evidence));
    let netns = evidence.host.netns.clone();
    Remedy { netns, command, ..remedy(change, Reach::Everything) }
}

/// The same on another host, whose interfaces are not known.
pub(crate) fn ethtool_on(host: &str, setting: &'static str, value: &'static str) -> Remedy {
    on_host(host, remedy(ethtool_change(None, setting, value), Reach::Everything))
}

fn ethtool_change(interface: Option<&str>, setting: &str, value: &str) -> RemedyChange {
    RemedyChange::Ethtool {
        interface: interface.map(str::to_string),
        setting: setting.to_string(),
        current: None,
        value: value.to_string(),
    }
}

/// An attribute of the route of a host to its peers. The rest of the route is not known here, so
/// there is no command that could be pasted.
pub(crate) fn route(
    host: &str,
    destination: &str,
    attribute: &'static str,
    value: &'static str,
    reaches: Reach,
) -> Remedy {
    let change = RemedyChange::Route {
        destination: destination.to_string(),
        attribute: attribute.to_string(),
        current: None,
        value: value.to_string(),
    };
    let note = format!(
        "ip route show to match {destination} prints the route; ip route change takes all of it and \
         {attribute} {value}"
    );
    on_host(host, Remedy { note: Some(note), ..remedy(change, reaches) })
}

/// A queueing discipline, on an interface that is not known here.
pub(crate) fn qdisc(value: String, text: String) -> Remedy {
    let change = RemedyChange::Qdisc { interface: None, current: None, value };
    Remedy { text, ..remedy(change, Reach::Everything) }
}

/// A line of an application's configuration: it replaces the one where the setting is now, or
/// follows the one named. `None` where netwhy does not know how the application writes its settings,
/// or the value could end the line.
pub(crate) fn config_line(
    application: &str,
    place: Option<&Setting>,
    setting: &'static str,
    value: &str,
) -> Option<Remedy> {
    let text_of_line = match application {
        "nginx" => format!("{setting} {value};"),
        "apache" => format!("{setting} {value}"),
        "php-fpm" | "postgresql" => format!("{setting} = {value}"),
        "systemd" => format!("{setting}={value}"),
        _ => return None,
    };
    if !value.split(' ').all(is_config_word) {
        return None;
    }
    let replaced = place.filter(|known| known.name == setting);
    let text = match place {
        Some(known) => {
            let add = if replaced.is_some() { "" } else { "below this line: " };
            format!("{}:{}  {add}{text_of_line}", line(&known.file), known.line)
        }
        None => format!("in the configuration of {application}: {text_of_line}"),
    };
    let change = RemedyChange::ConfigLine {
        application: application.to_string(),
        place: place.map(|known| ConfigPlace { file: known.file.clone(), line: known.line }),
        setting: setting.to_string(),
        current: replaced.map(|known| known.value.clone()),
        value: value.to_string(),
        line: text_of_line,
    };
    Some(Remedy { text, ..remedy(change, Reach::AfterReload) })
}

/// Whether a word of a configuration file can be written into one again: it cannot end the line, the
/// statement or the block, begin a comment, or quote what follows.
pub(crate) fn is_config_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:*/=[]".contains(&byte);
    !word.is_empty() && word.bytes().all(plain)
}

/// Something that no single setting does.
pub(crate) fn advice(text: impl Into<String>) -> Remedy {
    Remedy {
        text: text.into(),
        needs_root: false,
        ..remedy(RemedyChange::Advice, Reach::Elsewhere)
    }
}

/// The same, about another host, which the text names.
pub(crate) fn advice_about(host: &str, text: impl Into<String>) -> Remedy {
    Remedy { host: Some(host.to_string()), ..advice(text) }
}

/// Adds what a remedy costs or what to watch.
pub(crate) trait Noted {
    /// With this note.
    fn noted(self, note: impl Into<String>) -> Self;
}

impl Noted for Remedy {
    fn noted(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// A remedy without a command, its text as the change has it.
fn remedy(change: RemedyChange, reaches: Reach) -> Remedy {
    Remedy {
        text: text_of(&change),
        change,
        host: None,
        netns: None,
        command: None,
        undo: None,
        needs_root: true,
        reaches,
        note: None,
    }
}

fn on_host(host: &str, remedy: Remedy) -> Remedy {
    let text = format!("on {}: {}", line(host), remedy.text);
    Remedy { host: Some(host.to_string()), text, ..remedy }
}

/// A change in words.
fn text_of(change: &RemedyChange) -> String {
    let now = |current: Option<&str>| {
        current.map(|current| format!(" (now {})", line(current))).unwrap_or_default()
    };
    match change {
        RemedyChange::Sysctl { name, current, value } => {
            format!("set {name} to {value}{}", now(current.as_deref()))
        }
        RemedyChange::Route { destination, attribute, value, .. } => {
            format!("set {attribute} {value} on the route to {}", line(destination))
        }
        RemedyChange::Rlimit { process, pid, current, value, .. } => {
            let now = now(current.map(|current| current.to_string()).as_deref());
            format!("raise the limit of {} (pid {pid}) to {value} open files{now}", line(process))
        }
        RemedyChange::Ethtool { interface, setting, value, .. } => {
            let interface = interface.as_deref().map_or("the card with the errors".into(), line);
            format!("set {setting} {value} on {interface} (ethtool -K)")
        }
        RemedyChange::Qdisc { .. } | RemedyChange::ConfigLine { .. } | RemedyChange::Advice => {
            String::new()
        }
    }
}

/// The command that makes a change; `None` where it takes more than one.
fn command_line(change: &RemedyChange) -> Option<CommandLine> {
    match change {
        RemedyChange::Sysctl { name, value, .. } => {
            Some(CommandLine::new("sysctl -w").arg(format!("{name}={value}")))
        }
        RemedyChange::Ethtool { interface, setting, value, .. } => {
            let command = CommandLine::new("ethtool -K").name(interface.as_deref()?);
            Some(command.arg(setting).arg(value))
        }
        RemedyChange::Rlimit { pid, value, .. } => Some(
            CommandLine::new("prlimit --pid").arg(pid).arg(format!("--nofile={value}:{value}")),
        ),
        RemedyChange::Route { .. }
        | RemedyChange::Qdisc { .. }
        | RemedyChange::ConfigLine { .. }
        | RemedyChange::Advice => None,
    }
}

fn command_here(change: &RemedyChange) -> Option<Command> {
    command_line(change)?.here()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{healthy, set_sysctl};

    fn argv(command: Option<&Command>) -> String {
        command.map(|command| command.argv[0].join(" ")).unwrap_or_default()
    }

    #[test]
    fn a_sysctl_has_its_command_and_the_one_that_takes_it_back() {
        let mut evidence = healthy();
        evidence.host.netns = Some("web".to_string());
        set_sysctl(&mut evidence, "net.ipv4.ip_local_port_range", "32768\t60999");
        let range = "net.ipv4.ip_local_port_range";
        let remedy = sysctl(&evidence, range, "1024 65535", Reach::NewConnections);
        assert_eq!(remedy.text, format!("set {range} to 1024 65535 (now 32768 60999)"));
        assert_eq!(
            remedy.command.as_ref().unwrap().argv[0].last().unwrap(),
            "net.ipv4.ip_local_port_range=1024 65535",
        );
        let undo = format!("ip netns exec web sysctl -w {range}=32768 60999");
        assert_eq!(argv(remedy.undo.as_ref()), undo);
        let of_machine = sysctl_of_machine(&evidence, "fs.file-max", 9, Reach::Everything);
        assert_eq!(
            (argv(of_machine.command.as_ref()), of_machine.netns),
            ("sysctl -w fs.file-max=9".into(), None)
        );
        let there = sysctl_on(
            "198.18.0.2",
            "net.ipv4.tcp_rmem",
            "4096 131072 6291456",
            Reach::NewConnections,
        );
        assert_eq!(there.command.unwrap().host, there.host);
        assert!(
            there.undo.is_none() && there.text.starts_with("on 198.18.0.2: set net.ipv4.tcp_rmem")
        );
    }

    #[test]
    fn a_limit_is_taken_back_by_its_soft_value() {
        let remedy = open_files_limit("nginx", 7, Some(64), 65_536);
        assert_eq!(argv(remedy.command.as_ref()), "prlimit --pid 7 --nofile=65536:65536");
        assert_eq!(argv(remedy.undo.as_ref()), "prlimit --pid 7 --nofile=64:");
    }

    #[test]
    fn a_line_of_configuration_cannot_be_ended_by_its_value() {
        let known = Setting {
            name: "listen".to_string(),
            value: "80 backlog=10".to_string(),
            section: "http/server".to_string(),
            file: "/etc/nginx/nginx.conf".to_string(),
            line: 12,
        };
        let remedy = config_line("nginx", Some(&known), "listen", "80 backlog=1024").unwrap();
        assert_eq!(remedy.text, "/etc/nginx/nginx.conf:12  listen 80 backlog=1024;");
        let below = config_line("nginx", Some(&known), "fastcgi_keep_conn", "on").unwrap();
        assert_eq!(below.text, "/etc/nginx/nginx.conf:12  below this line: fastcgi_keep_conn on;");
        for hostile in ["80; evil on", "80\nevil", "80 #", "80 {", "$(x)", "'80", "80\\", ""] {
            assert_eq!(config_line("nginx", Some(&known), "listen", hostile), None, "{hostile:?}");
        }
        assert_eq!(config_line("unknown", Some(&known), "listen", "80"), None);
    }
}
