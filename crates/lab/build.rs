//! Scenarios are part of the binary: a file that is added builds it anew.

fn main() {
    println!("cargo::rerun-if-changed=scenarios");
}
