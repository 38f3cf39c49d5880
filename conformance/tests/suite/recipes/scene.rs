//! What every scenario needs: clients, a network that fails, an administrator, and a check of what
//! is left.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::{Client, SavedSession};
use zoolet_conformance::client::{Client as RawClient, Handshake, Message};
use zoolet_conformance::four_letter;
use zoolet_conformance::proxy::Proxy;
use zoolet_conformance::target::TcpTarget;
use zoolet_protocol::{ConnectRequest, ErrorCode, Request, SessionId, Write, Zxid};

use super::Outcome;

/// How long a scenario waits for what must not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(200);

/// The time limit for what must happen, the election of a leader included, on a machine that has
/// several times more to do than it can.
const SOON: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a connection that takes up a session may be closed, before that is an error.
const TAKE_UP_ATTEMPTS: usize = 100;

/// How often it may get no answer.
const TAKE_UP_SILENCES: usize = 3;

/// A server, and a path on it that no other scenario uses.
pub(crate) struct Scene {
    servers: Vec<SocketAddr>,
    folder: String,
    /// The clients stay connected until the end, so that the check finds what they leave.
    clients: Mutex<Vec<Client>>,
    proxies: Mutex<Vec<Arc<Proxy>>>,
}

impl Scene {
    pub(crate) fn new(servers: Vec<SocketAddr>, name: &str) -> Self {
        let folder = format!("/{}", name.replace("::", "-"));
        Self { servers, folder, clients: Mutex::default(), proxies: Mutex::default() }
    }

    /// A path below that of this scenario.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// A client that stays connected until the end of the scenario.
    pub(crate) async fn client(&self) -> Result<Client, Failed> {
        self.client_with_timeout(SESSION_TIMEOUT).await
    }

    /// As [`Scene::client`], with another session timeout.
    pub(crate) async fn client_with_timeout(&self, timeout: Duration) -> Result<Client, Failed> {
        self.connect(&self.hosts(), timeout).await
    }

    /// A client of one server, with a proxy between them.
    pub(crate) async fn client_behind_proxy(&self) -> Result<(Client, Arc<Proxy>), Failed> {
        let proxy = self.proxy().await?;
        Ok((self.connect(&proxy.address().to_string(), SESSION_TIMEOUT).await?, proxy))
    }

    /// A proxy in front of one server.
    pub(crate) async fn proxy(&self) -> Result<Arc<Proxy>, Failed> {
        let server = self.servers[fastrand::usize(..self.servers.len())];
        let proxy = Arc::new(Proxy::start(server).await?);
        self.proxies
            .lock()
            .expect("no thread panics while it holds this lock")
            .push(Arc::clone(&proxy));
        Ok(proxy)
    }

    /// A client that the scenario ends by itself.
    pub(crate) async fn unlisted_client(&self) -> Result<Client, Failed> {
        Ok(Client::builder().session_timeout(SESSION_TIMEOUT).connect(self.hosts()).await?)
    }

    /// A client that begins with the session of another.
    pub(crate) async fn client_with_session(&self, saved: SavedSession) -> Result<Client, Failed> {
        Ok(Client::builder().session(saved).connect(self.hosts()).await?)
    }

    fn hosts(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(ToString::to_string).collect();
        hosts.join(",")
    }

    async fn connect(&self, hosts: &str, timeout: Duration) -> Result<Client, Failed> {
        let client = Client::builder().session_timeout(timeout).connect(hosts).await?;
        self.clients
            .lock()
            .expect("no thread panics while it holds this lock")
            .push(client.clone());
        Ok(client)
    }

    /// Ends the session of a client: reattaches to it over another connection, and closes it there.
    pub(crate) async fn expire(&self, client: &Client) -> Outcome {
        let (session, password) = (client.session_id(), client.session_password());
        let target = TcpTarget::new(self.servers[0]);
        let request = ConnectRequest { session, password, ..ConnectRequest::new(30_000) };
        tokio::task::spawn_blocking(move || -> Outcome {
            // The client reattaches to its session when it notices this, and may be faster. Then the
            // server closes this connection, also in the middle of the handshake. A follower that asks
            // the leader for both connections at once answers only one of them (`Learner.revalidate`).
            let (mut attempts, mut silences) = (1..=TAKE_UP_ATTEMPTS, 1..=TAKE_UP_SILENCES);
            loop {
                let mut second = RawClient::dial(&target)?;
                match second.shake_hands(&request) {
                    Handshake::Answered(response) if response.is_refused() => return Ok(()),
                    Handshake::Answered(_) => {}
                    Handshake::Closed if attempts.next().is_some() => continue,
                    Handshake::Silence if silences.next().is_some() => continue,
                    other => return Err(format!("the session is not taken up: {other:?}").into()),
                }
                let said = second.ask(&Request::Write(Write::CloseSession));
                let is_closed = |message: &Message| matches!(message, Message::Reply { header, .. } if header.err == ErrorCode::OK);
                if said.iter().any(is_closed) {
                    return Ok(());
                }
            }
        })
        .await?
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(
        &self,
        what: &str,
        is_so: impl AsyncFn() -> Result<bool, Failed>,
    ) -> Outcome {
        let looking = async {
            while !is_so().await? {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            Ok(())
        };
        tokio::time::timeout(SOON, looking).await.map_err(|_| format!("in vain: {what}"))?
    }

    /// The znodes of a line in their order. None if the directory does not exist.
    pub(crate) async fn line(&self, directory: &str) -> Result<Vec<String>, Failed> {
        let client = self
            .clients
            .lock()
            .expect("no thread panics while it holds this lock")
            .first()
            .cloned();
        let client = client.ok_or("the scenario has no client")?;
        line(&client, directory).await
    }

    /// The znodes of a line in their order, each with its session, and the sessions and states of
    /// the clients: what a report about a scenario that hangs needs.
    pub(crate) async fn owners(&self, directory: &str) -> Result<String, Failed> {
        let own = Client::connect(self.servers[0].to_string().as_str()).await?;
        let mut report = format!("{directory}:");
        for name in line(&own, directory).await? {
            let stat = own.exists(&format!("{directory}/{name}")).await?;
            report += &format!(" {name} of {:?},", stat.map(|stat| stat.ephemeral_owner));
        }
        let clients =
            self.clients.lock().expect("no thread panics while it holds this lock").clone();
        for client in clients {
            report += &format!(" {:?} {:?},", client.session_id(), *client.state().borrow());
        }
        Ok(report)
    }

    /// Waits until a directory has this many children.
    pub(crate) async fn until_in_line(
        &self,
        directory: &str,
        count: usize,
    ) -> Result<Vec<String>, Failed> {
        let is_so = async || Ok(self.line(directory).await?.len() == count);
        self.until(&format!("{count} in {directory}"), is_so).await?;
        self.line(directory).await
    }

    /// Checks that no ephemeral and no watch is left.
    pub(crate) async fn assert_clean(&self) -> Outcome {
        let own = Client::connect(self.servers[0].to_string().as_str()).await?;
        let is_empty = async || Ok(ephemerals_below(&own, &self.folder).await?.is_empty());
        if let Err(error) = self.until("no znode is left", is_empty).await {
            let left = ephemerals_below(&own, &self.folder).await?;
            return Err(format!("{error:?}: {left:?}").into());
        }
        let is_unwatched = async || Ok(self.watches()? == 0);
        if let Err(error) = self.until("no watch is left", is_unwatched).await {
            let left: Result<Vec<_>, _> =
                self.servers.iter().map(|&server| four_letter::ask(server, "wchc")).collect();
            return Err(format!("{error:?}: {} of them, {left:?}", self.watches()?).into());
        }
        Ok(())
    }

    fn watches(&self) -> Result<usize, Failed> {
        let mut count = 0;
        for &server in &self.servers {
            let said = four_letter::ask(server, "mntr")?;
            let line = said.lines().find_map(|line| line.strip_prefix("zk_watch_count"));
            count += line.ok_or("mntr has no zk_watch_count")?.trim().parse::<usize>()?;
        }
        Ok(count)
    }
}

async fn line(client: &Client, directory: &str) -> Result<Vec<String>, Failed> {
    // A member of an ensemble may be behind.
    client.sync(directory).await?;
    match client.children(directory).await {
        Ok(names) => {
            let mut names: Vec<_> = names.iter().map(str::to_owned).collect();
            names.sort_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
            Ok(names)
        }
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

async fn ephemerals_below(client: &Client, folder: &str) -> Result<Vec<String>, Failed> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for name in line(client, &folder).await? {
            let path = format!("{folder}/{name}");
            match client.exists(&path).await? {
                Some(stat) if stat.ephemeral_owner != SessionId::NONE => found.push(path),
                Some(_) => folders.push(path),
                None => {}
            }
        }
    }
    Ok(found)
}

/// Checks that a task still waits.
pub(crate) async fn waits<T>(task: &JoinHandle<T>) {
    tokio::time::sleep(A_WHILE).await;
    assert!(!task.is_finished(), "the task did not wait");
}

/// Waits for a future, which must be ready soon.
pub(crate) async fn soon<T>(coming: impl Future<Output = T>) -> Result<T, Failed> {
    Ok(tokio::time::timeout(SOON, coming).await.map_err(|_| "the future is not ready in time")?)
}

/// Checks exclusion from outside.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    now: AtomicUsize,
    token: AtomicI64,
    total: AtomicUsize,
}

impl Inside {
    /// An exclusive holder enters with this token, lets other tasks run, and leaves.
    pub(crate) async fn visit_alone(&self, token: Zxid) {
        self.enter(token);
        tokio::task::yield_now().await;
        self.leave(1);
    }

    /// A holder enters with a weight, of which there may be `max`, lets other tasks run, and
    /// leaves.
    pub(crate) async fn visit(&self, weight: usize, max: usize) {
        self.enter_beside(weight, max);
        tokio::task::yield_now().await;
        self.leave(weight);
    }

    /// Waits for tasks that visit, which must make this number of visits together.
    pub(crate) async fn await_visits(
        &self,
        tasks: Vec<JoinHandle<Result<(), zoolet_recipes::LockError>>>,
        visits: usize,
    ) -> Outcome {
        for task in tasks {
            task.await??;
        }
        assert_eq!(self.total(), visits);
        Ok(())
    }

    /// An exclusive holder enters. Its token must be greater than all earlier ones.
    pub(crate) fn enter(&self, token: Zxid) {
        assert_eq!(
            self.now.fetch_add(1, Ordering::SeqCst),
            0,
            "two clients hold an exclusive lock"
        );
        let before = self.token.swap(token.0, Ordering::SeqCst);
        assert!(token.0 > before, "the token {token:?} came after {before}");
    }

    /// A holder enters with a weight of `count`. The sum of the weights must not exceed `max`.
    pub(crate) fn enter_beside(&self, count: usize, max: usize) {
        let others = self.now.fetch_add(count, Ordering::SeqCst);
        assert!(
            others + count <= max,
            "holders with a weight of {others} and {count} exceed {max}"
        );
    }

    pub(crate) fn leave(&self, count: usize) {
        self.now.fetch_sub(count, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of holders that have entered.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }
}
