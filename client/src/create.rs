//! Creating znodes: parents, and creates that survive a lost answer.

use std::future::IntoFuture;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, CreateKind, CreateMode, ErrorCode, MultiOp, Request, Response, SessionId, Stat, Write,
    ZPath,
};

use super::Client;
use super::error::Error;
use super::operation::{About, Boxed, Operation, Sent, reading};
use super::recipe::{protected_prefix, with_prefix};
use super::retry::Retry;

/// What was created.
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
    /// Its path, with its number.
    pub path: String,
    /// Its Stat.
    pub stat: Stat,
}

/// What becomes of missing ancestors.
///
/// ```
/// use zoolet_client::Parents;
///
/// assert_ne!(Parents::Containers, Parents::Persistent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// They are created as containers, which the server deletes some time after their last child.
    Containers,
    /// They are created to stay.
    Persistent,
}

/// A call to create a znode: persistent, with empty data and open to everyone, unless told
/// otherwise. Each method replaces what it said before; none changes what another said.
#[derive(Debug, Clone)]
#[must_use = "a call is made when it is awaited or sent"]
pub struct Create {
    client: Client,
    path: String,
    data: Bytes,
    acl: Vec<Acl>,
    mode: CreateMode,
    parents: Option<Parents>,
    is_protected: bool,
    or_set: bool,
    bound: Option<SessionId>,
}

/// How often missing ancestors are created before it is given up: each time somebody else must have
/// deleted or created one in between.
const PARENT_TRIES: u32 = 10;

impl Client {
    /// Creates a znode.
    pub fn create(&self, path: &str) -> Create {
        Create {
            client: self.clone(),
            path: path.to_owned(),
            data: Bytes::new(),
            acl: vec![Acl::open()],
            mode: CreateMode::Persistent,
            parents: None,
            is_protected: false,
            or_set: false,
            bound: None,
        }
    }
}

impl Create {
    /// With this data.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// With this access control list.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Of this mode, instead of [`CreateMode::Persistent`].
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

    /// With its missing ancestors.
    pub fn parents(mut self, parents: Parents) -> Self {
        self.parents = Some(parents);
        self
    }

    /// With an id of its own in its name, as Curator's protection does, by which it is found again
    /// when the answer was lost: it is created once, however often that takes.
    pub fn protected(mut self) -> Self {
        self.is_protected = true;
        self
    }

    /// Or, if there is such a znode, to set its data.
    pub fn or_set(mut self) -> Self {
        self.or_set = true;
        self
    }

    /// In this session only.
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.bound = Some(session);
        self
    }

    /// Makes the call now, with the path as it is: no ancestors, no protection, no second try. See
    /// [`Operation::send`].
    pub fn send(self) -> Sent<Created> {
        self.operation(&self.path).send()
    }

    fn operation(&self, path: &str) -> Operation<Created> {
        // The parent is what must be valid: with a number a path may end with a slash.
        let checked =
            if self.mode.flags().is_sequential() { format!("{path}0") } else { path.to_owned() };
        let create = self.body(&self.client.server_path(path));
        let request = ZPath::check(&checked)
            .map(|()| Request::Write(Write::Op(MultiOp::Create(create))))
            .map_err(Error::from);
        let reading =
            reading!(Response::PathStat(path, stat) => Created { path: path.to_string(), stat });
        let operation = self.client.prepared(About::Path(path.to_owned()), reading, request);
        let operation = operation.localized(|client, created| Created {
            path: client.local_path(&created.path),
            ..created
        });
        match self.bound {
            Some(session) => operation.in_session(session),
            None => operation,
        }
    }

    fn body(&self, server_path: &str) -> zoolet_protocol::Create {
        zoolet_protocol::Create {
            // The answer has the Stat, as those of the other two operations have.
            kind: match self.mode.kind() {
                CreateKind::Create => CreateKind::Create2,
                kind => kind,
            },
            path: server_path.into(),
            data: Some(self.data.clone()),
            acl: Some(self.acl.clone()),
            flags: self.mode.flags(),
        }
    }

    async fn run(self) -> Result<Created, Error> {
        let prefix = self.is_protected.then(protected_prefix);
        let path = match &prefix {
            Some(prefix) => with_prefix(&self.path, prefix),
            None => self.path.clone(),
        };
        let mut retry = Retry::new(&self.client.retry);
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

    /// As [`Create::find`], until it can be asked.
    async fn find_again(&self, prefix: &str, retry: &mut Retry) -> Result<Option<Created>, Error> {
        loop {
            match self.find(prefix).await {
                Ok(found) => return Ok(found),
                Err(error) => retry.after(error, true).await?,
            }
        }
    }

    async fn create_with_parents(&self, path: &str) -> Result<Created, Error> {
        for _ in 0..PARENT_TRIES {
            let error = match self.operation(path).send().await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            match (error.code(), self.parents) {
                (Some(ErrorCode::NO_NODE), Some(parents)) => {
                    self.client.create_ancestors(path, parents, &self.acl).await?;
                }
                (Some(ErrorCode::NODE_EXISTS), _) if self.or_set => {
                    match self.client.set(path, self.data.clone()).send().await {
                        Ok(stat) => return Ok(Created { path: path.to_owned(), stat }),
                        // It went away in between.
                        Err(error) if error.is(ErrorCode::NO_NODE) => {}
                        Err(error) => return Err(error),
                    }
                }
                _ => return Err(error),
            }
        }
        self.operation(path).send().await
    }

    /// The znode that an earlier try made, if it did. The server is asked to catch up first: after
    /// a reconnect it may be behind the one that carried the create out.
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
                // Of a session that is over, or made twice.
                self.client.delete(&path).guaranteed();
            }
        }
        Ok(found)
    }
}

impl Client {
    /// Creates the missing ancestors of a path, and not the path itself, all in one multi where nobody
    /// else does the same.
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
        // The znodes above a namespace may be missing too.
        let root = Self { root: "".into(), ..self.clone() };
        let path = self.server_path(path);
        let mut missing = Vec::new();
        let mut ancestor = parent(&path);
        while ancestor != "/" && root.exists(ancestor).await?.is_none() {
            missing.push(ancestor.to_owned());
            ancestor = parent(ancestor);
        }
        let create = |path: &String| {
            let mode = match parents {
                Parents::Containers => CreateMode::Container,
                Parents::Persistent => CreateMode::Persistent,
            };
            let (kind, flags) = (mode.kind(), mode.flags());
            let (path, data) = (path.as_str().into(), Some(Bytes::new()));
            let acl = Some(acl.to_vec());
            MultiOp::Create(zoolet_protocol::Create { kind, path, data, acl, flags })
        };
        let ops: Vec<_> = missing.iter().rev().map(create).collect();
        if ops.is_empty() {
            return Ok(());
        }
        match root.multi(ops).await {
            // Somebody was quicker; what is still missing is seen on the next try.
            Err(error) if error.is(ErrorCode::NODE_EXISTS) || error.is(ErrorCode::NO_NODE) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// The parent of a path, also of one that is to get a number.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl IntoFuture for Create {
    type Output = Result<Created, Error>;
    type IntoFuture = Boxed<Created>;

    fn into_future(self) -> Boxed<Created> {
        Box::pin(self.run())
    }
}
