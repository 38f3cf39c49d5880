//! The commands that read and change znodes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zoolet_client::{Client, Error, Parents, Watched};
use zoolet_protocol::{ErrorCode, Expect, OpCode, Stat};

use super::acl::AclList;
use super::answer::{Answer, acl_value};
use super::arguments::{Create, DataForm, Delete, Set, expected};
use super::failure::Failure;
use super::hex_dump::hex_dump;
use super::output::Output;
use super::tree;
use super::watches::{WatchKind, Watches};

pub(super) async fn list(
    client: &Client,
    watches: &mut Watches,
    path: String,
    stat: bool,
    watch: bool,
) -> Result<Answer, Failure> {
    let operation = client.children_and_stat(&path);
    let (names, its_stat) = if watch {
        let Watched { found, watcher } = operation.and_watch().await?;
        watches.add(path.clone(), WatchKind::Children, watcher);
        found
    } else {
        operation.await?
    };
    let mut names: Vec<String> = names.iter().map(str::to_owned).collect();
    names.sort_unstable();
    let answer = Answer::of("ls").at(&path).line(&format!("[{}]", names.join(", ")));
    Ok(answer.with("children", names).stat(&its_stat, stat))
}

/// Lists a tree: as text while it is read, as JSON when it is complete.
pub(super) async fn list_all(
    client: &Client,
    watches: &mut Watches,
    output: &mut Output,
    path: &str,
    stat: bool,
    watch: bool,
) -> Result<(), Failure> {
    let mut walk = tree::Walk::new(client, path).watching(watch);
    let (mut znodes, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(found) = walk.next().await? {
        let tree::Found { path, stat: its_stat, watcher } = found;
        if let Some(watcher) = watcher {
            watches.add(path.clone(), WatchKind::Children, watcher);
        }
        let mut znode = Answer::part().at(&path).line(&path);
        if let Some(its_stat) = &its_stat {
            znode = znode.stat(its_stat, stat);
        }
        match output.is_json() {
            true => znodes.push(znode.into_json()),
            false => output.text(&znode)?,
        }
        if its_stat.is_none() {
            unreadable.push(path);
        }
    }
    if output.is_json() {
        let answer = Answer::of("ls").at(path).with("znodes", znodes);
        output.answer(answer.with("unreadable", unreadable.clone()))?;
    }
    if unreadable.is_empty() { Ok(()) } else { Err(Failure::Unreadable { paths: unreadable }) }
}

pub(super) async fn get(
    client: &Client,
    watches: &mut Watches,
    path: String,
    form: DataForm,
    stat: bool,
    watch: bool,
) -> Result<Answer, Failure> {
    let operation = client.get(&path);
    let (data, its_stat) = if watch {
        let Watched { found, watcher } = operation.and_watch().await?;
        watches.add(path.clone(), WatchKind::Data, watcher);
        found
    } else {
        operation.await?
    };
    let answer = Answer::of("get").at(&path).data(&data);
    let answer = match form {
        DataForm { hex: true, .. } => answer.line(&hex_dump(&data)),
        DataForm { base64: true, .. } => answer.line(&STANDARD.encode(&data)),
        _ => answer.text(&data).line(""),
    };
    Ok(answer.stat(&its_stat, stat))
}

pub(super) async fn stat(
    client: &Client,
    watches: &mut Watches,
    path: String,
    watch: bool,
) -> Result<Answer, Failure> {
    let operation = client.exists(&path);
    let found = if watch {
        let Watched { found, watcher } = operation.and_watch().await?;
        // The znode need not exist.
        watches.add(path.clone(), WatchKind::Data, watcher);
        found
    } else {
        operation.await?
    };
    match found {
        Some(stat) => Ok(Answer::of("stat").at(&path).stat(&stat, true)),
        None => {
            let code = ErrorCode::NO_NODE;
            Err(Error::Refused { op: OpCode::EXISTS, path, code, index: None }.into())
        }
    }
}

pub(super) async fn create(
    client: &Client,
    create: Create,
    parents: bool,
) -> Result<Answer, Failure> {
    let (mode, bytes) = (create.mode(), create.data.len());
    let mut call = client.create(&create.path).data(create.data).acl(create.acl.0);
    call = call.mode(mode);
    if parents {
        call = call.parents(Parents::Persistent);
    }
    let created = call.await.map_err(|error| Failure::of_write(error, bytes))?;
    let answer = Answer::of("create").at(&created.path).stat(&created.stat, false);
    Ok(answer.line(&format!("Created {}", created.path)))
}

pub(super) async fn set_data(
    client: &Client,
    set: Set,
    is_base64: bool,
    stat: bool,
) -> Result<Answer, Failure> {
    let version = set.version();
    let data = match is_base64 {
        true => STANDARD.decode(&set.data).map_err(|error| {
            Failure::Usage(format!("{:?} is not base64, as -b says: {error}", set.data))
        })?,
        false => set.data.into_bytes(),
    };
    let bytes = data.len();
    let mut call = client.set(&set.path, data);
    if let Expect::Exactly(version) = version {
        call = call.version(version);
    }
    let its_stat = call.await.map_err(|error| Failure::of_write(error, bytes))?;
    Ok(Answer::of("set").at(&set.path).stat(&its_stat, stat))
}

pub(super) async fn delete(client: &Client, delete: &Delete) -> Result<Answer, Failure> {
    let mut call = client.delete(&delete.path);
    if let Expect::Exactly(version) = delete.version() {
        call = call.version(version);
    }
    call.await?;
    Ok(Answer::of("delete").at(&delete.path))
}

pub(super) async fn acl(client: &Client, path: &str, stat: bool) -> Result<Answer, Failure> {
    let (acl, its_stat) = client.acl(path).await?;
    let answer = Answer::of("getAcl").at(path).with("acl", acl_value(&acl));
    let answer = answer.text(AclList(acl).to_string().as_bytes());
    Ok(answer.stat(&its_stat, stat))
}

/// Sets the lists of a tree, as far as that is allowed.
pub(super) async fn set_acl_of_all(
    client: &Client,
    path: &str,
    acl: &AclList,
    version: Option<i32>,
) -> Result<Answer, Failure> {
    let mut paths = Vec::new();
    let mut walk = tree::Walk::new(client, path);
    while let Some(found) = walk.next().await? {
        paths.push(found.path);
    }
    let (mut kept, mut cause) = (Vec::new(), None);
    for path in &paths {
        match set_acl(client, path, acl.clone(), version, false).await {
            Err(Failure::Client(error)) if error.is(ErrorCode::NO_NODE) => {}
            Err(Failure::Client(error)) if error.code().is_some() => {
                kept.push(path.clone());
                cause.get_or_insert(error);
            }
            set => drop(set?),
        }
    }
    match cause {
        Some(error) => Err(Failure::AclKept { paths: kept, error }),
        None => Ok(Answer::of("setAcl").at(path).with("number", paths.len())),
    }
}

pub(super) async fn set_acl(
    client: &Client,
    path: &str,
    AclList(acl): AclList,
    version: Option<i32>,
    stat: bool,
) -> Result<Answer, Failure> {
    let mut call = client.set_acl(path, acl);
    if let Expect::Exactly(version) = expected(version) {
        call = call.version(version);
    }
    let its_stat: Stat = call.await?;
    Ok(Answer::of("setAcl").at(path).stat(&its_stat, stat))
}

pub(super) async fn ephemerals(client: &Client, path: &str) -> Result<Answer, Failure> {
    let paths = client.ephemerals(path).await?;
    let mut paths: Vec<String> = paths.iter().map(str::to_owned).collect();
    paths.sort_unstable();
    let answer = Answer::of("getEphemerals").at(path).line(&format!("[{}]", paths.join(", ")));
    Ok(answer.with("ephemerals", paths))
}
