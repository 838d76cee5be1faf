//! Finds libpcap's static library, whose compiler of capture filters is linked into netwhy.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=LIBPCAP_LIBDIR");
    match folder() {
        Some(folder) => {
            println!("cargo::rustc-link-search=native={folder}");
            println!("cargo::rustc-link-lib=static=pcap");
        }
        None => println!(
            "cargo::error=there is no libpcap.a: run tools/setup build, or install libpcap-dev; \
             LIBPCAP_LIBDIR names another folder that has it"
        ),
    }
}

/// The folder of `libpcap.a`: from LIBPCAP_LIBDIR, or where the C compiler finds it.
fn folder() -> Option<String> {
    const NAME: &str = "libpcap.a";
    if let Ok(folder) = std::env::var("LIBPCAP_LIBDIR") {
        return Path::new(&folder).join(NAME).is_file().then_some(folder);
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let printed = Command::new(compiler).arg(format!("-print-file-name={NAME}")).output().ok()?;
    let path = String::from_utf8(printed.stdout).ok()?;
    // If there is none, the compiler prints the bare name.
    let path = std::fs::canonicalize(path.trim()).ok()?;
    Some(path.parent()?.to_str()?.to_string())
}
