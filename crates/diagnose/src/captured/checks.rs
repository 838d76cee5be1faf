//! Commands that show a captured stream by hand.

use model::{CapturedStream, Command, Evidence, Packets};

use crate::commands::{CommandLine, commands};

/// Commands that show a stream; of packets that were not written, a capture of the next time.
pub(crate) fn stream_checks(evidence: &Evidence, stream: &CapturedStream) -> Vec<Command> {
    let Some(packets) = &evidence.packets else { return Vec::new() };
    let interfaces = packets.interfaces();
    if !interfaces.is_empty() {
        let mut capture = CommandLine::new("netwhy capture");
        for name in interfaces {
            capture = capture.args("-i").name(name);
        }
        let port = stream.server.port();
        let capture = capture.args("-w again.pcapng --for 10s tcp port").arg(port);
        return commands([
            capture.in_netns(evidence),
            CommandLine::new("netwhy pcap again.pcapng").here(),
        ]);
    }
    let number = stream.number;
    let Some(file) = capture_file(evidence) else { return Vec::new() };
    commands([
        CommandLine::new("netwhy pcap").file(file).args("--stream").arg(number).here(),
        CommandLine::new("tshark -r")
            .file(file)
            .args("-Y")
            .arg(format!("tcp.stream=={number}"))
            .here(),
    ])
}

/// The name of the file that the packets come from, if it is one.
pub(crate) fn capture_file(evidence: &Evidence) -> Option<&str> {
    match &evidence.packets.as_ref()?.sources[..] {
        [file] if file != "-" && !file.starts_with(Packets::INTERFACE_PREFIX) => Some(file),
        _ => None,
    }
}
