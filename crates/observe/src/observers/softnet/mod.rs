//! Packets by CPU, at both ends of the window: `/proc/net/softnet_stat`.

use model::{Capability, Change, Evidence, SoftnetCpu, Source};
use wire::proc_net::{self, Softnet};

use crate::context::Context;
use crate::observer::Observe;

const PATH: &str = "/proc/net/softnet_stat";
const WHAT: &str = "packets by CPU";

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<SoftnetObserver>::default()
}

#[derive(Default)]
struct SoftnetObserver {
    before: Option<Vec<Softnet>>,
}

impl Observe for SoftnetObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.before = read(context);
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        if let (Some(before), Some(after)) = (&self.before, read(context)) {
            evidence.softnet = Some(after.into_iter().map(|line| change(before, line)).collect());
        }
    }
}

fn read(context: &mut Context<'_>) -> Option<Vec<Softnet>> {
    let text = context.text(Source::Softnet, WHAT, PATH)?;
    match proc_net::softnet(text) {
        Ok(lines) => Some(lines),
        Err(malformed) => {
            let why = format!("cannot parse {PATH}: {malformed}");
            context.missing_because(Source::Softnet, Capability::Broken, WHAT, why, None);
            None
        }
    }
}

fn change(before: &[Softnet], after: Softnet) -> SoftnetCpu {
    // The counters of a CPU that came online meanwhile began at zero.
    let before = before.iter().find(|line| line.cpu == after.cpu).copied().unwrap_or_default();
    SoftnetCpu {
        cpu: after.cpu,
        processed: Change::new(before.processed, after.processed),
        dropped: Change::new(before.dropped, after.dropped),
        time_squeeze: Change::new(before.time_squeeze, after.time_squeeze),
        received_rps: Change::new(before.received_rps, after.received_rps),
        flow_limit: Change::new(before.flow_limit, after.flow_limit),
        backlog: after.backlog,
    }
}
