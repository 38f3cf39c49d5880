//! Splits a line into words, with the quotes and escapes of a shell.

use super::failure::Failure;

/// The words of a line; none for a comment.
pub(super) fn words(line: &str) -> Result<Vec<String>, Failure> {
    shell_words::split(line).map_err(|_| Failure::Quote)
}

/// A line that is being typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// The words before the last.
    pub(super) before: Vec<String>,
    /// Where the last word starts, in bytes, quotes included.
    pub(super) start: usize,
    /// The last word so far, without quotes; empty after a space.
    pub(super) word: String,
}

impl Typed {
    /// Reads a line up to the cursor.
    pub(super) fn read(line: &str) -> Self {
        let start = last_word(line);
        let (before, word) = line.split_at(start);
        // An open quote is closed with the same quote, an open escape with any character.
        let close = |end: &str| shell_words::split(&format!("{word}{end}")).ok();
        let word = close("").or_else(|| close("'")).or_else(|| close("\""));
        Self {
            before: shell_words::split(before).unwrap_or_default(),
            start,
            word: word.unwrap_or_default().into_iter().next().unwrap_or_default(),
        }
    }
}

/// Where the last word of a line starts.
fn last_word(line: &str) -> usize {
    let mut start = None;
    let mut quote = None;
    let mut is_escaped = false;
    for (index, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None, ' ' | '\t') => {
                start = None;
                continue;
            }
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
        start.get_or_insert(index);
    }
    start.unwrap_or(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_shells() {
        let cases: [(&str, &[&str]); 10] = [
            ("", &[]),
            ("  # nothing", &[]),
            ("ls /a", &["ls", "/a"]),
            ("set /a 'two words'", &["set", "/a", "two words"]),
            (r#"set /a "it's \"so\"" # it is"#, &["set", "/a", r#"it's "so""#]),
            (r"set /with\ space x#y", &["set", "/with space", "x#y"]),
            (r"set /a 'a\b'", &["set", "/a", r"a\b"]),
            ("set /a ''", &["set", "/a", ""]),
            ("set\t/a  Grüße", &["set", "/a", "Grüße"]),
            ("set /'a b'/c x", &["set", "/a b/c", "x"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in ["set /a 'x", "set /a \"x", "it's"] {
            assert!(matches!(words(line), Err(Failure::Quote)), "{line}");
        }
    }

    #[test]
    fn the_word_at_the_cursor_is_known_inside_of_quotes_too() {
        let cases: [(&str, &[&str], usize, &str); 11] = [
            ("", &[], 0, ""),
            ("l", &[], 0, "l"),
            ("ls ", &["ls"], 3, ""),
            ("ls /a/b", &["ls"], 3, "/a/b"),
            ("ls -R /a", &["ls", "-R"], 6, "/a"),
            ("ls '/a b", &["ls"], 3, "/a b"),
            ("ls '/a b'/c", &["ls"], 3, "/a b/c"),
            (r"ls /a\ b", &["ls"], 3, "/a b"),
            ("ls \"/a 'b", &["ls"], 3, "/a 'b"),
            ("set '/a b' x", &["set", "/a b"], 11, "x"),
            ("ls /ü/x", &["ls"], 3, "/ü/x"),
        ];
        for (line, before, start, word) in cases {
            let before = before.iter().map(ToString::to_string).collect();
            let expected = Typed { before, start, word: word.to_owned() };
            assert_eq!(Typed::read(line), expected, "{line}");
        }
    }
}
