//! Directories as text, and what is told of them. `ZOOLET_UPDATE_GOLDEN=1` writes the files anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write;
use std::path::Path;

use zoolet_layouts::{Directory, Site, WaitGraph, Znode, semaphore};
use zoolet_protocol::{SessionId, Zxid};

/// The files, one for each library or question.
const FILES: [&str; 5] = ["curator", "kazoo", "others", "mixed", "deadlocks"];

/// Between the directories of a file and what is told of them.
const SEPARATOR: &str = "---\n";

#[test]
fn directories_are_told_as_the_files_say() {
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{file}.txt"));
        let text = std::fs::read_to_string(&path).unwrap();
        let scenes: Vec<String> = text.split("\n===\n").map(scene).collect();
        let actual = scenes.join("\n===\n");
        if std::env::var_os("ZOOLET_UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &actual).unwrap();
        } else {
            assert_eq!(actual, text, "{}", path.display());
        }
    }
}

/// A scene with the answer that is right: comments, the paths with their children, and the answer.
fn scene(text: &str) -> String {
    let input = text.split(SEPARATOR).next().unwrap();
    let directories = read(input);
    let find = |path: &str| directories.iter().find(|(its_path, _)| *its_path == path);
    let mut graph = WaitGraph::default();
    let mut answer = String::new();
    for (path, directory) in &directories {
        let gate =
            find(&format!("{path}/{}", Site::GATE)).or_else(|| find(&format!("{path}-__lock__")));
        let permits = find(&format!("{path}/{}", Site::PERMITS));
        let mut queues = directory.queues();
        if let (Some((_, gate)), Some((_, permits))) = (gate, permits) {
            queues.push(semaphore(permits, gate));
        }
        for queue in &queues {
            writeln!(answer, "{path}: {}", queue.recipe.text()).unwrap();
            for row in &queue.rows {
                let behind = row.behind.map_or_else(String::new, |row| format!(", behind {row}"));
                let (session, name) = (row.place.znode.session.0, &row.place.name);
                writeln!(answer, "  {session} {}{behind}: {name}", row.role.text()).unwrap();
            }
            graph.add(path, queue);
        }
        for (later, ahead, towards) in directory.strangers() {
            writeln!(answer, "{path}: {later:?} behind {ahead:?}: {towards:?}").unwrap();
        }
    }
    for cycle in graph.cycles() {
        let steps = cycle.steps.iter();
        let steps = steps
            .map(|step| format!("{} waits at {} for {}", step.waiter.0, step.path, step.holder.0));
        writeln!(answer, "cycle: {}", steps.collect::<Vec<_>>().join(", ")).unwrap();
    }
    format!("{input}{SEPARATOR}{answer}")
}

/// Paths, each on a line, and below it its children: session, zxid, name. `= text` is a path's data.
fn read(input: &str) -> Vec<(&str, Directory)> {
    let mut directories: Vec<(&str, Directory)> = Vec::new();
    for line in input.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('/') {
            directories.push((line, Directory::new()));
            continue;
        }
        let (_, directory) = directories.last_mut().expect("a path stands before its children");
        if let Some(data) = line.trim_start().strip_prefix("= ") {
            directory.set_data(data.as_bytes());
            continue;
        }
        let mut words = line.split_whitespace();
        let mut number = || words.next().unwrap().parse().unwrap();
        let (session, czxid) = (SessionId(number()), Zxid(number()));
        let name = words.next().unwrap();
        directory.insert(name, Znode { session, czxid, ctime: 0 });
    }
    directories
}
