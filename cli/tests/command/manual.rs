//! The manual pages and the completions: that the programs which read them accept them.

use std::process::{Command, Stdio};

use crate::process::{directory, file, run};

/// Runs a program that may not be installed, and returns what it printed to stderr.
fn checked(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Without a locale, man warns of what it cannot show.
    command.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
    match command.output() {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{program} {args:?}: {stderr}");
            Some(stderr)
        }
        Err(error) => {
            let is_required = std::env::var("ZOOLET_REQUIRE_PEERS").is_ok_and(|set| set == "1");
            assert!(!is_required, "{program}: {error}");
            println!("ignored: {program} cannot be run: {error}");
            None
        }
    }
}

#[tokio::test]
async fn there_is_a_page_for_each_command() {
    let pages = directory("manual");
    let told = run(&["man", pages.to_str().expect("the path is UTF-8")]).await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told:?}");
    let mut names = Vec::new();
    for page in pages.read_dir().expect("it is a directory") {
        let path = page.expect("it can be read").path();
        names.push(path.file_name().expect("it has one").to_string_lossy().into_owned());
        let path = path.to_str().expect("the path is UTF-8");
        // Groff warns of what it does not understand.
        if let Some(warnings) = checked("groff", &["-man", "-Tutf8", "-ww", path]) {
            assert_eq!(warnings, "", "{path}");
        }
    }
    for name in ["zoolet.1", "zoolet-serve.1", "zoolet-lock.1", "zoolet-cli.1", "zoolet-health.1"] {
        assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
    }
    let main = run(&["man"]).await;
    let written = std::fs::read_to_string(pages.join("zoolet.1")).expect("it was written");
    assert_eq!((main.code, main.stdout), (Some(0), written));

    let serve = std::fs::read_to_string(pages.join("zoolet-serve.1")).expect("it was written");
    assert!(serve.contains("Exit status: 0 after a signal"), "{serve}");
    assert!(serve.contains(".nf\n"), "the examples keep their lines: {serve}");
}

#[tokio::test]
async fn shells_accept_their_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = run(&["completions", shell]).await;
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(told.stdout.contains("4lw-commands-whitelist"), "{shell}");
        let script = file(&format!("completions.{shell}"), &told.stdout);
        if shell == "bash" {
            checked("bash", &["-n", script.to_str().expect("the path is UTF-8")]);
        }
    }
    let told = run(&["completions", "cmd"]).await;
    assert_eq!(told.code, Some(2), "{told:?}");
}

/// What bash offers for the last word of a line.
#[tokio::test]
async fn bash_completes_options() {
    let script = run(&["completions", "bash"]).await.stdout;
    let script = file("completions-to-run.bash", script);
    let line = format!(
        "source {}; COMP_WORDS=(zoolet serve --data-); COMP_CWORD=2; \
         _zoolet zoolet --data- serve; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let output = Command::new("bash").args(["--norc", "-c", &line]).output();
    let output = output.expect("bash is there: it is essential on Debian");
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    let offered: Vec<_> = offered.lines().collect();
    assert_eq!(offered, ["--data-dir", "--data-log-dir"], "{output:?}");
}
