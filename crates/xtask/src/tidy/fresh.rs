//! What is generated is what the source generates now.

use super::problem::Problem;
use crate::docs;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let stale = docs::stale(&docs::generated(tree)?, tree);
    let problem = |(path, why)| Problem::new(path, None, format!("{why}: run cargo xtask docs"));
    Ok(stale.into_iter().map(problem).collect())
}
