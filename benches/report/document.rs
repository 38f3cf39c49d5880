//! The document, whose parts between markers are replaced.

/// Replaces a part of the document. The text around the markers stays.
pub(crate) fn replace(document: &str, name: &str, part: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let missing = || format!("the document has no markers for {name}");
    let (before, rest) = document.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}{part}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_part_is_replaced_and_nothing_else() {
        let document = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";
        let replaced = replace(document, "x", "new\n").unwrap();
        assert_eq!(replaced, "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n");
        assert_eq!(replace(&replaced, "x", "new\n").unwrap(), replaced);
        assert!(replace(document, "y", "new\n").is_err());
    }

    #[test]
    fn the_document_has_a_part_for_each_suite_and_the_machine() {
        let document = include_str!("../README.md");
        for name in crate::SUITES.into_iter().chain(["machine"]) {
            replace(document, name, "").unwrap();
        }
    }
}
