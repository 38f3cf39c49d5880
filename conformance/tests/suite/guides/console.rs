//! Runs the commands of a page in a shell, and compares what they print with what the page shows.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::page::{Step, steps};
use super::{Outcome, path_with_zoolet};

/// What every script begins with. Files are named by the number of their command.
const BEGIN: &str = r#"
server=
stop() {
    if [ -n "$server" ]; then kill "$server"; wait "$server" || true; server=; fi
}
trap stop EXIT
hidden() {
    eval "$1" >hidden.out 2>&1 || { echo "$1"; cat hidden.out; exit 1; }
}
listens() {
    for _ in $(seq 600); do
        grep -q "^listening on " "$1.out" && return
        kill -0 "$server" || break
        sleep 0.05
    done
    echo "the server does not listen:"
    cat "$1.out"
    exit 1
}
"#;

/// Runs a page of `docs`. The ports that it names are free ones here, and its hosts are this one.
pub(crate) fn run(page: &str) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let (port, other_port, closed_port) = (free_port()?, free_port()?, free_port()?);
    let here = format!("localhost:{port}");
    let replaced = |text: &str| {
        text.replace("zk1,zk2,zk3", &[here.as_str(); 3].join(","))
            .replace("zk1:2181", &here)
            .replace("2181", &port)
            .replace("7000", &other_port)
            .replace("2999", &closed_port)
            .replace("/var/log/zoolet", ".")
    };
    let steps = steps(page)?;
    let (mut script, mut has_shown) = (BEGIN.to_owned(), false);
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Hidden(line) => {
                writeln!(script, "hidden {}", shell_words::quote(&replaced(line)))?;
            }
            Step::File { name, lines } => {
                let text = replaced(&lines.join("\n"));
                writeln!(script, "printf '%s\\n' {} >{name}", shell_words::quote(&text))?;
            }
            Step::Serve(command) => {
                let line = replaced(&command.line);
                let listen = format!("zoolet serve --listen 127.0.0.1:{port}");
                let line = match line.contains("--config") {
                    true => line,
                    false => line.replacen("zoolet serve", &listen, 1),
                };
                // A comment may end the line.
                let line = line.split(" #").next().unwrap_or_default();
                writeln!(script, "stop\n{line} >{number}.out 2>&1 &\nserver=$!\nlistens {number}")?;
                has_shown = true;
            }
            Step::Run(command) => {
                fs::write(file(folder.path(), number, "in"), replaced(&command.input.join("\n")))?;
                let line = replaced(&command.line);
                let streams = format!("<{number}.in >{number}.out 2>&1");
                writeln!(script, "{{ {line}\n}} {streams}\necho $? >{number}.status")?;
                has_shown = true;
            }
        }
    }
    if !has_shown {
        return Err(format!("docs/{page}.md shows no command").into());
    }
    let output = Command::new("bash")
        .args(["-uc", &script])
        .current_dir(folder.path())
        .env("PATH", path_with_zoolet()?)
        .env("ZOOLET_SERVER", &here)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&said)).into());
    }
    for (number, step) in steps.iter().enumerate() {
        let (Step::Serve(command) | Step::Run(command)) = step else { continue };
        let printed = fs::read_to_string(file(folder.path(), number, "out"))?;
        let printed_lines: Vec<_> = printed.lines().map(masked).collect();
        for line in &command.prints {
            if !printed_lines.contains(&masked(&replaced(line))) {
                return Err(format!("`{}` prints not\n{line}\nbut\n{printed}", command.line).into());
            }
        }
        if let Step::Run(_) = step {
            let status = fs::read_to_string(file(folder.path(), number, "status"))?;
            // The shell goes on after an error.
            let fails = command.prints.iter().any(|line| is_error(line));
            if (status.trim() != "0") != fails {
                return Err(format!("`{}`: status {status}{printed}", command.line).into());
            }
        }
    }
    Ok(())
}

fn file(folder: &Path, number: usize, kind: &str) -> PathBuf {
    folder.join(format!("{number}.{kind}"))
}

fn is_error(line: &str) -> bool {
    line.starts_with("error: ") || line.starts_with("{\"error\":")
}

/// A line without what differs in each run: times, zxids, sessions and addresses.
fn masked(line: &str) -> String {
    // A terminal has no numbers of lines.
    let line = match line.strip_prefix("error in line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, error)) => &format!("error: {error}"),
        None => line,
    };
    let is_separator = |c: char| c.is_whitespace() || "\",{}[]()=".contains(c);
    let mut masked = String::new();
    for word in line.split_inclusive(is_separator) {
        let (word, separator) = match word.chars().last().filter(|&c| is_separator(c)) {
            Some(last) => word.split_at(word.len() - last.len_utf8()),
            None => (word, ""),
        };
        let colon = if word.starts_with(':') { ":" } else { "" };
        let value = word.trim_start_matches(':');
        masked += colon;
        masked += if is_variable(value) { "#" } else { value };
        masked += separator;
    }
    masked
}

fn is_variable(value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = value.starts_with("20") && value.contains('T') && value.ends_with('Z');
    let is_address = value
        .split_once(':')
        .is_some_and(|(ip, port)| ip.parse::<IpAddr>().is_ok() && is_number(port));
    is_time || is_address || value.starts_with("0x") || (is_number(value) && value.len() > 9)
}

/// A port that is free now, below those of outgoing connections.
fn free_port() -> Outcome<String> {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(12_000..32_000)).take(1_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    Ok(ports.find(is_free).ok_or("no port is free")?.to_string())
}
