//! The commands: each is a folder (options, run, show) and one line in the table below, from which the
//! command line and its help are made. No command imports another one.

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

/// Makes the enum for clap and the call of each command from the table.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident => $folder:ident,)*) => {
        /// The commands of netwhy.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$about])* $name($folder::Options),)*
        }

        impl Command {
            /// Runs the command; returns the exit code.
            pub(crate) fn run(&self) -> anyhow::Result<u8> {
                match self {
                    $(Command::$name(options) => $folder::run(options),)*
                }
            }
        }
    };
}

commands! {
    /// Explain a cause, or list all causes
    Explain => explain,
    /// Save the evidence of a window to a file
    Record => record,
    /// Diagnose saved evidence, on any machine, without root
    Diagnose => diagnose,
    /// List TCP sockets with the kernel's statistics of each
    Sockets => sockets,
    /// Show the connection-tracking table, grouped or listed
    Conntrack => conntrack,
    /// Capture packets into pcapng files, or diagnose them
    Capture => capture,
    /// Diagnose captures: causes, the packets that prove them, where the time went
    Pcap => pcap,
    /// Measure round-trip times with ICMP, TCP or UDP, also under load
    Ping => ping,
    /// Show the route to a host, probing all hops at once
    Trace => trace,
    /// Load an HTTP server, measure it, and find out why it is slow
    Http => http,
    /// Measure bulk transfers or exchanges, and compare them with theory
    Transfer => transfer,
    /// Build networks, break them in a known way, and check that netwhy names the
    /// cause
    Lab => lab,
}
