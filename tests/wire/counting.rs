//! A dialer that counts what its connections carry: requests by their operation, and events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet::Dialer;
use zoolet::protocol::{
    Dial, Dialing, Disconnected, Incoming, OpCode, Transport, decode_incoming, decode_request,
};

/// Counts, and cuts connections when it is told to.
#[derive(Debug, Clone)]
pub(crate) struct Counting {
    dialer: Dialer,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: Mutex<BTreeMap<OpCode, usize>>,
    events: AtomicUsize,
    /// Frames to the client are lost, and then the connection is.
    is_cut: AtomicBool,
    is_refusing: AtomicBool,
}

impl Counting {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { dialer, counts: Arc::default() }
    }

    /// The requests since the last call, by operation, pings and handshakes apart.
    pub(crate) fn take_requests(&self) -> Vec<(OpCode, usize)> {
        std::mem::take(&mut *self.counts.requests.lock().expect("nobody panics while counting"))
            .into_iter()
            .collect()
    }

    pub(crate) fn take_events(&self) -> usize {
        self.counts.events.swap(0, Ordering::SeqCst)
    }

    /// What is sent from now on arrives, and its answers do not; the next look tells the client
    /// that the connection is gone.
    pub(crate) fn cut(&self) {
        self.counts.is_cut.store(true, Ordering::SeqCst);
    }

    /// Whether new connections are refused.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.counts.is_refusing.store(refuse, Ordering::SeqCst);
    }
}

impl Dial for Counting {
    fn dial(&self) -> Dialing {
        if self.counts.is_refusing.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(std::io::ErrorKind::ConnectionRefused.into())));
        }
        self.counts.is_cut.store(false, Ordering::SeqCst);
        let (dialing, counts) = (self.dialer.dial(), Arc::clone(&self.counts));
        Box::pin(async move {
            let inner = dialing.await?;
            let transport: Box<dyn Transport> =
                Box::new(Counted { inner, counts, is_new: AtomicBool::new(true) });
            Ok(transport)
        })
    }
}

struct Counted {
    inner: Box<dyn Transport>,
    counts: Arc<Counts>,
    is_new: AtomicBool,
}

impl Transport for Counted {
    fn is_local(&self) -> bool {
        true
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if !self.is_new.swap(false, Ordering::SeqCst)
            && let Ok((header, _)) = decode_request(&frame)
            && header.op != OpCode::PING
        {
            *self
                .counts
                .requests
                .lock()
                .expect("nobody panics while counting")
                .entry(header.op)
                .or_default() += 1;
        }
        self.inner.send(frame)
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let frame = self.inner.poll_receive(context);
        if self.counts.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(Some(frame)) = &frame
            && let Ok(Incoming::Event { .. }) = decode_incoming(frame)
        {
            self.counts.events.fetch_add(1, Ordering::SeqCst);
        }
        frame
    }
}
