//! The test kit's `TestEnsemble`, in this process and in virtual time: a script that waits for an
//! election takes no longer than any other.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::{Builder, Runtime};
use zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT;
use zoolet_protocol::{Dial, FrameCodec, Transport};
use zoolet_testkit::TestEnsemble;

use super::servers::{ClosedLink, Servers};
use super::stage::Stage;
use super::{Area, TIMING};
use crate::client::Client;
use crate::core_target::SESSION_TIMEOUTS_MS;
use crate::script::{SUPER_DIGEST, play};
use crate::target::{Link, Received};

/// In virtual time.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a script on a new `TestEnsemble`, and returns it with its trace.
///
/// # Errors
///
/// If the script cannot be run, or the indexes of a server disagree with its znodes afterwards.
pub fn play_on_double(area: Area, text: &str) -> io::Result<String> {
    let runtime = Rc::new(Builder::new_current_thread().enable_all().start_paused(true).build()?);
    // Whatever looks at the clock sees the virtual time.
    let _guard = runtime.enter();
    let (least, most) = SESSION_TIMEOUTS_MS;
    let mut builder = TestEnsemble::builder().sync_limit(TIMING.limit_ticks).configure(|config| {
        config.tick_time_ms = TIMING.tick_ms.unsigned_abs();
        config.min_session_timeout_ms = Some(least);
        config.max_session_timeout_ms = Some(most);
        config.settings.super_digest = Some(SUPER_DIGEST.into());
    });
    if area == Area::ReadOnly {
        builder = builder.read_only_mode();
    }
    let ensemble = runtime.block_on(builder.start()).map_err(io::Error::other)?;
    let servers = DoubleServers { ensemble: ensemble.clone(), runtime: Rc::clone(&runtime) };
    let traced = play(&mut Stage::new(servers, area), text, false);
    ensemble.check().map_err(io::Error::other)?;
    traced
}

struct DoubleServers {
    ensemble: TestEnsemble,
    runtime: Rc<Runtime>,
}

impl Servers for DoubleServers {
    fn dial(&self, server: usize) -> io::Result<Client> {
        let dialed = self.runtime.block_on(self.ensemble.server(server).dialer().dial());
        let link: Box<dyn Link> = match dialed {
            Ok(transport) => Box::new(DoubleLink {
                transport,
                runtime: Rc::clone(&self.runtime),
                input: BytesMut::new(),
            }),
            Err(_) => Box::new(ClosedLink),
        };
        Ok(Client::of_link(link))
    }

    fn word(&self, server: usize, word: &str) -> io::Result<String> {
        Ok(self.ensemble.server(server).four_letter_word(word))
    }

    fn lag(&mut self, server: usize) {
        self.ensemble.server(server).hold();
    }

    fn catch_up(&mut self, server: usize) {
        self.ensemble.server(server).release();
    }

    fn cut_off(&mut self, server: usize) {
        self.ensemble.server(server).cut_off();
    }

    fn rejoin(&mut self, server: usize) {
        self.ensemble.server(server).rejoin();
    }

    fn stop(&mut self, server: usize) {
        self.ensemble.server(server).stop();
    }

    fn start(&mut self, server: usize) -> io::Result<()> {
        self.ensemble.server(server).start();
        Ok(())
    }

    fn pause(&self) {
        self.runtime.block_on(tokio::time::sleep(PAUSE));
    }
}

/// A connection in this process.
struct DoubleLink {
    transport: Box<dyn Transport>,
    runtime: Rc<Runtime>,
    input: BytesMut,
}

impl Link for DoubleLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.extend_from_slice(bytes);
        let codec = FrameCodec::new(FRAME_BYTES_MAX_DEFAULT);
        while let Some(frame) = codec.next_frame(&mut self.input).map_err(io::Error::other)? {
            self.transport.send(frame).map_err(|_| io::ErrorKind::NotConnected)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Received {
        let next = poll_fn(|context| self.transport.poll_receive(context));
        match self.runtime.block_on(async { tokio::time::timeout(PATIENCE, next).await }) {
            Ok(Some(frame)) => Received::Frame(frame),
            Ok(None) => Received::Closed,
            Err(_) => Received::Silence,
        }
    }
}
