//! Where the streams of the latest packets are: most packets belong to one of a few.

/// Places that are kept, a power of two: 16 KiB.
const PLACES: usize = 4096;

/// Places by hash. A place may be that of another stream.
#[derive(Debug)]
pub(super) struct RecentPlaces(Box<[u32; PLACES]>);

impl Default for RecentPlaces {
    fn default() -> Self {
        RecentPlaces(Box::new([0; PLACES]))
    }
}

impl RecentPlaces {
    /// The place that was last set for a hash like this.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the remainder is less than the length")]
    pub(super) fn get(&self, hash: u64) -> u32 {
        self.0[hash as usize % PLACES]
    }

    /// Sets the place for this hash.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the remainder is less than the length")]
    pub(super) fn set(&mut self, hash: u64, place: u32) {
        self.0[hash as usize % PLACES] = place;
    }
}
