//! Protected znodes: their names contain an id that no other znode has, so that a znode is found
//! again whose create was not answered (`CreateBuilder.withProtection` of Curator).

use std::time::Duration;

use zoolet_protocol::ErrorCode;

use super::SessionClient;
use crate::create::parent;
use crate::error::Error;
use crate::{Client, Created, RetryPolicy};

/// What the name of a protected znode begins with, before its id (`ProtectedUtils` of Curator).
const PROTECTED_PREFIX: &str = "_c_";

impl Client {
    /// A name that no other znode has: a random UUID, or one of the client's
    /// [seed](crate::Builder::seed).
    ///
    /// ```
    /// # fn example(client: zoolet_client::Client) {
    /// assert_ne!(client.unique_name(), client.unique_name());
    /// # }
    /// ```
    #[must_use]
    pub fn unique_name(&self) -> String {
        name_of(self.shared().random.id())
    }

    /// The path with a new id before its last part, as Curator writes it:
    /// `/locks/_c_<uuid>-lock-` for `/locks/lock-`.
    ///
    /// ```
    /// # fn example(client: zoolet_client::Client) {
    /// let path = client.protected_path("/locks/lock-");
    /// assert!(path.starts_with("/locks/_c_") && path.ends_with("-lock-"));
    /// # }
    /// ```
    #[must_use]
    pub fn protected_path(&self, path: &str) -> String {
        with_prefix(path, &self.protected_prefix())
    }

    /// A new prefix for a protected name.
    pub(crate) fn protected_prefix(&self) -> String {
        prefix_of(&self.unique_name())
    }

    /// As [`RetryPolicy::delay`], with the client's [seed](crate::Builder::seed) if it has one.
    #[must_use]
    pub fn retry_delay(
        &self,
        policy: &RetryPolicy,
        retried: u32,
        elapsed: Duration,
    ) -> Option<Duration> {
        policy.delay_by(&self.shared().random, retried, elapsed)
    }
}

fn name_of(id: [u8; 16]) -> String {
    uuid::Builder::from_random_bytes(id).into_uuid().to_string()
}

fn prefix_of(name: &str) -> String {
    format!("{PROTECTED_PREFIX}{name}-")
}

/// The path with this prefix before its last part.
pub(crate) fn with_prefix(path: &str, prefix: &str) -> String {
    match path.rsplit_once('/') {
        Some((parent, name)) => format!("{parent}/{prefix}{name}"),
        None => path.to_owned(),
    }
}

impl SessionClient {
    /// The ephemeral znode that this session created at a [protected path](Client::protected_path), if it
    /// did; `None` also when the session is over, since the znode ended with it.
    ///
    /// The server is asked until it answers, and [catches up](SessionClient::catch_up) first: after
    /// a reconnect it may be behind the server that carried out the create. If there are several
    /// znodes, because a create arrived after it was looked for, the first counts and the others
    /// are deleted in the background.
    ///
    /// # Errors
    ///
    /// Those of a read, except for a lost connection, which is waited for.
    pub async fn find_protected(&self, path: &str) -> Result<Option<Created>, Error> {
        let none_if_expired = |error: Error| match error {
            Error::SessionExpired => Ok(None),
            error => Err(error),
        };
        let paths = match self.find_all_protected(path).await {
            Ok(paths) => paths,
            Err(error) => return none_if_expired(error),
        };
        let mut found = None;
        for path in paths {
            if found.is_some() {
                self.client().delete(&path).guaranteed();
                continue;
            }
            match self.exists(&path).until_answered().await {
                Ok(Some(stat)) if stat.ephemeral_owner == self.id() => {
                    found = Some(Created { path, stat });
                }
                Ok(_) => {}
                Err(error) => return none_if_expired(error),
            }
        }
        Ok(found)
    }

    /// The paths of all znodes that one multi of this session created at a [protected
    /// path](Client::protected_path), in the order of their names: all of them or none. The server is asked
    /// until it answers, and catches up first.
    ///
    /// # Errors
    ///
    /// Those of a read, except for a lost connection, which is waited for.
    pub async fn find_all_protected(&self, path: &str) -> Result<Vec<String>, Error> {
        let directory = parent(path);
        let prefix = path.rsplit_once('/').map_or(path, |(_, name)| name);
        self.catch_up(directory).await?;
        let parent = directory.trim_end_matches('/');
        let listed = match self.children(directory).until_answered().await {
            // Who may create a znode may not be allowed to list its parent.
            Err(error) if error.is(ErrorCode::NO_AUTH) => {
                let ephemerals = self.client().ephemerals(&format!("{parent}/{prefix}"));
                match ephemerals.in_session(self.id()).until_answered().await {
                    // Servers before 3.6 do not have the request.
                    Err(unknown) if unknown.is(ErrorCode::UNIMPLEMENTED) => Err(error),
                    ephemerals => ephemerals,
                }
            }
            listed => listed,
        };
        let names = match listed {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        // The list of ephemerals has whole paths.
        let last_part = |name| str::rsplit(name, '/').next().unwrap_or_default();
        let own = names.iter().map(last_part).filter(|name| name.starts_with(prefix));
        let mut own: Vec<_> = own.map(|name| format!("{parent}/{name}")).collect();
        own.sort_unstable();
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_curators() {
        let prefix = prefix_of(&name_of([7; 16]));
        assert_eq!(prefix.len(), 3 + 36 + 1);
        let path = with_prefix("/locks/lock-", &prefix);
        let name = path.strip_prefix("/locks/_c_").expect("the parent stays");
        let (id, rest) = name.split_at(36);
        assert!(uuid::Uuid::try_parse(id).is_ok());
        assert_eq!(rest, "-lock-");
    }
}
