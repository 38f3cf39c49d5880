//! Connections over any stream of bytes: a simulated network, a pipe, a proxy, or TLS of one's own.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use zoolet_protocol::{Dial, Dialing, Disconnected, FrameCodec, Searching, Transport};

use super::error::Error;
use super::hosts::{Hosts, serves_writes};
use super::limits::FRAME_BYTES_MAX;
use super::security::at;
use super::tcp::make_room;

/// The bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// Connects a client over streams that a closure opens, in place of TCP.
///
/// The closure is called with `HOST:PORT` of the server whose turn it is, for every attempt to
/// connect, and returns any stream of bytes: that of a simulated network as turmoil's, a pipe, or one
/// with TLS or a proxy in between. The client calls it from a task of its own. An attempt that takes
/// too long is dropped.
///
/// The server's end is `Server::serve_stream` of zoolet, or any ZooKeeper server.
///
/// ```
/// use tokio::net::TcpStream;
/// use zoolet_client::{Client, StreamDialer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zoolet_client::Error> {
/// let dialer = StreamDialer::new("one:2181,two:2181/app", TcpStream::connect)?;
/// # let connect = async move || -> Result<(), zoolet_client::Error> {
/// let client = Client::connect(dialer).await?;
/// # Ok(()) };
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StreamDialer {
    hosts: Hosts,
    open: Arc<dyn Fn(String) -> Opening + Send + Sync>,
}

/// What a [`StreamDialer`] opens.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The future of a [`Stream`].
type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

impl StreamDialer {
    /// A dialer of these servers (`"host:2181,host:2181/chroot"`), to which `open` opens streams.
    /// Where the names of servers mean nothing to `open`, any name will do.
    ///
    /// # Errors
    ///
    /// [`Error::Hosts`] or [`Error::Path`] if the connection string is not valid.
    pub fn new<O, F, S>(servers: &str, open: O) -> Result<Self, Error>
    where
        O: Fn(String) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let open = move |address| -> Opening {
            let opening = open(address);
            Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn Stream>) })
        };
        Ok(Self { hosts: servers.parse()?, open: Arc::new(open) })
    }

    /// Opens a stream to a server of the hosts.
    fn open(
        &self,
        index: usize,
    ) -> impl Future<Output = io::Result<Box<dyn Stream>>> + Send + use<> {
        let address = self.hosts.addresses()[index].clone();
        let opening = (self.open)(address.clone());
        async move { opening.await.map_err(|error| at(&address, error)) }
    }
}

impl Dial for StreamDialer {
    fn dial(&self) -> Dialing {
        let opening = self.open(self.hosts.next_to_dial());
        Box::pin(async move {
            let connection = Connection::new(opening.await?);
            Ok(Box::new(StreamTransport(Mutex::new(connection))) as Box<dyn Transport>)
        })
    }

    fn servers(&self) -> usize {
        self.hosts.servers()
    }

    fn chroot(&self) -> &str {
        self.hosts.chroot()
    }

    fn find_read_write(&self) -> Searching {
        let index = self.hosts.next_index();
        let (opening, hosts) = (self.open(index), self.hosts.clone());
        Box::pin(async move {
            let asked = async { serves_writes(opening.await?).await };
            let serves_writes = asked.await.unwrap_or(false);
            if serves_writes {
                hosts.dial_next(index);
            }
            serves_writes
        })
    }

    fn begin_at(&self, index: usize) {
        self.hosts.begin_at(index);
    }
}

impl fmt::Debug for StreamDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDialer").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Frames over a stream. The caller of `flush` writes what the stream takes at once; the task that
/// receives writes the rest.
struct StreamTransport(Mutex<Connection>);

struct Connection {
    stream: Box<dyn Stream>,
    /// The bytes that were not written yet.
    output: BytesMut,
    /// The stream may keep what it took until it is flushed.
    has_unflushed: bool,
    input: BytesMut,
    /// The task that receives. Whoever polls the stream lets it wake this task.
    receiver: Waker,
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Self {
        let (output, input) = (BytesMut::new(), BytesMut::new());
        let receiver = Waker::noop().clone();
        Self { stream, output, has_unflushed: false, input, receiver }
    }

    /// Writes what the stream takes now.
    fn write(&mut self) -> io::Result<()> {
        let mut context = Context::from_waker(&self.receiver);
        let mut stream = Pin::new(&mut self.stream);
        while !self.output.is_empty() {
            match stream.as_mut().poll_write(&mut context, &self.output)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.output.advance(written),
                Poll::Pending => return Ok(()),
            }
            self.has_unflushed = true;
        }
        if self.has_unflushed && stream.poll_flush(&mut context)?.is_ready() {
            self.has_unflushed = false;
        }
        Ok(())
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let codec = FrameCodec::new(FRAME_BYTES_MAX);
        loop {
            if let Some(frame) = codec.next_frame(&mut self.input).map_err(io::Error::other)? {
                if self.input.is_empty() && frame.len() > READ_BYTES {
                    // The buffer of one long list is not kept for the life of the connection.
                    self.input = BytesMut::new();
                }
                return Poll::Ready(Ok(frame));
            }
            make_room(&mut self.input);
            if ready!(pin!(self.stream.read_buf(&mut self.input)).poll(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl Transport for StreamTransport {
    fn is_local(&self) -> bool {
        false
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        FrameCodec::put(&frame, &mut self.0.lock().output);
        Ok(())
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.0.lock().write().map_err(|_| Disconnected)
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut connection = self.0.lock();
        if !connection.receiver.will_wake(context.waker()) {
            connection.receiver = context.waker().clone();
        }
        let received = match connection.write() {
            Ok(()) => ready!(connection.poll_frame(context)),
            Err(error) => Err(error),
        };
        Poll::Ready(match received {
            Ok(frame) => Some(frame),
            Err(error) => {
                tracing::debug!("the stream is given up: {error}");
                None
            }
        })
    }
}
