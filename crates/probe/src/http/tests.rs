//! Loads against servers that respond properly, and against servers that do not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::HttpLoad;

use sys::Stop;

use super::plan::{Plan, test_plan};
use super::{LiveCounts, prepare};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server on loopback; ends when it is dropped.
struct Server(SocketAddr, Arc<AtomicBool>);

impl Server {
    /// Each connection is handled in a thread of its own.
    fn new(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ended) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (end, handle) = (Arc::clone(&ended), Arc::new(handle));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let (handle, connection) = (Arc::clone(&handle), connection.unwrap());
                connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                std::thread::spawn(move || handle(connection));
            }
        });
        Server(address, ended)
    }

    /// Responds to each request with these bytes.
    fn responding(response: &'static [u8]) -> Self {
        Server::new(move |connection| {
            let mut lines = BufReader::new(connection.try_clone().unwrap());
            while head(&mut lines) {
                if (&connection).write_all(response).is_err() {
                    break;
                }
            }
        })
    }

    fn plan(&self) -> Plan {
        test_plan(&format!("http://{}/", self.0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.0);
    }
}

/// Reads the head of a request; false at the end.
fn head(lines: &mut BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line == "\r\n" {
            return true;
        }
        line.clear();
    }
    false
}

fn load(plan: Plan) -> HttpLoad {
    let ready = prepare(plan).unwrap();
    ready.run(&Stop::new(), &Arc::new(LiveCounts::default())).unwrap().load
}

#[test]
fn each_request_is_counted_once() {
    let server = Server::responding(HELLO);
    let load = load(server.plan());
    assert_eq!((load.requests, load.errors.total(), load.unfinished), (20, 0, 0));
    assert_eq!((load.statuses[0].status, load.statuses[0].count), (200, 20));
    assert_eq!((load.connections_opened, load.received_bytes), (2, 20 * HELLO.len() as u64));
    assert_eq!(load.latency_us.count, 20);
    assert_eq!(load.phases_us.connect.unwrap().count, 2);
    assert!(
        load.latency_us.max >= load.latency_us.p99 && load.latency_us.p99 >= load.latency_us.p50
    );
}

#[test]
fn a_new_connection_for_each_request() {
    let server = Server::new(|connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(HELLO).unwrap();
    });
    let load = load(Plan { new_connections: true, ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (20, 20, 0));
}

#[test]
fn pipelined_requests_get_their_responses_in_order() {
    let server = Server::responding(HELLO);
    let load = load(Plan { pipeline: 8, count: Some(100), ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (100, 2, 0));
}

#[test]
fn threads_share_the_connections_and_the_count() {
    let server = Server::responding(HELLO);
    let load = load(Plan { threads: 3, connections: 7, count: Some(50), ..server.plan() });
    assert_eq!((load.requests, load.errors.total()), (50, 0));
    // A thread may be done with all requests before another starts: they have three, two and two.
    assert!((2..=7).contains(&load.connections_opened), "{}", load.connections_opened);
}

#[test]
fn a_load_on_a_closed_port_ends_at_once() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for http2 in [false, true] {
        let duration = Some(Duration::from_secs(600));
        let plan = test_plan(&format!("http://{port}/"));
        let ready = prepare(Plan { count: None, duration, http2, ..plan }).unwrap();
        let ended = ready.run(&Stop::new(), &Arc::new(LiveCounts::default())).unwrap_err();
        let why = format!("cannot connect to {port}: Connection refused; nothing listens there");
        assert!(ended.to_string().starts_with(&why), "{ended}");
    }
}

#[test]
fn refused_connections_of_a_server_that_was_there_are_counted() {
    // It accepts one connection, responds once, and is gone.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        drop(listener);
        head(&mut BufReader::new(connection.try_clone().unwrap()));
        (&connection).write_all(HELLO).unwrap();
    });
    let plan = Plan { connections: 1, count: Some(8), ..test_plan(&format!("http://{address}/")) };
    let load = load(plan);
    assert_eq!((load.requests, load.errors.total()), (1, 7));
    assert!(load.errors.connect["ECONNREFUSED"] >= 5, "{:?}", load.errors);
}

#[test]
fn closed_connections_are_counted_by_when_they_were_closed() {
    let closes_early = Server::new(|connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(&HELLO[..HELLO.len() - 2]).unwrap();
    });
    let result = load(Plan { count: Some(6), ..closes_early.plan() });
    assert_eq!(
        (result.errors.closed_mid_response, result.errors.total(), result.requests),
        (6, 6, 0)
    );
    let silent = Server::new(|connection| {
        head(&mut BufReader::new(connection));
    });
    let result = load(Plan { count: Some(6), ..silent.plan() });
    assert_eq!(
        (result.errors.closed_before_response, result.errors.total(), result.requests),
        (6, 6, 0)
    );
}

#[test]
fn a_response_without_a_length_ends_with_its_connection() {
    let server = Server::new(|connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(b"HTTP/1.0 200 OK\r\n\r\nall of it").unwrap();
    });
    let load = load(Plan { count: Some(6), ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (6, 6, 0));
}

#[test]
fn a_response_that_never_ends_is_a_timeout() {
    let endless = Server::new(|connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        let _ = (&connection).write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while (&connection).write_all(b"1\r\na\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let plan = Plan { count: Some(4), timeout: Duration::from_millis(200), ..endless.plan() };
    let start = Instant::now();
    let result = load(plan);
    assert_eq!((result.errors.timeout_response, result.errors.total(), result.requests), (4, 4, 0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn malformed_responses_are_counted_by_reason() {
    let server = Server::responding(b"SSH-2.0-OpenSSH_9.6\r\n");
    let result = load(Plan { count: Some(4), ..server.plan() });
    assert_eq!(result.errors.malformed["not HTTP/1.1 or 1.0"], 4);
    let server = Server::responding(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc");
    let result = load(Plan { count: Some(4), ..server.plan() });
    assert_eq!(result.requests, 4, "{result:?}");
    assert!(result.errors.malformed["bytes after the end of a response"] >= 1);
}

#[test]
fn tls_to_a_server_without_it_fails_with_a_reason() {
    let server = Server::responding(HELLO);
    let plan = test_plan(&format!("https://{}/", server.0));
    let result = load(Plan { count: Some(2), timeout: Duration::from_millis(300), ..plan });
    assert_eq!((result.requests, result.errors.total()), (0, 2), "{result:?}");
}

#[test]
fn a_slow_server_shows_in_the_intended_latency_of_an_open_loop() {
    let server = Server::responding(HELLO);
    let (duration, rate) = (Some(Duration::from_millis(500)), Some(400.0));
    let result = load(Plan { duration, count: None, rate, ..server.plan() });
    assert!((180..=200).contains(&result.requests), "{result:?}");
    assert!(result.unsent.unwrap() <= 20, "{result:?}");
    // At most 20 responses a second on one connection; 100 requests a second are due.
    let slow = Server::new(|connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        while head(&mut lines) {
            std::thread::sleep(Duration::from_millis(50));
            if (&connection).write_all(HELLO).is_err() {
                break;
            }
        }
    });
    let plan = Plan { duration, count: None, rate: Some(100.0), connections: 1, ..slow.plan() };
    let result = load(plan);
    let intended = result.intended_latency_us.unwrap();
    assert!(result.latency_us.p99 < 100_000, "{:?}", result.latency_us);
    assert!(intended.p99 > 250_000, "{intended:?}");
    assert!(result.unsent.unwrap() > 30, "{result:?}");
}

#[test]
fn a_load_ends_when_its_stop_is_set() {
    let server = Server::responding(HELLO);
    let plan = Plan { count: None, duration: Some(Duration::from_secs(60)), ..server.plan() };
    let ready = prepare(plan).unwrap();
    let (stop, start) = (Stop::new(), Instant::now());
    let setter = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        setter.set();
    });
    let load = ready.run(&stop, &Arc::new(LiveCounts::default())).unwrap().load;
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(load.requests > 10 && load.duration_s < 3.0);
    assert!(load.unfinished <= 2);
}

#[test]
fn large_bodies_arrive_completely() {
    let body = vec![b'x'; 3 << 20];
    let size = body.len();
    let server = Server::new(move |connection| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        let mut rest = vec![0; size];
        while head(&mut lines) && lines.read_exact(&mut rest).is_ok() {
            assert!(rest.iter().all(|byte| *byte == b'x'));
            (&connection).write_all(HELLO).unwrap();
        }
    });
    let load = load(Plan { body, count: Some(4), ..server.plan() });
    assert_eq!((load.requests, load.errors.total()), (4, 0), "{load:?}");
}
