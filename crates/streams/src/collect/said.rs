//! What was said in all streams of a service.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use model::{SlowRequest, StatusCount};

use crate::Nanos;
use crate::spoken::Spoken;

/// Requests of one service that are told apart.
const REQUESTS: usize = 1024;
/// Those that are told.
const TOLD: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    statuses: BTreeMap<u16, u64>,
    /// How often each was slow, and how long in all.
    slow: HashMap<String, (u64, Nanos)>,
}

impl Said {
    pub(super) fn add(&mut self, spoken: &Spoken) {
        for (status, count) in spoken.statuses() {
            *self.statuses.entry(*status).or_default() += u64::from(*count);
        }
        for one in spoken.slow() {
            self.slow(&one.request, (one.turns.into(), one.time));
        }
    }

    fn slow(&mut self, request: &str, (turns, time): (u64, Nanos)) {
        let full = self.slow.len() >= REQUESTS;
        let sum = match self.slow.get_mut(request) {
            Some(sum) => sum,
            None if full => return,
            None => self.slow.entry(request.to_string()).or_default(),
        };
        sum.0 += turns;
        sum.1 = sum.1.saturating_add(time);
    }

    /// Adds what was said in others.
    pub(super) fn join(&mut self, other: Said) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (request, sum) in other.slow {
            self.slow(&request, sum);
        }
    }

    pub(super) fn statuses(&self) -> Vec<StatusCount> {
        let told = self.statuses.iter();
        told.map(|(status, count)| StatusCount { status: *status, count: *count }).collect()
    }

    /// Those that took most time first.
    pub(super) fn slow_requests(&self) -> Vec<SlowRequest> {
        let mut told: Vec<SlowRequest> = self
            .slow
            .iter()
            .map(|(request, (turns, time))| SlowRequest {
                request: request.clone(),
                exchanges: *turns,
                think_time_us: u64::try_from(time / 1_000).unwrap_or(0),
            })
            .collect();
        told.sort_by(|a, b| {
            (Reverse(a.think_time_us), &a.request).cmp(&(Reverse(b.think_time_us), &b.request))
        });
        told.truncate(TOLD);
        told
    }
}
