//! Lists that are never empty, so that every index has an element.

/// A list of at least one element.
#[derive(Debug)]
pub(super) struct NonEmpty<T> {
    first: T,
    others: Vec<T>,
}

impl<T> NonEmpty<T> {
    pub(super) fn new(first: T) -> Self {
        NonEmpty { first, others: Vec::new() }
    }

    pub(super) fn push(&mut self, element: T) {
        self.others.push(element);
    }

    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// The element of this index; the first one beyond the end.
    pub(super) fn get(&self, index: usize) -> &T {
        index.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }

    /// The index after this one; 0 after the last.
    pub(super) fn next_index(&self, index: usize) -> usize {
        if index >= self.others.len() { 0 } else { index + 1 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_wrap_around() {
        let mut list = NonEmpty::new('a');
        assert_eq!((list.len(), list.next_index(0)), (1, 0));
        list.push('b');
        assert_eq!([0, 1, 2].map(|index| *list.get(index)), ['a', 'b', 'a']);
        assert_eq!((list.next_index(0), list.next_index(1)), (1, 0));
        assert_eq!(list.iter().collect::<String>(), "ab");
    }
}
