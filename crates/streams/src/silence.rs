//! Silences of a stream, and whether it outlived them: boxes on the way forget connections of which
//! they have not heard for a while.

use crate::Nanos;

/// Shorter ones are pauses.
pub(crate) const SILENT: Nanos = 3_000_000_000;
/// So often whoever speaks first has tried in vain, when the stream counts as forgotten.
const TRIES: u32 = 3;

/// Silences of a stream.
#[derive(Debug, Clone, Default)]
pub struct Silences {
    /// The longest after which both ends spoke.
    pub survived: Nanos,
    /// The one after which it was lost.
    pub lost: Option<Lost>,
    now: Option<Broken>,
}

/// A silence after which an end spoke and was not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// When it began.
    pub began: Nanos,
    /// How long it was.
    pub lasted: Nanos,
    /// Who spoke first after it.
    pub side: usize,
    /// Whether a reset was the answer; if not, there was none.
    pub reset: bool,
}

/// A silence that one end has broken; the other has not answered yet.
#[derive(Debug, Clone, Copy)]
struct Broken {
    began: Nanos,
    ended: Nanos,
    side: usize,
    tries: u32,
}

impl Silences {
    /// Whether somebody waits for an answer after a silence.
    pub(crate) fn is_open(&self) -> bool {
        self.now.is_some()
    }

    /// One end speaks after a silence in which nothing was under way.
    pub(crate) fn broken(&mut self, side: usize, began: Nanos, ended: Nanos) {
        self.now = Some(Broken { began, ended, side, tries: 1 });
    }

    /// A packet of one end, after the one that broke the silence.
    pub(crate) fn packet(&mut self, side: usize, resets: bool) {
        let Some(now) = &mut self.now else { return };
        if now.side == side {
            now.tries = now.tries.saturating_add(1);
            return;
        }
        if resets {
            self.lost = Some(lost(now, true));
        } else {
            self.survived = self.survived.max(now.ended.saturating_sub(now.began));
        }
        self.now = None;
    }

    /// The stream is over.
    pub(crate) fn finish(&mut self) {
        if let Some(now) = self.now.take().filter(|now| now.tries >= TRIES) {
            self.lost = Some(lost(&now, false));
        }
    }
}

fn lost(now: &Broken, reset: bool) -> Lost {
    let lasted = now.ended.saturating_sub(now.began);
    Lost { began: now.began, lasted, side: now.side, reset }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = 1_000_000_000;

    #[test]
    fn a_reset_is_the_answer() {
        let mut silences = Silences::default();
        silences.broken(0, 10 * S, 70 * S);
        silences.packet(1, false);
        assert_eq!((silences.survived, silences.lost), (60 * S, None));
        silences.broken(0, 80 * S, 430 * S);
        silences.packet(1, true);
        let lost = Lost { began: 80 * S, lasted: 350 * S, side: 0, reset: true };
        assert_eq!((silences.survived, silences.lost), (60 * S, Some(lost)));
        assert!(!silences.is_open());
    }

    #[test]
    fn nobody_answers() {
        let mut silences = Silences::default();
        silences.broken(1, 0, 400 * S);
        silences.packet(1, false);
        let mut early = silences.clone();
        early.finish();
        assert_eq!(early.lost, None, "the capture may have ended before the answer");
        silences.packet(1, false);
        silences.finish();
        assert!(silences.lost.is_some_and(|lost| !lost.reset && lost.lasted == 400 * S));
    }
}
