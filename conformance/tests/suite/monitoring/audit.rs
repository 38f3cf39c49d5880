//! The lines of the audit log of our server and of Apache ZooKeeper 3.8 after the same requests.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_server::{AuditLog, Config};

use super::requests::{Ours, block_on, carry_out};

/// The lines of the requests: creates, deletes, changes, a multi, a refused one, and the ephemerals
/// of two sessions.
const LINES: usize = 22;

const LOOKS_MAX: usize = 500;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn lines() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (theirs, ours) = (folder.path().join("apache.log"), folder.path().join("ours.log"));
    let mut arguments = servers::properties(Setting::Steady);
    arguments.extend(["--log".to_owned(), theirs.display().to_string()]);
    arguments.push("-Dzookeeper.audit.enable=true".to_owned());
    let apache = Apache::start(&arguments)?;
    block_on(async {
        carry_out(apache.address()).await?;
        let theirs = until_complete(&theirs).await?;
        let audit = Some(AuditLog::File(ours.clone()));
        let config = Config { audit, ..servers::config(Setting::Steady) };
        let server = Ours::start(config).await?;
        carry_out(server.address).await?;
        server.server.shutdown().await;
        let text = std::fs::read_to_string(&ours)?;
        let (mut masked_ours, masked_theirs) = (masked(&text), masked(&theirs));
        // That server still runs.
        let stop = masked_ours.pop().ok_or("there are lines")?;
        assert!(stop.ends_with("operation=serverStop\tresult=invoked"), "{stop}");
        assert!(masked_ours[0].ends_with("operation=serverStart\tresult=success"));
        assert_eq!(masked_ours.len(), LINES + 1);
        assert_eq!(masked_ours, masked_theirs);
        // In full and in the form of ZooKeeper's own configuration.
        let first = text.lines().nth(1).ok_or("there are lines")?;
        let (head, line) = first.split_once(": ").ok_or("there is a head")?;
        assert!(head.ends_with(" INFO audit.Slf4jAuditLogger"), "{first}");
        assert!(line.starts_with("session=0x"), "{first}");
        let end = "\tuser=127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/app\t\
                   znode_type=persistent\tresult=success";
        assert!(line.ends_with(end), "{first}");
        for secret in ["password-of-bob", "aGFzaCBvZiBhbm4="] {
            assert!(!text.contains(secret), "{text}");
        }
        Ok(())
    })
}

/// Waits until the log has all lines of the requests.
async fn until_complete(log: &std::path::Path) -> Result<String, Failed> {
    for _ in 0..LOOKS_MAX {
        let text = std::fs::read_to_string(log)?;
        let is_last = |line: &&str| line.contains("znode=/second/ephemeral");
        if text.lines().filter(is_last).count() == 2 {
            return Ok(text);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Err(format!("the log lacks lines: {}", std::fs::read_to_string(log)?).into())
}

/// The lines without what differs from run to run: times, session ids by their order, and of a digest
/// the hash, which we do not write. A session's ephemerals are deleted in any order, and ZooKeeper
/// keeps the users of a connection in a hash set.
fn masked(log: &str) -> Vec<String> {
    let mut sessions = BTreeMap::new();
    let mut lines = Vec::new();
    for line in log.lines().filter(|line| line.contains("udit") && line.contains("result=")) {
        let begin = line.find("session=").or_else(|| line.find("user="));
        let Some(begin) = begin else { continue };
        let line = line[begin..].replace("ann:aGFzaCBvZiBhbm4=", "ann:x");
        let fields = line.split('\t').map(|field| match field.split_once('=') {
            Some(("session", id)) => {
                let next = sessions.len();
                format!("session={}", sessions.entry(id.to_owned()).or_insert(next))
            }
            Some(("user", users)) => {
                let mut users: Vec<_> = users.split(',').collect();
                users.sort_unstable();
                format!("user={}", users.join(","))
            }
            _ => field.to_owned(),
        });
        lines.push(fields.collect::<Vec<_>>().join("\t"));
    }
    let is_end = |line: &String| line.contains("operation=ephemeralZNodeDeletion");
    let mut begin = 0;
    while begin < lines.len() {
        let count = lines[begin..].iter().take_while(|line| is_end(line)).count();
        lines[begin..begin + count].sort();
        begin += count.max(1);
    }
    lines
}
