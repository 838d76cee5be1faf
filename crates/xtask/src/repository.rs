//! Where this repository is.

use anyhow::Context as _;

/// The folder of the workspace: two above this crate.
pub(crate) fn root() -> anyhow::Result<&'static std::path::Path> {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("cannot find the workspace: this crate is not two folders below it")
}

/// The folder of what is built.
pub(crate) fn target_folder() -> anyhow::Result<std::path::PathBuf> {
    let own = root()?.join("target");
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(own, std::path::PathBuf::from);
    std::path::absolute(folder).context("cannot find the folder of what is built")
}
