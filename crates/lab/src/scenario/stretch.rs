//! A healthy scenario for longer than its file says: watched on every host until its end.

use std::time::Duration;

use toml::Spanned;

use super::types::{Kind, Method, Observe, Role, Scenario};
use super::units::Time;

/// How much earlier than the workload its observers end: netwhy begins half a second after it, and
/// a workload that ends in its window would close every connection there.
const MARGIN: Duration = Duration::from_secs(2);

impl Scenario {
    /// Makes the workload last this long, and has netwhy watch and capture on every host instead of
    /// the observers of the file.
    ///
    /// # Errors
    ///
    /// Why this scenario cannot be stretched.
    pub fn stretch(&mut self, duration: Duration) -> Result<(), String> {
        if self.kind != Kind::Healthy {
            let kind = self.kind.name();
            return Err(format!(
                "only healthy scenarios can be stretched, this is a {kind}: its observers and fixes \
                 have their times in the file"
            ));
        }
        if !self.workload.run.get_ref().contains("${seconds}") {
            return Err(
                "its workload does not use ${seconds}: it ends when its work is done".into()
            );
        }
        self.workload.duration = Time(duration);
        let window = duration.saturating_sub(MARGIN);
        let hosts = self.hosts.iter().filter(|(_, host)| host.role != Role::Switch);
        self.observe = hosts
            .map(|(name, _)| Observe {
                host: Spanned::new(0..0, name.clone()),
                by: Method::LiveCapture,
                after: None,
                duration: Some(Time(window)),
                snaplen: None,
                run: None,
                server: None,
            })
            .collect();
        for process in self.processes.iter_mut().filter(|process| process.with_workload) {
            // A client that ends before the workload begins again.
            let line = format!("while :; do ({}); sleep 1; done", process.run.get_ref());
            process.run = Spanned::new(process.run.span(), line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Source;

    fn stretched(name: &str) -> Result<Scenario, String> {
        let mut scenario = Source::find(name).unwrap().scenario(None).unwrap().0;
        scenario.stretch(Duration::from_secs(3600)).map(|()| scenario)
    }

    #[test]
    fn every_host_is_watched_until_shortly_before_the_end() {
        let scenario = stretched("healthy-mixed").unwrap();
        assert_eq!(scenario.workload.duration.0, Duration::from_secs(3600));
        let watched: Vec<_> = scenario
            .observe
            .iter()
            .map(|one| (one.host.get_ref().as_str(), one.by, one.window().as_secs()))
            .collect();
        let by = Method::LiveCapture;
        assert_eq!(watched, [("client", by, 3598), ("server", by, 3598)]);
        let clients = scenario.processes.iter().filter(|process| process.with_workload);
        assert!(clients.clone().count() > 2);
        for process in clients {
            assert!(process.run.get_ref().starts_with("while :; do ("));
        }
    }

    #[test]
    fn a_switch_is_not_watched() {
        let scenario = stretched("healthy-dns").unwrap();
        let hosts: Vec<_> =
            scenario.observe.iter().map(|one| one.host.get_ref().as_str()).collect();
        assert_eq!(hosts, ["client", "second", "server"]);
    }

    #[test]
    fn a_fault_and_a_workload_of_fixed_length_cannot_be_stretched() {
        let error = stretched("bufferbloat").unwrap_err();
        assert!(error.contains("only healthy scenarios"), "{error}");
        let mut scenario = Source::find("healthy-mixed").unwrap().scenario(None).unwrap().0;
        scenario.workload.run = Spanned::new(0..0, "rsync a b".to_string());
        let error = scenario.stretch(Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("${seconds}"), "{error}");
    }
}
