//! Transfers between a client and a server on the loopback interface.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use model::TransferDirection;
use sys::Stop;

use super::{Event, Limits, Options, Progress, Server, run};
use crate::Error;

pub(super) fn options(address: SocketAddr) -> Options {
    Options {
        peer: address.to_string(),
        address,
        url: None,
        direction: TransferDirection::Down,
        size: Some(300_000),
        interval: None,
        count: Some(3),
        duration: None,
        reconnect: false,
        streams: 2,
        buffer_bytes: 5000,
        source_delay: Duration::ZERO,
        congestion: None,
        token: Some("right".to_string()),
        timeout: Duration::from_secs(5),
        bandwidth_bps: None,
    }
}

/// Runs a test against a server; what happened there.
fn with_server(test: impl FnOnce(SocketAddr)) -> Vec<Event> {
    let limits = Limits {
        token: Some("right".to_string()),
        session_time: Duration::from_secs(600),
        session_bytes: 10_000_000,
        clients: 2,
    };
    let server = Server::listen("127.0.0.1:0".parse().unwrap(), limits).unwrap();
    let address = server.address().unwrap();
    let stop = Stop::new();
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, None, &mut |event| events.push(event)));
        test(address);
        // A session ends shortly after its client.
        std::thread::sleep(Duration::from_millis(300));
        stop.set();
    });
    events
}

fn go(options: &Options) -> Result<model::Transfer, Error> {
    run(options, &Stop::new(), &Progress::default())
}

#[test]
fn downloads_and_uploads_arrive_completely() {
    let events = with_server(|address| {
        for direction in [TransferDirection::Down, TransferDirection::Up] {
            for reconnect in [false, true] {
                let all = go(&Options { direction, reconnect, ..options(address) }).unwrap();
                assert_eq!((all.completed, all.bytes, all.errors.len()), (6, 1_800_000, 0));
                let connections = if reconnect { 3 } else { 1 };
                assert_eq!(all.senders.len(), 2);
                for sender in &all.senders {
                    assert_eq!(sender.written_bytes, 900_000);
                    assert!(sender.writes >= 180 && sender.connections == connections);
                    assert_eq!(sender.starts.len(), 3);
                }
            }
        }
    });
    let ended = Event::Ended(peer_of(&events[1]), 1_800_000);
    assert_eq!((events.len(), &events[1]), (8, &ended));
}

fn peer_of(event: &Event) -> SocketAddr {
    match event {
        Event::Began(peer, _) | Event::Ended(peer, _) | Event::Refused(peer, _) => *peer,
        Event::RefusedMore(..) => panic!("many refusals"),
    }
}

#[test]
fn unauthorized_and_excessive_requests_are_refused_with_a_reason() {
    let events = with_server(|address| {
        let refused = |options: Options| go(&options).unwrap_err().to_string();
        let wrong = Options { token: Some("wrong".to_string()), ..options(address) };
        assert!(refused(wrong).contains("the token is wrong"));
        let none = Options { token: None, ..options(address) };
        assert!(refused(none).contains("requires a token"));
        let much = Options { size: Some(9_000_000), ..options(address) };
        assert!(refused(much).contains("--max-bytes"));
        let long = Options { duration: Some(Duration::from_secs(700)), ..options(address) };
        assert!(refused(long).contains("--max-time"));
        // Invalid openings get the protocol and version as a reply, and are disconnected.
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(&[b'x'; 32]).unwrap();
        let mut reply = Vec::new();
        stranger.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"nwxfer\r\n"));
        assert!(go(&options(address)).is_ok(), "others are served");
    });
    let refused = events.iter().filter(|event| matches!(event, Event::Refused(..)));
    assert_eq!(refused.count(), 5, "{events:?}");
}

#[test]
fn a_stop_ends_a_transfer_with_the_result_so_far() {
    with_server(|address| {
        let stop = Stop::new();
        let progress = Progress::default();
        let slow = Options {
            source_delay: Duration::from_millis(50),
            size: Some(1_000_000),
            ..options(address)
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| run(&slow, &stop, &progress));
            let timeout = Instant::now() + Duration::from_secs(10);
            while progress.bytes() == 0 && Instant::now() < timeout {
                std::thread::sleep(Duration::from_millis(5));
            }
            let began = Instant::now();
            stop.set();
            let all = thread.join().unwrap().unwrap();
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            assert!(all.interrupted && all.completed == 0 && all.bytes > 0, "{all:?}");
            assert_eq!(all.errors, []);
        });
    });
}
