//! Fuzzes `sock_diag` of the table of targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::run("sock_diag", bytes));
