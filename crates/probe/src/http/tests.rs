//! Loads against servers that answer as they should, and ones that do not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::HttpLoad;

use super::plan::{Plan, tests_plan};
use super::{Live, prepare};
use sys::Stop;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server on loopback; ends when it is dropped.
struct Server(SocketAddr, Arc<AtomicBool>);

impl Server {
    /// `talk` has a connection to itself; what it gets is the number of the connection.
    fn new(talk: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ended) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (over, talk) = (Arc::clone(&ended), Arc::new(talk));
        std::thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let (talk, connection) = (Arc::clone(&talk), connection.unwrap());
                connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                std::thread::spawn(move || talk(connection, number));
            }
        });
        Server(address, ended)
    }

    /// Answers every request with these bytes.
    fn says(answer: &'static [u8]) -> Self {
        Server::new(move |connection, _| {
            let mut lines = BufReader::new(connection.try_clone().unwrap());
            while head(&mut lines) {
                if (&connection).write_all(answer).is_err() {
                    break;
                }
            }
        })
    }

    fn plan(&self) -> Plan {
        tests_plan(&format!("http://{}/", self.0))
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
    ready.run(&Stop::new(), &Arc::new(Live::default())).unwrap().load
}

#[test]
fn each_request_is_answered_and_counted_once() {
    let server = Server::says(HELLO);
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
    let server = Server::new(|connection, _| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(HELLO).unwrap();
    });
    let load = load(Plan { new_connections: true, ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (20, 20, 0));
}

#[test]
fn requests_that_are_sent_ahead_are_answered_in_order() {
    let server = Server::says(HELLO);
    let load = load(Plan { pipeline: 8, count: Some(100), ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (100, 2, 0));
}

#[test]
fn threads_share_the_connections_and_the_count() {
    let server = Server::says(HELLO);
    let load = load(Plan { threads: 3, connections: 7, count: Some(50), ..server.plan() });
    assert_eq!((load.requests, load.errors.total()), (50, 0));
    // A thread may have done them all before another began: three have three, two and two.
    assert!((2..=7).contains(&load.connections_opened), "{}", load.connections_opened);
}

#[test]
fn a_closed_port_is_refused_as_often_as_was_asked() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let load = load(Plan { count: Some(6), ..tests_plan(&format!("http://{port}/")) });
    assert_eq!(load.errors.connect["ECONNREFUSED"], 6);
    assert_eq!((load.requests, load.connections_opened), (0, 0));
}

#[test]
fn a_server_that_closes_is_counted_by_where_it_did() {
    let cut = Server::new(|connection, _| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(&HELLO[..HELLO.len() - 2]).unwrap();
    });
    let seen = load(Plan { count: Some(6), ..cut.plan() });
    assert_eq!((seen.errors.closed_mid_response, seen.errors.total(), seen.requests), (6, 6, 0));
    let mute = Server::new(|connection, _| {
        head(&mut BufReader::new(connection));
    });
    let seen = load(Plan { count: Some(6), ..mute.plan() });
    assert_eq!((seen.errors.closed_before_response, seen.errors.total(), seen.requests), (6, 6, 0));
}

#[test]
fn an_answer_may_end_with_its_connection() {
    let server = Server::new(|connection, _| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        (&connection).write_all(b"HTTP/1.0 200 OK\r\n\r\nall of it").unwrap();
    });
    let load = load(Plan { count: Some(6), ..server.plan() });
    assert_eq!((load.requests, load.connections_opened, load.errors.total()), (6, 6, 0));
}

#[test]
fn an_answer_that_never_ends_is_a_timeout() {
    let endless = Server::new(|connection, _| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        head(&mut lines);
        let _ = (&connection).write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while (&connection).write_all(b"1\r\na\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let plan = Plan { count: Some(4), timeout: Duration::from_millis(200), ..endless.plan() };
    let begun = Instant::now();
    let seen = load(plan);
    assert_eq!((seen.errors.timeout_response, seen.errors.total(), seen.requests), (4, 4, 0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn what_is_not_http_is_told() {
    let server = Server::says(b"SSH-2.0-OpenSSH_9.6\r\n");
    let seen = load(Plan { count: Some(4), ..server.plan() });
    assert_eq!(seen.errors.malformed["not HTTP/1.1 or 1.0"], 4);
    let server = Server::says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc");
    let seen = load(Plan { count: Some(4), ..server.plan() });
    assert_eq!(seen.requests, 4, "{seen:?}");
    assert!(seen.errors.malformed["bytes after the end of an answer"] >= 1);
}

#[test]
fn tls_to_a_server_without_it_fails_with_a_reason() {
    let server = Server::says(HELLO);
    let plan = tests_plan(&format!("https://{}/", server.0));
    let seen = load(Plan { count: Some(2), timeout: Duration::from_millis(300), ..plan });
    assert_eq!((seen.requests, seen.errors.total()), (0, 2), "{seen:?}");
}

#[test]
fn a_rate_is_kept_and_a_slow_server_shows_in_the_intended_latency() {
    let server = Server::says(HELLO);
    let (time, rate) = (Some(Duration::from_millis(500)), Some(400.0));
    let seen = load(Plan { time, count: None, rate, ..server.plan() });
    assert!((180..=200).contains(&seen.requests), "{seen:?}");
    assert!(seen.unsent.unwrap() <= 20, "{seen:?}");
    // One connection that answers 20 times a second at most, of 100 that are due.
    let slow = Server::new(|connection, _| {
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        while head(&mut lines) {
            std::thread::sleep(Duration::from_millis(50));
            if (&connection).write_all(HELLO).is_err() {
                break;
            }
        }
    });
    let plan = Plan { time, count: None, rate: Some(100.0), connections: 1, ..slow.plan() };
    let seen = load(plan);
    let intended = seen.intended_latency_us.unwrap();
    assert!(seen.latency_us.p99 < 100_000, "{:?}", seen.latency_us);
    assert!(intended.p99 > 250_000, "{intended:?}");
    assert!(seen.unsent.unwrap() > 30, "{seen:?}");
}

#[test]
fn a_load_ends_when_it_is_told_to() {
    let server = Server::says(HELLO);
    let plan = Plan { count: None, time: Some(Duration::from_secs(60)), ..server.plan() };
    let ready = prepare(plan).unwrap();
    let (stop, begun) = (Stop::new(), Instant::now());
    let told = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        told.set();
    });
    let load = ready.run(&stop, &Arc::new(Live::default())).unwrap().load;
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(load.requests > 10 && load.duration_s < 3.0);
    assert!(load.unfinished <= 2);
}

#[test]
fn a_body_arrives_whole() {
    let body = vec![b'x'; 3 << 20];
    let size = body.len();
    let server = Server::new(move |connection, _| {
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
