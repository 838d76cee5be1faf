//! Hints to the processor about memory: they change how fast it is, never what is in it.

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// Starts loading a value from memory that is read soon.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<T>().div_ceil(CACHE_LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = std::ptr::from_ref(value).cast::<i8>().wrapping_add(line * CACHE_LINE_BYTES);
        // SAFETY: a hint: it reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, CACHE_LINE_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_changes_no_value() {
        let list: Vec<[u64; 20]> = (0..100).map(|number| [number; 20]).collect();
        list.iter().for_each(prefetch);
        assert!(list.iter().enumerate().all(|(number, value)| value[19] == number as u64));
    }
}
