//! The vocabulary of netwhy as types: evidence, finding, impact, remedy, with their units.
//!
//! - [`evidence`]: everything observed in one window, the one value that is saved and diagnosed
//! - [`counters`]: kernel counters before and after the window
//! - [`socket`]: TCP sockets, listeners, use of local ports
//! - [`conntrack`]: the connection-tracking table
//! - [`process`]: processes, the applications they run, the messages of their logs
//! - [`finding`]: causes found, with proof, checks and remedies; the report
//! - [`gain`]: what fixing a cause is expected to give
//! - [`remedy`]: changes that fix a cause, and commands for people
//! - [`observation`]: what it takes to observe a source
//! - [`focus`]: what the user restricted a window to
//! - [`packets`]: captured streams; [`captured_direction`]: what one end of each sent
//! - [`time_breakdown`]: the categories of a stream's time
//! - [`application_protocol`]: what packets carry in clear: HTTP/1, TLS, DNS
//! - [`path`]: two captures of the same streams, one at each end of a path
//! - [`depth`]: one captured stream in depth: phases, exchanges, events, packets
//! - [`probe`]: results of active measurements; [`reports`]: their JSON documents;
//!   [`probe_lines`]: the lines of JSON while they run
//! - [`credentials`]: removing passwords from text
//! - [`series`]: numbers of a window while it runs
//!
//! No input or output, no clock: a value of these types means the same on every machine.
//! Times are milliseconds since the window began (`…_at_ms`) unless the name says otherwise,
//! sizes are bytes. A field that the source did not give is `None`, never zero.

pub mod application_protocol;
pub mod captured_direction;
pub mod conntrack;
pub mod counters;
pub mod credentials;
pub mod depth;
pub mod evidence;
pub mod finding;
pub mod focus;
pub mod gain;
pub mod observation;
pub mod packets;
pub mod path;
pub mod probe;
pub mod probe_lines;
pub mod process;
pub mod remedy;
pub mod reports;
pub mod series;
pub mod socket;
pub mod time_breakdown;

pub use application_protocol::*;
pub use captured_direction::*;
pub use conntrack::*;
pub use counters::*;
pub use credentials::*;
pub use depth::*;
pub use evidence::*;
pub use finding::*;
pub use focus::*;
pub use gain::*;
pub use observation::*;
pub use packets::*;
pub use path::*;
pub use probe::*;
pub use probe_lines::*;
pub use process::*;
pub use remedy::*;
pub use reports::*;
pub use series::*;
pub use socket::*;
pub use time_breakdown::*;
