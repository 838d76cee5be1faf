//! Loads over TLS: whom a client believes, and what it says when it does not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::HttpLoad;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::plan::{Plan, Trust, tests_plan};
use super::{Live, prepare};
use sys::Stop;

/// A server with a certificate of its own making for these names; `kept` holds that.
fn server(names: &[&str], kept: &tempfile::TempDir) -> (SocketAddr, PathBuf) {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let file = kept.path().join("certificate.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(tls, socket);
            std::thread::spawn(move || {
                let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    seen.extend_from_slice(&piece[..read]);
                    while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                        seen.drain(..end + 4);
                        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
                        if stream.write_all(&[&head[..], &vec![b'x'; 100_000]].concat()).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, file)
}

fn load(address: SocketAddr, trust: Trust) -> HttpLoad {
    let plan = Plan { trust, ..tests_plan(&format!("https://{address}/")) };
    prepare(plan).unwrap().run(&Stop::new(), &Arc::new(Live::default())).unwrap().load
}

#[test]
fn a_certificate_that_is_believed_and_one_that_is_not() {
    let kept = tempfile::tempdir().unwrap();
    let (address, file) = server(&["127.0.0.1"], &kept);
    let seen = load(address, Trust { insecure: false, authorities: Some(file) });
    assert_eq!(
        (seen.requests, seen.errors.total(), seen.connections_opened),
        (20, 0, 2),
        "{seen:?}"
    );
    assert_eq!(seen.phases_us.tls.unwrap().count, 2);
    assert!(seen.received_bytes > 20 * 100_000);
    // The system does not know who made it.
    let seen = load(address, Trust::default());
    assert_eq!(seen.requests, 0);
    let reasons: Vec<_> = seen.errors.tls.keys().collect();
    assert!(reasons[0].contains("UnknownIssuer"), "{reasons:?}");
    let seen = load(address, Trust { insecure: true, authorities: None });
    assert_eq!((seen.requests, seen.errors.total()), (20, 0), "{seen:?}");
}

#[test]
fn a_certificate_of_another_name() {
    let kept = tempfile::tempdir().unwrap();
    let (address, file) = server(&["elsewhere.invalid"], &kept);
    let seen = load(address, Trust { insecure: false, authorities: Some(file) });
    let reasons: Vec<_> = seen.errors.tls.keys().collect();
    assert!(reasons[0].contains("not valid for name"), "{reasons:?}");
    assert_eq!(seen.errors.total(), 20);
}

#[test]
fn a_file_without_certificates_is_said_before_the_load() {
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("empty.pem");
    std::fs::write(&file, "nothing").unwrap();
    let trust = Trust { insecure: false, authorities: Some(file) };
    let plan = Plan { trust, ..tests_plan("https://127.0.0.1:1/") };
    let error = prepare(plan).unwrap_err().to_string();
    assert!(error.contains("there is none in it (PEM is expected)"), "{error}");
}
