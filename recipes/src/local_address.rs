//! What a lock's znode says of its holder when nothing else is to be said: the address of this
//! machine, as text. It is for people who look; nothing goes by it.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::LazyLock;

use bytes::Bytes;

/// An address to which there is a route where there is one to anywhere: of those that are kept for
/// documentation. Nothing is sent to it.
const ANYWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address from which this machine would reach others, as it was when it was first asked for.
pub(crate) fn local_address() -> Bytes {
    static ADDRESS: LazyLock<Bytes> = LazyLock::new(|| {
        let address = look_up().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        address.to_string().into()
    });
    ADDRESS.clone()
}

/// To connect a datagram socket only looks for a route.
fn look_up() -> std::io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(ANYWHERE)?;
    Ok(socket.local_addr()?.ip())
}
