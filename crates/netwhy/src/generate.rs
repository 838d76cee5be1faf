//! What is generated from the command line: a manual page for each command, and completions for bash,
//! zsh and fish. `make install` has the installed netwhy write them.

use std::path::Path;

use anyhow::Context as _;
use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, bold, italic, roman};

use crate::help::{self, Part};

const NAME: &str = "netwhy";
const EXAMPLES: &str = "Examples:";
const EXIT_CODES: &str = "Exit codes: ";
/// Exit codes of the commands that do not list their own.
const DEFAULT_EXIT_CODES: &str = "0 done, 2 usage, 3 cannot observe.";

/// What every command reads.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("COLUMNS", "Columns of text, from 40 to 200, instead of those of the terminal."),
    ("NO_COLOR", "Switches colours off, unless it is empty."),
    ("NETWHY_LOG", "Messages for developers on standard error: error, warn, info, debug, trace."),
    (TOKEN, "The token of --token: other users of this host cannot read it here."),
];

const TOKEN: &str = "NETWHY_TOKEN";

const FILES: [(&str, &str); 4] = [
    ("/proc/net, /proc/sys/net", "Counters, sockets and sysctls."),
    ("/proc/PID", "Processes, their open files and limits."),
    ("/dev/kmsg", "The log of the kernel."),
    ("/run/netns/NAME", "Network namespaces of ip-netns(8), for --netns."),
];

/// Manual pages of other programs that do a part of what a command does.
const SEE_ALSO: [(&str, &str); 9] = [
    ("netwhy", "ss(8), nstat(8), tcp(7)"),
    ("netwhy-sockets", "ss(8)"),
    ("netwhy-conntrack", "conntrack(8)"),
    ("netwhy-capture", "tcpdump(8), pcap-filter(7)"),
    ("netwhy-pcap", "tshark(1), tcpdump(8)"),
    ("netwhy-ping", "ping(8)"),
    ("netwhy-trace", "traceroute(8), mtr(8)"),
    ("netwhy-http", "ab(1), wrk(1)"),
    ("netwhy-transfer", "iperf3(1)"),
];

/// Writes all of it into a folder such as `/usr/local/share`.
pub(crate) fn write(mut command: Command, share: &Path) -> anyhow::Result<()> {
    command.build();
    write_pages(&command, &share.join("man/man1"))?;
    let mut command = command.mut_subcommand("explain", |explain| {
        let ids = diagnose::causes::TABLE.iter().map(|cause| cause.id);
        explain.mut_arg("cause", |cause| cause.value_parser(PossibleValuesParser::new(ids)))
    });
    for (shell, file) in [
        (Shell::Bash, "bash-completion/completions/netwhy"),
        (Shell::Zsh, "zsh/site-functions/_netwhy"),
        (Shell::Fish, "fish/vendor_completions.d/netwhy.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, NAME, &mut text);
        if shell == Shell::Fish {
            // Its generator knows no values of arguments.
            let ids: Vec<&str> = diagnose::causes::TABLE.iter().map(|cause| cause.id).collect();
            let on = "__fish_netwhy_using_subcommand explain";
            let line = format!("complete -c netwhy -n \"{on}\" -f -a \"{}\"\n", ids.join(" "));
            text.extend_from_slice(line.as_bytes());
        }
        put(&share.join(file), &text)?;
    }
    Ok(())
}

/// The page of a command and of those below it.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(NAME).to_string();
    put(&folder.join(format!("{name}.1")), &page(command, &name)?)?;
    for subcommand in visible(command) {
        write_pages(subcommand, folder)?;
    }
    Ok(())
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

fn put(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, bytes));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// The manual page of a command.
fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone().after_help(""))
        .title(name.to_uppercase())
        .section("1")
        .source(format!("{NAME} {version}"))
        .manual("netwhy manual");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    let mut usage = Roff::new();
    usage.control("SH", ["SYNOPSIS"]);
    let text = command.clone().render_usage().to_string();
    for (number, line) in text.trim_start_matches("Usage:").lines().enumerate() {
        if number > 0 {
            usage.control("br", []);
        }
        usage.text([roman(line.trim())]);
    }
    usage.to_writer(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    let mut roff = Roff::new();
    if command.has_subcommands() {
        roff.control("SH", ["COMMANDS"]);
        for one in visible(command) {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let page = one.get_display_name().unwrap_or_default();
            roff.control("TP", []).text([bold(page), roman("(1)")]).text([roman(about)]);
        }
    }
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    after_help(&text, &mut roff);
    let files: &[_] = if name == NAME { &FILES } else { &[] };
    for (heading, rows) in [("ENVIRONMENT", ENVIRONMENT.as_slice()), ("FILES", files)] {
        if !rows.is_empty() {
            roff.control("SH", [heading]);
        }
        let is_read = |row: &&(&str, &str)| row.0 != TOKEN || name.contains("transfer");
        for (what, text) in rows.iter().filter(is_read) {
            roff.control("TP", []).text([bold(*what)]).text([roman(*text)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    let own = if name == NAME { None } else { Some("netwhy(1)") };
    let others = SEE_ALSO.iter().filter(|(page, _)| *page == name).map(|(_, others)| *others);
    let all: Vec<&str> = own.into_iter().chain(others).collect();
    roff.text([roman(all.join(", "))]);
    roff.to_writer(&mut out)?;
    Ok(in_ascii(&out))
}

/// A page with other characters as troff writes them: `\[u2026]`.
fn in_ascii(page: &[u8]) -> Vec<u8> {
    let mut ascii = String::with_capacity(page.len());
    for c in String::from_utf8_lossy(page).chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            ascii.push_str(&format!("\\[u{:04X}]", u32::from(c)));
        }
    }
    ascii.into_bytes()
}

/// The text below the options: examples, notes, exit codes.
fn after_help(text: &str, roff: &mut Roff) {
    let (mut examples, mut notes) = (Vec::new(), Vec::new());
    let mut codes = DEFAULT_EXIT_CODES.to_string();
    let mut is_example = false;
    for part in help::parts(text) {
        match part {
            Part::Heading(heading) => {
                is_example = heading == EXAMPLES;
                if !is_example {
                    notes.push(Part::Heading(heading));
                }
            }
            Part::Paragraph(paragraph) => match paragraph.strip_prefix(EXIT_CODES) {
                Some(own) => codes = own.to_string(),
                None => {
                    is_example = false;
                    notes.push(Part::Paragraph(paragraph));
                }
            },
            Part::Entry { .. } if is_example => examples.push(part),
            Part::Entry { .. } => notes.push(part),
            Part::Empty => {}
        }
    }
    for (heading, parts) in [("EXAMPLES", examples), ("NOTES", notes)] {
        if !parts.is_empty() {
            roff.control("SH", [heading]);
        }
        for part in parts {
            match part {
                Part::Entry { typed, does, .. } => entry(&typed, &does, roff),
                Part::Heading(text) | Part::Paragraph(text) => {
                    roff.control("PP", []).text([roman(text)]);
                }
                Part::Empty => {}
            }
        }
    }
    roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
}

/// Something to type, as it is, and what it does.
fn entry(typed: &str, does: &str, roff: &mut Roff) {
    roff.control("PP", []).control("nf", []);
    for line in typed.lines() {
        roff.text([bold(line)]);
    }
    roff.control("fi", []);
    if !does.is_empty() {
        roff.control("RS", ["4"]).text([italic(does)]).control("RE", []);
    }
}
