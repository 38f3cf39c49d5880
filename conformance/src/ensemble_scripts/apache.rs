//! Three Apache servers.

use std::io;
use std::time::Duration;

use super::servers::{ClosedLink, Servers};
use super::stage::Stage;
use super::{Area, TIMING};
use crate::client::Client;
use crate::ensemble::Ensemble;
use crate::four_letter;
use crate::script::{SUPER_DIGEST, play};
use crate::target::TcpTarget;

const PAUSE: Duration = Duration::from_millis(1);

/// The ensembles of all areas, each started when it is needed. Scripts of one area share one.
#[derive(Default)]
pub struct ApacheStages {
    running: Option<(Area, Stage<ApacheServers>)>,
}

impl ApacheStages {
    /// Runs a script of an area, and returns it with its trace.
    ///
    /// # Errors
    ///
    /// If the ensemble does not start, or the script cannot be run.
    pub fn play(&mut self, area: Area, text: &str) -> io::Result<String> {
        if self.running.as_ref().is_none_or(|(running, _)| *running != area) {
            // Two ensembles at once would be slow.
            self.running = None;
            self.running = Some((area, Stage::new(ApacheServers::start(area)?, area)));
        }
        let Some((_, stage)) = &mut self.running else { return Err(io::Error::other("no stage")) };
        let traced = play(stage, text, false);
        if traced.is_err() {
            // Its servers may be in any state.
            self.running = None;
        }
        traced
    }
}

struct ApacheServers(Ensemble);

impl ApacheServers {
    fn start(area: Area) -> io::Result<Self> {
        let super_digest = "zookeeper.DigestAuthenticationProvider.superDigest";
        let mut arguments = vec![format!("-D{super_digest}={SUPER_DIGEST}")];
        if area == Area::ReadOnly {
            // Without local sessions such a server cannot begin one, and answers the handshake with
            // an error that no client understands.
            let read_only =
                ["-Dreadonlymode.enabled=true", "--config-line", "localSessionsEnabled=true"];
            arguments.extend(read_only.map(str::to_owned));
        }
        Ok(Self(Ensemble::start_with(TIMING, &arguments)?))
    }
}

impl Servers for ApacheServers {
    fn dial(&self, server: usize) -> io::Result<Client> {
        let target = TcpTarget::new(self.0.addresses()[server]);
        match Client::dial(&target) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Ok(Client::of_link(Box::new(ClosedLink)))
            }
            dialed => dialed,
        }
    }

    fn word(&self, server: usize, word: &str) -> io::Result<String> {
        four_letter::ask(self.0.addresses()[server], word)
    }

    fn lag(&mut self, server: usize) {
        self.0.network().lag(server);
    }

    fn catch_up(&mut self, server: usize) {
        self.0.network().catch_up(server);
    }

    fn cut_off(&mut self, server: usize) {
        self.0.network().cut_off(server);
    }

    fn rejoin(&mut self, server: usize) {
        self.0.network().rejoin(server);
    }

    fn stop(&mut self, server: usize) {
        self.0.kill(server);
    }

    fn start(&mut self, server: usize) -> io::Result<()> {
        self.0.restart(server)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the servers are processes, whose clocks cannot be paused"
    )]
    fn pause(&self) {
        std::thread::sleep(PAUSE);
    }
}
