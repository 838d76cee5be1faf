//! The commands: one folder each (options, run, show), and one line in the table below, which the
//! command line, its help and the tests go by. No command imports another one.

pub(crate) mod capture;
pub(crate) mod conntrack;
pub(crate) mod diagnose;
pub(crate) mod explain;
pub(crate) mod http;
pub(crate) mod lab;
pub(crate) mod pcap;
pub(crate) mod ping;
pub(crate) mod record;
pub(crate) mod sockets;
pub(crate) mod trace;
pub(crate) mod transfer;
pub(crate) mod watch;

/// Makes the enum that clap reads and the call of each command out of the table.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident => $folder:ident,)*) => {
        /// What netwhy can do beside its main job.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$about])* $name($folder::Options),)*
        }

        impl Command {
            /// Does it; the exit code.
            pub(crate) fn run(&self) -> anyhow::Result<u8> {
                match self {
                    $(Command::$name(options) => $folder::run(options),)*
                }
            }
        }
    };
}

commands! {
    /// Explain one cause, or list them all
    Explain => explain,
    /// Save the evidence of a window to a file
    Record => record,
    /// Diagnose saved evidence, on any machine, without root
    Diagnose => diagnose,
    /// List the TCP sockets with what the kernel knows of them
    Sockets => sockets,
    /// Show the connection-tracking table, grouped or listed
    Conntrack => conntrack,
    /// Capture packets of interfaces into pcapng files
    Capture => capture,
    /// Diagnose captures: causes, the packets that prove them, where the time went
    Pcap => pcap,
    /// Measure round trips: ICMP, TCP SYN, UDP; and under load
    Ping => ping,
    /// Show the hops on the way to a host, all at once
    Trace => trace,
    /// Load an HTTP server, measure it, and say why it was slow
    Http => http,
    /// Transfer in bulk or by request and answer, beside what theory says
    Transfer => transfer,
    /// Build networks, break them in a known way, and see whether netwhy names it
    Lab => lab,
}
