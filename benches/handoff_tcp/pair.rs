//! The connections of two clients to a server on the runtime that zoolet has.

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Each client's end to read from, and both to write to.
pub(crate) struct Pair {
    pub(crate) readers: [OwnedReadHalf; 2],
    pub(crate) writers: Arc<[OwnedWriteHalf; 2]>,
}

impl Pair {
    pub(crate) async fn accept(listener: &TcpListener) -> io::Result<Self> {
        let ((one, _), (other, _)) = (listener.accept().await?, listener.accept().await?);
        one.set_nodelay(true)?;
        other.set_nodelay(true)?;
        let ((reader, writer), (other_reader, other_writer)) =
            (one.into_split(), other.into_split());
        Ok(Self { readers: [reader, other_reader], writers: Arc::new([writer, other_writer]) })
    }
}
