//! `netwhy transfer serve`: the other end of `netwhy transfer`.

use probe::transfer::{Event, Limits, Server};
use sys::Stop;
use text::{bytes, duration, number, sanitize};

use super::options::{ServeOptions, token};
use crate::probe_job::failure;
use crate::{output, window};

pub(super) fn run(options: &ServeOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let limits = Limits {
        token: token(options.token.as_ref()),
        session_time: options.max_time,
        session_bytes: options.max_bytes,
        clients: options.max_clients.into(),
    };
    let open_to_all = limits.token.is_none() && !options.bind.ip().is_loopback();
    let server = Server::listen(options.bind, limits).map_err(failure)?;
    let address = server.address().unwrap_or(options.bind);
    let until = match options.duration {
        Some(time) => format!("for {}", duration(time)),
        None => "until Ctrl-C".to_string(),
    };
    note(&format!("netwhy transfer serve: listening on {address}, {until}"));
    if open_to_all {
        note("  every host that reaches it may use it: --token restricts that");
    }
    let stop = Stop::on_signals()?;
    server.run(&stop, options.duration, &mut |event| note(&format!("  {}", text(&event))));
    Ok(0)
}

/// A line on standard error.
fn note(line: &str) {
    // Nobody may read it.
    let _ = output::print(&format!("{line}\n"), true);
}

fn text(event: &Event) -> String {
    match event {
        Event::Began(client, what) => format!("{client}: {}", sanitize::line(what)),
        Event::Ended(client, transferred) => format!("{client}: ended, {}", bytes(*transferred)),
        Event::Refused(client, why) => format!("{client}: refused: {}", sanitize::line(why)),
        Event::RefusedMore(count, time) => {
            format!("{} more refused in the last {}", number(*count), duration(*time))
        }
    }
}
