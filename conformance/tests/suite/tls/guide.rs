//! Runs the commands of `docs/tls.md`.

use std::fs;
use std::process::Command;

use libtest_mimic::Failed;
use zoolet_conformance::peers::conformance_folder;
use zoolet_conformance::process::zoolet_binary;

use super::workshop::free_port;

/// The blocks of the page that are run, in their order.
const BLOCKS: [&str; 8] = [
    "certs",
    "server",
    "client",
    "four-letter word",
    "openssl",
    "keytool",
    "renewal",
    ADMIN_SERVER,
];

const ADMIN_SERVER: &str = "admin server";

/// The server of the last block.
const ADMIN: &str = r#"
cat >admin.cfg <<EOF
clientPort=0
clientPortAddress=127.0.0.1
dataDir=admin
secureClientPort=0
secureClientPortAddress=127.0.0.1
ssl.keyStore.location=certs/server.pem
ssl.trustStore.location=certs/ca.pem
X509AuthenticationProvider.superUser=CN=zoolet client
admin.enableServer=true
admin.serverAddress=127.0.0.1
admin.serverPort=8080
admin.forceHttps=true
admin.needClientAuth=true
ssl.quorum.keyStore.location=certs/server.pem
ssl.quorum.trustStore.location=certs/ca.pem
EOF
zoolet serve --config admin.cfg &
for _ in $(seq 300); do
    curl --silent --cacert certs/ca.pem --cert certs/client.pem https://localhost:8080/commands && break
    sleep 0.1
done
"#;

/// After the blocks: the server shows its new certificate, and ends.
const END: &str = r#"
test -s snapshot.0
shown() { openssl s_client -connect localhost:2281 </dev/null 2>/dev/null | openssl x509 -noout -subject; }
for _ in $(seq 300); do shown | grep -q 'CN = app' && break; sleep 0.1; done
shown
kill %1
wait %1 || true
"#;

pub(crate) fn works() -> Result<(), Failed> {
    let page = fs::read_to_string(conformance_folder().join("../docs/tls.md"))?;
    let script = [&blocks(&page)?, END].concat();
    let script = script.replace("2281", &free_port()?.to_string());
    let script = script.replace("8080", &free_port()?.to_string());
    let folder = tempfile::tempdir()?;
    let binary = fs::canonicalize(zoolet_binary()?)?;
    let programs = binary.parent().ok_or("it is in a folder")?;
    let output = Command::new("bash")
        // Without "-u" the shell would go on after a command that fails.
        .args(["-euo", "pipefail", "-c", &format!("trap 'kill $(jobs -p)' EXIT\n{script}")])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH")?))
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let expected = [
        "x509:CN=zoolet client",
        "imok",
        "Mode: standalone",
        "x509: CN=app,OU=Ops,O=Example",
        "subject=O = Example, OU = Ops, CN = app",
    ];
    let missing: Vec<_> = expected.into_iter().filter(|text| !said.contains(text)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("{missing:?} are missing:\n{said}").into())
    }
}

/// The fenced blocks of the page that follow a line `<!-- test: NAME -->`.
fn blocks(page: &str) -> Result<String, Failed> {
    let (mut names, mut script) = (Vec::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else {
            // A command that nobody would run.
            if line == "```sh" {
                return Err("a block of the page has no name".into());
            }
            continue;
        };
        if name == ADMIN_SERVER {
            script += ADMIN;
        }
        if lines.next() != Some("```sh") {
            return Err(format!("no block follows {line:?}").into());
        }
        names.push(name);
        for line in lines.by_ref().take_while(|line| *line != "```") {
            script += line;
            script += "\n";
        }
    }
    if names == BLOCKS { Ok(script) } else { Err(format!("the page has {names:?}").into()) }
}
