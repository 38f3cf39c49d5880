//! The connections of a floor of a server.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::process::until_stdin_ends;

/// Lets a task converse with each client, on the runtime that `zoolet serve` has, until stdin ends. Tells
/// its address by `tell`.
pub(crate) fn serve<C>(
    tell: impl FnOnce(SocketAddr),
    converse: impl Fn(TcpStream) -> C,
) -> io::Result<()>
where
    C: Future<Output = io::Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell(listener.local_addr()?);
        let end = tokio::spawn(until_stdin_ends());
        tokio::select! {
            ended = end => ended?,
            accepted = accept(listener, converse) => accepted,
        }
    })
}

async fn accept<C>(listener: TcpListener, converse: impl Fn(TcpStream) -> C) -> io::Result<()>
where
    C: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        // The client notices whatever ends it.
        tokio::spawn(converse(socket));
    }
}
