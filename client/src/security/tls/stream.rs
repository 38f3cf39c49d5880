//! A TLS stream whose errors say what to do.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use zoolet_tls::SettingNames;

use super::failure;

/// A TLS stream whose errors say what to do.
pub(super) struct Explained {
    stream: TlsStream<TcpStream>,
    names: SettingNames,
}

impl Explained {
    pub(super) fn new(stream: TlsStream<TcpStream>, names: SettingNames) -> Self {
        Self { stream, names }
    }
}

impl AsyncRead for Explained {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let names = self.names;
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        read.map_err(|error| failure::of_stream(error, names))
    }
}

impl AsyncWrite for Explained {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let names = self.names;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        written.map_err(|error| failure::of_stream(error, names))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
