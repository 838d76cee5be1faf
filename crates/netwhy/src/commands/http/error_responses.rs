//! Responses whose status is an error. They are complete, and often fast: what is measured is not what the
//! user meant to measure.

use model::HttpLoad;

/// The lowest status of an error (RFC 9110, section 15.5).
const FIRST_ERROR_STATUS: u16 = 400;

/// Requests that failed, or whose response is an error.
pub(super) fn errors(load: &HttpLoad) -> u64 {
    error_responses(load) + load.errors.total()
}

/// Whether there are responses, and all of them are errors.
pub(super) fn only_errors(load: &HttpLoad) -> bool {
    load.requests > 0 && error_responses(load) == load.requests
}

fn error_responses(load: &HttpLoad) -> u64 {
    let errors = load.statuses.iter().filter(|one| one.status >= FIRST_ERROR_STATUS);
    errors.map(|one| one.count).sum()
}
