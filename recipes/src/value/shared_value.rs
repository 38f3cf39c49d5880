//! A value with a local copy that follows its changes: Curator's `SharedValue`, with its znode.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{Acl, ErrorCode, Stat, ZPath, Zxid};

use crate::attempts::Attempts;
use crate::client::recipe::Publisher;
use crate::client::{self, Client, Parents, Subscription, Watched};
use crate::defaults::with_acl;
use crate::value::error::ValueError;

/// A value as it was at one moment.
///
/// ```
/// use zoolet_recipes::VersionedValue;
/// use zoolet_recipes::protocol::Zxid;
///
/// let (czxid, mzxid) = (Zxid(36), Zxid(40));
/// let value = VersionedValue { data: "on".into(), version: 3, mzxid, czxid };
/// assert_eq!(value.data, "on");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// The bytes.
    pub data: Bytes,
    /// The version of the data, which [`SharedValue::try_set`] checks.
    pub version: i32,
    /// The zxid of the transaction that set the data. Later values have greater ones.
    pub mzxid: Zxid,
    /// The zxid of the transaction that created the znode. When the znode is deleted and created
    /// again, versions begin at 0 again.
    pub czxid: Zxid,
}

impl VersionedValue {
    fn new(data: Bytes, stat: &Stat) -> Self {
        Self { data, version: stat.version, mzxid: stat.mzxid, czxid: stat.czxid }
    }
}

/// The data of a znode, of which each process has a copy that follows all changes.
///
/// The copy never goes back to an older value. It may skip a value that is replaced at once.
/// Without a connection, and after the znode was deleted, the copy is the last value that was read.
///
/// Its znode is that of Curator's `SharedValue`. Dropping a `SharedValue` drops the copy; the znode
/// stays.
///
/// ```no_run
/// use zoolet_recipes::SharedValue;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let banner = SharedValue::start(&client, "/banner", "hello").await?;
/// let seen = banner.value();
/// if !banner.try_set(&seen, "goodbye").await? {
///     println!("another client was quicker: {:?}", banner.value());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    value: Arc<Publisher<VersionedValue>>,
    _follower: AbortOnDropHandle<()>,
}

impl SharedValue {
    /// Creates the znode with `seed` if it does not exist, and follows its changes.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid; the errors of requests.
    pub async fn start(
        client: &Client,
        path: &str,
        seed: impl Into<Bytes>,
    ) -> Result<Self, ValueError> {
        Self::start_with(client, path, seed.into(), None).await
    }

    /// As [`SharedValue::start`], with an access control list for the znode and for the directories
    /// that are created for it.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::start`].
    pub async fn start_with_acl(
        client: &Client,
        path: &str,
        seed: impl Into<Bytes>,
        acl: Vec<Acl>,
    ) -> Result<Self, ValueError> {
        Self::start_with(client, path, seed.into(), Some(&acl)).await
    }

    pub(super) async fn start_with(
        client: &Client,
        path: &str,
        seed: Bytes,
        acl: Option<&[Acl]>,
    ) -> Result<Self, ValueError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let mut attempts = Attempts::new(client);
        let Watched { found: (data, stat), watcher } = loop {
            let create = with_acl(client.create(path).data(seed.clone()), acl);
            match create.parents(Parents::Containers).await {
                // If the reply was lost, the read below shows whether the znode exists.
                Ok(_) | Err(client::Error::ConnectionLoss { .. }) => {}
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Err(error) => return Err(error.into()),
            }
            match client.get(path).and_watch().await {
                Ok(watched) => break watched,
                // Another client has deleted it in between.
                Err(error) if error.is(ErrorCode::NO_NODE) => {
                    attempts.wait_after(error.into()).await?
                }
                Err(error) => return Err(error.into()),
            }
        };
        let value = Arc::new(Publisher::new(VersionedValue::new(data, &stat)));
        let following = follow(client.clone(), path.to_owned(), Arc::clone(&value), watcher);
        let follower = AbortOnDropHandle::new(client.spawn(following));
        Ok(Self { client: client.clone(), path: path.to_owned(), value, _follower: follower })
    }

    /// The copy. This sends no request.
    #[must_use]
    pub fn value(&self) -> VersionedValue {
        self.value.borrow().clone()
    }

    /// The copy, in a channel that reports changes.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<VersionedValue> {
        self.value.subscribe()
    }

    /// Sets the value unconditionally. When this returns, the copy has this value or a later one.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), ValueError> {
        let data = data.into();
        let stat = self.client.set(&self.path, data.clone()).await?;
        keep(&self.value, VersionedValue::new(data, &stat));
        Ok(())
    }

    /// Sets the value if it has not changed since it was `seen`. Returns whether it was set; if
    /// not, the copy has a later value when this returns.
    ///
    /// # Errors
    ///
    /// [`ValueError::VersionUnusable`]; [`ValueError::CreatedAnew`] if the znode was deleted,
    /// created again and changed to the same version before the copy followed; the errors of
    /// requests. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) the value may have been set.
    pub async fn try_set(
        &self,
        seen: &VersionedValue,
        data: impl Into<Bytes>,
    ) -> Result<bool, ValueError> {
        if seen.version == -1 {
            return Err(ValueError::VersionUnusable { path: self.path.clone() });
        }
        // A znode that was created again may have the same version.
        if seen.mzxid < self.value.borrow().mzxid {
            return Ok(false);
        }
        let data = data.into();
        match self.client.set(&self.path, data.clone()).version(seen.version).await {
            Ok(stat) => {
                keep(&self.value, VersionedValue::new(data, &stat));
                if stat.czxid != seen.czxid {
                    return Err(ValueError::CreatedAnew { path: self.path.clone() });
                }
                Ok(true)
            }
            Err(error) if error.is(ErrorCode::BAD_VERSION) => {
                let (data, stat) = self.client.get(&self.path).await?;
                keep(&self.value, VersionedValue::new(data, &stat));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Replaces the copy by a value that is newer.
fn keep(copy: &Publisher<VersionedValue>, value: VersionedValue) {
    copy.send_if_modified(|copy| {
        let is_newer = value.mzxid > copy.mzxid;
        if is_newer {
            *copy = value;
        }
        is_newer
    });
}

/// Follows the changes of a znode until the client is closed.
async fn follow(
    client: Client,
    path: String,
    copy: Arc<Publisher<VersionedValue>>,
    first: client::Watcher,
) {
    let mut watcher = first;
    loop {
        // The next read shows what has changed, also in a new session.
        if watcher.await == Err(client::Error::Closed) {
            return;
        }
        watcher = loop {
            match look(&client, &path).await {
                Ok((value, watcher)) => {
                    if let Some(value) = value {
                        keep(&copy, value);
                    }
                    break watcher;
                }
                Err(client::Error::Closed | client::Error::AuthFailed) => return,
                Err(error) => {
                    tracing::debug!("{path}: cannot follow the changes: {error}");
                    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                }
            }
        };
    }
}

/// How long to wait after a failed read before the next one.
const LOOK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Reads the value, if the znode exists, and leaves a watch in any case.
async fn look(
    client: &Client,
    path: &str,
) -> Result<(Option<VersionedValue>, client::Watcher), client::Error> {
    loop {
        match client.get(path).and_watch().await {
            Ok(Watched { found: (data, stat), watcher }) => {
                return Ok((Some(VersionedValue::new(data, &stat)), watcher));
            }
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
        let Watched { found, watcher } = client.exists(path).and_watch().await?;
        if found.is_none() {
            return Ok((None, watcher));
        }
    }
}
