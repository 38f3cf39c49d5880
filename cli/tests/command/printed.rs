//! Commands whose stdout is full or closed.

use std::process::Stdio;

use crate::process::{Ended, command, within_limit};
#[cfg(target_os = "linux")]
use crate::process::{directory, ended_without_room, file, run};

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_asked_for_and_cannot_be_printed_is_an_error() {
    let data = directory("printed");
    let data = data.to_str().expect("the name is text");
    let lines = file("printed.jsonl", "{\"path\":\"/a\"}\n");
    let lines = lines.to_str().expect("the name is text");
    let imported = run(&["data", "import", data, lines]).await;
    assert_eq!(imported.stdout, "1 znode imported, 0 ephemerals left out\n", "{imported:?}");
    let zoolet = env!("CARGO_BIN_EXE_zoolet");
    let commands: [(&[&str], i32); 8] = [
        (&["data", "import", data, lines], 1),
        (&["data", "check", data], 1),
        (&["data", "compact", data], 1),
        (&["demo", "--buyers", "3", "--items", "2"], 1),
        (&["completions", "zsh"], 1),
        (&["cli", "help"], 1),
        (&["cli", "ls", "--help"], 1),
        (&["sweep", "--list", "--", zoolet, "cli", "create", "/a"], 73),
    ];
    for (args, code) in commands {
        let told = ended_without_room(command(args)).await;
        assert_eq!(told.code, Some(code), "{args:?}: {told:?}");
        assert!(told.stderr.contains("No space left on device"), "{args:?}: {told:?}");
        assert!(!told.stderr.contains("panicked"), "{args:?}: {told:?}");
    }
}

#[tokio::test]
async fn a_reader_that_has_enough_makes_no_error() {
    let commands: [&[&str]; 4] =
        [&["completions", "zsh"], &["man"], &["cli", "help"], &["demo", "--buyers", "3"]];
    for args in commands {
        let mut child = command(args).stderr(Stdio::piped()).spawn().expect("it can be started");
        drop(child.stdout.take());
        let told = Ended::new(within_limit(child.wait_with_output()).await.expect("it ends"));
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}
