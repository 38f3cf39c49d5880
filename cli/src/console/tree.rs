//! Reads one znode, or a page of its children.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use zoolet_client::recipe::now;
use zoolet_client::{Client, Error};
use zoolet_layouts::Name;
use zoolet_protocol::{ErrorCode, Stat, ZPath, Zxid};

use super::limits::{CHILDREN_PAGE, DATA_BYTES_SHOWN, LISTS_KEPT, LISTS_KEPT_FOR};
use super::source::Failure;
use crate::cli::answer::{acl_value, stat_value};

/// The lists of children that were read last.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<VecDeque<List>>);

/// The children of a znode, in the order of text.
#[derive(Debug, Clone)]
struct List {
    path: String,
    /// What tells whether the list, and who may read it, is the same.
    state: State,
    names: Arc<[String]>,
    read_at: Instant,
}

/// Why there is no answer about a znode.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error("{0:?} is no path: {1}")]
    Path(String, #[source] zoolet_protocol::PathError),
    #[error("there is no znode {0}")]
    NoNode(String),
    #[error(
        "this client may not read {0}; give the console an identity that may, with --auth-file, \
         --sasl-user or a certificate (--console-auth-file of zoolet serve)"
    )]
    NoAuth(String),
    #[error(
        "{path} has {children} children, and lists of more than {children_max} are not read: they cost \
         the server much; --max-children allows more"
    )]
    TooMany { path: String, children: i32, children_max: u32 },
    #[error(transparent)]
    Failure(#[from] Failure),
}

fn unread(path: &str, error: Error) -> Unread {
    match error {
        error if error.is(ErrorCode::NO_NODE) => Unread::NoNode(path.to_owned()),
        error if error.is(ErrorCode::NO_AUTH) => Unread::NoAuth(path.to_owned()),
        error => Unread::Failure(error.into()),
    }
}

/// Checks a path that a viewer has sent.
pub(super) fn checked(path: &str) -> Result<(), Unread> {
    ZPath::check(path).map_err(|error| Unread::Path(path.to_owned(), error))
}

impl Lists {
    /// The children that come after a name, in the order of text; all from the first one on without.
    ///
    /// # Errors
    ///
    /// [`Unread`].
    pub(super) async fn page(
        &self,
        client: &Client,
        path: &str,
        after: Option<&str>,
        children_max: u32,
    ) -> Result<Value, Unread> {
        checked(path)?;
        let names = self.names(client, path, children_max).await?;
        let first = after.map_or(0, |after| names.partition_point(|name| name.as_str() <= after));
        let rest = names.get(first..).unwrap_or_default();
        let shown = rest.get(..CHILDREN_PAGE).unwrap_or(rest);
        let child = |name: &String| {
            let style = Name::read(name).map(|name| name.style);
            json!({ "name": name, "recipe": style.map(|style| style.recipe().text()) })
        };
        Ok(json!({
            "path": path,
            "total": names.len(),
            "first": first,
            "children": shown.iter().map(child).collect::<Value>(),
            "next": shown.last().filter(|_| rest.len() > shown.len()),
        }))
    }

    async fn names(
        &self,
        client: &Client,
        path: &str,
        children_max: u32,
    ) -> Result<Arc<[String]>, Unread> {
        let found = client.exists(path).await.map_err(|error| unread(path, error))?;
        let stat = found.ok_or_else(|| Unread::NoNode(path.to_owned()))?;
        if let Some(names) = self.kept(path, &stat) {
            return Ok(names);
        }
        let children = stat.num_children;
        if i64::from(children) > i64::from(children_max) {
            return Err(Unread::TooMany { path: path.to_owned(), children, children_max });
        }
        let read = client.children_and_stat(path).await.map_err(|error| unread(path, error))?;
        let (names, stat) = read;
        let mut names: Vec<String> = names.iter().map(str::to_owned).collect();
        names.sort_unstable();
        let names: Arc<[String]> = names.into();
        let list = List {
            path: path.to_owned(),
            state: state(&stat),
            names: Arc::clone(&names),
            read_at: now(),
        };
        let mut lists = self.0.lock();
        lists.retain(|list| list.path != path && now() - list.read_at < LISTS_KEPT_FOR);
        lists.truncate(LISTS_KEPT - 1);
        lists.push_front(list);
        Ok(names)
    }

    /// The list that was read when the children were the same.
    fn kept(&self, path: &str, stat: &Stat) -> Option<Arc<[String]>> {
        let lists = self.0.lock();
        let is_it = |list: &&List| {
            list.path == path && list.state == state(stat) && now() - list.read_at < LISTS_KEPT_FOR
        };
        lists.iter().find(is_it).map(|list| Arc::clone(&list.names))
    }
}

/// The transactions that created the znode and changed its children last, how often these changed, and how
/// often its access control list did.
type State = (Zxid, Zxid, i32, i32);

fn state(stat: &Stat) -> State {
    (stat.czxid, stat.pzxid, stat.cversion, stat.aversion)
}

/// A znode: its Stat, its data, as much as is shown of it, and its access control list.
///
/// # Errors
///
/// [`Unread`].
pub(super) async fn znode(client: &Client, path: &str) -> Result<Value, Unread> {
    checked(path)?;
    let (data, acl) = (client.get(path).send(), client.acl(path).send());
    let acl = match acl.await {
        Ok((acl, _)) => Some(acl_value(&acl)),
        // Its list may be for its administrators only, and its data for all.
        Err(error) if error.is(ErrorCode::NO_AUTH) => None,
        Err(error) => return Err(unread(path, error)),
    };
    match data.await {
        Ok((data, stat)) => Ok(json!({
            "path": path,
            "stat": stat_value(&stat),
            "acl": acl,
            "data": shown(&data),
        })),
        Err(error) if error.is(ErrorCode::NO_AUTH) => {
            // Servers before 3.9.3 show the Stat to everybody.
            let stat = match client.exists(path).await {
                Ok(stat) => Some(stat.ok_or_else(|| Unread::NoNode(path.to_owned()))?),
                Err(error) if error.is(ErrorCode::NO_AUTH) => None,
                Err(error) => return Err(unread(path, error)),
            };
            Ok(json!({
                "path": path,
                "stat": stat.as_ref().map(stat_value),
                "acl": acl,
                "data": null,
                "unreadable": Unread::NoAuth(path.to_owned()).to_string(),
            }))
        }
        Err(error) => Err(unread(path, error)),
    }
}

/// Data, cut to what is shown: the bytes, and the text if it is one.
fn shown(data: &[u8]) -> Value {
    let shown = data.get(..DATA_BYTES_SHOWN).unwrap_or(data);
    let is_cut = shown.len() < data.len();
    let text = match std::str::from_utf8(shown) {
        Ok(text) => Some(text),
        // The cut may be within a character.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    json!({
        "bytes": data.len(),
        "bytes_shown": shown.len(),
        "text": text,
        "base64": STANDARD.encode(shown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_cut_between_characters_and_marked_if_it_is_no_text() {
        let long = "ü".repeat(DATA_BYTES_SHOWN);
        let cut = shown(long.as_bytes());
        assert_eq!((&cut["bytes"], &cut["bytes_shown"]), (&json!(131_072), &json!(65_536)));
        let odd = shown(format!("x{long}").as_bytes());
        assert_eq!(odd["text"].as_str().map(str::len), Some(DATA_BYTES_SHOWN - 1));
        assert_eq!(shown(b"\xff\0")["text"], Value::Null);
        assert_eq!(shown(b"a\xc3")["text"], Value::Null, "it is not cut, so it is no text");
    }
}
