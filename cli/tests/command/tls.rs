//! TLS by `zoo.cfg` and by the options of the commands that connect.

use std::path::{Path, PathBuf};

use crate::process::{Running, command, directory, ended, file, run};

/// Certificates to try TLS with.
async fn certificates(name: &str) -> PathBuf {
    let folder = directory(name).join("certs");
    let made = run(&["certs", as_str(&folder)]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    folder
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// A server with a port for TLS, and that port.
async fn server(name: &str, certificates: &Path, more: &str) -> (Running, String) {
    let text = format!(
        "clientPort=0\nsecureClientPort=0\n4lw.commands.whitelist=*\n\
         ssl.keyStore.location={0}/server.p12\nssl.keyStore.passwordPath={0}/password\n\
         ssl.trustStore.location={0}/truststore.p12\nssl.trustStore.passwordPath={0}/password\n\
         {more}",
        certificates.display()
    );
    let path = file(name, &text);
    let server = Running::start(&["serve", "--config", as_str(&path)]).await;
    let conf = server.ask("conf").await;
    let port = conf.lines().find_map(|line| line.strip_prefix("secureClientPort="));
    let port = port.expect("conf has the key").to_owned();
    (server, format!("localhost:{port}"))
}

#[tokio::test]
async fn commands_connect_by_tls_by_options_and_by_the_environment() {
    let certs = certificates("tls-commands").await;
    let (server, address) = server("tls-commands.cfg", &certs, "").await;
    let (ca, client) = (certs.join("ca.pem"), certs.join("client.pem"));
    let options =
        ["--server", address.as_str(), "--tls-ca", as_str(&ca), "--tls-cert", as_str(&client)];
    let cli = |words: &[&'static str]| [&["cli"], &options[..], words].concat();
    let created = run(&cli(&["create", "/a", "secret"])).await;
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    let held = run(&[&["lock"], &options[..], &["/lock", "--", "true"]].concat()).await;
    assert_eq!(held.code, Some(0), "{}", held.stderr);

    let mut by_environment = command(&["cli", "whoami"]);
    by_environment.env("ZOOLET_SERVER", &address);
    by_environment.env("ZOOLET_TLS_CA", &ca).env("ZOOLET_TLS_CERT", &client);
    let told = ended(by_environment).await;
    assert!(told.stdout.contains("x509: CN=zoolet client"), "{} {}", told.stdout, told.stderr);

    let refused = run(&["cli", "--server", &address, "--tls-ca", as_str(&ca), "ls", "/"]).await;
    assert_eq!(refused.code, Some(69));
    assert!(refused.stderr.contains("wants a certificate"), "{}", refused.stderr);
    let wrong = run(&["cli", "--server", &address, "--tls-ca", "/nowhere.pem", "ls", "/"]).await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("/nowhere.pem"), "{}", wrong.stderr);
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
}

#[tokio::test]
async fn commands_tell_at_once_that_a_port_speaks_tls_or_does_not() {
    let certs = certificates("tls-wrong-port").await;
    let (server, secure) = server("tls-wrong-port.cfg", &certs, "").await;
    let (plain, ca) = (server.reachable().to_string(), certs.join("ca.pem"));
    let by_tls = ["--server", plain.as_str(), "--tls-ca", as_str(&ca)];
    let by_plaintext = ["--server", secure.as_str()];
    for (options, expected) in [
        (&by_tls[..], "the server does not speak TLS on this port"),
        (&by_plaintext[..], "the server speaks TLS on this port"),
    ] {
        // They wait for much longer, but for an answer that may change.
        let cli = [&["cli", "--connect-timeout", "600s"], options, &["ls", "/"]].concat();
        let word = [&["cli", "--connect-timeout", "600s"], options, &["srvr"]].concat();
        let lock = [&["lock", "--wait", "600s"], options, &["/lock", "--", "true"]].concat();
        for args in [cli, word, lock] {
            let told = run(&args).await;
            assert!(told.stderr.contains(expected), "{args:?}: {told:?}");
            assert_eq!(told.code, Some(69), "{args:?}: {told:?}");
        }
    }
    drop(server);
}

#[tokio::test]
async fn a_server_that_cannot_keep_a_setting_of_tls_does_not_start() {
    let certs = certificates("tls-settings").await;
    for (more, cure) in [
        ("ssl.ocsp=true", "zoolet.ssl.crlFile"),
        ("ssl.crl=true", "zoolet.ssl.crlFile"),
        ("ssl.context.supplier.class=org.example.A", "org.example.A"),
        ("ssl.trustStore.passwordPath=/nowhere", "/nowhere"),
        ("ssl.keyStore.type=BCFKS", "PKCS12"),
        ("ssl.clientAuth=maybe", "none, want or need"),
    ] {
        let text = format!(
            "clientPort=0\nsecureClientPort=0\nssl.keyStore.location={0}/server.pem\n\
             ssl.trustStore.location={0}/ca.pem\n{more}",
            certs.display()
        );
        let path = file("tls-settings.cfg", &text);
        let refused = run(&["serve", "--config", as_str(&path)]).await;
        assert_eq!(refused.code, Some(2), "{more}: {}", refused.stderr);
        assert!(refused.stderr.contains(cure), "{more}: {}", refused.stderr);
    }
}

/// When a mistake is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Before the command connects.
    Usage,
    /// When it connects.
    Connecting,
}

/// Runs each command that connects, with these options.
async fn refused_by_all(address: &str, options: &[&str], mistake: Mistake, expected: &[&str]) {
    let commands: [&[&str]; 5] = [
        &["cli", "--connect-timeout", "10s", "--server", address, "ls", "/"],
        &["health", "--timeout", "10s", address],
        &["cli", "--connect-timeout", "10s", "--server", address, "srvr"],
        &["lock", "--wait", "10s", "--server", address, "/lock", "--", "true"],
        &["bench", "load", "--duration", "1s", "--server", address],
    ];
    // All of them read the options in the same way.
    let count = if mistake == Mistake::Usage { 2 } else { commands.len() };
    for command in &commands[..count] {
        let (name, rest) = command.split_first().expect("there is a name");
        let words = match *name {
            "bench" => [&["bench", "load"], options, &rest[1..]].concat(),
            _ => [&[*name], options, rest].concat(),
        };
        let refused = run(&words).await;
        let told = format!("{}{}", refused.stdout, refused.stderr);
        let is_usage = refused.code == Some(2);
        assert_ne!(refused.code, Some(0), "{words:?}: {told}");
        assert_eq!(is_usage, mistake == Mistake::Usage, "{words:?}: {told}");
        for expected in expected {
            assert!(told.contains(expected), "{words:?}: {told}");
        }
    }
}

#[tokio::test]
async fn errors_name_the_options_by_which_they_are_mended() {
    use Mistake::{Connecting, Usage};

    let certs = certificates("tls-errors").await;
    let (server, address) = server("tls-errors.cfg", &certs, "").await;
    let path = |name: &str| certs.join(name).display().to_string();
    let (ca, client, p12) = (path("ca.pem"), path("client.pem"), path("client.p12"));
    let text = std::fs::read_to_string(&client).unwrap();
    let (key, certificate) = text.split_at(text.find("-----BEGIN CERT").unwrap());
    let key = as_str(&file("tls-errors-key.pem", key)).to_owned();
    let certificate = as_str(&file("tls-errors-certificate.pem", certificate)).to_owned();
    let unnamed = as_str(&file("tls-errors.certificate", &text)).to_owned();
    let wrong = as_str(&file("tls-errors-password", "wrong")).to_owned();
    let other = path("server.pem");
    let cases: &[(&[&str], Mistake, &[&str])] = &[
        (&["--tls-ca", &ca], Connecting, &["wants a certificate", "give one by --tls-cert"]),
        (&["--tls-cert", &client], Connecting, &["authority by --tls-ca"]),
        (&["--tls-ca", &ca, "--tls-server-name", "a"], Connecting, &["name by --tls-server-name"]),
        (&["--tls-ca", &ca, "--tls-server-name", "a b"], Usage, &["--tls-server-name: \"a b\""]),
        (&["--tls-ca", "/nowhere"], Usage, &["cannot read --tls-ca /nowhere: No such file"]),
        (&["--tls-cert", "/nowhere"], Usage, &["cannot read --tls-cert /nowhere: No such file"]),
        (&["--tls-cert", &unnamed], Usage, &[&unnamed, "let it end with .pem"]),
        (&["--tls-cert", &certificate], Usage, &[&certificate, "has it by --tls-key"]),
        (&["--tls-cert", &key], Usage, &[&key, "has it by --tls-cert"]),
        (&["--tls-cert", &certificate, "--tls-key", "/no"], Usage, &["cannot read --tls-key /no"]),
        (
            &["--tls-cert", &certificate, "--tls-key", &certificate],
            Usage,
            &["--tls-key", "no private"],
        ),
        (&["--tls-cert", &certificate, "--tls-key", &other], Usage, &["Is --tls-key the key of"]),
        (&["--tls-cert", &p12], Usage, &[&p12, "its password by --tls-password-file"]),
        (
            &["--tls-cert", &p12, "--tls-password-file", &wrong],
            Usage,
            &[&p12, "--tls-password-file has another password"],
        ),
        (
            &["--tls-ca", &p12, "--tls-ca-password-file", &wrong],
            Usage,
            &[&p12, "--tls-ca-password-file has another password"],
        ),
        (
            &["--tls-cert", &p12, "--tls-password-file", "/no"],
            Usage,
            &["cannot read --tls-password-file /no"],
        ),
        (&["--tls-key", &key], Usage, &["--tls-cert <FILE>"]),
    ];
    for (options, mistake, expected) in cases {
        refused_by_all(&address, options, *mistake, expected).await;
    }
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
}

#[tokio::test]
async fn brackets_of_an_address_that_are_not_closed_are_named() {
    for (address, reason) in [
        ("[::1", "the bracket of the IPv6 address is not closed"),
        ("[::1:2181", "the bracket of the IPv6 address is not closed"),
        ("[::1]x:2181", "after the bracket comes :PORT"),
        ("::1]:2181", "an IPv6 address stands in brackets"),
        ("[]:2181", "there is no host"),
    ] {
        for words in [&["cli", "--server", address, "ls", "/"][..], &["health", address]] {
            let refused = run(words).await;
            let told = format!("{}{}", refused.stdout, refused.stderr);
            assert!(told.contains(reason) && told.contains(address), "{words:?}: {told}");
        }
    }
}
