//! Groups whose members use our `GroupMember` and Curator's, each in a process of its own: all see
//! all members and payloads, also after some are killed and started again.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;

use Library::{Curator, Zoolet};

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");
const GROUP: &str = "/fleet-group";

/// The members that are killed come first, so that those who are started in their place have their
/// names, and so their ids.
const LIBRARIES: [Library; 6] = [Zoolet, Curator, Zoolet, Curator, Zoolet, Curator];
const KILLED: usize = 2;

const PATIENCE: Duration = Duration::from_secs(45);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn tests() -> Section {
    let mut section = Section::new("groups", 1);
    let name = "each_sees_the_others_members";
    section.test(&[Peer::Curator], &format!("zoolet::{name}"), || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        each_sees_the_others_members(server.address())
    });
    section.test(&[Peer::Apache, Peer::Curator], &format!("apache::{name}"), || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        each_sees_the_others_members(server.address())
    });
    section
}

/// What the members see: each id with its payload.
#[derive(Clone)]
struct Seen(Vec<(String, String)>);

impl Seen {
    fn line(&self) -> String {
        let mut each: Vec<_> = self.0.iter().map(|(id, it)| format!("{id}={it}")).collect();
        each.sort_unstable();
        format!("await {}", each.join(","))
    }

    fn set(&mut self, id: &str, payload: &str) {
        for (_, known) in self.0.iter_mut().filter(|(known, _)| known == id) {
            payload.clone_into(known);
        }
    }

    fn without(&self, ids: &[String]) -> Self {
        Self(self.0.iter().filter(|(id, _)| !ids.contains(id)).cloned().collect())
    }
}

fn all_see(
    fleet: &mut Fleet,
    members: impl IntoIterator<Item = usize>,
    seen: &Seen,
) -> Result<(), Failed> {
    for member in members {
        fleet.ask(member, &seen.line())?;
    }
    Ok(())
}

fn each_sees_the_others_members(address: SocketAddr) -> Result<(), Failed> {
    let text = address.to_string();
    let recipe = FleetRecipe { name: "group", address: &text, path: GROUP, capacity: 0 };
    let mut fleet = Fleet::start(recipe, Path::new(OURS), &LIBRARIES)?;
    let all = 0..LIBRARIES.len();
    let ids: Vec<_> = all.clone().map(|member| fleet.name(member).to_owned()).collect();
    let mut seen = Seen(ids.iter().map(|id| (id.clone(), id.clone())).collect());
    all_see(&mut fleet, all.clone(), &seen)?;

    for member in all.clone() {
        fleet.ask(member, &format!("payload new-{member}"))?;
        seen.set(&ids[member], &format!("new-{member}"));
    }
    all_see(&mut fleet, all.clone(), &seen)?;

    // Their ephemerals are there until their sessions end.
    let (killed, others) = (0..KILLED, KILLED..LIBRARIES.len());
    for member in killed.clone() {
        fleet.kill(member)?;
    }
    all_see(&mut fleet, others.clone(), &seen.without(&ids[killed.clone()]))?;

    // Killed again and started at once: the ephemerals of their last sessions are there still.
    let mut again = Fleet::start(recipe, Path::new(OURS), &LIBRARIES[killed.clone()])?;
    for member in killed.clone() {
        seen.set(&ids[member], &ids[member]);
    }
    all_see(&mut fleet, others.clone(), &seen)?;
    for member in killed.clone() {
        again.kill(member)?;
    }
    let mut again = Fleet::start(recipe, Path::new(OURS), &LIBRARIES[killed.clone()])?;
    all_see(&mut again, killed.clone(), &seen)?;
    for member in killed.clone() {
        again.ask(member, &format!("payload again-{member}"))?;
        seen.set(&ids[member], &format!("again-{member}"));
    }
    all_see(&mut fleet, others.clone(), &seen)?;
    all_see(&mut again, killed.clone(), &seen)?;
    until_all_have_a_session(address, &ids)?;
    all_see(&mut fleet, others.clone(), &seen)?;

    let leaving: Vec<_> = killed.clone().map(|member| ids[member].clone()).collect();
    for member in killed {
        again.ask(member, "leave")?;
    }
    all_see(&mut fleet, others, &seen.without(&leaving))?;
    again.stop()?;
    fleet.stop()?;
    Ok(())
}

/// Waits until each id has an ephemeral, each of another session. Curator's member uses that of the
/// session before, and loses it when that ends.
fn until_all_have_a_session(address: SocketAddr, ids: &[String]) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(address.to_string().as_str()).await?;
        let have = async {
            loop {
                let mut owners = Vec::new();
                for id in ids {
                    let stat = client.exists(&format!("{GROUP}/{id}")).await?;
                    owners.extend(stat.map(|stat| stat.ephemeral_owner));
                }
                owners.sort_unstable();
                owners.dedup();
                if owners.len() == ids.len() {
                    return Ok::<_, Failed>(());
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::time::timeout(PATIENCE, have).await.map_err(|_| "some have no session")??;
        client.close().await?;
        Ok(())
    })
}
