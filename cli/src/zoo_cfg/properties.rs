//! The syntax of Java's properties files, in which `zoo.cfg` is written.
//!
//! Reads what `java.util.Properties.load` reads: comments, the three separators, lines that are
//! continued, escapes. The same key may occur more than once, and what the keys mean is not known
//! here.

use std::char::REPLACEMENT_CHARACTER;
use std::ops::RangeInclusive;

/// One logical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Property {
    /// The number of its first line, from 1.
    pub(crate) line: usize,
    /// Trimmed as in `QuorumPeerConfig.parseProperties`.
    pub(crate) key: String,
    /// Trimmed in the same way.
    pub(crate) value: String,
}

/// A malformed escape: the only error of Java's parser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"\\u\" must be followed by four hexadecimal digits; for a plain backslash, as in a Windows \
     path, write two"
)]
pub(crate) struct BadEscape {
    /// The logical line that contains it.
    pub(crate) line: usize,
}

/// The text of a file: UTF-8 or, if it is not valid UTF-8, ISO-8859-1, which Java always assumes.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect());
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

/// The properties of a file in their order. A malformed one does not hide the others.
pub(crate) fn parse(text: &str) -> impl Iterator<Item = Result<Property, BadEscape>> {
    parse_lines(text).map(|(_, property)| property)
}

/// As [`parse`], with the numbers of the [`natural_lines`] of each.
pub(crate) fn parse_lines(
    text: &str,
) -> impl Iterator<Item = (RangeInclusive<usize>, Result<Property, BadEscape>)> {
    logical_lines(text).map(|(lines, text)| {
        let property = property(*lines.start(), &text);
        (lines, property)
    })
}

fn logical_lines(text: &str) -> impl Iterator<Item = (RangeInclusive<usize>, String)> {
    let mut lines = natural_lines(text).map(|line| line.trim_start_matches(BLANKS)).zip(1..);
    std::iter::from_fn(move || {
        loop {
            let (mut piece, line) = lines.next()?;
            // A line of one backslash continues nothing: the next line may be a comment.
            if piece.is_empty() || piece == "\\" || piece.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = String::new();
            let mut last = line;
            while let Some(continued) = continued(piece) {
                logical.push_str(continued);
                // A continuation line is no comment, whatever it begins with.
                (piece, last) = lines.next().unwrap_or(("", last));
            }
            logical.push_str(piece);
            return Some((line..=last, logical));
        }
    })
}

/// The lines of a file. They end in a line feed, a carriage return, or both.
pub(crate) fn natural_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// The line without its continuation backslash, if it has one. An escaped backslash is not one.
fn continued(line: &str) -> Option<&str> {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    if backslashes % 2 == 1 { line.strip_suffix('\\') } else { None }
}

fn property(line: usize, text: &str) -> Result<Property, BadEscape> {
    let (key, rest) = text.split_at(key_end(text));
    let rest = rest.trim_start_matches(BLANKS);
    let value = match rest.strip_prefix(['=', ':']) {
        Some(value) => value.trim_start_matches(BLANKS),
        None => rest,
    };
    let unescape = |text| unescape(text).ok_or(BadEscape { line });
    Ok(Property { line, key: trim(&unescape(key)?), value: trim(&unescape(value)?) })
}

/// Where a key ends: at the first separator that is not escaped.
fn key_end(text: &str) -> usize {
    let mut escaped = false;
    let separator = text.char_indices().find(|&(_, c)| {
        let ends = !escaped && (BLANKS.contains(&c) || c == '=' || c == ':');
        escaped = c == '\\' && !escaped;
        ends
    });
    separator.map_or(text.len(), |(at, _)| at)
}

/// `None` if an escape is malformed.
fn unescape(text: &str) -> Option<String> {
    // Escapes are UTF-16 units: a character beyond the first 65,536 is a pair of them.
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    units.push(unit(&mut chars)?);
                    continue;
                }
                Some(other) => other,
            },
            plain => plain,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    let chars = char::decode_utf16(units).map(|c| c.unwrap_or(REPLACEMENT_CHARACTER));
    Some(chars.collect())
}

fn unit(chars: &mut std::str::Chars<'_>) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| {
        let digit = chars.next()?.to_digit(16)?;
        Some(unit << 4 | digit as u16)
    })
}

/// The line that gives a key a value. In ASCII, since Java reads no UTF-8.
pub(crate) fn written(key: &str, value: &str) -> String {
    let mut line = String::with_capacity(key.len() + 1 + value.len());
    for c in key.chars() {
        // These would end the key, or begin a comment.
        if matches!(c, ' ' | '=' | ':' | '#' | '!') {
            line.push('\\');
        }
        escape(c, &mut line);
    }
    line.push('=');
    value.chars().for_each(|c| escape(c, &mut line));
    line
}

fn escape(c: char, line: &mut String) {
    match c {
        '\\' => line.push_str("\\\\"),
        ' '..='~' => line.push(c),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                line.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Trims as Java's `String.trim`: spaces and control characters.
fn trim(text: &str) -> String {
    text.trim_matches(|c| c <= ' ').to_owned()
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, String, String)> {
        parse(text).map(|p| p.unwrap()).map(|p| (p.line, p.key, p.value)).collect()
    }

    #[test]
    fn one_line() {
        let cases = [
            ("a=b", "a", "b"),
            ("a:b", "a", "b"),
            ("a b", "a", "b"),
            ("a\tb", "a", "b"),
            ("a\u{c}b", "a", "b"),
            ("  a  =  b  ", "a", "b"),
            ("a = = b", "a", "= b"),
            ("a : = b", "a", "= b"),
            ("a==b", "a", "=b"),
            ("a", "a", ""),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("a=b=c:d e", "a", "b=c:d e"),
            ("a=b # no comment", "a", "b # no comment"),
            (r"a\=b=c", "a=b", "c"),
            (r"a\:b\ c:d", "a:b c", "d"),
            (r"a\\=b", r"a\", "b"),
            (r"a=\\\\b", r"a", r"\\b"),
            (r"a=x\ty\nz\rf\f.", "a", "x\ty\nz\rf\u{c}."),
            (r"a=\q\#\!", "a", "q#!"),
            (r"a=\u0041\u00e4", "a", "Aä"),
            (r"\u0061=b", "a", "b"),
            (r"a=\ud83d\ude00", "a", "😀"),
            (r"a=\ud83d.", "a", "\u{fffd}."),
            (r"a=\u003Db", "a", "=b"),
            (r"a\u003Db=c", "a=b", "c"),
            (r"a=\u0020b\u0009", "a", "b"),
            ("a=b\\", "a", "b"),
        ];
        for (text, key, value) in cases {
            assert_eq!(pairs(text), [(1, key.to_owned(), value.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn many_lines() {
        type Parsed = &'static [(usize, &'static str, &'static str)];
        let cases: [(&str, Parsed); 18] = [
            ("", &[]),
            ("\n \t\n\r\n", &[]),
            ("# a=1\n  ! b=2\nc=3", &[(3, "c", "3")]),
            ("a=1\nb=2\n", &[(1, "a", "1"), (2, "b", "2")]),
            ("a=1\r\nb=2\r\n", &[(1, "a", "1"), (2, "b", "2")]),
            ("a=1\rb=2\r", &[(1, "a", "1"), (2, "b", "2")]),
            ("a=1\r\r\nb=2", &[(1, "a", "1"), (3, "b", "2")]),
            ("a=1\na=2", &[(1, "a", "1"), (2, "a", "2")]),
            ("a=1,\\\n  \t2\nb=3", &[(1, "a", "1,2"), (3, "b", "3")]),
            ("a=1\\\r\n2\nb=3", &[(1, "a", "12"), (3, "b", "3")]),
            ("a\\\nb=1", &[(1, "ab", "1")]),
            ("a=1\\\\\nb=2", &[(1, "a", "1\\"), (2, "b", "2")]),
            ("a=1\\\n# 2\nb=3", &[(1, "a", "1# 2"), (3, "b", "3")]),
            ("a=1\\\n\nb=3", &[(1, "a", "1"), (3, "b", "3")]),
            ("\\\n\n# a=1\nb=3", &[(4, "b", "3")]),
            ("\\\n# a=1\nb=3", &[(3, "b", "3")]),
            ("\\\n \\\n a=1", &[(3, "a", "1")]),
            ("# a comment is not continued \\\nb=3", &[(2, "b", "3")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> =
                expected.iter().map(|(n, k, v)| (*n, (*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(pairs(text), expected, "{text:?}");
        }
    }

    #[test]
    fn malformed_escapes() {
        for escape in [r"\u", r"\u1", r"\u123", r"\u12g4", r"\user", r"\u+123"] {
            let text = format!("a=1\nb=\\\n{escape}\nc=3");
            let parsed: Vec<_> = parse(&text).collect();
            assert_eq!(parsed.len(), 3, "{escape}");
            assert_eq!(parsed[1], Err(BadEscape { line: 2 }), "{escape}");
        }
    }

    #[test]
    fn a_written_line_is_read_as_it_was_meant() {
        for text in ["a", r"DOM\admin:pw=", "#x!", "a b", "x\ty\r\nz\u{c}.", r"\u0041\", "ä😀"] {
            let line = format!("{}\nb=1", written(text, text));
            let expected = [(1, text.to_owned(), text.to_owned()), (2, "b".into(), "1".into())];
            assert_eq!(pairs(&line), expected, "{line}");
        }
        assert_eq!(written("a.b", "ann:x=/+ #!"), "a.b=ann:x=/+ #!");
    }

    #[test]
    fn encodings() {
        assert_eq!(decode(b"a=\xc3\xa4".to_vec()), "a=ä");
        assert_eq!(decode(b"a=\xe4".to_vec()), "a=ä");
        assert_eq!(decode(b"\xef\xbb\xbfa=1".to_vec()), "a=1");
    }
}
