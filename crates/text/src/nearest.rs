//! The name that a mistyped one was meant to be.

/// Characters of a word that are compared: longer ones are near to no name.
const MAX_COMPARED: usize = 100;
/// Fewest characters of a word that may be a part of a name.
const MIN_PART: usize = 4;

/// The name nearest to a mistyped one, if one is near: a name that contains it, or that a few letters
/// wrong, missing, added or swapped make of it.
pub fn nearest<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let names = names.into_iter();
    let word: String = word.chars().take(MAX_COMPARED).collect::<String>().to_lowercase();
    let contains = |name: &&str| word.len() >= MIN_PART && name.to_lowercase().contains(&word);
    names.clone().find(contains).or_else(|| {
        names
            .map(|name| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name))
            .filter(|(edits, name)| !word.is_empty() && is_near(*edits, name))
            .min()
            .map(|(_, name)| name)
    })
}

/// Whether so many edits are few for a name: of short ones, one.
fn is_near(edits: usize, name: &str) -> bool {
    let letters = name.chars().count();
    edits * 3 <= letters || (edits == 1 && letters == 2)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_mistyped_name_is_near_the_right_one() {
        let names = ["ping", "pcap", "capture", "conntrack-table-full", "lo", "eth0"];
        let near = |word: &str| nearest(word, names);
        assert_eq!(near("pign"), Some("ping"));
        assert_eq!(near("PCAP"), Some("pcap"));
        assert_eq!(near("conntrack"), Some("conntrack-table-full"));
        assert_eq!(near("captrue"), Some("capture"));
        assert_eq!(near("eht0"), Some("eth0"));
        assert_eq!(near("l0"), Some("lo"));
        for far in ["", "x", "weather", &"a".repeat(100_000)] {
            assert_eq!(near(far), None);
        }
    }
}
