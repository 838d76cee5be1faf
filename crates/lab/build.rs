//! Rebuilds the crate when a scenario file changes or is added: they are part of the binary.

fn main() {
    println!("cargo::rerun-if-changed=scenarios");
}
