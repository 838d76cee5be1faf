//! Fuzzes `nginx_config` of the table of targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::run("nginx_config", bytes));
