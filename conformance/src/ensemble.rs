//! Apache ZooKeeper as an ensemble of three processes on this machine, each of which can be killed
//! and started again. The network between them can lag and be cut.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use tempfile::TempDir;

use crate::apache::{Apache, PROBES_MAX, Pace, is_serving};
use crate::four_letter;
use crate::quorum_network::{MemberPorts, QuorumNetwork};
use crate::target::TcpTarget;

/// How many members there are: enough to lose one.
pub const MEMBERS: usize = 3;

/// Below those that outgoing connections take.
const PORTS: RangeInclusive<u16> = 12_000..=31_999;

/// Three servers, of which one leads.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Member>,
    network: QuorumNetwork,
    pace: Pace,
}

#[derive(Debug)]
struct Member {
    /// `None` while it is killed.
    process: Option<Apache>,
    client_port: u16,
    data: TempDir,
}

impl Ensemble {
    /// Starts all members at a quick pace and waits until each serves.
    ///
    /// # Errors
    ///
    /// When one does not come up.
    pub fn start() -> io::Result<Self> {
        Self::start_at(Pace::QUICK)
    }

    /// Starts all members and waits until each serves.
    ///
    /// # Errors
    ///
    /// When one does not come up.
    pub fn start_at(pace: Pace) -> io::Result<Self> {
        // Held until all are chosen, so that they differ.
        let listeners = free_ports(MEMBERS * 3)?;
        let ports: Vec<_> = listeners
            .iter()
            .map(|listener| Ok(listener.local_addr()?.port()))
            .collect::<io::Result<_>>()?;
        drop(listeners);
        let member_ports = |ports: &[u16]| MemberPorts { quorum: ports[1], election: ports[2] };
        let members: Vec<_> = ports.chunks(3).map(member_ports).collect();
        let network = QuorumNetwork::start(&members)?;
        let mut ensemble = Self { members: Vec::new(), network, pace };
        for (member, own_ports) in ports.chunks(3).enumerate() {
            // Each member reaches the others by links of its own.
            let peer_line = |(peer, &own): (usize, &MemberPorts)| {
                let ports = ensemble.network.ports(member, peer).unwrap_or(own);
                format!("server.{}=127.0.0.1:{}:{}", peer + 1, ports.quorum, ports.election)
            };
            let peers: Vec<_> = members.iter().enumerate().map(peer_line).collect();
            let data = tempfile::tempdir()?;
            fs::write(data.path().join("myid"), (member + 1).to_string())?;
            fs::write(data.path().join("peers"), peers.join("\n"))?;
            ensemble.members.push(Member { process: None, client_port: own_ports[0], data });
        }
        for member in 0..MEMBERS {
            ensemble.restart(member)?;
        }
        ensemble.await_all()?;
        Ok(ensemble)
    }

    /// Where clients connect to: all members.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// Where each member listens.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |member: &Member| (Ipv4Addr::LOCALHOST, member.client_port).into();
        self.members.iter().map(address).collect()
    }

    /// The member that leads, if one does.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.addresses().iter().position(|&address| {
            four_letter::ask(address, "srvr").is_ok_and(|said| said.contains("Mode: leader"))
        })
    }

    /// The network between the members.
    #[must_use]
    pub fn network(&self) -> &QuorumNetwork {
        &self.network
    }

    /// Whether somebody leads and has both others as followers that keep up.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.addresses().iter().any(|&address| {
            let said = four_letter::ask(address, "mntr").unwrap_or_default();
            let followers = said.lines().find_map(|line| line.strip_prefix("zk_synced_followers"));
            followers.is_some_and(|count| count.trim() == (MEMBERS - 1).to_string())
        })
    }

    /// Kills a member as a failing machine would.
    pub fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    /// Starts a member that was killed, with the data that it has.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart(&mut self, member: usize) -> io::Result<()> {
        let Member { process, client_port, data } = &mut self.members[member];
        let peers = fs::read_to_string(data.path().join("peers"))?;
        *process = Some(Apache::start_member(*client_port, self.pace, data.path(), &peers)?);
        Ok(())
    }

    /// Waits until each member takes sessions.
    ///
    /// # Errors
    ///
    /// When one does not.
    pub fn await_all(&self) -> io::Result<()> {
        for address in self.addresses() {
            if !is_serving(&TcpTarget::new(address), PROBES_MAX)? {
                return Err(io::Error::other(format!("{address} takes no sessions")));
            }
        }
        Ok(())
    }
}

fn free_ports(count: usize) -> io::Result<Vec<TcpListener>> {
    let taken = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))).ok();
    let listeners: Vec<_> = (0..=u16::MAX).filter_map(taken).take(count).collect();
    if listeners.len() < count { Err(io::Error::other("no free ports")) } else { Ok(listeners) }
}
