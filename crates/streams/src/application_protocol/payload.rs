//! New data of a stream, as the application protocols take it.

use model::Side;

use crate::time::Nanos;

/// New data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) sender: Side,
    /// The captured part.
    pub(crate) bytes: &'a [u8],
    /// Length of all of it.
    pub(crate) length: u32,
    pub(crate) at: Nanos,
    /// Number of the current exchange.
    pub(crate) exchange: u32,
    /// Whether it begins a request.
    pub(crate) begins_request: bool,
}
