//! Creating znodes: with missing ancestors, and so that a lost reply does no harm.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, CreateKind, CreateMode, ErrorCode, MultiOp, Request, Response, SessionId, Stat, Write,
    ZPath,
};

use super::Client;
use super::error::Error;
use super::limits::PARENT_ATTEMPTS_MAX;
use super::operation::{CallFuture, Operation, RequestSubject, Sent, reply_reader};
use super::recipe::with_prefix;
use super::retry::Retry;

/// A znode that was created.
///
/// ```
/// use zoolet_client::Created;
/// use zoolet_client::protocol::Stat;
///
/// let created = Created { path: "/queue/item-0000000007".into(), stat: Stat::default() };
/// assert!(created.path.ends_with("7"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its path, with the sequence number if it is sequential.
    pub path: String,
    /// Its Stat.
    pub stat: Stat,
}

/// How missing ancestors of a znode are created.
///
/// ```
/// use zoolet_client::Parents;
///
/// assert_ne!(Parents::Containers, Parents::Persistent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// As containers, which the server deletes some time after their last child was deleted. If
    /// the client was built [without containers](crate::Builder::without_containers), they are
    /// persistent.
    Containers,
    /// As persistent znodes.
    Persistent,
}

/// A call that creates a znode: [`Client::create`].
///
/// Without options the znode is persistent, has empty data, and has the client's default access
/// control list ([`Client::default_acl`]): as a rule it is open to everyone. The options are
/// independent of each other; the last call of each counts.
///
/// ```no_run
/// use zoolet_client::{Client, CreateMode, Error, Parents};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let create = client.create("/app/members/one").data("10.0.0.7").mode(CreateMode::Ephemeral);
/// let created = create.parents(Parents::Containers).await?;
/// assert_eq!(created.path, "/app/members/one");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request is sent when the call is awaited or `send()` is called"]
pub struct Create {
    client: Client,
    path: String,
    data: Bytes,
    /// `None` for the client's default.
    acl: Option<Vec<Acl>>,
    mode: CreateMode,
    parents: Option<Parents>,
    is_protected: bool,
    or_set: bool,
    bound: Option<SessionId>,
}

impl Client {
    /// Creates a znode (`create2`).
    ///
    /// Awaited, it fails with [`NO_NODE`](ErrorCode::NO_NODE) if the parent is missing,
    /// [`NODE_EXISTS`](ErrorCode::NODE_EXISTS) if the znode exists,
    /// [`NO_CHILDREN_FOR_EPHEMERALS`](ErrorCode::NO_CHILDREN_FOR_EPHEMERALS) below an ephemeral.
    ///
    /// A request that is longer than [`jute_max_buffer`](crate::Builder::jute_max_buffer), 1,048,575
    /// bytes by default, fails with [`Error::TooLong`] and is not sent. A server with a lower limit closes
    /// the connection at it ([`Error::ConnectionLoss`]).
    pub fn create(&self, path: &str) -> Create {
        Create {
            client: self.clone(),
            path: path.to_owned(),
            data: Bytes::new(),
            acl: None,
            mode: CreateMode::Persistent,
            parents: None,
            is_protected: false,
            or_set: false,
            bound: None,
        }
    }
}

impl Create {
    /// Sets the data of the znode.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the access control list of the znode, and of ancestors that are created. Without it each
    /// of them has the [default](Client::default_acl) of its own path.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets the mode: ephemeral, sequential, container, with a time to live.
    ///
    /// ```no_run
    /// use zoolet_client::{Client, CreateMode};
    ///
    /// # async fn example(client: Client) -> Result<(), zoolet_client::Error> {
    /// let created = client.create("/queue/item-").mode(CreateMode::EphemeralSequential).await?;
    /// assert_eq!(created.stat.ephemeral_owner, client.session_id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn mode(mut self, mode: CreateMode) -> Self {
        self.mode = mode;
        self
    }

    /// Creates missing ancestors too.
    pub fn parents(mut self, parents: Parents) -> Self {
        self.parents = Some(parents);
        self
    }

    /// Protects the create against a lost reply, as Curator's `withProtection`: the name begins
    /// with an id that no other znode has. After a lost connection the call looks for the id before
    /// it creates again, so that it creates one znode and not two.
    pub fn protected(mut self) -> Self {
        self.is_protected = true;
        self
    }

    /// Sets the data of the znode if it exists already.
    pub fn or_set(mut self) -> Self {
        self.or_set = true;
        self
    }

    /// Sends the request in this session or not at all: see [`Operation::in_session`].
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.bound = Some(session);
        self
    }

    /// Sends the request now, with the path as it is: without ancestors, protection and retries.
    /// See [`Operation::send`].
    pub fn send(self) -> Sent<Created> {
        self.operation(&self.path).send()
    }

    fn operation(&self, path: &str) -> Operation<Created> {
        // The path of a sequential znode is valid with its number: it may end with a slash.
        let checked = match self.mode.flags().is_sequential() {
            true => Cow::Owned(format!("{path}0")),
            false => Cow::Borrowed(path),
        };
        let create = self.body(self.client.server_path(path));
        let request = ZPath::check(&checked)
            .map(|()| Request::Write(Write::Op(MultiOp::Create(create))))
            .map_err(Error::from);
        let reading = reply_reader!(Response::PathStat(path, stat) => {
            Created { path: path.to_string(), stat }
        });
        let operation =
            self.client.prepared(RequestSubject::Path(path.to_owned()), reading, request);
        let operation = operation.localized(|client, created| Created {
            path: client.local_path(&created.path),
            ..created
        });
        match self.bound {
            Some(session) => operation.in_session(session),
            None => operation,
        }
    }

    fn body(&self, server_path: String) -> zoolet_protocol::Create {
        zoolet_protocol::Create {
            // The reply to `create2` has the Stat, like those to the other two operations.
            kind: match self.mode.kind() {
                CreateKind::Create => CreateKind::Create2,
                kind => kind,
            },
            path: server_path.into(),
            data: Some(self.data.clone()),
            acl: Some(self.acl.clone().unwrap_or_else(|| self.client.default_acl(&self.path))),
            flags: self.mode.flags(),
        }
    }

    async fn run(self) -> Result<Created, Error> {
        let prefix = self.is_protected.then(|| self.client.protected_prefix());
        let path = match &prefix {
            Some(prefix) => Cow::Owned(with_prefix(&self.path, prefix)),
            None => Cow::Borrowed(self.path.as_str()),
        };
        let mut retry = Retry::new(&self.client);
        loop {
            match self.create_with_parents(&path).await {
                Ok(created) => return Ok(created),
                Err(error) => retry.after(error, self.is_protected).await?,
            }
            if let Some(prefix) = &prefix
                && let Some(created) = self.find_again(prefix, &mut retry).await?
            {
                return Ok(created);
            }
        }
    }

    /// As [`Create::find`], with retries.
    async fn find_again(
        &self,
        prefix: &str,
        retry: &mut Retry<'_>,
    ) -> Result<Option<Created>, Error> {
        loop {
            match self.find(prefix).await {
                Ok(found) => return Ok(found),
                Err(error) => retry.after(error, true).await?,
            }
        }
    }

    async fn create_with_parents(&self, path: &str) -> Result<Created, Error> {
        for _ in 0..PARENT_ATTEMPTS_MAX {
            let error = match self.operation(path).send().await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            match (error.code(), self.parents) {
                (Some(ErrorCode::NO_NODE), Some(parents)) => {
                    self.client.create_missing(path, parents, self.acl.as_deref()).await?;
                }
                (Some(ErrorCode::NODE_EXISTS), _) if self.or_set => {
                    match self.client.set(path, self.data.clone()).send().await {
                        Ok(stat) => return Ok(Created { path: path.to_owned(), stat }),
                        // It was deleted meanwhile.
                        Err(error) if error.is(ErrorCode::NO_NODE) => {}
                        Err(error) => return Err(error),
                    }
                }
                _ => return Err(error),
            }
        }
        self.operation(path).send().await
    }

    /// The znode that an earlier attempt created, if it did. The server catches up first: after a
    /// reconnect it may be behind the server that carried out the create.
    async fn find(&self, prefix: &str) -> Result<Option<Created>, Error> {
        let parent = ZPath::parse(&format!("{}0", self.path))?;
        let parent = parent.parent().unwrap_or("/");
        let is_gone = |error: &Error| error.is(ErrorCode::NO_NODE);
        self.client.catch_up_once(parent, self.bound).await?;
        let names = match self.client.children(parent).send().await {
            Ok(names) => names,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut found: Option<Created> = None;
        for name in names.iter().filter(|name| name.starts_with(prefix)) {
            let path = if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") };
            let Some(stat) = self.client.exists(&path).send().await? else { continue };
            let is_ours = !self.mode.flags().is_ephemeral()
                || stat.ephemeral_owner == self.bound.unwrap_or_else(|| self.client.session_id());
            if is_ours && found.is_none() {
                found = Some(Created { path, stat });
            } else {
                // It belongs to an expired session, or was created twice.
                self.client.delete(&path).guaranteed();
            }
        }
        Ok(found)
    }
}

impl Client {
    /// Creates the missing ancestors of a path, and not the path itself, all in one multi where
    /// nobody else does the same.
    ///
    /// # Errors
    ///
    /// Those of reads and writes; that somebody else created one of them first is none.
    pub async fn create_ancestors(
        &self,
        path: &str,
        parents: Parents,
        acl: &[Acl],
    ) -> Result<(), Error> {
        self.create_missing(path, parents, Some(acl)).await
    }

    /// As [`Client::create_ancestors`]; each of them has the [default](Client::default_acl) access
    /// control list of its own path.
    ///
    /// # Errors
    ///
    /// As [`Client::create_ancestors`].
    pub async fn create_ancestors_by_default(
        &self,
        path: &str,
        parents: Parents,
    ) -> Result<(), Error> {
        self.create_missing(path, parents, None).await
    }

    /// Creates the missing ancestors of a path with this list, or each with its default.
    pub(crate) async fn create_missing(
        &self,
        path: &str,
        parents: Parents,
        acl: Option<&[Acl]>,
    ) -> Result<(), Error> {
        // The znodes above a namespace may be missing too.
        let root = self.without_namespace();
        let path = self.server_path(path);
        let mut missing = Vec::new();
        let mut ancestor = parent(&path);
        while ancestor != "/" && root.exists(ancestor).await?.is_none() {
            missing.push(ancestor.to_owned());
            ancestor = parent(ancestor);
        }
        let create = |path: &String| {
            let mode = self.session.defaults.mode_of(parents);
            let (kind, flags) = (mode.kind(), mode.flags());
            let acl = Some(acl.map_or_else(|| root.default_acl(path), <[Acl]>::to_vec));
            let (path, data) = (path.as_str().into(), Some(Bytes::new()));
            MultiOp::Create(zoolet_protocol::Create { kind, path, data, acl, flags })
        };
        let ops: Vec<_> = missing.iter().rev().map(create).collect();
        if ops.is_empty() {
            return Ok(());
        }
        match root.multi(ops).await {
            // Another client created or deleted one; the next attempt sees what is missing.
            Err(error) if error.is(ErrorCode::NODE_EXISTS) || error.is(ErrorCode::NO_NODE) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// The parent of a path, also of one without its sequence number.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl fmt::Debug for Create {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Create")
            .field("path", &self.path)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for Create {
    type Output = Result<Created, Error>;
    type IntoFuture = CallFuture<Created>;

    fn into_future(self) -> CallFuture<Created> {
        Box::pin(self.run())
    }
}
