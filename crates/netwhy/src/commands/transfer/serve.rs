//! `netwhy transfer serve`: the other end of `netwhy transfer`.

use probe::transfer::{Event, Limits, Server};

use super::options::{ServeOptions, token};
use crate::probing::failure;
use crate::{output, window};
use sys::Stop;

pub(super) fn run(options: &ServeOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let limits = Limits {
        token: token(options.token.as_ref()),
        session_time: options.max_time,
        session_bytes: options.max_bytes,
        clients: options.max_clients.into(),
    };
    let open = limits.token.is_none() && !options.bind.ip().is_loopback();
    let server = Server::listen(options.bind, limits).map_err(failure)?;
    let address = server.address().unwrap_or(options.bind);
    eprintln!(
        "netwhy transfer serve: listening on {address}, until {}",
        match options.time {
            Some(time) => format!("{} are over", text::duration(time)),
            None => "Ctrl-C".to_string(),
        }
    );
    if open {
        eprintln!("  anybody who reaches it may use it: --token keeps others out");
    }
    let stop = Stop::on_signals()?;
    server.run(&stop, options.time, &mut |event| eprintln!("  {}", words(&event)));
    Ok(0)
}

fn words(event: &Event) -> String {
    match event {
        Event::Began(who, what) => format!("{who}: {}", output::harmless(what)),
        Event::Ended(who, bytes) => format!("{who}: over, {}", text::bytes(*bytes)),
        Event::Refused(who, why) => format!("{who}: refused: {}", output::harmless(why)),
    }
}
