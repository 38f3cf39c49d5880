//! A server that is measured, and its clients. At the end it deletes everything that it created.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_client::tls::ClientTls;
use zoolet_client::{Client, ConnectError, ConnectionState, Error, Hosts};
use zoolet_protocol::{Dial, ErrorCode};

use super::certificates::Certificates;
use super::common::{Common, Location, Target};
use super::counted::{Carried, Counted, Counts};
use super::embedded::{Embedded, Ports};
use super::environment::{self, ZOOLET};
use super::failure::Failure;
use super::process::Process;
use crate::cli::tree;
use crate::connect_options::SaslUser;

/// How many clients connect at once: fewer than the backlog of any server.
const CONNECT_TOGETHER: usize = 32;

/// How long to wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for the server to end a session.
const GOODBYE_WITHIN: Duration = Duration::from_secs(10);

/// How often to look at the end whether the server is still there.
const CONNECTION_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How often to look whether requests are under way, and how often in a row none may be.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOKS: u32 = 2;
const LOOKS_AT_THE_END: u32 = 20;

/// How long a server may leave something unanswered.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How often the final deletion is tried while other clients still create znodes there.
const CLEAN_UP_TRIES: u32 = 5;

/// How clients secure their connections, and as whom they authenticate.
#[derive(Debug, Default)]
pub(crate) struct ClientSecurity {
    /// For servers elsewhere.
    tls: Option<Arc<ClientTls>>,
    /// For servers in this process.
    embedded: Option<Certificates>,
    user: Option<SaslUser>,
}

impl ClientSecurity {
    fn new(common: &Common, targets: &[Target]) -> Result<Self, Failure> {
        let (has_tls, user) = (common.tls.is_on(), common.sasl.user()?);
        let is_any = |location: Location| targets.iter().any(|it| it.location == location);
        let (is_embedded, is_in_process) =
            (is_any(Location::Embedded), is_any(Location::InProcess));
        if has_tls && is_in_process {
            let text = "a server that is reached by calls has no connections to secure by TLS; \
                        measure it without, or --server embedded";
            return Err(Failure::Usage(text.to_owned()));
        }
        if user.is_some() && (is_embedded || is_in_process) {
            let text = "a server in this process has no users; name others with --server HOST:PORT";
            return Err(Failure::Usage(text.to_owned()));
        }
        let is_elsewhere = targets.iter().any(|it| matches!(it.location, Location::Hosts(_)));
        let tls = if is_elsewhere { common.tls.load()?.map(Arc::new) } else { None };
        let embedded = (has_tls && is_embedded).then(Certificates::new).transpose()?;
        Ok(Self { tls, embedded, user })
    }
}

/// Where the server is; it is started here if it is embedded.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    location: Location,
    tls: Option<Arc<ClientTls>>,
    user: Option<SaslUser>,
    embedded: Option<Embedded>,
    process: Process,
}

impl Endpoint {
    /// Starts the server if it is embedded. Panics within async code.
    pub(crate) fn new(
        target: &Target,
        pid: Option<u32>,
        security: &ClientSecurity,
    ) -> Result<Self, Failure> {
        let mut tls = security.tls.clone();
        let (embedded, process) = match (&target.location, pid) {
            (Location::Embedded, _) => {
                tls = security.embedded.as_ref().map(|it| Arc::clone(&it.client));
                let ports = security.embedded.as_ref().map_or(Ports::Plaintext, Ports::Tls);
                (Some(Embedded::start(ports)?), Process::Embedded)
            }
            (Location::InProcess, _) => (Some(Embedded::start(Ports::None)?), Process::Unknown),
            (Location::Hosts(_), Some(pid)) => (None, Process::of(pid)?),
            (Location::Hosts(_), None) => (None, Process::Unknown),
        };
        Ok(Self {
            name: target.name().to_owned(),
            location: target.location.clone(),
            tls,
            user: security.user.clone(),
            embedded,
            process,
        })
    }

    /// The endpoints that the options name.
    pub(in crate::bench) fn all(common: &Common) -> Result<Vec<Self>, Failure> {
        let targets = common.targets();
        if let (Some(pid), true) = (common.pids.first(), common.servers.is_empty()) {
            return Err(Failure::Usage(format!(
                "--pid {pid} has no effect without --server: the process of a server that is \
                 started for the run is known. Name the server of the process with --server \
                 HOST:PORT, or leave --pid out"
            )));
        }
        if common.pids.len() > targets.len() {
            return Err(Failure::Usage(format!(
                "there are {} --pid for {} --server; give one for each, in the same order",
                common.pids.len(),
                targets.len()
            )));
        }
        let mut names = HashSet::new();
        if let Some(target) = targets.iter().find(|target| !names.insert(target.name())) {
            let name = target.name();
            return Err(Failure::Usage(format!(
                "two servers have the name {name} and could not be told apart; give one of them \
                 another, such as --server other={}",
                target.place()
            )));
        }
        let pids = common.pids.iter().copied().map(Some).chain(std::iter::repeat(None));
        let security = ClientSecurity::new(common, &targets)?;
        targets.iter().zip(pids).map(|(target, pid)| Self::new(target, pid, &security)).collect()
    }

    /// Resolves the address and the dialer.
    fn dialing(&self) -> Result<Resolved, Failure> {
        let gone = || Failure::NoServer(self.name.clone(), String::new());
        let embedded = || self.embedded.as_ref().ok_or_else(gone);
        let text = match &self.location {
            Location::InProcess => {
                let dialer = embedded()?.dialer().ok_or_else(gone)?;
                let (dialer, chroot) = (Arc::new(dialer), String::new());
                return Ok(Resolved { address: None, dialer, chroot });
            }
            Location::Embedded => embedded()?.address().ok_or_else(gone)?.to_string(),
            Location::Hosts(hosts) => hosts.clone(),
        };
        let mut hosts: Hosts = text.parse()?;
        if let Some(tls) = &self.tls {
            hosts = hosts.tls(Arc::clone(tls));
        }
        let chroot = hosts.chroot().to_owned();
        let address = hosts.addresses().first().cloned();
        Ok(Resolved { address, dialer: Arc::new(hosts), chroot })
    }
}

struct Resolved {
    address: Option<String>,
    dialer: Arc<dyn Dial>,
    /// The prefix of every path.
    chroot: String,
}

/// The options of all clients of a run.
#[derive(Debug, Clone)]
pub(crate) struct ClientOptions {
    pub(crate) session_timeout: Duration,
    pub(crate) path: Option<String>,
}

/// A server that is measured.
pub(crate) struct BenchServer {
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) process: Process,
    /// The memory of the process before the first client.
    pub(crate) memory_at_first: Option<f64>,
    /// The znode below which the run creates everything.
    pub(crate) base: String,
    /// A client whose requests are not counted.
    pub(crate) observer: Client,
    dialer: Arc<dyn Dial>,
    chroot: String,
    options: ClientOptions,
    user: Option<SaslUser>,
    clients: Vec<Client>,
    paths: usize,
    // Dropped last.
    endpoint: Endpoint,
}

impl BenchServer {
    /// Connects, and creates the znode below which everything is created.
    pub(crate) async fn open(endpoint: Endpoint, options: ClientOptions) -> Result<Self, Failure> {
        let Resolved { address, dialer, chroot } = endpoint.dialing()?;
        let memory_at_first = endpoint.process.resident_bytes();
        let counts = Arc::new(Counts::default());
        let uncounted = Arc::new(Counts::default());
        let user = endpoint.user.clone();
        let observer = Counted::new(&dialer, &uncounted);
        let observer = connect(observer, &options, user.as_ref(), &chroot)
            .await
            .map_err(|error| no_server(error, &endpoint.name))?;
        let version = match (&address, &endpoint.location) {
            (Some(address), _) => {
                let version = environment::version(address, endpoint.tls.clone());
                tokio::time::timeout(CONNECT_WITHIN, version).await
            }
            (None, _) => Ok(Some(ZOOLET.to_owned())),
        };
        let own = format!("/zoolet-bench-{:x}", observer.session_id().0);
        let base = options.path.clone().unwrap_or(own);
        observer.create(&base).await.map_err(|error| not_created(error, &base))?;
        Ok(Self {
            name: endpoint.name.clone(),
            address,
            version: version.ok().flatten(),
            counts,
            process: endpoint.process.clone(),
            memory_at_first,
            base,
            observer,
            dialer,
            chroot,
            options,
            user,
            clients: Vec::new(),
            paths: 0,
            endpoint,
        })
    }

    /// A new path.
    pub(crate) fn new_path(&mut self) -> String {
        self.paths += 1;
        format!("{}/{}", self.base, self.paths)
    }

    /// The first `count` clients. Missing ones connect.
    pub(crate) async fn clients(&mut self, count: usize) -> Result<Vec<Client>, Failure> {
        while self.clients.len() < count {
            let missing = (count - self.clients.len()).min(CONNECT_TOGETHER);
            let mut connecting = JoinSet::new();
            for _ in 0..missing {
                connecting.spawn(self.connect());
            }
            while let Some(connected) = connecting.join_next().await {
                self.clients.push(unpanicked(connected)?);
            }
        }
        Ok(self.clients[..count].to_vec())
    }

    /// Connects another client, which is counted but not kept.
    pub(crate) fn connect(
        &self,
    ) -> impl Future<Output = Result<Client, Failure>> + Send + use<> + 'static {
        let dialer = Counted::new(&self.dialer, &self.counts);
        let (options, chroot, name) =
            (self.options.clone(), self.chroot.clone(), self.name.clone());
        let user = self.user.clone();
        let is_elsewhere = matches!(self.endpoint.location, Location::Hosts(_));
        async move {
            let connected = connect(dialer, &options, user.as_ref(), &chroot).await;
            connected.map_err(|error| no_more(error, name, is_elsewhere))
        }
    }

    pub(crate) fn carried(&self) -> Carried {
        self.counts.carried()
    }

    /// Waits until every request is answered and no event arrives any more.
    pub(crate) async fn rest(&self) -> Result<(), Failure> {
        self.rest_for(LOOKS).await
    }

    /// As [`BenchServer::rest`], but longer, so that nothing is counted later.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        self.rest_for(LOOKS_AT_THE_END).await
    }

    async fn rest_for(&self, looks: u32) -> Result<(), Failure> {
        let resting = async {
            let (mut last, mut at_rest) = (self.carried(), 0);
            while at_rest < looks {
                tokio::time::sleep(LOOK_INTERVAL).await;
                let now = Carried { pings: 0, ..self.carried() };
                at_rest = if now.is_answered() && now == last { at_rest + 1 } else { 0 };
                last = now;
            }
        };
        self.in_time(resting).await
    }

    /// Waits for the first request since `before`.
    pub(crate) async fn asked_since(&self, before: Carried) -> Result<(), Failure> {
        let asked = async {
            while self.carried().requests == before.requests {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        self.in_time(asked).await
    }

    /// Limits how long a future may take.
    pub(crate) async fn in_time<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let silent =
            |_| Failure::Silent { server: self.name.clone(), seconds: SILENCE_MAX.as_secs() };
        tokio::time::timeout(SILENCE_MAX, future).await.map_err(silent)
    }

    /// Ends all sessions and deletes what was created. Gives up when the server is gone.
    pub(crate) async fn clean_up(self) -> Result<(), Failure> {
        let (name, observer) = (self.name.clone(), self.observer.clone());
        tokio::select! {
            cleaned = self.delete_all() => cleaned,
            () = lost(&observer) => {
                Err(Failure::Gone { server: name, seconds: GOODBYE_WITHIN.as_secs() })
            }
        }
    }

    async fn delete_all(mut self) -> Result<(), Failure> {
        close(std::mem::take(&mut self.clients)).await;
        let mut tries = 0;
        loop {
            tries += 1;
            match tree::delete_all(&self.observer, &self.base, tree::TOGETHER).await {
                Err(error) if error.is(ErrorCode::NOT_EMPTY) && tries < CLEAN_UP_TRIES => {}
                Err(error) if error.is(ErrorCode::NO_NODE) => break,
                result => break result?,
            }
        }
        let _ = tokio::time::timeout(GOODBYE_WITHIN, self.observer.close()).await;
        Ok(())
    }
}

/// Returns when the client has had no connection for [`GOODBYE_WITHIN`].
async fn lost(client: &Client) {
    let mut without = Duration::ZERO;
    while without < GOODBYE_WITHIN {
        tokio::time::sleep(CONNECTION_LOOK_INTERVAL).await;
        let is_connected = client.state().borrow().is_some_and(ConnectionState::is_connected);
        without = if is_connected { Duration::ZERO } else { without + CONNECTION_LOOK_INTERVAL };
    }
}

/// Closes clients, all at once.
pub(crate) async fn close(clients: Vec<Client>) {
    let mut closing = JoinSet::new();
    for client in clients {
        closing.spawn(tokio::time::timeout(GOODBYE_WITHIN, client.close()));
    }
    while closing.join_next().await.is_some() {}
}

/// The result of a task. Its panic is resumed.
pub(crate) fn unpanicked<T>(joined: Result<T, tokio::task::JoinError>) -> T {
    match joined {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Waits while tasks work that do not end by themselves.
///
/// # Errors
///
/// At once, that of the first task that fails.
pub(crate) async fn work_for<T: 'static>(
    time: Duration,
    tasks: &mut JoinSet<Result<T, Failure>>,
) -> Result<(), Failure> {
    match tokio::time::timeout(time, tasks.join_next()).await {
        Ok(Some(ended)) => unpanicked(ended).map(drop),
        Ok(None) | Err(_) => Ok(()),
    }
}

async fn connect(
    dialer: Counted,
    options: &ClientOptions,
    user: Option<&SaslUser>,
    chroot: &str,
) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .session_timeout(options.session_timeout)
        .connection_timeout(CONNECT_WITHIN);
    if let Some(user) = user {
        builder = user.apply(builder);
    }
    let client = builder.connect(dialer).await?;
    if chroot.is_empty() { Ok(client) } else { client.namespace(chroot) }
}

fn no_server(error: Error, name: &str) -> Failure {
    match error {
        Error::Unreachable(cause) => Failure::NoServer(name.to_owned(), format!(" ({cause})")),
        Error::AuthFailed => Failure::AuthFailed(name.to_owned()),
        error => error.into(),
    }
}

/// As [`no_server`], of a server to which another client has connected before.
fn no_more(error: Error, server: String, is_elsewhere: bool) -> Failure {
    match error {
        Error::Unreachable(ConnectError::Closed(_)) if is_elsewhere => {
            Failure::NoMoreConnections(server)
        }
        Error::Unreachable(ConnectError::Closed(_) | ConnectError::Other(_)) if !is_elsewhere => {
            Failure::NoMoreHere
        }
        error => no_server(error, &server),
    }
}

fn not_created(error: Error, path: &str) -> Failure {
    match error.code() {
        Some(ErrorCode::NODE_EXISTS) => Failure::Exists(path.to_owned()),
        Some(ErrorCode::NO_NODE) => Failure::NoParent(path.to_owned()),
        _ => error.into(),
    }
}
