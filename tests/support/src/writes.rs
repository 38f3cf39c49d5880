//! A dialer that counts how often its connections write to their sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zoolet_client::Hosts;
use zoolet_protocol::{Dial, Dialing};

use crate::tap::{Tap, tapped};

/// Connects over TCP, and counts the flushes of its connections.
#[derive(Debug, Clone)]
pub struct CountedWrites {
    hosts: Hosts,
    writes: Arc<AtomicUsize>,
}

impl CountedWrites {
    /// Connects to these hosts.
    pub fn new(hosts: Hosts) -> Self {
        Self { hosts, writes: Arc::default() }
    }

    /// The number of writes since the last call.
    pub fn take(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }
}

impl Dial for CountedWrites {
    fn dial(&self) -> Dialing {
        tapped(self.hosts.dial(), Writes(Arc::clone(&self.writes)))
    }
}

struct Writes(Arc<AtomicUsize>);

impl Tap for Writes {
    fn flush(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
