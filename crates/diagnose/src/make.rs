//! How findings are made: short ways to say proof, figure, remedy, subject.

use std::net::SocketAddr;

use model::{
    Evidence, Figure, ProcessName, Proof, Reach, Remedy, RemedyChange, Source, Subject, SubjectKind,
};

use crate::words;

/// A proof without figures.
pub(crate) fn proof(source: Source, label: &str, text: impl Into<String>) -> Proof {
    Proof { label: label.to_string(), text: text.into(), figures: Vec::new(), source }
}

/// Adds figures to a proof.
pub(crate) trait WithFigures {
    /// With a figure that was read over the whole window.
    fn over_window(self, evidence: &Evidence, name: &str, value: f64, unit: &str) -> Self;
    /// With a figure that was read at one moment.
    fn at_moment(self, name: &str, value: f64, unit: &str) -> Self;
}

impl WithFigures for Proof {
    fn over_window(mut self, evidence: &Evidence, name: &str, value: f64, unit: &str) -> Self {
        self.figures.push(Figure {
            name: name.to_string(),
            value,
            unit: unit.to_string(),
            window_ms: evidence.window.duration_ms,
        });
        self
    }

    fn at_moment(mut self, name: &str, value: f64, unit: &str) -> Self {
        self.figures.push(Figure {
            name: name.to_string(),
            value,
            unit: unit.to_string(),
            window_ms: 0,
        });
        self
    }
}

/// A sysctl to set. The command works in the namespace that was watched.
pub(crate) fn sysctl(evidence: &Evidence, name: &str, value: &str, reaches: Reach) -> Remedy {
    // Quotes around a value with blanks: `ip_local_port_range`.
    let assignment =
        if value.contains(' ') { format!("{name}='{value}'") } else { format!("{name}={value}") };
    Remedy {
        change: RemedyChange::Sysctl {
            name: name.to_string(),
            current: evidence.sysctl(name).map(|text| text.replace('\t', " ")),
            value: value.to_string(),
        },
        text: assignment.clone(),
        command: Some(words::command(evidence, &format!("sysctl -w {assignment}"))),
        needs_root: true,
        reaches,
        note: None,
    }
}

/// A line of an application's configuration; `place` is its file and line.
pub(crate) fn config(
    application: &str,
    place: Option<String>,
    setting: &str,
    value: &str,
    text: impl Into<String>,
) -> Remedy {
    Remedy {
        change: RemedyChange::Config {
            application: application.to_string(),
            place,
            setting: setting.to_string(),
            value: value.to_string(),
        },
        text: text.into(),
        command: None,
        needs_root: true,
        reaches: Reach::AfterReload,
        note: None,
    }
}

/// Something that no setting mends.
pub(crate) fn advice(text: impl Into<String>) -> Remedy {
    Remedy {
        change: RemedyChange::Advice,
        text: text.into(),
        command: None,
        needs_root: false,
        reaches: Reach::Elsewhere,
        note: None,
    }
}

/// A setting of another host, which nobody here can change: what it would reach there.
pub(crate) fn there(text: impl Into<String>, reaches: Reach) -> Remedy {
    Remedy { reaches, ..advice(text) }
}

/// A subject.
pub(crate) fn subject(
    kind: SubjectKind,
    name: impl Into<String>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    processes: Vec<ProcessName>,
) -> Subject {
    Subject { kind, name: name.into(), local, remote, processes }
}
