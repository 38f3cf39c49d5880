//! The Rust code of the pages in `docs` that are guides to recipes: it is what runs here, to the letter.
//!
//! A test has the code of its page between a line `// On the page:` and a line `// Until here.`, in the
//! order of the page. What a reader has already, and what comes of it, stands around that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod caches;
mod discovery;
mod migrations;
mod queues;
mod registrations;

use std::error::Error;
use std::fs;
use std::path::Path;

use zoolet::client::Client;
use zoolet::server::Server;

/// As in a reader's program, each error ends it.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// A server, and the client that a page begins with.
async fn stage() -> (Server, Client) {
    let server = Server::builder().start().await.expect("a server in memory starts");
    let client = Client::connect(server.dialer()).await.expect("the server is there");
    (server, client)
}

const BEGINS: &str = "// On the page:";
const ENDS: &str = "// Until here.";

/// Checks that a page shows the code of a test, and no other.
fn check(page: &str, source: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let (shown, runs) = (blocks(&text, "```rust", "```"), blocks(source, BEGINS, ENDS));
    assert!(!runs.is_empty(), "{page}: the test has no code of the page");
    assert_eq!(shown, runs, "{page} does not show what its test runs");
}

/// The lines between each line of the first kind and the next one of the second, without the
/// indentation of the first.
fn blocks(text: &str, begins: &str, ends: &str) -> Vec<String> {
    let mut lines = text.lines();
    let mut blocks = Vec::new();
    while let Some(begin) = lines.find(|line| line.trim_start() == begins) {
        let indentation = &begin[..begin.len() - begins.len()];
        let block = lines.by_ref().take_while(|line| line.trim_start() != ends);
        let block = block.map(|line| line.strip_prefix(indentation).unwrap_or(line));
        blocks.push(block.collect::<Vec<_>>().join("\n"));
    }
    blocks
}

#[test]
fn blocks_lose_the_indentation_of_their_marker() {
    let text = "a\n    // On the page:\n    if b {\n        c;\n\n    }\n    // Until here.\nd\n";
    assert_eq!(blocks(text, BEGINS, ENDS), ["if b {\n    c;\n\n}"]);
    assert!(blocks(text, "```rust", "```").is_empty());
}
