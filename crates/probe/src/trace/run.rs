//! One trace from start to end.

use model::Route;
use sys::Stop;

use super::settings::Settings;
use super::tracer::Tracer;
use crate::Error;

/// Traces a route once.
///
/// # Errors
///
/// As [`Tracer::open`] and [`Tracer::send_round`].
pub fn run(settings: Settings, stop: &Stop) -> Result<Route, Error> {
    let (queries, find_mtu) = (settings.queries, settings.find_mtu);
    let mut tracer = Tracer::open(settings)?;
    tracer.send_round(queries, stop)?;
    tracer.finish(stop)?;
    if find_mtu {
        tracer.find_mtu(stop)?;
    }
    let mut route = tracer.route();
    if stop.is_set() {
        route.notes.push("interrupted: replies may still have been under way".to_string());
    }
    Ok(route)
}
