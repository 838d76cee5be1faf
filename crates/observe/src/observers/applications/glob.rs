//! Patterns of one path component, as in glob(7).

/// Whether a name matches a pattern (`*`, `?`, `[a-z]`). A dot at the beginning matches only itself.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    // The pattern after the last star, and what is left of the name after what the star has taken.
    let mut after_star: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, name) {
            ([], []) => return true,
            ([b'*', rest @ ..], _) => {
                after_star = Some((rest, name));
                pattern = rest;
                continue;
            }
            (_, [byte, rest @ ..]) => {
                if let Some(next) = match_byte(pattern, *byte) {
                    (pattern, name) = (next, rest);
                    continue;
                }
            }
            _ => {}
        }
        // The last star takes one more byte.
        let Some((rest, [_, taken @ ..])) = after_star else {
            return false;
        };
        after_star = Some((rest, taken));
        (pattern, name) = (rest, taken);
    }
}

/// The pattern after the part that matches this byte; `None` when it does not match.
fn match_byte(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'[', class @ ..] => match_class(class, byte),
        [b'?', rest @ ..] => Some(rest),
        [literal, rest @ ..] if *literal == byte => Some(rest),
        _ => None,
    }
}

/// The pattern after a class, from behind its `[`; `None` when the byte is not in it, or it has no end.
fn match_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, class) = match class {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    // A `]` that comes first is a member.
    let (_, others) = class.split_first()?;
    let end = 1 + others.iter().position(|b| *b == b']')?;
    let (mut members, rest) = class.split_at_checked(end)?;
    let mut found = false;
    loop {
        members = match members {
            [low, b'-', high, rest @ ..] => {
                found |= (low..=high).contains(&&byte);
                rest
            }
            [member, rest @ ..] => {
                found |= *member == byte;
                rest
            }
            [] => break,
        };
    }
    if found == negated { None } else { rest.get(1..) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_of_one_component() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyyb", false),
            ("[a-c]?.x", "b1.x", true),
            ("[!a-c]?.x", "b1.x", false),
            ("[!a-c]?.x", "d1.x", true),
            ("[]x]y", "]y", true),
            ("[x", "[x", false),
            ("a**", "a", true),
            ("a?", "a", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_matches_or_not(
            pattern in "[ab*?\\[\\]!^\\-]{0,20}", name in "[ab.\\[\\]-]{0,20}"
        ) {
            matches(pattern.as_bytes(), name.as_bytes());
            prop_assert!(name.starts_with('.') || matches(b"*", name.as_bytes()));
        }
    }
}
