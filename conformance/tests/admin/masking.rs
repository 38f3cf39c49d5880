//! Puts marks in place of what differs from run to run and from machine to machine.

/// The fields whose texts differ.
const TEXTS: [&str; 4] = ["version", "data_dir", "data_log_dir", "initial_configuration"];

/// The commands whose fields all have texts of the machine.
const OF_THE_MACHINE: [&str; 3] = ["environment", "env", "envi"];

/// The text of an answer: numbers are `#`, or `#.#` with a point, and texts of the machine `*`.
pub(crate) fn masked(command: &str, text: &str) -> String {
    let lines = text.lines().filter(|line| !is_empty_bucket(line));
    let lines: Vec<_> = lines
        .map(|line| match field(line) {
            Some(name) if TEXTS.contains(&name) => cut(line, name),
            Some(name) if OF_THE_MACHINE.contains(&command) && !is_frame(name) => cut(line, name),
            _ => numbers(line),
        })
        .collect();
    lines.join("\n")
}

/// ZooKeeper lists ticks at which sessions would have expired that were heard of since.
fn is_empty_bucket(line: &str) -> bool {
    let text = line.trim().trim_end_matches(',');
    text.ends_with("\" : [ ]")
        && text.trim_start_matches('"').starts_with(|c: char| c.is_ascii_digit())
}

/// The name of the field on a line.
fn field(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('"')?.split_once("\" : ").map(|(name, _)| name)
}

fn is_frame(name: &str) -> bool {
    name == "command" || name == "error"
}

/// A line without its text.
fn cut(line: &str, name: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let comma = if line.ends_with(',') { "," } else { "" };
    let is_text = line.contains("\" : \"");
    let value = if is_text { "\"*\"" } else { "null" };
    format!("{:indent$}\"{name}\" : {value}{comma}", "")
}

fn numbers(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(begin);
        masked.push_str(before.strip_suffix('-').unwrap_or(before));
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        rest = &number[end..];
        masked.push('#');
        let is_double =
            rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        // An address has more than one point.
        if is_double && !number.contains(':') {
            let fraction = &rest[1..];
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            rest = &fraction[end..];
            masked.push_str(".#");
        }
    }
    masked + rest
}

#[test]
fn what_differs_is_masked_and_what_it_is_stays() {
    let text = "{\n  \"version\" : \"3.9\",\n  \"data_dir_size\" : 67109358,\n  \"average\" : 6.25,\n  \
                \"27000\" : [ ],\n  \"27001\" : [ 72, -1 ],\n  \"at\" : \"127.0.0.1:43150\",\n  \
                \"initial_configuration\" : null,\n  \"error\" : null\n}";
    let expected = "{\n  \"version\" : \"*\",\n  \"data_dir_size\" : #,\n  \"average\" : #.#,\n  \
                    \"#\" : [ #, # ],\n  \"at\" : \"#.#.#.#:#\",\n  \"initial_configuration\" : \
                    null,\n  \"error\" : null\n}";
    assert_eq!(masked("stats", text), expected);
    assert_eq!(
        masked("env", "{\n  \"java.home\" : \"/x\",\n  \"command\" : \"environment\"\n}"),
        "{\n  \"java.home\" : \"*\",\n  \"command\" : \"environment\"\n}"
    );
}
