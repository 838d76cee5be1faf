//! Commands as text that can be pasted into a POSIX shell: each word stays one word, whatever it
//! holds.

use std::borrow::Cow;

/// A word as a POSIX shell takes it: as it is where no shell does anything with it, within single
/// quotes otherwise.
///
/// The text of a word with control characters or line feeds is right for a shell, but not for a
/// terminal: see [`crate::sanitize`].
pub fn quote(word: &str) -> Cow<'_, str> {
    // Zsh expands a word that begins with an equals sign; what begins with a tilde is not plain.
    if !word.is_empty() && word.bytes().all(is_plain) && !word.starts_with('=') {
        return Cow::Borrowed(word);
    }
    // Within single quotes nothing has a meaning but their end.
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Programs with their arguments, the output of each piped into the next.
pub fn pipeline<Words>(programs: &[Words]) -> String
where
    Words: AsRef<[String]>,
{
    let program =
        |words: &Words| words.as_ref().iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    programs.iter().map(program).collect::<Vec<_>>().join(" | ")
}

/// Whether a byte means nothing to any shell, wherever it stands in a word. All bytes of characters
/// beyond ASCII need quotes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// The words that a shell makes of a text.
    fn parsed(text: &str) -> Vec<String> {
        let script = "eval \"set -- $1\"; printf '%s\\0' \"$@\"";
        let output = Command::new("sh").args(["-c", script, "sh", text]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let words = String::from_utf8(output.stdout).unwrap();
        words.split_terminator('\0').map(str::to_string).collect()
    }

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for plain in ["ss", "-ltnm", "198.18.0.1:80", "net.core.somaxconn=4096", "a/b-1.pcap"] {
            assert_eq!(quote(plain), plain);
        }
        for (word, quoted) in [
            ("", "''"),
            ("sport = :80", "'sport = :80'"),
            ("a b';rm.pcap", r"'a b'\'';rm.pcap'"),
            ("$(x)", "'$(x)'"),
            ("a\\b", r"'a\b'"),
            ("a\nb", "'a\nb'"),
            ("~root", "'~root'"),
            ("=ls", "'=ls'"),
            ("--help", "--help"),
            ("[fd00::1]:443", "'[fd00::1]:443'"),
            ("größe", "'größe'"),
            ("TcpExtTCPReqQ*", "'TcpExtTCPReqQ*'"),
        ] {
            assert_eq!(quote(word), quoted);
            assert_eq!(parsed(quoted), [word]);
        }
    }

    #[test]
    fn programs_are_joined_by_pipes() {
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let programs = [words(&["ss", "-Htan"]), words(&["awk", "{print $5}"]), words(&["sort"])];
        assert_eq!(pipeline(&programs), "ss -Htan | awk '{print $5}' | sort");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_shell_gives_back_every_word(words in prop::collection::vec("[^\0]{0,12}", 1..8)) {
            prop_assert_eq!(parsed(&pipeline(std::slice::from_ref(&words))), words);
        }
    }
}
