//! Users, passwords and hashes: `zoolet digest`, a server with a JAAS file, and clients of it.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::process::{Ended, Running, command, directory, ended, file, run, within_limit};

const JAAS: &str = "Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
        user_ann=\"secret\" user_admin=\"adminsecret\";
};
";

/// A server with the users `ann` and `admin`, who may do everything.
async fn server(name: &str) -> Running {
    let jaas = file(&format!("{name}.jaas"), JAAS);
    let jaas = jaas.to_str().expect("the path is UTF-8");
    Running::start(&[
        "serve",
        "--listen=127.0.0.1:0",
        "--auth-provider=sasl",
        "--super-user=admin",
        "--jaas-config",
        jaas,
    ])
    .await
}

/// Runs a command of the shell as a user.
async fn cli(server: &Running, user: &str, password: &str, words: &[&str]) -> Ended {
    let address = server.address.to_string();
    let mut cli = command(&["cli", "-s", &address]);
    cli.args(words).env("ZOOLET_SASL_USER", user).env("ZOOLET_SASL_PASSWORD", password);
    ended(cli).await
}

#[tokio::test]
async fn users_of_a_jaas_file_own_what_they_create() {
    let server = server("users").await;
    let created = cli(&server, "ann", "secret", &["create", "/a", "x", "auth::cdrwa"]).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    let list = cli(&server, "ann", "secret", &["getAcl", "/a"]).await;
    assert_eq!(list.stdout, "sasl:ann:cdrwa\n", "{list:?}");
    let read = cli(&server, "admin", "adminsecret", &["get", "/a"]).await;
    assert_eq!(read.stdout, "x\n", "{read:?}");
    let address = server.address.to_string();
    let stranger = run(&["cli", "-s", &address, "get", "/a"]).await;
    assert_ne!(stranger.code, Some(0), "{stranger:?}");
    for (user, password) in [("ann", "Secret"), ("eve", "secret")] {
        let refused = cli(&server, user, password, &["ls", "/"]).await;
        assert!(refused.code != Some(0) && refused.stdout.is_empty(), "{refused:?}");
    }
    let (_, log) = server.end("TERM").await;
    assert!(
        log.contains("DIGEST-MD5 is obsolete") && log.contains("the password is wrong"),
        "{log}"
    );
    assert!(!log.contains("secret") && !log.contains("Secret"), "a password is in the log: {log}");
}

#[tokio::test]
async fn a_password_comes_from_a_file_or_the_environment() {
    let server = server("password").await;
    let password = file("password-of-ann", "secret\nnot a password\n");
    let (address, password) = (server.address.to_string(), password.to_str().expect("UTF-8"));
    let who =
        ["cli", "-s", &address, "--sasl-user=ann", "--sasl-password-file", password, "whoami"];
    let who = run(&who).await;
    assert!(who.stdout.contains("sasl: ann"), "{who:?}");
    let none = run(&["cli", "-s", &address, "--sasl-user=ann", "whoami"]).await;
    assert!(none.stderr.contains("--sasl-password-file"), "{none:?}");
    let wrong = file("wrong-password-of-ann", "Secret\n");
    let wrong = wrong.to_str().expect("UTF-8");
    let wrong =
        run(&["cli", "-s", &address, "--sasl-user=ann", "--sasl-password-file", wrong, "ls"]).await;
    assert!(wrong.stderr.contains("the server refuses the SASL user \"ann\": is "), "{wrong:?}");
    let missing =
        ["cli", "-s", &address, "--sasl-user=ann", "--sasl-password-file=/nonexistent", "ls"];
    let missing = run(&missing).await;
    assert_eq!(missing.code, Some(2), "{missing:?}");
    let nobody = run(&["cli", "-s", &address, "--sasl-password-file", password, "whoami"]).await;
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(2), ""), "{nobody:?}");
    assert!(nobody.stderr.contains("--sasl-user"), "{nobody:?}");
}

/// Someone takes the password for what is asked for.
#[tokio::test]
async fn a_password_in_place_of_a_hash_is_not_shown() {
    let refused = run(&["serve", "--super-digest", "admin:hunter2"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--super-digest must be USER:HASH"), "{refused:?}");
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
}

/// What `zoolet digest` makes of a password on its stdin.
async fn digest(args: &[&str], password: &str) -> Ended {
    let mut digest = command(&["digest"]);
    digest.args(args).stdin(Stdio::piped());
    let mut child = digest.spawn().expect("the command can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A command that refuses its arguments does not read it.
    let _ = stdin.write_all(password.as_bytes()).await;
    drop(stdin);
    Ended::new(within_limit(child.wait_with_output()).await.expect("it ends"))
}

#[tokio::test]
async fn the_hash_of_a_password_is_printed() {
    let printed = digest(&["super"], "test\n").await;
    assert_eq!(printed.stdout, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n", "{printed:?}");
    let line = "DigestAuthenticationProvider.superDigest=\
                super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=\n";
    let printed = digest(&["--superuser", "--algorithm=sha-256", "super"], "test").await;
    assert_eq!(printed.stdout, line, "{printed:?}");
    for (args, password) in [(&["ann"], ""), (&["ann"], "\n"), (&["a:b"], "test")] {
        let refused = digest(args, password).await;
        assert!(refused.code != Some(0) && refused.stdout.is_empty(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_secret_of_session_passwords_survives_the_server() {
    let data = directory("secret-session-passwords");
    let data = data.to_str().expect("the path is UTF-8");
    let args = ["--listen=127.0.0.1:0", "--secret-session-passwords", "--data-dir", data];
    let read = || std::fs::read(format!("{data}/session-key")).expect("the secret is there");
    let server = Running::start(&args).await;
    let secret = read();
    server.end("TERM").await;
    Running::start(&args).await.end("TERM").await;
    assert_eq!(read(), secret);
    std::fs::write(format!("{data}/session-key"), "damaged").expect("it can be written");
    let refused = run(&args).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("session-key has not the 64"), "{refused:?}");
}
