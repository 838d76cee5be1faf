//! Placeholder while the house is built.

pub mod appconfig;
pub mod applog;
