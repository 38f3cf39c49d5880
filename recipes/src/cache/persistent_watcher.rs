//! A persistent watch that outlives sessions: Curator's `PersistentWatcher`.

use zoolet_protocol::{WatchMode, ZPath};

use super::limits::RETRY_PAUSE;
use crate::client::{self, Client, ConnectionState, Error, Event};

/// What a [`PersistentWatcher`] reports.
///
/// ```
/// use zoolet_client::Event;
/// use zoolet_client::protocol::{EventType, Zxid};
/// use zoolet_recipes::Observed;
///
/// let event = Event { event_type: EventType::NODE_DELETED, path: "/a".into(), zxid: Zxid(7) };
/// assert_ne!(Observed::Event(event), Observed::Reset);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// The watch is set. What happened before this is not known: read what is watched. It comes
    /// first, and after each reconnect.
    Reset,
    /// An event.
    Event(Event),
}

/// Watches a znode, or it and its descendants, for as long as it lives: over reconnects, and in
/// each new session. Needs a server of version 3.6 or later.
///
/// Each time when events may have been missed it says so, before the events that follow: Curator's
/// reset listener. A [`CuratorCache`](crate::CuratorCache) then finds out what they were.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::{Observed, PersistentWatcher};
///
/// # async fn example(client: Client) -> Result<(), zoolet_client::Error> {
/// let mut watcher = PersistentWatcher::recursive(&client, "/app")?;
/// loop {
///     match watcher.next().await? {
///         Observed::Reset => println!("read everything again"),
///         Observed::Event(event) => println!("{} {}", event.event_type, event.path),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatcher {
    client: Client,
    path: String,
    mode: WatchMode,
    watch: Option<client::PersistentWatcher>,
    /// The connection over which the last event came.
    connection: Option<u64>,
    /// An event that came after events may have been missed.
    held_back: Option<Event>,
}

impl PersistentWatcher {
    /// Watches a znode, its data and its children (`PERSISTENT`).
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if the path is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_mode(client, path, WatchMode::PERSISTENT)
    }

    /// Watches a znode and its descendants (`PERSISTENT_RECURSIVE`).
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if the path is not valid.
    pub fn recursive(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_mode(client, path, WatchMode::PERSISTENT_RECURSIVE)
    }

    fn with_mode(client: &Client, path: &str, mode: WatchMode) -> Result<Self, Error> {
        ZPath::check(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            mode,
            watch: None,
            connection: None,
            held_back: None,
        })
    }

    /// The next event, or that events may have been missed.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the client is closed. A refusal of the server, as of one before 3.6.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            if self.watch.is_none() {
                self.set_watch().await?;
            }
            if self.connection.is_none() {
                self.client.connected_session().await?;
                self.connection = Some(self.client.connection_count());
                return Ok(Observed::Reset);
            }
            if let Some(event) = self.held_back.take() {
                return Ok(Observed::Event(event));
            }
            let mut state = self.client.state();
            let Some(watch) = &mut self.watch else { continue };
            // A connection may have come before the state was subscribed to.
            if self.connection != Some(self.client.connection_count()) {
                self.connection = None;
                continue;
            }
            tokio::select! {
                biased;
                event = watch.next() => match event {
                    Ok(event) => {
                        // The client counts a connection before it takes events from it.
                        if self.connection != Some(self.client.connection_count()) {
                            self.connection = None;
                        }
                        self.held_back = Some(event);
                    }
                    Err(Error::SessionExpired) => (self.watch, self.connection) = (None, None),
                    Err(error) => return Err(error),
                },
                _ = state.changed() => {
                    if state.borrow().is_some_and(ConnectionState::is_connected)
                        && self.connection != Some(self.client.connection_count())
                    {
                        self.connection = None;
                    }
                }
            }
        }
    }

    async fn set_watch(&mut self) -> Result<(), Error> {
        loop {
            match self.client.watch(&self.path, self.mode).await {
                Ok(watch) => {
                    self.watch = Some(watch);
                    return Ok(());
                }
                Err(Error::SessionExpired) => {}
                Err(error) if error.is_retryable() => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}
