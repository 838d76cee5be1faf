//! The live line on standard error: what runs, and what it has found so far.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use model::Series;
use text::{count, number, sanitize};

/// A progress line on standard error, if that is a terminal and `is_shown`. The template is a constant of
/// this program.
pub(crate) fn bar(template: &str, is_shown: bool) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && is_shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        // A whole number a second.
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&number(state.per_sec() as u64));
        };
        bar.set_style(style.with_key("rate", rate));
    }
    bar
}

/// The live line on standard error: the countdown, and what was found so far.
pub(crate) struct Line {
    bar: ProgressBar,
    time: Option<Duration>,
}

impl Line {
    pub(crate) fn new(time: Option<Duration>) -> Self {
        Line { bar: bar("{wide_msg}", true), time }
    }

    /// Shows the countdown, and what the window has found so far.
    pub(crate) fn watching(&self, elapsed: Duration, series: impl FnOnce() -> Vec<Series>) {
        if self.bar.is_hidden() {
            return;
        }
        let found = words(&series());
        let left = self.time.map(|time| time.saturating_sub(elapsed));
        self.show(match left {
            Some(left) => format!("watching, {:.1} s left: {found}", left.as_secs_f64()),
            None => format!("watching for {:.1} s: {found}", elapsed.as_secs_f64()),
        });
    }

    pub(crate) fn show(&self, text: String) {
        self.bar.set_message(sanitize::line(&text).into_owned());
        self.bar.tick();
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// What matters of the series, in a few words: `2,602 sockets; queue of 0.0.0.0:80 full, 11/10;
/// 495 handshakes dropped`.
fn words(series: &[Series]) -> String {
    let sum = |name: &str| -> u64 {
        let same = series.iter().filter(|series| series.name == name);
        same.map(|series| series.value).sum::<f64>() as u64
    };
    let mut words = vec![count(sum("tcp_sockets"), "socket")];
    // The worst listener comes first.
    let worst = series.iter().find(|series| series.name == "tcp_listen_queue");
    if let Some(listener) = worst.and_then(|queue| queue.label("listener")) {
        let figure = |name: &str| {
            let same = |s: &&Series| s.name == name && s.label("listener") == Some(listener);
            series.iter().find(same).map_or(0, |series| series.value as u64)
        };
        let (length, limit) = (figure("tcp_listen_queue"), figure("tcp_listen_queue_limit"));
        if figure("tcp_listen_queue_full_samples") > 0 || figure("tcp_listen_drops") > 0 {
            let full = if length > limit { " full," } else { "" };
            words.push(format!("queue of {listener}{full} {length}/{limit}"));
        }
    }
    for (name, one, more) in [
        ("tcp_handshakes_dropped", "handshake dropped", "handshakes dropped"),
        ("tcp_syn_retransmitting", "connection retransmits", "connections retransmit"),
        ("conntrack_entries", "tracked connection", "tracked connections"),
    ] {
        match sum(name) {
            0 => {}
            1 => words.push(format!("1 {one}")),
            many => words.push(format!("{} {more}", number(many))),
        }
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use model::Series;

    use super::words;

    #[test]
    fn the_line_has_the_worst_listener_and_what_is_not_zero() {
        let listener =
            |name: &str, value| Series::count(name, value).with_label("listener", "0.0.0.0:80");
        let mut series = vec![
            Series::count("tcp_sockets", 2600).with_label("state", "ESTAB"),
            Series::count("tcp_sockets", 2).with_label("state", "TIME-WAIT"),
            Series::count("tcp_syn_retransmitting", 0),
            Series::count("conntrack_entries", 0),
        ];
        assert_eq!(words(&series), "2,602 sockets");
        series.extend([
            Series::count("tcp_handshakes_dropped", 495),
            listener("tcp_listen_queue", 11),
            listener("tcp_listen_queue_limit", 10),
            listener("tcp_listen_queue_full_samples", 3),
            listener("tcp_listen_drops", 495),
        ]);
        let line = "2,602 sockets; queue of 0.0.0.0:80 full, 11/10; 495 handshakes dropped";
        assert_eq!(words(&series), line);
        assert_eq!(
            words(&[Series::count("conntrack_entries", 1)]),
            "0 sockets; 1 tracked connection"
        );
    }
}
