//! A member of a fleet that is a member of a group, as each line of its input says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use zoolet_client::Client;
use zoolet_recipes::{GroupMember, GroupMembers};

use crate::fleet_member::Outcome;

const PATIENCE: Duration = Duration::from_secs(45);

/// How often it looks whether what it reads without a copy is so too.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Joins the group at the path, with its name as id and payload, and does what each line says:
/// `payload TEXT`, `await ID=PAYLOAD,..` for exactly these members, or `leave`. Prints the line when it
/// is done.
pub(crate) async fn obey(
    client: &Client,
    path: &str,
    name: &str,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let member = GroupMember::builder(client, path, name).payload(name.to_owned()).start()?;
    let mut member = Some(member);
    while let Some(line) = told.recv().await {
        let joined = member.as_ref().ok_or("it has left")?;
        match line.split_once(' ') {
            Some(("payload", payload)) => joined.set_payload(payload.to_owned()).await?,
            Some(("await", expected)) => {
                let seen = tokio::time::timeout(PATIENCE, sees(joined, expected)).await;
                if seen.is_err() {
                    let read = joined.members().await?;
                    return Err(format!("{expected} in vain: there are {}", told_as(&read)).into());
                }
                seen??;
            }
            None if line == "leave" => {
                if let Some(member) = member.take() {
                    member.close().await?;
                }
            }
            _ => return Err(format!("unknown line {line:?}").into()),
        }
        println!("{line}");
    }
    if let Some(member) = member {
        member.close().await?;
    }
    Ok(())
}

/// Waits until a copy of the members has exactly these, and a read finds them too.
async fn sees(member: &GroupMember, expected: &str) -> Outcome<()> {
    let mut copy: GroupMembers = member.follow()?;
    while told_as(&copy.changed().await?) != expected {}
    while told_as(&member.members().await?) != expected {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

/// `ID=PAYLOAD` of each, in the order of the ids.
fn told_as(members: &BTreeMap<String, Bytes>) -> String {
    let told = |(id, payload): (&String, &Bytes)| {
        let payload = String::from_utf8_lossy(payload);
        format!("{id}={payload}")
    };
    members.iter().map(told).collect::<Vec<_>>().join(",")
}
