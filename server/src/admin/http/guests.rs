//! Who is connected: clients that nobody knows do not keep out those that somebody knows, nor each other.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::limits::{HTTP_CONNECTIONS_MAX, HTTP_KNOWN_CONNECTIONS_MAX};

/// The client of a connection, which each request has as an extension. It is a stranger until a handler
/// lets it in.
#[derive(Debug, Clone)]
pub struct Guest {
    table: Arc<Mutex<Table>>,
    id: u64,
    is_known: Arc<AtomicBool>,
}

impl Guest {
    /// Lets the client in: its connection is no longer one of a stranger, which others can take the
    /// place of ([`Site::strangers`](super::Site::strangers)). If there are as many known connections as
    /// there may be, it stays one.
    pub fn let_in(&self) {
        if !self.is_known.load(Ordering::Relaxed) && self.table.lock().let_in(self.id) {
            self.is_known.store(true, Ordering::Relaxed);
        }
    }
}

/// The open connections of a site.
#[derive(Debug)]
pub(super) struct Guests {
    table: Arc<Mutex<Table>>,
    has_strangers: bool,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    /// By their age.
    strangers: BTreeMap<u64, Stranger>,
    known: usize,
}

#[derive(Debug)]
struct Stranger {
    network: IpAddr,
    cut: CancellationToken,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) guest: Guest,
    /// Cancelled when another one takes the place.
    pub(super) cut: CancellationToken,
}

impl Guests {
    /// With `strangers`, connections are those of strangers at first.
    pub(super) fn new(strangers: Option<Duration>) -> Self {
        Self { table: Arc::default(), has_strangers: strangers.is_some() }
    }

    /// A place for a connection. If all places of strangers are taken, it is that of the oldest stranger of
    /// the network that has most of them. `None` if there are no strangers, and no places.
    pub(super) fn admit(&self, peer: SocketAddr) -> Option<Seat> {
        let mut table = self.table.lock();
        let cut = CancellationToken::new();
        table.last += 1;
        let id = table.last;
        if self.has_strangers {
            if table.strangers.len() >= HTTP_CONNECTIONS_MAX {
                table.cut_one();
            }
            let stranger = Stranger { network: network(peer.ip()), cut: cut.clone() };
            table.strangers.insert(id, stranger);
        } else if table.known >= HTTP_CONNECTIONS_MAX {
            return None;
        } else {
            table.known += 1;
        }
        drop(table);
        let is_known = Arc::new(AtomicBool::new(!self.has_strangers));
        Some(Seat { guest: Guest { table: Arc::clone(&self.table), id, is_known }, cut })
    }
}

impl Seat {
    /// Whether the client is no stranger.
    pub(super) fn is_known(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.guest.is_known)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.guest.table.lock();
        // One whose place was taken is in neither.
        if table.strangers.remove(&self.guest.id).is_none()
            && self.guest.is_known.load(Ordering::Relaxed)
        {
            table.known -= 1;
        }
    }
}

impl Table {
    fn let_in(&mut self, id: u64) -> bool {
        let is_one =
            self.known < HTTP_KNOWN_CONNECTIONS_MAX && self.strangers.remove(&id).is_some();
        self.known += usize::from(is_one);
        is_one
    }

    /// Cuts the oldest stranger of the network that has most of them.
    fn cut_one(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for stranger in self.strangers.values() {
            *counts.entry(stranger.network).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let is_of_most = |stranger: &Stranger| counts.get(&stranger.network) == Some(&most);
        let found = self.strangers.iter().find(|(_, stranger)| is_of_most(stranger));
        let Some(id) = found.map(|(id, _)| *id) else { return };
        if let Some(stranger) = self.strangers.remove(&id) {
            stranger.cut.cancel();
        }
    }
}

/// The addresses that one client is likely to have: of IPv6, the network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn strangers_of_one_network_take_the_places_of_each_other_and_of_nobody_else() {
        let guests = Guests::new(Some(Duration::from_secs(5)));
        let quiet = guests.admit(peer("10.0.0.1")).unwrap();
        let mut flood = Vec::new();
        for number in 0..3 * HTTP_CONNECTIONS_MAX {
            let address = format!("2001:db8::{number:x}");
            flood.push(guests.admit(peer(&address)).unwrap());
        }
        assert!(!quiet.cut.is_cancelled());
        let open = flood.iter().filter(|seat| !seat.cut.is_cancelled()).count();
        assert_eq!(open, HTTP_CONNECTIONS_MAX - 1);
        assert!(!flood.last().unwrap().cut.is_cancelled(), "the newest has a place");
        drop(flood);
        assert_eq!(guests.table.lock().strangers.len(), 1);
    }

    #[test]
    fn nobody_takes_the_place_of_one_who_was_let_in() {
        let guests = Guests::new(Some(Duration::from_secs(5)));
        let known: Vec<_> = (0..=HTTP_KNOWN_CONNECTIONS_MAX)
            .map(|_| {
                let seat = guests.admit(peer("10.0.0.1")).unwrap();
                seat.guest.let_in();
                seat.guest.let_in();
                seat
            })
            .collect();
        let is_known = |seat: &Seat| seat.is_known().load(Ordering::Relaxed);
        assert!(known[..HTTP_KNOWN_CONNECTIONS_MAX].iter().all(is_known));
        assert!(!is_known(&known[HTTP_KNOWN_CONNECTIONS_MAX]), "one too many stays a stranger");
        let _flood: Vec<_> =
            (0..HTTP_CONNECTIONS_MAX).map(|_| guests.admit(peer("10.0.0.1")).unwrap()).collect();
        assert!(known[..HTTP_KNOWN_CONNECTIONS_MAX].iter().all(|seat| !seat.cut.is_cancelled()));
        assert!(known[HTTP_KNOWN_CONNECTIONS_MAX].cut.is_cancelled());
        drop(known);
        assert_eq!(guests.table.lock().known, 0);
    }

    #[test]
    fn without_strangers_one_too_many_has_no_place() {
        let guests = Guests::new(None);
        let mut seats: Vec<_> =
            (0..HTTP_CONNECTIONS_MAX).map(|_| guests.admit(peer("10.0.0.1")).unwrap()).collect();
        assert!(guests.admit(peer("10.0.0.2")).is_none());
        seats.pop();
        assert!(guests.admit(peer("10.0.0.2")).is_some());
    }
}
