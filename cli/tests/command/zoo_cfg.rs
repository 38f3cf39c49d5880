//! `zoolet serve --config FILE`: what a server makes of a `zoo.cfg`.

use std::path::Path;

use crate::process::{Running, file, run};

/// The server with this file as its configuration.
async fn server(name: &str, text: &str, options: &[&str]) -> Running {
    let path = file(name, text);
    let mut args = vec!["serve", "--config", as_str(&path)];
    args.extend_from_slice(options);
    Running::start(&args).await
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

#[track_caller]
fn assert_conf(conf: &str, lines: &[&str]) {
    for line in lines {
        assert!(conf.lines().any(|found| found == *line), "{line} is not in:\n{conf}");
    }
}

#[tokio::test]
async fn the_sample_file_of_zookeeper_is_accepted() {
    let data = crate::process::directory("like-the-sample");
    let text = &format!(
        "\
# milliseconds
tickTime=2000
initLimit=10
syncLimit=5
dataDir={}
clientPort=0
#maxClientCnxns=60
4lw.commands.whitelist=conf
",
        data.display()
    );
    let server = server("like-the-sample.cfg", text, &[]).await;
    assert!(server.address.ip().is_unspecified(), "on all interfaces: {}", server.address);
    let conf = server.ask("conf").await;
    assert_conf(&conf, &["tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"]);
    assert_conf(&conf, &["maxClientCnxns=60"]);
    let data_dir = format!("dataDir={}/version-2", data.display());
    assert_conf(&conf, &[data_dir.as_str(), "dataDirSize=1502"]);
    assert!(data.join("version-2/snapshot.0").exists());

    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    let warnings: Vec<_> = stderr.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warnings.len(), 1, "{stderr}");
    assert!(warnings[0].contains("initLimit (line 3), syncLimit (line 4) have no"), "{stderr}");
}

#[tokio::test]
async fn the_whole_properties_syntax_is_accepted() {
    let text = "\
! a comment
 \t clientPort : 0
clientPortAddress 127.0.0.1\r
tick\\u0054ime = \\
    15\\
    00
zookeeper.4lw.commands.whitelist=conf, \\\n  ruok
zookeeper.jute.maxbuffer=0x2000
";
    let server = server("syntax.cfg", text, &[]).await;
    assert!(server.address.ip().is_loopback());
    assert_eq!(server.ask("ruok").await, "imok");
    assert_conf(&server.ask("conf").await, &["tickTime=1500"]);
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0));
    let warnings: Vec<_> = stderr.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warnings.len(), 1, "{stderr}");
    assert!(warnings[0].contains("syntax.cfg: without dataDir all data are in memory"), "{stderr}");
}

#[tokio::test]
async fn options_override_the_file() {
    let text = "\
clientPort=1
clientPortAddress=192.0.2.1
tickTime=1000
maxClientCnxns=5
minSessionTimeout=3000
4lw.commands.whitelist=*
readonlymode.enabled=true
";
    let options =
        ["--listen", "127.0.0.1:0", "--tick-time=4000", "--4lw-commands-whitelist=conf,ruok"];
    let server = server("overridden.cfg", text, &options).await;
    assert!(server.address.ip().is_loopback());
    let conf = server.ask("conf").await;
    assert_conf(&conf, &["tickTime=4000", "maxClientCnxns=5", "minSessionTimeout=3000"]);
    assert_eq!(server.ask("isro").await, "rw");
    assert!(server.ask("mntr").await.contains("not in the whitelist"));
    assert_eq!(server.end("TERM").await.0.code(), Some(0));
}

#[tokio::test]
async fn an_unknown_key_is_only_warned_of() {
    let text = "clientPort=0\nmaxClientConnections=5\n";
    let server = server("unknown-key.cfg", text, &[]).await;
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("unknown-key.cfg:2: unknown key \"maxClientConnections\""), "{stderr}");
    assert!(stderr.contains("did you mean maxClientCnxns?"), "{stderr}");
}

#[tokio::test]
async fn an_unusable_file_is_refused() {
    let cases = [
        ("bad-value.cfg", "clientPort=0\ntickTime=2s\n", "bad-value.cfg:2: tickTime must be"),
        ("bad-truth.cfg", "\n\nskipACL=true\n", "bad-truth.cfg:3: skipACL must be yes or no"),
        ("bad-escape.cfg", "dataDir=C:\\users\\zk\n", "bad-escape.cfg:1: \"\\u\" must be"),
        (
            "ensemble.cfg",
            "clientPort=0\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n",
            "ensemble.cfg:3: 2 servers make an ensemble",
        ),
        ("other.xml", "<configuration>\n</configuration>\n", "is it a zoo.cfg?"),
        ("no-port.cfg", "clientPortAddress=localhost\n", "clientPort is not"),
        (
            "timeouts.cfg",
            "minSessionTimeout=9000\nmaxSessionTimeout=8000\n",
            "minSessionTimeout (9000 ms) is above maxSessionTimeout (8000 ms)",
        ),
        ("sasl.cfg", "sessionRequireClientSASLAuth=true\n", "name a JAAS file with --jaas-config"),
        ("jaas.cfg", "zoolet.jaas.config=/nonexistent/jaas.conf\n", "cannot read the JAAS file"),
        (
            "digest.cfg",
            "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n\
             DigestAuthenticationProvider.digestAlg=SHA-256\n",
            "superDigest has not the length",
        ),
    ];
    for (name, text, expected) in cases {
        let path = file(name, text);
        let ended = run(&["--config", as_str(&path)]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}: {ended:?}");
        assert!(ended.stderr.contains("error: "), "{name}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{name}: {ended:?}");
    }
}

#[tokio::test]
async fn servers_in_a_dynamic_file_make_an_ensemble() {
    let servers = file("servers.dynamic", "server.1=a:1:2;2181\nserver.2=b:1:2;2181\nversion=0\n");
    let text = format!("clientPort=0\ndynamicConfigFile={}\n", as_str(&servers));
    let path = file("dynamic.cfg", text);
    let ended = run(&["--config", as_str(&path)]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("servers.dynamic:2: 2 servers make"), "{ended:?}");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let ended = run(&["--config", "no-such-directory/zoo.cfg"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("no-such-directory/zoo.cfg: No such file"), "{ended:?}");
}
