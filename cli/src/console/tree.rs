//! Reads one znode, or a page of its children.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use zoolet_client::recipe::now;
use zoolet_client::{Client, Error};
use zoolet_layouts::Name;
use zoolet_protocol::{ErrorCode, Stat, ZPath, Zxid};

use super::limits::{ANSWER_WITHIN, CHILDREN_PAGE, DATA_BYTES_SHOWN, LISTS_KEPT, LISTS_KEPT_FOR};
use super::source::Failure;
use crate::cli::answer::{acl_value, stat_value};

/// The lists of children that were read last, and those that are being read.
#[derive(Debug, Default)]
pub(super) struct Lists {
    kept: Mutex<VecDeque<List>>,
    /// The number of the one that was read last.
    last: AtomicU64,
    /// By their paths: who reads one, and who waits for that.
    reading: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// The children of a znode, in the order of text.
#[derive(Debug, Clone)]
struct List {
    path: String,
    /// What tells whether the list, and who may read it, is the same.
    version: Version,
    names: Arc<[String]>,
    read_at: Instant,
    /// Lists that are read later have greater numbers.
    number: u64,
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
    #[error("the servers have not answered about {0} within {ANSWER_WITHIN:?}; try again")]
    Slow(String),
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

/// The answer about a znode, which the servers have to give in time.
pub(super) async fn in_time<T>(
    path: &str,
    answer: impl Future<Output = Result<T, Unread>>,
) -> Result<T, Unread> {
    let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
    answer.unwrap_or_else(|_| Err(Unread::Slow(path.to_owned())))
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
        let last = self.last.load(Ordering::Relaxed);
        let found = client.exists(path).await.map_err(|error| unread(path, error))?;
        let stat = found.ok_or_else(|| Unread::NoNode(path.to_owned()))?;
        let is_same = |list: &List| list.version == version(&stat);
        if let Some(names) = self.kept(path, is_same) {
            return Ok(names);
        }
        let children = stat.num_children;
        if i64::from(children) > i64::from(children_max) {
            return Err(Unread::TooMany { path: path.to_owned(), children, children_max });
        }
        let reading = self.reading(path);
        let _turn = reading.lock().await;
        // What another one has read meanwhile is new enough, though it may have changed since.
        if let Some(names) = self.kept(path, |list| is_same(list) || list.number > last) {
            return Ok(names);
        }
        let read = client.children_and_stat(path).await.map_err(|error| unread(path, error))?;
        let (names, stat) = read;
        let mut names: Vec<String> = names.iter().map(str::to_owned).collect();
        names.sort_unstable();
        let names: Arc<[String]> = names.into();
        let list = List {
            path: path.to_owned(),
            version: version(&stat),
            names: Arc::clone(&names),
            read_at: now(),
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let mut lists = self.kept.lock();
        lists.retain(|list| list.path != path && now() - list.read_at < LISTS_KEPT_FOR);
        lists.truncate(LISTS_KEPT - 1);
        lists.push_front(list);
        Ok(names)
    }

    /// The list of a path, if it is one that is wanted.
    fn kept(&self, path: &str, is_wanted: impl Fn(&List) -> bool) -> Option<Arc<[String]>> {
        let lists = self.kept.lock();
        let is_it = |list: &&List| {
            list.path == path && now() - list.read_at < LISTS_KEPT_FOR && is_wanted(list)
        };
        lists.iter().find(is_it).map(|list| Arc::clone(&list.names))
    }

    /// The turns of those who read the list of a path.
    fn reading(&self, path: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut reading = self.reading.lock();
        reading.retain(|_, turns| turns.strong_count() > 0);
        if let Some(turns) = reading.get(path).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::default();
        reading.insert(path.to_owned(), Arc::downgrade(&turns));
        turns
    }
}

/// The transactions that created the znode and changed its children last, how often these changed, and how
/// often its access control list did.
type Version = (Zxid, Zxid, i32, i32);

fn version(stat: &Stat) -> Version {
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
    use zoolet_protocol::OpCode;
    use zoolet_testkit::TestServer;

    use super::*;

    #[tokio::test]
    async fn pages_that_are_asked_for_at_once_are_read_once() {
        // Over TCP, requests that are sent together are answered one after the other.
        let server = TestServer::builder().tcp().start().await.unwrap();
        let client = Client::connect(server.address().unwrap().to_string()).await.unwrap();
        client.create("/many").await.unwrap();
        for number in 0..10 {
            client.create(&format!("/many/{number}")).await.unwrap();
        }
        let lists = Lists::default();
        let page = |after| lists.page(&client, "/many", after, 100);
        let reads = || server.totals().requests.of(OpCode::GET_CHILDREN2);
        let before = reads();
        // The znode changes meanwhile, so that none of them finds the list that was kept.
        let change = async { Ok(json!(client.create("/many/new").await.is_ok())) };
        let (one, two, three, new, four) =
            tokio::join!(page(None), page(None), page(Some("4")), change, page(None));
        assert_eq!(reads() - before, 1);
        for page in [one, two, three, new, four] {
            page.unwrap();
        }
        assert_eq!(page(None).await.unwrap()["total"], 11, "with the new one");
        assert_eq!(lists.kept.lock().len(), 1);
    }

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
