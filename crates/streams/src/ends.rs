//! One value for each end of a connection.

use model::Side;

/// One value for each end of a connection, or of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ends<T> {
    /// The client's.
    pub client: T,
    /// The server's.
    pub server: T,
}

impl<T> Ends<T> {
    /// The value of one end.
    #[inline(always)]
    pub fn get(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// The value of one end, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The value of one end, then that of its peer.
    #[inline(always)]
    pub fn own_and_peer(&mut self, side: Side) -> (&mut T, &mut T) {
        match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }

    /// The client becomes the server.
    pub fn swap(&mut self) {
        std::mem::swap(&mut self.client, &mut self.server);
    }

    /// Both values, the client's first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        [&self.client, &self.server].into_iter()
    }

    /// Both values, the client's first, to change them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        [&mut self.client, &mut self.server].into_iter()
    }

    /// References to both values.
    pub fn each_ref(&self) -> Ends<&T> {
        Ends { client: &self.client, server: &self.server }
    }

    /// Both values, changed.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Ends<U> {
        Ends { client: change(self.client), server: change(self.server) }
    }

    /// Both values with those of another pair.
    pub fn zip<U>(self, other: Ends<U>) -> Ends<(T, U)> {
        Ends { client: (self.client, other.client), server: (self.server, other.server) }
    }

    /// Both values, the client's first.
    pub fn into_array(self) -> [T; 2] {
        [self.client, self.server]
    }

    /// The end for which this is true: the client, if it is for both.
    pub fn side_where(&self, holds: impl Fn(&T) -> bool) -> Option<Side> {
        match (holds(&self.client), holds(&self.server)) {
            (true, _) => Some(Side::Client),
            (_, true) => Some(Side::Server),
            _ => None,
        }
    }
}

impl<T> Ends<Option<T>> {
    /// Both values, if there are both.
    pub fn both(self) -> Option<Ends<T>> {
        Some(Ends { client: self.client?, server: self.server? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_asked_by_their_side() {
        let mut ends = Ends { client: 1, server: 2 };
        let (own, peer) = ends.own_and_peer(Side::Server);
        assert_eq!((*own, *peer), (2, 1));
        *ends.get_mut(Side::Client) += 10;
        ends.swap();
        assert_eq!(ends.into_array(), [2, 11]);
        assert_eq!(ends.side_where(|value| *value == 11), Some(Side::Server));
        assert_eq!(ends.side_where(|value| *value == 0), None);
        assert_eq!(ends.map(Some).both(), Some(ends));
        assert_eq!(Ends { client: Some(1), server: None }.both(), None);
    }
}
