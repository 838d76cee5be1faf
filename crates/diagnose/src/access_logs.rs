//! What access logs say about the responses that clients got.

use model::{Evidence, Proof, Source};
use text::{count, number, percent, share};

use crate::proofs::{WithFigures as _, proof};
use crate::words::line;

/// Statuses of requests that nobody answered in time: 499 the client left, 502 no valid response of
/// the upstream, 504 none at all.
const FAILED_STATUSES: [u16; 3] = [499, 502, 504];

/// Requests logged and those that failed. Of several access logs the one with most failures: two may
/// have logged the same request.
pub(crate) struct Responses {
    /// Requests.
    pub(crate) requests: f64,
    /// Those of them that failed.
    pub(crate) failed: f64,
    by_status: Vec<(u16, u64)>,
    sampled: bool,
    path: String,
}

/// What the access logs say; `None` when none was read.
pub(crate) fn responses(evidence: &Evidence) -> Option<Responses> {
    let logs = evidence.logs.as_deref().unwrap_or_default().iter();
    logs.filter(|log| !log.statuses.is_empty())
        .map(|log| {
            let by_status: Vec<(u16, u64)> = FAILED_STATUSES
                .iter()
                .filter_map(|status| Some((*status, *log.statuses.get(status)?)))
                .collect();
            // A log that was not read whole stands for all that was written.
            let scale = share(log.bytes_written as f64, log.bytes_read as f64).max(1.0);
            Responses {
                requests: scale
                    * log.statuses.values().copied().fold(0, u64::saturating_add) as f64,
                failed: scale
                    * by_status.iter().map(|(_, n)| *n).fold(0, u64::saturating_add) as f64,
                by_status,
                sampled: log.bytes_read < log.bytes_written,
                path: line(&log.path),
            }
        })
        .max_by(|a, b| a.failed.total_cmp(&b.failed).then(a.requests.total_cmp(&b.requests)))
}

impl Responses {
    /// Share that failed.
    pub(crate) fn share(&self) -> f64 {
        share(self.failed, self.requests)
    }

    /// For people: `31 of 4,010 requests failed (504: 31), 0.8 %`.
    pub(crate) fn text(&self) -> String {
        let about = if self.sampled { "about " } else { "" };
        let each: Vec<String> =
            self.by_status.iter().map(|(status, n)| format!("{status}: {}", number(*n))).collect();
        let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
        format!(
            "{about}{} of {} failed{each}, {}",
            number(self.failed.round() as u64),
            count(self.requests.round() as u64, "request"),
            percent(self.share())
        )
    }

    /// As proof.
    pub(crate) fn proof(&self, evidence: &Evidence) -> Proof {
        let text = format!("{}:\n{}", self.path, self.text());
        let mut proof = proof(Source::Logs, "responses", text)
            .over_window(evidence, "requests logged", self.requests, "requests")
            .over_window(evidence, "requests failed", self.failed, "requests");
        for (status, n) in &self.by_status {
            let name = format!("status {status}");
            proof = proof.over_window(evidence, &name, *n as f64, "lines read");
        }
        proof
    }
}
