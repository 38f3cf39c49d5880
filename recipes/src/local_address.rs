//! The default data of a recipe's znodes: the address of this machine, as text, as in Curator. It
//! is for people who look at the znodes; no recipe reads it.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::LazyLock;

use bytes::Bytes;

/// An address that is reserved for documentation (RFC 5737). Nothing is sent to it; a machine with
/// a default route has a route to it.
const ANYWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address from which this machine reaches others, looked up once.
pub(crate) fn local_address() -> Bytes {
    static ADDRESS: LazyLock<Bytes> = LazyLock::new(|| {
        let address = look_up().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        address.to_string().into()
    });
    ADDRESS.clone()
}

/// Connects a datagram socket, which sends nothing and only looks for a route.
fn look_up() -> std::io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(ANYWHERE)?;
    Ok(socket.local_addr()?.ip())
}
