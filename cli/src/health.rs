//! `zoolet health`: tells a probe or a script whether a server serves.

mod probe;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use zoolet_client::Hosts;
use zoolet_client::tls::ClientTls;

use self::probe::{Health, Unhealthy};
use crate::connect_options::TlsOptions;
use crate::logging::{self, LogLevel};
use crate::server_options::values::{self, HostPort};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct HealthCommand {
    /// The servers, each HOST or HOST:PORT; all of them must serve
    #[arg(value_name = "HOST:PORT,..", env = "ZOOLET_SERVER", default_value = DEFAULT_SERVER)]
    #[arg(value_parser = addresses)]
    servers: Addresses,

    /// How long a server may take to answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::some_time)]
    timeout: Duration,

    /// Ask again, for as long as this, until all serve
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    wait: Option<Duration>,

    /// Print nothing
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    tls: TlsOptions,
}

/// Where a server of this machine is.
const DEFAULT_SERVER: &str = "127.0.0.1:2181";

/// How long a container's own probe waits for its server.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two questions to a server that does not serve yet.
const WAIT_PAUSE: Duration = Duration::from_millis(100);

/// For a wrong command line, as clap has it, and for files of TLS that cannot be used.
const WRONG: u8 = 2;

/// For a system that has no sockets or threads left, as in `sysexits.h`.
const NO_SYSTEM: u8 = 71;

/// Addresses, each `HOST:PORT`.
#[derive(Debug, Clone)]
struct Addresses(Vec<String>);

impl HealthCommand {
    pub(crate) fn run(self) -> ExitCode {
        logging::start(None, LogLevel::Error);
        let tls = match self.tls.load() {
            Ok(tls) => tls.map(Arc::new),
            Err(error) => {
                crate::complain(&error);
                return ExitCode::from(WRONG);
            }
        };
        let asked = run_async(self.ask_all(tls.as_ref()));
        asked.unwrap_or_else(|| ExitCode::from(NO_SYSTEM))
    }

    async fn ask_all(&self, tls: Option<&Arc<ClientTls>>) -> ExitCode {
        let mut code = 0;
        let mut wait = std::pin::pin!(tokio::time::sleep(self.wait.unwrap_or_default()));
        for server in &self.servers.0 {
            let answer = loop {
                if wait.is_elapsed() || self.wait.is_none() {
                    break probe::ask(server, tls, self.timeout).await;
                }
                let answer = tokio::select! {
                    biased;
                    answer = probe::ask_patiently(server, tls, self.timeout) => answer,
                    // The last time, for which there is as long as without --wait.
                    () = &mut wait => continue,
                };
                if answer.is_ok() {
                    break answer;
                }
                tokio::select! {
                    biased;
                    () = &mut wait => break answer,
                    () = tokio::time::sleep(WAIT_PAUSE) => {}
                }
            };
            code = if code == 0 { exit_code(&answer) } else { code };
            self.tell(server, &answer);
        }
        ExitCode::from(code)
    }

    fn tell(&self, server: &str, answer: &Result<Health, Unhealthy>) {
        if self.quiet {
            return;
        }
        tell(&match answer {
            Ok(health) => format!("{server} {health}\n"),
            Err(unhealthy) => format!("{server} {unhealthy}\n"),
        });
    }
}

/// Prints an answer. The exit status tells it too, and is the same if it cannot be printed.
fn tell(answer: &str) {
    if let Err(error) = crate::print(answer) {
        crate::complain(&format!("stdout cannot be written: {error}"));
    }
}

/// Whether the server of this machine serves that listens there. Prints its mode, as `zkServer.sh
/// status` does.
#[cfg(unix)]
pub(crate) fn is_serving(listen: &HostPort) -> bool {
    let address = reachable(listen);
    match run_async(probe::ask(&address, None, STATUS_TIMEOUT)) {
        Some(Ok(health)) => {
            tell(&format!("Mode: {}\n", health.mode()));
            true
        }
        Some(Err(unhealthy)) => {
            tell(&format!("{address} {unhealthy}\n"));
            false
        }
        None => false,
    }
}

/// Whether the server of this machine accepts connections that listens there. Prints why not.
#[cfg(unix)]
pub(crate) fn is_accepting(listen: &HostPort) -> bool {
    let address = reachable(listen);
    let connected = tokio::net::TcpStream::connect(&address);
    let connected = run_async(async { tokio::time::timeout(STATUS_TIMEOUT, connected).await });
    let why_not = match connected {
        Some(Ok(Ok(_))) => return true,
        Some(Ok(Err(error))) => format!("cannot be reached: {error}"),
        Some(Err(_)) => "does not answer".to_owned(),
        None => return false,
    };
    tell(&format!("{address} {why_not}\n"));
    false
}

/// `HOST:PORT` for a client on this machine: it cannot connect to the address of all interfaces.
#[cfg(unix)]
fn reachable(listen: &HostPort) -> String {
    let host = match listen.host.as_str() {
        "0.0.0.0" | "::" => "127.0.0.1",
        host => host,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{host}:{}", listen.port)
}

/// Runs a future to its end; `None`, and a message, if the system has no means to.
fn run_async<T>(future: impl Future<Output = T>) -> Option<T> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Some(runtime.block_on(future)),
        Err(error) => {
            crate::complain(&format!("the system refuses what this needs: {error}"));
            None
        }
    }
}

fn addresses(text: &str) -> Result<Addresses, zoolet_client::Error> {
    // A znode below which a client's paths are does not matter here.
    text.parse::<Hosts>().map(|hosts| Addresses(hosts.addresses().to_vec()))
}

/// 2 is for a wrong command line.
fn exit_code(answer: &Result<Health, Unhealthy>) -> u8 {
    match answer {
        Ok(_) => 0,
        Err(Unhealthy::NotServing(_)) => 1,
        Err(Unhealthy::Unreachable(_)) => 3,
        Err(Unhealthy::TimedOut(_)) => 4,
        Err(Unhealthy::Foreign(_)) => 5,
    }
}

const AFTER_HELP: &str = "\
It asks with the four-letter word srvr and, where the server does not allow that, with a
handshake that creates no session. It works with Apache ZooKeeper too.

Exit status: 0 if all servers serve, otherwise that of the first that does not: 1 if it says
that it does not serve, or closes the connection; 3 if it cannot be reached; 4 if it does not
answer in time; 5 if it does not answer as a ZooKeeper server does, or TLS fails. 2 if the
command line is wrong, or a file of TLS cannot be used.

Examples:
  zoolet health                             the server of this machine
  zoolet health zk.example:2181 --timeout 1s
  zoolet health --wait 30s && ./start-app   when it serves
  zoolet health zk.example:2281 --tls-ca ca.pem --tls-cert client.pem";
