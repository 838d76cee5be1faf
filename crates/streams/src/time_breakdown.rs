//! The time breakdown: every interval of a stream belongs to one category, and the categories add
//! up to its length.
//!
//! Time is attributed when data passes, when the handshake goes on, and when a stall ends: the
//! interval since the last such moment goes to what was waited for. Acknowledgements alone attribute
//! nothing; they only tell when there was nothing left to wait for.

use model::TimeCategory;

use crate::time::{Nanos, OptionalTime};

/// Number of categories.
const CATEGORIES: usize = TimeCategory::ALL.len();
/// Those that almost every stream has.
const COMMON: usize = 4;

/// One value for each category of time. Most streams have few of them: the others take no room until one is
/// there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerCategory<T> {
    common: [T; COMMON],
    rare: Option<Box<[T; CATEGORIES - COMMON]>>,
}

/// Nanoseconds of each category.
pub type CategoryTimes = PerCategory<Nanos>;

/// Where a category is.
enum Slot {
    Common(usize),
    Rare(usize),
}

#[inline(always)]
fn slot_of(category: TimeCategory) -> Slot {
    match category {
        TimeCategory::Connect => Slot::Common(0),
        TimeCategory::ServerThink => Slot::Common(1),
        TimeCategory::ClientIdle => Slot::Common(2),
        TimeCategory::Network => Slot::Common(3),
        TimeCategory::SynWait => Slot::Rare(0),
        TimeCategory::DelayedAck => Slot::Rare(1),
        TimeCategory::Loss => Slot::Rare(2),
        TimeCategory::ReceiverStalled => Slot::Rare(3),
        TimeCategory::ReceiveWindow => Slot::Rare(4),
        TimeCategory::Application => Slot::Rare(5),
        TimeCategory::Unexplained => Slot::Rare(6),
    }
}

impl<T: Copy + Default> PerCategory<T> {
    /// The value of a category.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "each slot is within its array: a test asks for all"
    )]
    pub fn get(&self, category: TimeCategory) -> T {
        match slot_of(category) {
            Slot::Common(slot) => self.common[slot],
            Slot::Rare(slot) => self.rare.as_ref().map_or_else(T::default, |rare| rare[slot]),
        }
    }

    /// The value of a category, to change it.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "each slot is within its array: a test asks for all"
    )]
    pub(crate) fn get_mut(&mut self, category: TimeCategory) -> &mut T {
        match slot_of(category) {
            Slot::Common(slot) => &mut self.common[slot],
            Slot::Rare(slot) => &mut self.rare.get_or_insert_default()[slot],
        }
    }

    /// The values, in the order of [`TimeCategory::ALL`].
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        TimeCategory::ALL.into_iter().map(|category| self.get(category))
    }

    /// The categories with their values.
    pub fn iter(&self) -> impl Iterator<Item = (TimeCategory, T)> + '_ {
        TimeCategory::ALL.into_iter().zip(self.values())
    }

    /// Combines each value with that of another one: `with` changes nothing for a value that is not there.
    pub(crate) fn combine<U: Copy>(&mut self, other: &PerCategory<U>, with: impl Fn(&mut T, U)) {
        self.common.iter_mut().zip(other.common).for_each(|(value, other)| with(value, other));
        if let Some(other) = &other.rare {
            let rare = self.rare.get_or_insert_default();
            rare.iter_mut().zip(other.iter()).for_each(|(value, other)| with(value, *other));
        }
    }
}

impl CategoryTimes {
    /// All of it, nanoseconds.
    pub fn total(&self) -> Nanos {
        self.values().fold(0, Nanos::saturating_add)
    }

    /// Time lost, nanoseconds: the categories that [`TimeCategory::is_lost`] says.
    pub fn lost(&self) -> Nanos {
        let lost = self.iter().filter(|(category, _)| category.is_lost());
        lost.fold(0, |sum, (_, time)| sum.saturating_add(time))
    }

    /// Adds those of another one.
    pub(crate) fn add(&mut self, other: &CategoryTimes) {
        self.combine(other, |time, more| *time = time.saturating_add(more));
    }

    /// Time of one category was of another.
    pub(crate) fn move_time(&mut self, from: TimeCategory, to: TimeCategory, time: Nanos) {
        let time = time.min(self.get(from));
        if time != 0 {
            *self.get_mut(from) -= time;
            *self.get_mut(to) = self.get(to).saturating_add(time);
        }
    }

    /// What was added since an earlier state.
    pub(crate) fn since(&self, earlier: &CategoryTimes) -> CategoryTimes {
        let mut times = self.clone();
        times.combine(earlier, |time, before| *time = time.saturating_sub(before).max(0));
        times
    }
}

/// Attributes the time of a stream, up to a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeAttribution {
    /// Time of the current exchange, microseconds.
    exchange: PerCategory<u32>,
    /// All time before this moment has been attributed.
    until: OptionalTime,
}

impl TimeAttribution {
    /// The stream begins.
    pub(crate) fn begin(&mut self, at: Nanos) {
        self.until.get_or_set(at);
    }

    /// Microseconds of the current exchange on the network and of the server, and until when time has been
    /// attributed; `None`: the exchange has other times too.
    pub(crate) fn of_message(&self) -> Option<([u32; 2], Nanos)> {
        let [network, think] =
            [TimeCategory::Network, TimeCategory::ServerThink].map(|one| self.exchange.get(one));
        let all = self.exchange.values().fold(0u64, |sum, time| sum + u64::from(time));
        let is_all = all == u64::from(network) + u64::from(think);
        Some(([network, think], self.until.get().filter(|_| is_all)?))
    }

    /// The same after more messages.
    pub(crate) fn end_messages(&mut self, [network, think]: [u32; 2], until: Nanos) {
        *self.exchange.get_mut(TimeCategory::Network) = network;
        *self.exchange.get_mut(TimeCategory::ServerThink) = think;
        self.until = until.into();
    }

    /// Time up to this moment that has not been attributed.
    #[inline]
    pub(crate) fn pending(&self, at: Nanos) -> Nanos {
        at.saturating_sub(self.until.get().unwrap_or(at)).max(0)
    }

    /// Attributes all time up to this moment to a category of one end.
    #[inline]
    pub(crate) fn attribute_until(
        &mut self,
        end: &mut CategoryTimes,
        at: Nanos,
        category: TimeCategory,
    ) {
        self.add(end, self.pending(at), category);
        self.until = self.until.get().map_or(at, |until| until.max(at)).into();
    }

    #[inline(always)]
    fn add(&mut self, end: &mut CategoryTimes, time: Nanos, category: TimeCategory) {
        if time > 0 {
            let sum = end.get_mut(category);
            *sum = sum.saturating_add(time);
            if category != TimeCategory::ClientIdle {
                let sum = self.exchange.get_mut(category);
                *sum = sum.saturating_add(whole_micros(time));
            }
        }
    }

    /// Attributes all time up to this moment: at most so much of it to one category, the rest to
    /// another.
    #[inline(always)]
    pub(crate) fn attribute_split(
        &mut self,
        end: &mut CategoryTimes,
        at: Nanos,
        (max_time, first): (Nanos, TimeCategory),
        rest: TimeCategory,
    ) {
        let pending = self.pending(at);
        let time = pending.min(max_time.max(0));
        self.add(end, time, first);
        self.add(end, pending - time, rest);
        self.until = self.until.get().map_or(at, |until| until.max(at)).into();
    }

    /// An exchange ends: returns its time, microseconds.
    pub(crate) fn end_exchange(&mut self) -> PerCategory<u32> {
        std::mem::take(&mut self.exchange)
    }
}

/// Time for which an end waited for room in its peer's window since that window settled: since it
/// last grew by a quarter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SettledWindow {
    /// The window then, bytes.
    window: u32,
    /// Time waited until then, and later time that does not count, microseconds.
    excluded: u32,
    /// Later time that does not count, microseconds.
    reader_behind: u32,
}

impl SettledWindow {
    /// The window is this large, and this much time has been waited for it.
    #[inline]
    pub(crate) fn update(&mut self, window: u32, waited: Nanos) {
        if window / 5 * 4 > self.window {
            let excluded = whole_micros(waited);
            *self = SettledWindow { window, excluded, reader_behind: 0 };
        }
    }

    /// This time does not count: the window was small, or opened late, because the reader was
    /// behind.
    #[cold]
    pub(crate) fn exclude(&mut self, waited: Nanos) {
        let micros = whole_micros(waited);
        self.excluded = self.excluded.saturating_add(micros);
        self.reader_behind = self.reader_behind.saturating_add(micros);
    }

    /// Time that does not count since the window settled, microseconds.
    pub(crate) fn reader_behind_us(&self) -> u64 {
        self.reader_behind.into()
    }

    /// Time that counts, of all that was waited, microseconds.
    pub(crate) fn waited_us(&self, waited: Nanos) -> u64 {
        whole_micros(waited).saturating_sub(self.excluded).into()
    }
}

/// Whole microseconds; the most that fit, where they do not fit or are negative.
fn whole_micros(time: Nanos) -> u32 {
    u32::try_from(time / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_add_up_in_any_order() {
        let mut attribution = TimeAttribution::default();
        let (mut client, mut server) = (CategoryTimes::default(), CategoryTimes::default());
        attribution.begin(100_000);
        attribution.attribute_until(&mut client, 150_000, TimeCategory::Connect);
        attribution.attribute_until(&mut client, 120_000, TimeCategory::Loss);
        for (at, network) in [(400_000, 30_000), (450_000, 90_000)] {
            let first = (network, TimeCategory::Network);
            attribution.attribute_split(&mut server, at, first, TimeCategory::ServerThink);
        }
        attribution.attribute_until(&mut client, 500_000, TimeCategory::ClientIdle);
        assert_eq!(client.total() + server.total(), 400_000);
        assert_eq!(server.get(TimeCategory::Network), 80_000);
        assert_eq!(server.get(TimeCategory::ServerThink), 220_000);
        let exchange = attribution.end_exchange();
        assert_eq!(exchange.get(TimeCategory::ClientIdle), 0);
        assert_eq!(exchange.values().sum::<u32>(), 350);
        assert_eq!(attribution.exchange.values().sum::<u32>(), 0);
    }

    #[test]
    fn each_category_has_a_slot_of_its_own() {
        let mut numbers = PerCategory::<u32>::default();
        assert_eq!(numbers.values().sum::<u32>(), 0);
        for (number, category) in (1..).zip(TimeCategory::ALL) {
            *numbers.get_mut(category) = number;
        }
        assert!(numbers.values().eq(1..=CATEGORIES as u32));
        let mut sum = PerCategory::<u64>::default();
        sum.combine(&numbers, |sum, more| *sum += u64::from(more));
        sum.combine(&PerCategory::default(), |sum, more: u32| *sum += u64::from(more));
        assert!(sum.values().eq(1..=CATEGORIES as u64));
    }
}
