//! The commands of a session, with their numbers.

use super::line;

/// The lines that were typed, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct History {
    lines: Vec<String>,
}

/// How many lines `history` prints, with its own.
const SHOWN_MAX: usize = 11;

impl History {
    pub(super) fn add(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    /// The line of a number, except for the last, which is the command that asks.
    pub(super) fn line(&self, number: i64) -> Option<&str> {
        let earlier = self.lines.split_last().map_or(&[][..], |(_, earlier)| earlier);
        earlier.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// Puts the line of a command that is done again in the place of the `redo`.
    pub(super) fn replace_last(&mut self, line: &str) {
        if let Some(last) = self.lines.last_mut() {
            line.clone_into(last);
        }
    }

    /// The last lines with their numbers. Of a line with a password only the command is shown.
    pub(super) fn last(&self) -> impl Iterator<Item = (usize, String)> {
        let first = self.lines.len().saturating_sub(SHOWN_MAX);
        self.lines.iter().enumerate().skip(first).map(|(number, line)| (number, shown(line)))
    }
}

fn shown(line: &str) -> String {
    if is_secret(line) {
        let words = line::words(line).unwrap_or_default();
        return format!("{} ...", words.first().map_or("", String::as_str));
    }
    line.to_owned()
}

/// Whether a line may contain a password, or a hash of one.
pub(super) fn is_secret(line: &str) -> bool {
    // Quotes may stand in the middle of a word.
    let plain: String = line.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let plain = plain.to_lowercase();
    plain.contains("addauth") || plain.contains("digest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_hashes_are_not_shown() {
        for secret in [
            "addauth digest ann:secret",
            "'add'auth digest ann:secret",
            "add\\auth digest ann:secret",
            "setAcl /a digest:ann:h4sh=:cdrwa",
            "create /a\naddauth digest ann:secret",
        ] {
            assert!(is_secret(secret), "{secret}");
            assert!(!shown(secret).contains("ann"), "{secret}");
        }
        assert!(!is_secret("create /a 'two words'"));
    }

    #[test]
    fn the_last_lines_are_numbered_from_the_first_command_on() {
        let mut history = History::default();
        (0..20).for_each(|number| history.add(&format!("ls /{number}")));
        let shown: Vec<_> = history.last().collect();
        assert_eq!((shown.len(), &shown[0]), (SHOWN_MAX, &(9, "ls /9".to_owned())));
        assert_eq!(history.line(18), Some("ls /18"));
        for number in [-1, 19, 20, i64::MAX] {
            assert_eq!(history.line(number), None, "{number}");
        }
    }
}
