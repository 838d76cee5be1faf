//! Requests and responses of HTTP/1 that begin as those before them: most clients send the same request
//! again, and most servers answer with the same status. They are counted, and added up when another one
//! comes.

use super::http::Http;

/// Requests and responses that repeat those before.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpRepeats {
    /// What they begin with.
    request: Beginning,
    status: Beginning,
    /// Requests, and responses.
    requests: u32,
    responses: u32,
    /// Quick responses to these requests.
    quick: u32,
}

/// What a payload begins with.
#[derive(Debug, Clone, Default)]
struct Beginning {
    /// The first bytes as two numbers, and those of their bits that count.
    first: [u64; 2],
    mask: [u64; 2],
    /// All bytes; empty: no payload begins so.
    bytes: Vec<u8>,
}

/// Bytes that are compared at once.
const FIRST_BYTES: usize = 2 * size_of::<u64>();

/// Two numbers of so many bytes.
#[inline(always)]
fn numbers([a, b, c, d, e, f, g, h, rest @ ..]: [u8; FIRST_BYTES]) -> [u64; 2] {
    [u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes(rest)]
}

impl Beginning {
    fn new(bytes: Vec<u8>) -> Self {
        let (mut first, mut mask) = ([0; FIRST_BYTES], [0; FIRST_BYTES]);
        for ((first, mask), byte) in first.iter_mut().zip(&mut mask).zip(&bytes) {
            (*first, *mask) = (*byte, u8::MAX);
        }
        Beginning { first: numbers(first), mask: numbers(mask), bytes }
    }

    #[inline(always)]
    fn is_of(&self, payload: &[u8]) -> bool {
        match payload.split_first_chunk() {
            Some((first, after)) => {
                let [low, high] = numbers(*first);
                let others = ((low ^ self.first[0]) & self.mask[0])
                    | ((high ^ self.first[1]) & self.mask[1]);
                // Of an empty one, no bit counts.
                let is_of = (others == 0) & (self.mask[0] != 0);
                let rest = self.bytes.get(FIRST_BYTES..).unwrap_or_default();
                is_of && (rest.is_empty() || after.starts_with(rest))
            }
            None => !self.bytes.is_empty() && payload.starts_with(&self.bytes),
        }
    }
}

impl HttpRepeats {
    /// Repeats of the latest request and response.
    pub(super) fn of(http: &Http) -> Self {
        let mut request = http.latest_line().as_bytes().to_vec();
        if !request.is_empty() {
            request.extend_from_slice(b" HTTP/1.");
        }
        let status = http.latest_status().map_or_else(Vec::new, |status| status.to_vec());
        let (request, status) = (Beginning::new(request), Beginning::new(status));
        HttpRepeats { request, status, ..HttpRepeats::default() }
    }

    /// Whether a request is one.
    #[inline(always)]
    pub(crate) fn is_request(&self, payload: &[u8]) -> bool {
        self.request.is_of(payload)
    }

    /// Whether a response is one.
    #[inline(always)]
    pub(crate) fn is_response(&self, payload: &[u8]) -> bool {
        self.status.is_of(payload)
    }

    /// Counts a request that is one.
    #[inline(always)]
    pub(crate) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Counts a response that is one.
    #[inline(always)]
    pub(crate) fn count_response(&mut self) {
        self.responses += 1;
    }

    /// The response to the latest request has ended, and came quickly. Returns whether that request was
    /// counted.
    #[inline(always)]
    pub(crate) fn ends_quickly(&mut self) -> bool {
        let is_counted = self.requests > 0;
        self.quick += u32::from(is_counted);
        is_counted
    }

    /// Whether nothing is counted.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        (self.requests | self.responses) == 0
    }
}

impl Http {
    /// Adds up repeats; the latest is of this exchange. None is left.
    pub(super) fn add_repeats(&mut self, repeats: &mut HttpRepeats, exchange: u32) {
        let HttpRepeats { requests, responses, quick, .. } = *repeats;
        (repeats.requests, repeats.responses, repeats.quick) = (0, 0, 0);
        self.add_quick(quick);
        let status = self.add_to_latest_status(responses);
        if requests > 1 {
            self.begin_repeated(exchange.wrapping_sub(1), status);
        }
        if requests > 0 {
            // Each is followed by its response; the last one is still to come.
            let is_answered = responses >= requests;
            self.begin_repeated(exchange, if is_answered { status } else { 0 });
        } else if responses > 0 {
            self.set_status(exchange, status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_any_length() {
        for length in [1, 5, 15, 16, 17, 40] {
            let text: Vec<u8> = (1..=length).collect();
            let beginning = Beginning::new(text.clone());
            assert!(beginning.is_of(&text) && beginning.is_of(&[&text[..], &[9; 30]].concat()));
            assert!(!beginning.is_of(&text[..text.len() - 1]));
            for place in 0..text.len() {
                let mut other = [&text[..], &[9; 30]].concat();
                other[place] ^= 1;
                assert!(!beginning.is_of(&other), "byte {place} of {length}");
            }
        }
        assert!(!Beginning::new(Vec::new()).is_of(b""));
        assert!(!Beginning::new(Vec::new()).is_of(&[0; 20]));
    }
}
