//! A value that is kept fresh: Curator's `SharedValue`, with its znode.

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zoolet_protocol::{ErrorCode, Stat, ZPath, Zxid};

use crate::client::{self, Client, Parents, Watched};
use crate::tries::Tries;
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
    /// How often the znode was set; [`SharedValue::try_set`] is bound to it.
    pub version: i32,
    /// The change that set it. Later values have later ones.
    pub mzxid: Zxid,
    /// The change that created the znode. Versions begin at 0 again when it is created anew.
    pub czxid: Zxid,
}

impl VersionedValue {
    fn new(data: Bytes, stat: &Stat) -> Self {
        Self { data, version: stat.version, mzxid: stat.mzxid, czxid: stat.czxid }
    }
}

/// The bytes of a znode, of which each process has a copy that follows the changes of all others.
///
/// The copy never goes back: of two values the one with the later change stays. A change that is
/// followed at once by another may not be seen. While there is no connection, or the znode is gone,
/// the copy is the last value that was seen.
///
/// Its znode is that of Curator's `SharedValue`. Dropping it ends the copy; the znode stays.
///
/// ```no_run
/// use zoolet_recipes::SharedValue;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let banner = SharedValue::start(&client, "/banner", "hello").await?;
/// let seen = banner.value();
/// if !banner.try_set(&seen, "goodbye").await? {
///     println!("somebody was quicker: {:?}", banner.value());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    value: watch::Sender<VersionedValue>,
    follower: JoinHandle<()>,
}

impl SharedValue {
    /// Creates the znode with `seed` if there is none, and follows it from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode; what may go wrong with
    /// requests.
    pub async fn start(
        client: &Client,
        path: &str,
        seed: impl Into<Bytes>,
    ) -> Result<Self, ValueError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let seed = seed.into();
        let mut tries = Tries::new();
        let Watched { found: (data, stat), watcher } = loop {
            match client.create(path).data(seed.clone()).parents(Parents::Containers).await {
                // If the answer was lost, the look tells what became of it.
                Ok(_) | Err(client::Error::ConnectionLoss { .. }) => {}
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Err(error) => return Err(error.into()),
            }
            match client.get(path).and_watch().await {
                Ok(watched) => break watched,
                // Somebody has deleted it in between.
                Err(error) if error.is(ErrorCode::NO_NODE) => tries.after(error.into()).await?,
                Err(error) => return Err(error.into()),
            }
        };
        let value = watch::Sender::new(VersionedValue::new(data, &stat));
        let following = follow(client.clone(), path.to_owned(), value.clone(), watcher);
        let follower = client.spawn(following);
        Ok(Self { client: client.clone(), path: path.to_owned(), value, follower })
    }

    /// The copy. Costs no request.
    #[must_use]
    pub fn value(&self) -> VersionedValue {
        self.value.borrow().clone()
    }

    /// The copy, to be waited on for changes.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<VersionedValue> {
        self.value.subscribe()
    }

    /// Sets the value whatever it is. The copy has it when this returns, or a later one.
    ///
    /// # Errors
    ///
    /// What may go wrong with a write.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<(), ValueError> {
        let data = data.into();
        let stat = self.client.set(&self.path, data.clone()).await?;
        keep(&self.value, VersionedValue::new(data, &stat));
        Ok(())
    }

    /// Sets the value if it is still the one that was `seen`, and tells whether it was. If not, the
    /// copy has a later one when this returns.
    ///
    /// # Errors
    ///
    /// [`ValueError::VersionUnusable`]; [`ValueError::CreatedAnew`] if the znode was deleted, created
    /// anew and brought to the same version before anybody here heard of it; what may go wrong with
    /// requests. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may have been set.
    pub async fn try_set(
        &self,
        seen: &VersionedValue,
        data: impl Into<Bytes>,
    ) -> Result<bool, ValueError> {
        if seen.version == -1 {
            return Err(ValueError::VersionUnusable { path: self.path.clone() });
        }
        // A znode that was made anew may have come to the same version.
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

impl Drop for SharedValue {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Keeps a value if it is not older than what is there.
fn keep(copy: &watch::Sender<VersionedValue>, value: VersionedValue) {
    copy.send_if_modified(|copy| {
        let is_newer = value.mzxid > copy.mzxid;
        if is_newer {
            *copy = value;
        }
        is_newer
    });
}

/// Follows a znode until the client is closed.
async fn follow(
    client: Client,
    path: String,
    copy: watch::Sender<VersionedValue>,
    first: client::Watcher,
) {
    let mut watcher = first;
    loop {
        // What happened, and whether the session ended, is seen by looking again.
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
                    tracing::debug!("{path} cannot be followed: {error}");
                    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                }
            }
        };
    }
}

/// How long to wait before a znode that could not be looked at is looked at again.
const LOOK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// The value if there is a znode, and a watch in any case.
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
