//! Findings while packets come, each reported once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use model::{Evidence, Finding};

/// Shortest time between two diagnoses.
const DIAGNOSE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two diagnoses at least so many times as long passes as the first one took: diagnosing takes at
/// most 5 % of the time.
const MIN_DIAGNOSE_PAUSE_FACTOR: u32 = 20;
/// Most findings that are reported while packets come; more are in the final report only.
const MAX_LIVE_FINDINGS: usize = 1000;

/// Diagnoses packets from time to time, and knows which findings were reported.
pub struct LiveFindings {
    reported: HashSet<(String, String)>,
    next: Instant,
    packets: u64,
}

impl Default for LiveFindings {
    fn default() -> Self {
        let next = Instant::now() + DIAGNOSE_INTERVAL;
        LiveFindings { reported: HashSet::new(), next, packets: 0 }
    }
}

impl LiveFindings {
    /// When the next diagnosis is due.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// Whether anything was reported.
    pub fn has_reported(&self) -> bool {
        !self.reported.is_empty()
    }

    /// If it is time to, and there are more packets than at the last time: diagnoses the evidence so far,
    /// and passes the findings that are new to `report`.
    ///
    /// # Errors
    ///
    /// What `report` returns.
    pub fn update(
        &mut self,
        packets: u64,
        evidence_so_far: impl FnOnce() -> Evidence,
        report: &mut dyn FnMut(&Finding, &Evidence) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        if packets > self.packets {
            self.packets = packets;
            let evidence = evidence_so_far();
            for finding in diagnose::diagnose(&evidence).findings {
                if self.reported.len() < MAX_LIVE_FINDINGS && self.reported.insert(key(&finding)) {
                    report(&finding, &evidence)?;
                }
            }
        }
        self.next =
            Instant::now() + DIAGNOSE_INTERVAL.max(began.elapsed() * MIN_DIAGNOSE_PAUSE_FACTOR);
        Ok(())
    }
}

/// What tells one finding from another while packets come. The name of a subject changes with the number
/// of its streams; the address of its server does not.
fn key(finding: &Finding) -> (String, String) {
    let subject = &finding.subject;
    let name = subject.local.map_or_else(|| subject.name.clone(), |server| server.to_string());
    (finding.cause.clone(), name)
}
