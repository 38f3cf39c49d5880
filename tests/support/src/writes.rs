//! A dialer that counts how often its connections write to their sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_client::Hosts;
use zoolet_protocol::{Dial, Dialing, Disconnected, Transport};

/// Dials over TCP, and counts.
#[derive(Debug, Clone)]
pub struct CountedWrites {
    hosts: Hosts,
    writes: Arc<AtomicUsize>,
}

impl CountedWrites {
    /// Dials these hosts.
    pub fn new(hosts: Hosts) -> Self {
        Self { hosts, writes: Arc::default() }
    }

    /// The writes since the last call.
    pub fn take(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }
}

impl Dial for CountedWrites {
    fn dial(&self) -> Dialing {
        let (dialing, writes) = (self.hosts.dial(), Arc::clone(&self.writes));
        Box::pin(async move {
            let inner = dialing.await?;
            let transport: Box<dyn Transport> = Box::new(Counted { inner, writes });
            Ok(transport)
        })
    }
}

struct Counted {
    inner: Box<dyn Transport>,
    writes: Arc<AtomicUsize>,
}

impl Transport for Counted {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn is_single_node(&self) -> bool {
        self.inner.is_single_node()
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.inner.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.inner.poll_receive(context)
    }
}
