//! Lines. A line is the list of ephemeral sequential znodes in one directory; a *place* is one of
//! these znodes that this client created. A place is *in front* when no place with a lower number
//! is left for which its kind waits. A place in front holds the lock or leads, once its session is
//! proved to be alive. *The znode ahead* is the last one for which a place waits.
//!
//! This file describes a line: its directory, and how its znodes are created. The other files, each
//! of which knows only those before it:
//!
//! - `order`: which znodes are in a line, and which one a place waits for. It works on names alone.
//! - `deletion`: deletes a znode and repeats the request until the znode is gone.
//! - `place`: one znode of this client, from its creation until it is deleted.
//! - `entering`: creates places.
//! - `unreadable`: handles places that wait for a znode that they are not allowed to read.
//! - `waiting`: waits until a place is in front.
//! - `proof`: waits until the session of a place is proved to be alive.
//! - `several`: enters several lines at once and waits in all of them.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, ErrorCode, MultiOp, Names, ZPath, Zxid,
};

use self::order::{PlaceKind, Position};
use self::place::Place;
use crate::client::recipe::{ClientId, SessionClient};
use crate::client::{self, Client, Parents};
use crate::defaults;
use crate::error::LockError;

pub(crate) mod deletion;
pub(crate) mod entering;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod proof;
pub(crate) mod several;
mod unreadable;
pub(crate) mod waiting;

/// A line: a directory, and what places are created in it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) directory: Arc<str>,
    pub(crate) id: LineId,
    pub(crate) kind: &'static PlaceKind,
    /// The data of each place.
    pub(crate) data: Bytes,
    /// The access control list of each place.
    pub(crate) acl: Arc<[Acl]>,
    /// That of the directories that are created for it; `None` for the client's defaults.
    pub(crate) directory_acl: Option<Arc<[Acl]>>,
    /// How missing directories are created.
    pub(crate) parents: Parents,
}

/// Identifies a line of one client in this process, however many lock objects use it and whichever
/// session the client has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineId {
    client: ClientId,
    /// The directory's path on the server, with the client's namespace.
    path: Arc<str>,
    /// The hash of the path, computed once: each acquire looks the line up several times.
    hash: u64,
}

/// What a line is looked up by. Two lines of a client may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LineKey {
    client: ClientId,
    hash: u64,
}

/// The position of a place according to a list of children that the server sent at `zxid`.
#[derive(Debug)]
pub(crate) struct PositionAt {
    pub(crate) position: Position,
    pub(crate) zxid: Zxid,
}

impl Line {
    /// The line of a directory. Its znodes have the client's default access control list and
    /// data: as in Curator, this machine's address.
    pub(crate) fn new(
        client: &Client,
        directory: &str,
        kind: &'static PlaceKind,
    ) -> Result<Self, LockError> {
        ZPath::check(directory).map_err(client::Error::from)?;
        Ok(Self {
            client: client.clone(),
            directory: directory.into(),
            id: LineId::new(client, directory),
            kind,
            data: defaults::data(client),
            acl: client.default_acl(directory).into(),
            directory_acl: None,
            parents: Parents::Containers,
        })
    }

    /// Sets the access control list of each place and of the directories that are created for it.
    pub(crate) fn set_acl(&mut self, acl: impl Into<Arc<[Acl]>>) {
        self.acl = acl.into();
        self.directory_acl = Some(Arc::clone(&self.acl));
    }

    /// The path of a znode in the directory.
    pub(crate) fn child(&self, name: &str) -> String {
        match &*self.directory {
            "/" => format!("/{name}"),
            directory => format!("{directory}/{name}"),
        }
    }

    /// The path of a new place without its number. It contains an id that no other znode has
    /// (Curator's protection).
    pub(crate) fn new_path(&self) -> String {
        self.client.protected_path(&self.child(self.kind.marker))
    }

    /// The create request of a place.
    pub(crate) fn create(&self, path: &str) -> Create {
        Create {
            kind: CreateKind::Create,
            path: path.into(),
            data: Some(self.data.clone()),
            acl: Some(self.acl.to_vec()),
            flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
        }
    }

    /// The operation of a multi that creates a place. The server appends the number to the path.
    pub(crate) fn create_op(&self, path: &str) -> MultiOp {
        MultiOp::Create(self.create(path))
    }

    /// The paths of all places with this marker, ordered by number.
    pub(crate) async fn participants(&self, marker: &str) -> Result<Vec<String>, LockError> {
        self.participants_of(&[marker]).await
    }

    /// The paths of the places with these markers, ordered by number.
    pub(crate) async fn participants_of(&self, markers: &[&str]) -> Result<Vec<String>, LockError> {
        match self.client.children(&self.directory).await {
            Ok(names) => {
                let of = |marker: &&str| order::contenders(&names, marker);
                let mut contenders: Vec<_> = markers.iter().flat_map(of).collect();
                contenders.sort_unstable();
                Ok(contenders.iter().map(|contender| self.child(contender.name)).collect())
            }
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// The data of the places with this marker, with their paths, ordered by number.
    pub(crate) async fn participants_with_data(
        &self,
        marker: &str,
    ) -> Result<Vec<(String, Bytes)>, LockError> {
        self.data_of(self.participants(marker).await?).await
    }

    /// The data of these places, with their paths.
    pub(crate) async fn data_of(
        &self,
        paths: Vec<String>,
    ) -> Result<Vec<(String, Bytes)>, LockError> {
        with_data(&self.client, paths).await
    }

    /// Whether the directory has a place that this kind waits for. Costs one read.
    pub(crate) async fn has_to_wait(&self) -> Result<bool, LockError> {
        match self.client.children(&self.directory).await {
            Ok(names) => {
                let is_there = |marker: &&str| !order::contenders(&names, marker).is_empty();
                Ok(self.kind.waits_for.iter().any(is_there))
            }
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The children of the directory, and the zxid of the reply. The request is repeated until it
    /// is answered or the session has ended.
    pub(crate) async fn list(&self, session: &SessionClient) -> Result<(Names, Zxid), LockError> {
        Ok(session.children_with_zxid(&self.directory).until_answered().await?)
    }

    /// The position of a place in this list of children.
    pub(crate) fn position_in(&self, names: &Names, place: &Place) -> Position {
        order::position(names, self.kind, place.name())
    }

    /// Lists the directory and returns the position of a place.
    pub(crate) async fn position_of(&self, place: &Place) -> Result<PositionAt, LockError> {
        let (names, zxid) = self.list(place.session()).await?;
        Ok(PositionAt { position: self.position_in(&names, place), zxid })
    }
}

/// The data of these znodes, of those that still exist. All reads are sent at once.
pub(crate) async fn with_data(
    client: &Client,
    paths: Vec<String>,
) -> Result<Vec<(String, Bytes)>, LockError> {
    let mut all = Vec::with_capacity(paths.len());
    let mut paths = paths.into_iter();
    loop {
        let batch: Vec<_> = paths.by_ref().take(READS_IN_FLIGHT).collect();
        if batch.is_empty() {
            return Ok(all);
        }
        let sent: Vec<_> = batch.iter().map(|path| client.get(path).send()).collect();
        for (path, sent) in batch.into_iter().zip(sent) {
            let answer = match sent.await {
                Err(error) if error.is_retryable() => client.get(&path).await,
                answer => answer,
            };
            match answer {
                Ok((data, _)) => all.push((path, data)),
                // It was deleted in between.
                Err(error) if error.is(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How many reads are sent before the first reply is waited for: so many that the round trips do
/// not count, and so few that the server can serve others in between.
const READS_IN_FLIGHT: usize = 128;

/// One line: a lock is printed in assertions and logs.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.directory, self.kind.marker)
    }
}

impl LineId {
    pub(crate) fn new(client: &Client, directory: &str) -> Self {
        let path: Arc<str> = client.server_path(directory).into();
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        Self { client: client.id(), path, hash: hasher.finish() }
    }

    /// The line of a client's locks that have no path.
    pub(crate) fn without_path(client: &Client) -> Self {
        Self { client: client.id(), path: "".into(), hash: 0 }
    }

    /// The directory's path on the server.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn key(&self) -> LineKey {
        LineKey { client: self.client, hash: self.hash }
    }
}
