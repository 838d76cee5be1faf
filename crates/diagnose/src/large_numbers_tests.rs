//! Saved evidence is a file of somebody else: no computation with its numbers overflows.

use model::{Evidence, TimeCategory};
use serde_json::Value;

use crate::diagnose;
use crate::fixtures::{
    add_access_log, add_listener, add_process, add_socket, add_stream, add_up_services, healthy,
    increase_counter, set_time,
};

/// What stands in the place of numbers: the largest that each may be.
const LARGE: [u64; 6] =
    [u64::MAX, i64::MAX as u64, u32::MAX as u64, i32::MAX as u64, u16::MAX as u64, u8::MAX as u64];

/// Two of everything, so that there is something to add up.
fn evidence() -> Evidence {
    let mut evidence = healthy();
    for counter in [
        "TcpExtListenOverflows",
        "TcpExtListenDrops",
        "TcpRetransSegs",
        "TcpOutSegs",
        "TcpExtTCPTimeouts",
        "TcpInCsumErrors",
        "TcpExtTCPReqQFullDrop",
        "TcpExtTCPReqQFullDoCookies",
        "TcpExtSyncookiesSent",
        "TcpExtTCPSynRetrans",
    ] {
        increase_counter(&mut evidence, counter, 5_000);
    }
    for (pid, port) in [(7, 80), (8, 81)] {
        add_process(&mut evidence, pid, "nginx");
        add_listener(&mut evidence, &format!("0.0.0.0:{port}"), 128, &[pid]);
        add_access_log(&mut evidence, &[pid], &[(200, 900), (499, 50), (502, 50), (504, 50)]);
        for client in 1..4 {
            let (local, remote) = (format!("10.0.0.1:{port}"), format!("10.0.1.{client}:5000"));
            add_socket(&mut evidence, &local, &remote, Some(pid));
            let stream = add_stream(&mut evidence, &remote, &local);
            for direction in [&mut stream.from_client, &mut stream.from_server] {
                for category in TimeCategory::ALL {
                    set_time(direction, category, 1_000_000);
                }
            }
        }
    }
    add_up_services(&mut evidence, 1_000);
    evidence
}

/// Where whole numbers stand in a document.
fn numbers(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_u64() => into.push(path.to_string()),
        Value::Array(all) => {
            let all = all.iter().enumerate();
            all.for_each(|(place, value)| numbers(value, &format!("{path}/{place}"), into));
        }
        Value::Object(all) => {
            all.iter().for_each(|(name, value)| numbers(value, &format!("{path}/{name}"), into));
        }
        _ => {}
    }
}

#[test]
fn no_rule_overflows() {
    let document = serde_json::to_value(evidence()).unwrap();
    let mut places = Vec::new();
    numbers(&document, "", &mut places);
    assert!(places.len() > 500, "{} numbers", places.len());
    let mut largest = document.clone();
    for place in &places {
        let before = largest.pointer(place).unwrap().clone();
        for large in LARGE.map(Value::from).into_iter().chain([before]) {
            *largest.pointer_mut(place).unwrap() = large;
            if serde_json::from_value::<Evidence>(largest.clone()).is_ok() {
                break;
            }
        }
    }
    // All of them; then about one in four, one in two and three in four, the same in each run.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for share in [4].into_iter().chain([1, 2, 3].into_iter().cycle().take(30)) {
        let mut changed = document.clone();
        for place in &places {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % 4 < share {
                *changed.pointer_mut(place).unwrap() = largest.pointer(place).unwrap().clone();
            }
        }
        let evidence: Evidence = serde_json::from_value(changed).unwrap();
        diagnose(&evidence);
    }
}
