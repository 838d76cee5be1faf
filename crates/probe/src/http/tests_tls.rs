//! Loads over TLS: trusted and rejected certificates.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::HttpLoad;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use sys::Stop;

use super::plan::{Plan, Trust, test_plan};
use super::{LiveCounts, prepare};

/// A server with a self-signed certificate for these names, and the certificate's file in this folder.
fn server(names: &[&str], folder: &tempfile::TempDir) -> (SocketAddr, PathBuf) {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let generated = rcgen::generate_simple_self_signed(names).unwrap();
    let file = folder.path().join("certificate.pem");
    std::fs::write(&file, generated.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(generated.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![generated.cert.der().clone()], key.into())
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
                let (mut received, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    received.extend_from_slice(&piece[..read]);
                    while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                        received.drain(..end + 4);
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
    let plan = Plan { trust, ..test_plan(&format!("https://{address}/")) };
    prepare(plan).unwrap().run(&Stop::new(), &Arc::new(LiveCounts::default())).unwrap().load
}

#[test]
fn certificates_are_trusted_by_ca_file_or_with_insecure_only() {
    let folder = tempfile::tempdir().unwrap();
    let (address, file) = server(&["127.0.0.1"], &folder);
    let result = load(address, Trust { insecure: false, ca_file: Some(file) });
    assert_eq!(
        (result.requests, result.errors.total(), result.connections_opened),
        (20, 0, 2),
        "{result:?}"
    );
    assert_eq!(result.phases_us.tls.unwrap().count, 2);
    assert!(result.received_bytes > 20 * 100_000);
    // The system does not trust its issuer.
    let result = load(address, Trust::default());
    assert_eq!(result.requests, 0);
    let reasons: Vec<_> = result.errors.tls.keys().collect();
    assert!(reasons[0].contains("UnknownIssuer"), "{reasons:?}");
    let result = load(address, Trust { insecure: true, ca_file: None });
    assert_eq!((result.requests, result.errors.total()), (20, 0), "{result:?}");
}

#[test]
fn a_certificate_for_another_name_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let (address, file) = server(&["elsewhere.invalid"], &folder);
    let result = load(address, Trust { insecure: false, ca_file: Some(file) });
    let reasons: Vec<_> = result.errors.tls.keys().collect();
    assert!(reasons[0].contains("not valid for name"), "{reasons:?}");
    assert_eq!(result.errors.total(), 20);
}

#[test]
fn a_file_without_certificates_is_rejected_before_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.pem");
    std::fs::write(&file, "nothing").unwrap();
    let trust = Trust { insecure: false, ca_file: Some(file) };
    let plan = Plan { trust, ..test_plan("https://127.0.0.1:1/") };
    let error = prepare(plan).unwrap_err().to_string();
    assert!(error.contains("it has none in PEM format"), "{error}");
}
