//! Where this repository is.

use anyhow::Context as _;

/// The folder of the workspace: two above this crate.
pub(crate) fn root() -> anyhow::Result<&'static std::path::Path> {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("cannot find the workspace: this crate is not two folders below it")
}
