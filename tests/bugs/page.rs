//! Pages of `docs` that show code and what it prints. A block below a line `<!-- NAME -->` is compared with
//! what it should show.

use std::fs;
use std::path::Path;

/// With this variable the blocks are written instead of compared.
const WRITE_VARIABLE: &str = "ZOOLET_BOOK_WRITE";

/// Compares the blocks of a page, which has these at least, with what they should show.
pub(crate) fn check(name: &str, blocks: &[&str], shown: &dyn Fn(&str) -> Option<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    for block in blocks {
        assert!(text.contains(&format!("<!-- {block} -->")), "{path:?} has no block {block:?}");
    }
    let page = page(&text, shown);
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        fs::write(&path, page).expect("the page can be written");
    } else {
        assert!(
            page == text,
            "{path:?} does not show what runs. {WRITE_VARIABLE}=1 cargo test --test bugs writes it, as \
             follows:\n{page}"
        );
    }
}

/// A page with what its blocks should contain: those below a line `<!-- NAME -->`.
fn page(text: &str, shown: &dyn Fn(&str) -> Option<String>) -> String {
    let mut page = String::new();
    let mut lines = text.lines();
    let line = |page: &mut String, line: &str| {
        page.push_str(line);
        page.push('\n');
    };
    while let Some(text) = lines.next() {
        line(&mut page, text);
        let name = text.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        // A sweep is compared where the command is built.
        let Some(name) = name.filter(|name| !name.contains(": ")) else { continue };
        let shown = shown(name).unwrap_or_else(|| panic!("there is no {name:?}"));
        let fence = lines.next().filter(|fence| fence.starts_with("```"));
        line(&mut page, fence.unwrap_or_else(|| panic!("a block follows {name:?}")));
        line(&mut page, shown.trim_end());
        let end = lines.find(|text| *text == "```");
        line(&mut page, end.unwrap_or_else(|| panic!("the block of {name:?} does not end")));
    }
    page
}

/// An item of a file: from the line that begins with this to the brace that ends it.
pub(crate) fn item(source: &str, begins: &str) -> Option<String> {
    let is_start = |line: &str| line.starts_with(begins) && !line.ends_with(';');
    let lines: Vec<_> = source.lines().collect();
    let start = lines.iter().position(|line| is_start(line))?;
    let end = start + lines[start..].iter().position(|line| *line == "}")?;
    Some(lines[start..=end].join("\n"))
}

/// The first type of a file and what follows.
pub(crate) fn program(source: &str) -> String {
    let begins = source.find("/// A ").expect("a type has a comment");
    source[begins..].replace("pub(crate) ", "pub ")
}

/// What is inside of a module, as it would stand alone.
pub(crate) fn body(module: &str) -> String {
    let lines: Vec<_> = module.lines().collect();
    let inside = &lines[1..lines.len() - 1];
    let inside = inside.iter().filter(|line| line.trim() != "use super::*;");
    let inside: Vec<_> = inside
        .map(|line| line.strip_prefix("    ").unwrap_or(line).replacen("pub(super) ", "", 1))
        .collect();
    inside.join("\n").trim().to_owned()
}
