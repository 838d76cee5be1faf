//! Fuzzes `packet` of the table of targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::run("packet", bytes));
