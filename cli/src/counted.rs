//! Numbers with nouns, for a person.

/// A number with a noun, which gets an `s` unless there is one of it.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_s() {
        let texts = [0, 1, 2].map(|number| counted(number, "lock"));
        assert_eq!(texts, ["0 locks", "1 lock", "2 locks"]);
    }
}
