//! What sees the frames that pass over a network.

use bytes::Bytes;

/// The number of a connection: connections are numbered from 1 in the order in which they are opened.
pub type ConnectionNumber = u64;

/// Sees what passes over a network.
pub trait Tap: Send + Sync {
    /// A client has opened a connection over a link.
    fn opened(&self, connection: ConnectionNumber, link: usize);

    /// The server's side of a connection is closed.
    fn closed(&self, connection: ConnectionNumber);

    /// A frame has arrived. `handle` passes it to the server, and returns whether the server took
    /// it.
    fn arrived(
        &self,
        connection: ConnectionNumber,
        frame: &Bytes,
        handle: &mut dyn FnMut() -> bool,
    );

    /// The server has sent a frame. It may be lost on its way to the client.
    fn sent(&self, connection: ConnectionNumber, frame: &Bytes);

    /// The server has sent everything that it had.
    fn drained(&self, _connection: ConnectionNumber) {}

    /// The client has received a frame.
    fn received(&self, _connection: ConnectionNumber, _frame: &Bytes) {}
}
