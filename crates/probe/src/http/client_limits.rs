//! What limits this client, so that the figures are not those of the server.

use model::{HttpClient, HttpErrors};
use text::{count, percent};

use super::plan::Plan;

/// A thread that spends this share of the time on a CPU is saturated.
const SATURATED_SHARE: f64 = 0.95;

/// The limits of this client, one sentence each.
pub(super) fn client_limits(
    plan: &Plan,
    client: &HttpClient,
    errors: &HttpErrors,
    unsent: u64,
) -> Vec<String> {
    let mut limits = Vec::new();
    let saturated = client.busiest_thread_share >= SATURATED_SHARE;
    if saturated {
        limits.push(format!(
            "a thread of this client was on a CPU for {} of the time, and may be slower than the \
             server: try more --threads, or fewer --connections",
            percent(client.busiest_thread_share)
        ));
    }
    let errno = |name: &str| errors.connect.get(name).copied().unwrap_or(0);
    if errno("EADDRNOTAVAIL") > 0 {
        limits.push(
            "this host ran out of local ports to the server (ip_local_port_range, TIME_WAIT): \
             keep connections alive"
                .to_string(),
        );
    }
    if errno("EMFILE") + errno("ENFILE") > 0 {
        limits.push("this host ran out of open files (ulimit -n, fs.file-max)".to_string());
    }
    if unsent > 0 && !saturated {
        limits.push(format!(
            "{} due without an idle connection: give more --connections, or the server cannot \
             serve {} requests a second",
            count(unsent, "request"),
            plan.rate.unwrap_or_default()
        ));
    }
    limits
}
