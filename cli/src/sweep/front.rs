//! One port for an ensemble, as a load balancer is: it leads each connection to the server that is
//! chosen at that moment.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use zoolet_protocol::Dial;
use zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT;

/// One port for several servers. The connections end when it is dropped.
#[derive(Debug)]
pub(super) struct Front {
    address: SocketAddr,
    _connections: JoinSet<()>,
}

impl Front {
    /// Opens a free port of the loopback address. `choose` is asked for each connection.
    pub(super) async fn open(
        choose: impl Fn() -> Arc<dyn Dial> + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut all = JoinSet::new();
        all.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        if let Ok((stream, _)) = accepted {
                            connections.spawn(carry(stream, choose()));
                        }
                    }
                    Some(_ended) = connections.join_next() => {}
                }
            }
        });
        Ok(Self { address, _connections: all })
    }

    /// Where clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Carries the frames of one connection, until either side ends it.
async fn carry(stream: TcpStream, server: Arc<dyn Dial>) {
    let Ok(transport) = server.dial().await else { return };
    // Without it replies wait for acknowledgements; a connection works either way.
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.into_split();
    let incoming = async {
        loop {
            let length = reader.read_u32().await? as usize;
            if length > FRAME_BYTES_MAX_DEFAULT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut frame = vec![0; length];
            reader.read_exact(&mut frame).await?;
            let sent = transport.send(Bytes::from(frame)).and_then(|()| transport.flush());
            sent.map_err(io::Error::other)?;
            // What the frame has caused need not wake the receiver.
            tokio::task::yield_now().await;
        }
    };
    let outgoing = async {
        while let Some(frame) = poll_fn(|context| transport.poll_receive(context)).await {
            let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
            writer.write_u32(length).await?;
            writer.write_all(&frame).await?;
        }
        io::Result::Ok(())
    };
    let _ended: io::Result<()> = tokio::select! {
        ended = incoming => ended,
        ended = outgoing => ended,
    };
}
