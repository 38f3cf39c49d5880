//! An ensemble of three Apache ZooKeeper processes on this machine. Each can be killed and started
//! again, and the network between them can lag and be cut.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use tempfile::TempDir;

use crate::apache::{Apache, PROBES_MAX, Timing, is_serving};
use crate::four_letter;
use crate::quorum_network::{MemberPorts, QuorumNetwork};
use crate::target::TcpTarget;

/// The number of members: enough to lose one.
pub const MEMBERS: usize = 3;

/// Ports below those that the system uses for outgoing connections.
const PORTS: RangeInclusive<u16> = 12_000..=31_999;

/// Another program may take a port between our look and the member's bind: then all begins again, with other
/// ports.
const STARTS_MAX: usize = 3;

/// Three servers, one of which is the leader.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Member>,
    network: QuorumNetwork,
    timing: Timing,
    /// Arguments of `start-apache` for all members.
    arguments: Vec<String>,
}

#[derive(Debug)]
struct Member {
    /// `None` after the member was killed.
    process: Option<Apache>,
    client_port: u16,
    data: TempDir,
}

impl Ensemble {
    /// Starts all members with [`Timing::QUICK`] and waits until each serves.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn start() -> io::Result<Self> {
        Self::start_at(Timing::QUICK)
    }

    /// Starts all members and waits until each serves.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn start_at(timing: Timing) -> io::Result<Self> {
        Self::start_with(timing, &[])
    }

    /// Starts all members with these arguments of `start-apache` and waits until each serves.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn start_with(timing: Timing, arguments: &[String]) -> io::Result<Self> {
        let mut starts = 1;
        loop {
            match Self::start_once(timing, arguments) {
                Err(_) if starts < STARTS_MAX => starts += 1,
                started => return started,
            }
        }
    }

    fn start_once(timing: Timing, arguments: &[String]) -> io::Result<Self> {
        // The listeners stay open until all ports are chosen, so that the ports differ.
        let listeners = free_ports(MEMBERS * 3)?;
        let ports: Vec<_> = listeners
            .iter()
            .map(|listener| Ok(listener.local_addr()?.port()))
            .collect::<io::Result<_>>()?;
        drop(listeners);
        let member_ports = |ports: &[u16]| MemberPorts { quorum: ports[1], election: ports[2] };
        let members: Vec<_> = ports.chunks(3).map(member_ports).collect();
        let network = QuorumNetwork::start(&members)?;
        let mut ensemble =
            Self { members: Vec::new(), network, timing, arguments: arguments.to_vec() };
        for (member, own_ports) in ports.chunks(3).enumerate() {
            // Each member reaches the others through its own links.
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

    /// The connection string for clients: all members.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// The address on which each member listens for clients.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |member: &Member| (Ipv4Addr::LOCALHOST, member.client_port).into();
        self.members.iter().map(address).collect()
    }

    /// The leader, if there is one.
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

    /// Whether there is a leader that has both other members as synced followers.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.addresses().iter().any(|&address| {
            let said = four_letter::ask(address, "mntr").unwrap_or_default();
            let followers = said.lines().find_map(|line| line.strip_prefix("zk_synced_followers"));
            followers.is_some_and(|count| count.trim() == (MEMBERS - 1).to_string())
        })
    }

    /// Kills a member, as if its machine had failed.
    pub fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    /// The process of a member that was not killed.
    ///
    /// # Panics
    ///
    /// If it was killed.
    #[must_use]
    pub fn process(&self, member: usize) -> &Apache {
        self.members[member].process.as_ref().expect("it was not killed")
    }

    /// Starts a killed member on its data directory.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn restart(&mut self, member: usize) -> io::Result<()> {
        let Member { process, client_port, data } = &mut self.members[member];
        let peers = fs::read_to_string(data.path().join("peers"))?;
        *process = Some(Apache::start_member(
            *client_port,
            self.timing,
            data.path(),
            &peers,
            &self.arguments,
        )?);
        Ok(())
    }

    /// Waits until each member accepts sessions.
    ///
    /// # Errors
    ///
    /// If one does not.
    pub fn await_all(&self) -> io::Result<()> {
        for address in self.addresses() {
            if !is_serving(&TcpTarget::new(address), PROBES_MAX)? {
                return Err(io::Error::other(format!("{address} accepts no sessions")));
            }
        }
        Ok(())
    }
}

fn free_ports(count: usize) -> io::Result<Vec<TcpListener>> {
    let taken = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))).ok();
    let listeners: Vec<_> = (0..=u16::MAX).filter_map(taken).take(count).collect();
    if listeners.len() < count {
        Err(io::Error::other("there are no free ports"))
    } else {
        Ok(listeners)
    }
}
