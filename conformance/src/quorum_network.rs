//! The network between the members of an ensemble. It can let a follower lag and cut a member off.
//!
//! A follower connects to the quorum port of its leader, and members elect a leader over their
//! election ports. The configuration of each member names proxies instead of the ports of the
//! others, so everything that members send to each other passes a link of this network. Clients use
//! other ports, which stay reachable.

#![expect(clippy::disallowed_types, reason = "real time passes here, and no run repeats")]

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::quorum_packets::QuorumPackets;

/// How often a link tries to connect to a leader: for five seconds.
const LEADER_TRIES: usize = 500;
const LEADER_TRY_PAUSE: Duration = Duration::from_millis(10);

/// The ports on which a member listens for other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberPorts {
    /// The port on which a leader listens for its followers.
    pub quorum: u16,
    /// The port on which a member listens for votes.
    pub election: u16,
}

/// The links between all members.
#[derive(Debug)]
pub struct QuorumNetwork {
    /// The links by the member that connects and the member to which it connects.
    links: BTreeMap<(usize, usize), Link>,
    /// A separate runtime, so that links pass packets on while a test computes or blocks.
    _runtime: Runtime,
}

#[derive(Debug)]
struct Link {
    ports: MemberPorts,
    mode: watch::Sender<LinkMode>,
}

/// What a link does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkMode {
    Passing,
    /// The follower receives no commits, but everything else. It acknowledges proposals and pings,
    /// so its leader keeps it.
    ///
    /// A follower with a slow commit processor behaves in the same way: it answers reads from its
    /// old state and lets sessions reattach.
    Lagging,
    /// The leader receives nothing from the follower, which receives everything.
    Mute,
    /// Nothing passes, not even the close of a connection.
    Cut,
    /// Nothing passes. A follower finds its connection closed at once; its leader does not.
    Severed,
}

impl LinkMode {
    fn is_cut(self) -> bool {
        matches!(self, Self::Cut | Self::Severed)
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Quorum,
    /// With the port over which the other member can connect back.
    Election {
        port_back: u16,
    },
}

impl QuorumNetwork {
    /// Starts the links between members with these ports.
    ///
    /// # Errors
    ///
    /// If there are no free ports.
    pub fn start(members: &[MemberPorts]) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (mut links, mut listeners) = (BTreeMap::new(), Vec::new());
        let listen = || runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        for from in 0..members.len() {
            for to in (0..members.len()).filter(|to| *to != from) {
                let (quorum, election) = (listen()?, listen()?);
                let ports = MemberPorts {
                    quorum: quorum.local_addr()?.port(),
                    election: election.local_addr()?.port(),
                };
                links.insert(
                    (from, to),
                    Link { ports, mode: watch::Sender::new(LinkMode::Passing) },
                );
                listeners.push((from, to, quorum, election));
            }
        }
        for (from, to, quorum, election) in listeners {
            let (link, back) = (&links[&(from, to)], &links[&(to, from)]);
            let purpose = Purpose::Election { port_back: back.ports.election };
            let server = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let (quorum_server, election_server) =
                (server(members[to].quorum), server(members[to].election));
            let modes = link.mode.subscribe();
            runtime.spawn(accept(quorum, quorum_server, Purpose::Quorum, modes.clone()));
            runtime.spawn(accept(election, election_server, purpose, modes));
        }
        Ok(Self { links, _runtime: runtime })
    }

    /// The ports over which one member reaches another.
    #[must_use]
    pub fn ports(&self, from: usize, to: usize) -> Option<MemberPorts> {
        self.links.get(&(from, to)).map(|link| link.ports)
    }

    /// Holds back the commits for a follower until [`QuorumNetwork::heal`].
    pub fn lag(&self, follower: usize) {
        self.change(LinkMode::Lagging, |(from, _)| from == follower);
    }

    /// Holds back all that a follower sends to its leader until [`QuorumNetwork::heal`].
    pub fn mute(&self, follower: usize) {
        self.change(LinkMode::Mute, |(from, _)| from == follower);
    }

    /// Cuts a member off from all others until [`QuorumNetwork::heal`].
    pub fn cut_off(&self, member: usize) {
        self.change(LinkMode::Cut, |(from, to)| from == member || to == member);
    }

    /// Cuts a leader off from all others until [`QuorumNetwork::heal`]. The others notice it at
    /// once and elect another leader; the leader does not notice it.
    pub fn sever(&self, leader: usize) {
        self.change(LinkMode::Severed, |(from, to)| from == leader || to == leader);
    }

    /// Ends [`QuorumNetwork::lag`] for a follower.
    pub fn catch_up(&self, follower: usize) {
        self.change(LinkMode::Passing, |(from, _)| from == follower);
    }

    /// Ends [`QuorumNetwork::cut_off`] for a member, if no other is cut off.
    pub fn rejoin(&self, member: usize) {
        self.change(LinkMode::Passing, |(from, to)| from == member || to == member);
    }

    /// Lets everything pass again. A lagging follower catches up at once. A link that was cut
    /// closes its connections, because their ends have given up meanwhile.
    pub fn heal(&self) {
        self.change(LinkMode::Passing, |_| true);
    }

    fn change(&self, mode: LinkMode, is_affected: impl Fn((usize, usize)) -> bool) {
        for link in self.links.iter().filter(|(ends, _)| is_affected(**ends)).map(|(_, link)| link)
        {
            link.mode.send_replace(mode);
        }
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    purpose: Purpose,
    modes: watch::Receiver<LinkMode>,
) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, server, purpose, modes.clone()));
    }
}

async fn serve(
    client: TcpStream,
    server: SocketAddr,
    purpose: Purpose,
    mut modes: watch::Receiver<LinkMode>,
) {
    if modes.borrow().is_cut() {
        // The connecting member gets no reply, as if its packets were lost.
        return until_whole(&mut modes).await;
    }
    let Ok(server) = connect(server, purpose).await else { return };
    // This fails if a socket is closed already, which shows below.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let pass_on = async {
        match purpose {
            Purpose::Quorum => tokio::select! {
                _ = pass_to_leader(&mut from_client, &mut to_server, modes.clone()) => {}
                _ = pass_to_follower(&mut from_server, &mut to_client, modes.clone()) => {}
            },
            Purpose::Election { port_back } => tokio::select! {
                _ = pass_votes(&mut from_client, &mut to_server, port_back) => {}
                _ = pass(&mut from_server, &mut to_client) => {}
            },
        }
    };
    tokio::select! {
        biased;
        () = until_cut(modes.clone()) => {}
        () = pass_on => return,
    }
    if matches!(purpose, Purpose::Quorum) && *modes.borrow() == LinkMode::Severed {
        drop((from_client, to_client));
    }
    // The other sockets stay open until the link is healed.
    until_whole(&mut modes).await;
}

/// Connects to a member.
///
/// A new leader may not listen for followers yet. Without this network the follower's connection
/// would be refused, and the follower would try again. Here it is accepted already; if it were closed
/// now, the follower would look for another leader, and the new one would wait for it in vain for
/// `initLimit`. So this network tries again in its place.
async fn connect(member: SocketAddr, purpose: Purpose) -> io::Result<TcpStream> {
    let tries = if matches!(purpose, Purpose::Quorum) { LEADER_TRIES } else { 1 };
    for _ in 1..tries {
        if let Ok(stream) = TcpStream::connect(member).await {
            return Ok(stream);
        }
        tokio::time::sleep(LEADER_TRY_PAUSE).await;
    }
    TcpStream::connect(member).await
}

async fn until_cut(mut modes: watch::Receiver<LinkMode>) {
    let _ = modes.wait_for(|mode| mode.is_cut()).await;
}

/// Waits while the link is cut.
async fn until_whole(modes: &mut watch::Receiver<LinkMode>) {
    // An error means that the network was dropped, which ends this task too.
    let _ = modes.wait_for(|mode| !mode.is_cut()).await;
}

async fn pass(source: &mut OwnedReadHalf, sink: &mut OwnedWriteHalf) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    loop {
        if source.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        sink.write_all_buf(&mut bytes).await?;
    }
}

/// The most bytes of a member's address: a name and a port.
const ADDRESS_BYTES_MAX: usize = 1_024;

/// Passes votes on. A member first sends its number and its own address. The other member connects
/// to that address if it has the greater number, which would bypass this network, so the address is
/// replaced.
async fn pass_votes(
    source: &mut OwnedReadHalf,
    sink: &mut OwnedWriteHalf,
    port_back: u16,
) -> io::Result<()> {
    let (version, member) = (source.read_i64().await?, source.read_i64().await?);
    let length = usize::try_from(source.read_i32().await?).map_err(io::Error::other)?;
    if length > ADDRESS_BYTES_MAX {
        return Err(io::Error::other(format!(
            "a member sent an address of {length} bytes, the limit is {ADDRESS_BYTES_MAX}"
        )));
    }
    source.read_exact(&mut vec![0; length]).await?;
    let address = format!("127.0.0.1:{port_back}");
    sink.write_i64(version).await?;
    sink.write_i64(member).await?;
    sink.write_i32(i32::try_from(address.len()).map_err(io::Error::other)?).await?;
    sink.write_all(address.as_bytes()).await?;
    pass(source, sink).await
}

async fn pass_to_leader(
    source: &mut OwnedReadHalf,
    sink: &mut OwnedWriteHalf,
    mut modes: watch::Receiver<LinkMode>,
) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    while source.read_buf(&mut bytes).await? != 0 {
        let spoken = modes.wait_for(|mode| *mode != LinkMode::Mute).await.map(drop);
        spoken.map_err(io::Error::other)?;
        sink.write_all_buf(&mut bytes).await?;
    }
    Ok(())
}

async fn pass_to_follower(
    source: &mut OwnedReadHalf,
    sink: &mut OwnedWriteHalf,
    mut modes: watch::Receiver<LinkMode>,
) -> io::Result<()> {
    let mut packets = QuorumPackets::default();
    let (mut input, mut output, mut held) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
    loop {
        let read = tokio::select! {
            biased;
            changed = modes.changed() => changed.map(|()| None).map_err(io::Error::other),
            read = source.read_buf(&mut input) => read.map(Some),
        };
        if read? == Some(0) {
            return Ok(());
        }
        let is_lagging = *modes.borrow() == LinkMode::Lagging;
        while let Some(packet) = packets.next(&mut input) {
            let is_late = is_lagging && packet.is_in_order_of_commits;
            (if is_late { &mut held } else { &mut output }).extend_from_slice(&packet.bytes);
        }
        if !is_lagging {
            sink.write_all_buf(&mut held).await?;
        }
        sink.write_all_buf(&mut output).await?;
    }
}
