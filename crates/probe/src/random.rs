//! Random numbers that nobody can guess.

use std::hash::{BuildHasher as _, Hasher as _};

/// A number for identifiers and sequence numbers of packets.
pub(crate) fn number() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Bytes for nonces and secrets.
///
/// # Errors
///
/// The system has no random numbers.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], String> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| "the system provides no random numbers".to_string())
}
