//! The machine of a run.

use std::process::Command;

/// The machine, its system and its compiler, as lines of a list.
pub(crate) fn describe() -> String {
    let facts = [
        ("processor", processor_and_cores()),
        ("system", format!("{} {}, {}", os(), kernel(), std::env::consts::ARCH)),
        ("compiler", answer("rustc", &["--version"])),
        ("date", today()),
    ];
    facts.map(|(what, fact)| format!("- {what}: {fact}\n")).concat()
}

/// The processor, and how many of its cores this process may use.
pub(crate) fn processor_and_cores() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", processor())
}

/// The present time in UTC.
pub(crate) fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// How many tasks ran or waited for a core in the last minute, where the system tells.
pub(crate) fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    match model {
        Some((_, model)) => model.trim().to_owned(),
        None => answer("sysctl", &["-n", "machdep.cpu.brand_string"]),
    }
}

fn os() -> String {
    let told = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = told.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or(std::env::consts::OS, |name| name.trim_matches('"')).to_owned()
}

fn kernel() -> String {
    answer("uname", &["-sr"])
}

/// The output of a program, or `unknown`.
fn answer(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output();
    let said = said.ok().filter(|said| said.status.success());
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}
