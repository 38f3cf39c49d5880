//! What is said of wrong arguments: what was wrong, the limits, and what to give.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::process::{Ended, Running, command, directory, ended, file, run, within_limit};

async fn refused(args: &[&str], code: i32, told: &str) {
    let ended = run(args).await;
    assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    assert!(ended.stderr.contains(told), "{args:?}: {told:?} is not in {}", ended.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn a_number_out_of_range_is_told_the_range_even_if_it_is_negative() {
    let positive = "must be a whole number from 1 to 2147483647";
    for (args, told) in [
        (&["lock", "--semaphore", "-1", "/a", "true"][..], positive),
        (&["lock", "--conflict-exit-code", "-1", "/a", "true"], "from 0 to 255"),
        (&["certs", "--days", "-1", "nowhere"], "from 1 to 3650"),
        (&["sweep", "--jobs", "-1", "--", "true"], positive),
        (&["bench", "herd", "--rounds", "-1"], positive),
        (&["demo", "--items", "-1"], positive),
        (&["doctor", "--rate", "0"], "must be a whole number from 1 to 100000"),
        (&["doctor", "--rate", "-1"], "must be a whole number from 1 to 100000"),
        (&["console", "--max-znodes", "0"], "must be a whole number from 1 to"),
        (&["serve", "--tick-time", "-1"], positive),
    ] {
        refused(args, 2, told).await;
    }
}

#[tokio::test]
async fn a_value_of_another_kind_is_told_what_is_wanted() {
    let address = "must be an IP address and a port, such as 127.0.0.1:8181";
    for (args, told) in [
        (&["console", "--listen", "localhost"][..], address),
        (&["serve", "--console", "localhost"], address),
        (&["serve", "--auth-provider", "kerberos"], "must be digest, ip, x509, sasl, ensemble, or"),
        (&["serve", "--super-digest", "admin:x"], "as `zoolet digest USER` prints it"),
        (&["cli", "--server", "localhost/a//b", "ls", "/"], "the chroot, which begins at the"),
        (&["cli", "create", "-t", "0", "/a"], "must be from 1 to 1099511627775 milliseconds"),
        (&["cli", "create", "-t", "soon", "/a"], "milliseconds from 1 to 1099511627775, or a time"),
    ] {
        refused(args, 2, told).await;
    }
}

#[tokio::test]
async fn a_file_in_place_of_a_directory_is_told() {
    let there = file("no-directory", "");
    let there = there.to_str().expect("the path is text");
    refused(&["certs", there], 1, "is a file; name a folder").await;
    refused(&["man", there], 1, "it is a file; name a directory").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_data_directory_need_not_be_named_in_utf_8() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let mut name = directory("no-utf-8").into_os_string().into_vec();
    name.extend(b"/\xff");
    let mut check = command(&["data", "check"]);
    let ended = ended({
        check.arg(OsString::from_vec(name));
        check
    });
    let ended = ended.await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("No such file or directory"), "{ended:?}");
}

/// What a command says of these bytes on its stdin.
async fn given(args: &[&str], stdin: &[u8], stdout: Stdio) -> Ended {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(stdout);
    let mut child = command.spawn().expect("the command can be started");
    let mut pipe = child.stdin.take().expect("it is piped");
    pipe.write_all(stdin).await.expect("it is read");
    drop(pipe);
    Ended::new(within_limit(child.wait_with_output()).await.expect("it ends"))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_digest_cannot_read_or_write_is_told() {
    let ended = given(&["digest", "ann"], b"\xff\n", Stdio::piped()).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("error: the password is not UTF-8"), "{ended:?}");
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let ended = given(&["digest", "ann"], b"secret\n", full.into()).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("error: stdout cannot be written: No space"), "{ended:?}");
}

#[tokio::test]
async fn the_first_line_of_a_script_has_the_number_1() {
    let server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    let address = server.reachable().to_string();
    let ended = given(&["cli", "--server", &address], b"\xff\n", Stdio::piped()).await;
    assert!(ended.stderr.starts_with("error in line 1: the input cannot be read"), "{ended:?}");
}

#[tokio::test]
async fn only_options_of_tls_are_under_its_heading() {
    for command in ["cli", "doctor", "console", "bench load"] {
        let args: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = run(&args).await.stdout;
        let (_, rest) = help.split_once("\nTLS:\n").expect("there is the heading");
        let section = rest.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
        let options = section.filter_map(|line| line.trim_start().strip_prefix("--"));
        let wrong: Vec<_> = options.filter(|option| !option.starts_with("tls")).collect();
        assert_eq!(wrong, [""; 0], "{command}");
    }
}
