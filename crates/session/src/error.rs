//! Why a session cannot begin.

/// Why a session cannot begin. What cannot be observed is no error: it becomes missing evidence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Packets are wanted of processes.
    #[error("packets do not show the process that sends or receives them")]
    PacketsOfProcesses,
    /// An interface is named twice.
    #[error("the interface {0} is given twice")]
    InterfaceTwice(String),
    /// There is no such interface.
    #[error("{0}")]
    NoInterface(sys::Error),
}
