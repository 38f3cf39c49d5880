//! One attempt to have the znode: creates it, finds it after a lost reply, replaces the ephemeral
//! of a session that is over, or adopts what fits.
//!
//! All requests belong to one session, so that an attempt ends with the session at the latest. It
//! is never cut short while a create is on its way: what was created must be known to be deleted.

use bytes::Bytes;
use zoolet_protocol::{
    Create, CreateMode, ErrorCode, Expect, MultiOp, SEQUENCE_DIGITS, SessionId, Stat, Zxid,
};

use super::error::NodeError;
use super::limits::{NUMBERS_SKIPPED_LOG2_MAX, ROUNDS_MAX, VERSIONS_PASSED_MAX};
use super::plan::{Naming, Plan, TakeOver};
use super::report::{Origin, Registered};
use super::siblings::{Sibling, Siblings};
use crate::client::recipe::SessionClient;
use crate::client::{self, Created};
use crate::defaults;

/// One attempt of a node in one session.
pub(super) struct Attempt<'a> {
    pub(super) plan: &'a Plan,
    pub(super) session: &'a SessionClient,
    /// The name that the znode had before.
    pub(super) known: Option<&'a str>,
    /// The sessions of this node that are over.
    pub(super) former: &'a [SessionId],
    /// The czxid of the last znode that the node had.
    pub(super) last: Option<Zxid>,
    pub(super) data: &'a Bytes,
    /// Whether the last attempt may have created a znode that no answer told of.
    pub(super) is_unsure: bool,
    /// The version of the last znode of another session that was seen to have the name.
    pub(super) others_version: &'a mut Option<i32>,
    /// The nodes of the same client and path, where only the number tells the znodes apart.
    pub(super) siblings: Option<(&'a Siblings, Sibling)>,
}

/// What became of the znode that has the name.
enum Examined {
    /// It is this node's.
    Own(Registered),
    /// It belongs to another node of the same client, which got the number when the parent was
    /// created again: this node needs another number.
    Siblings,
    /// It is gone or has changed: the attempt starts again.
    Changed,
}

/// What is created under which name.
struct Target {
    path: String,
    mode: CreateMode,
    /// Whether the server appends a number to the path.
    is_open_ended: bool,
}

impl Target {
    fn new(plan: &Plan, known: Option<&str>) -> Self {
        let (path, mode) = match (known, &plan.naming) {
            (Some(path), _) => (path.to_owned(), plan.mode_of_known_name()),
            (None, Naming::Plain) => (plan.path.to_string(), plan.mode),
            (None, Naming::Protected(path)) => (path.clone(), plan.mode),
        };
        Self { path, mode, is_open_ended: mode.flags().is_sequential() }
    }
}

impl Attempt<'_> {
    /// Makes the attempt.
    ///
    /// # Errors
    ///
    /// [`NodeError::Occupied`] and [`NodeError::WrongKind`] if another znode has the name;
    /// [`NodeError::Contended`]; the errors of requests.
    pub(super) async fn run(mut self) -> Result<Registered, NodeError> {
        let mut target = Target::new(self.plan, self.known);
        if self.is_unsure && target.is_open_ended && !self.plan.is_ephemeral() {
            // An ephemeral of the last session is the server's to delete; any other is to be found.
            if let Some(created) = self.find(&target).await? {
                return Ok(registered(created, Origin::Created));
            }
        }
        // What an ephemeral of this session comes from: a reply may have been lost.
        let mut own = Origin::Adopted;
        for round in 0..ROUNDS_MAX {
            match self.create_and_take(&target).await {
                Ok(created) => return Ok(registered(created, Origin::Created)),
                Err(error) if error.is(ErrorCode::NO_NODE) => {
                    let Some(parents) = self.plan.parents else { return Err(error.into()) };
                    let client = self.session.client();
                    let acl = self.plan.acl.as_deref();
                    defaults::create_ancestors(client, &target.path, parents, acl).await?;
                    continue;
                }
                Err(error) if error.is(ErrorCode::NODE_EXISTS) && target.is_open_ended => {
                    self.skip_numbers(&target.path, round).await?;
                    continue;
                }
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Err(client::Error::ConnectionLoss { .. }) => {
                    own = Origin::Created;
                    match self.find(&target).await? {
                        Some(created) => return Ok(registered(created, Origin::Created)),
                        None if target.is_open_ended => continue,
                        None => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
            match self.examine(&target, &mut own).await? {
                Examined::Own(registered) => return Ok(registered),
                Examined::Siblings => target = Target::new(self.plan, None),
                Examined::Changed => {}
            }
        }
        Err(NodeError::Contended(target.path))
    }

    /// Has the server go on to other numbers, the more the more rounds there were.
    ///
    /// When a directory was deleted and created again, its server counts from 0, and nodes are created
    /// again under their first names. The server then gives a number that is in use, refuses the
    /// create, and gives the same number the next time: only a create that succeeds makes it count on.
    async fn skip_numbers(&self, path: &str, round: u32) -> Result<(), NodeError> {
        let passing = self.session.client().protected_path(path);
        let create = || {
            let create = Create::new(passing.as_str(), CreateMode::Ephemeral);
            MultiOp::from(create.acl(self.plan.acl_of(&passing)))
        };
        let pair = || [create(), MultiOp::delete(passing.as_str(), Expect::Any)];
        let ops = (0..1 << round.min(NUMBERS_SKIPPED_LOG2_MAX)).flat_map(|_: u32| pair()).collect();
        match self.session.multi_without_results(ops).send().await {
            // Whether it was carried out or not, the next create shows what is so.
            Err(error) if !error.is_retryable() && !error.is(ErrorCode::NO_NODE) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Creates the znode. If it gets a number, no sibling takes it for its own.
    async fn create_and_take(&self, target: &Target) -> Result<Created, client::Error> {
        let Some((siblings, node)) = self.siblings else { return self.create(target).await };
        let _creating = siblings.creating().await;
        let created = self.create(target).await?;
        let is_new = siblings.take(node, self.session.client(), &created.path, created.stat.czxid);
        debug_assert!(is_new, "who creates a znode is the first to have it");
        Ok(created)
    }

    /// Creates the znode, together with its child if it has one.
    async fn create(&self, target: &Target) -> Result<Created, client::Error> {
        if let Some(child) = &self.plan.child {
            let acl = self.plan.acl_of(&child.path);
            let child = Create::new(child.path.as_str(), child.mode).data(child.data.clone());
            let child = MultiOp::from(child.acl(acl));
            let ops = vec![self.op(target, self.data), child];
            let (_, zxid) = self.session.multi_with_zxid(ops).send().await?;
            return Ok(created_by_multi(&target.path, zxid));
        }
        if let Some(others) = self.others_version.filter(|_| !target.is_open_ended) {
            match self.session.multi_with_zxid(self.ops_above(target, others)).send().await {
                Err(error) if is_refused_set(&error, 1) => {}
                created => return created.map(|(_, zxid)| created_by_multi(&target.path, zxid)),
            }
        }
        let create = self.session.create(&target.path).data(self.data.clone());
        let create = defaults::with_acl(create, self.plan.acl.as_deref());
        create.mode(target.mode).send().await
    }

    fn op(&self, target: &Target, data: &Bytes) -> MultiOp {
        let create = Create::new(target.path.as_str(), target.mode).data(data.clone());
        MultiOp::from(create.acl(self.plan.acl_of(&target.path)))
    }

    /// Creates the znode with a greater version than that of the one that had the name, which belonged
    /// to another program: if that one does not know yet that it is gone, the server refuses what it
    /// writes ([`Writing`](super::writing::Writing)).
    fn ops_above(&self, target: &Target, others: i32) -> Vec<MultiOp> {
        let path = target.path.as_str();
        let empty = Bytes::new();
        match u32::try_from(others) {
            Ok(others) if others < VERSIONS_PASSED_MAX => {
                let mut ops = vec![self.op(target, &empty)];
                let pass = |_| MultiOp::set_data(path, empty.clone(), Expect::Any);
                ops.extend((0..others).map(pass));
                ops.push(MultiOp::set_data(path, self.data.clone(), Expect::Any));
                ops
            }
            _ => vec![self.op(target, self.data)],
        }
    }

    /// The znode of a create whose reply was lost, if it was carried out; `None` too where the Stat
    /// decides ([`Attempt::examine`]).
    async fn find(&self, target: &Target) -> Result<Option<Created>, NodeError> {
        match &self.plan.naming {
            Naming::Protected(_) if self.plan.is_ephemeral() => {
                Ok(self.session.find_protected(&target.path).await?)
            }
            Naming::Protected(_) => self.find_persistent(&target.path).await,
            Naming::Plain if target.is_open_ended => self.find_numbered(&target.path).await,
            Naming::Plain => {
                // After a reconnect the server may be behind the one that carried it out.
                self.session.catch_up(&target.path).await?;
                Ok(None)
            }
        }
    }

    /// The znode at a protected path that does not end with the session.
    async fn find_persistent(&self, path: &str) -> Result<Option<Created>, NodeError> {
        let mut paths = self.session.find_all_protected(path).await?.into_iter();
        let Some(path) = paths.next() else { return Ok(None) };
        // A create arrived after it was looked for.
        paths.for_each(|path| self.session.client().delete(&path).guaranteed());
        let stat = self.session.exists(&path).until_answered().await?;
        Ok(stat.map(|stat| Created { path, stat }))
    }

    /// The sequential znode without protection that this session created: the last one with such a
    /// name, this data, and this owner, that no sibling has. Without an owner nothing tells who created
    /// it.
    async fn find_numbered(&self, path: &str) -> Result<Option<Created>, NodeError> {
        let Some((siblings, node)) = self.siblings else { return Ok(None) };
        let _looking = siblings.looking().await;
        self.session.catch_up(path).await?;
        let (parent, prefix) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = if parent.is_empty() { "/" } else { parent };
        let names = match self.session.children(directory).until_answered().await {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut numbered: Vec<_> = names.iter().filter(|name| is_numbered(name, prefix)).collect();
        numbered.sort_unstable();
        for name in numbered.into_iter().rev() {
            let path = format!("{parent}/{name}");
            match self.session.get(&path).until_answered().await {
                Ok((data, stat))
                    if stat.ephemeral_owner == self.session.id()
                        && data == *self.data
                        && siblings.take(node, self.session.client(), &path, stat.czxid) =>
                {
                    return Ok(Some(Created { path, stat }));
                }
                Ok(_) => {}
                Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NO_AUTH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Looks at the znode that has the name, and makes it this node's if that may be.
    async fn examine(&mut self, target: &Target, own: &mut Origin) -> Result<Examined, NodeError> {
        // The znode may be that of a sibling whose create is not answered yet.
        let _looking = match self.siblings {
            Some((siblings, _)) => Some(siblings.looking().await),
            None => None,
        };
        let Some(stat) = self.session.exists(&target.path).until_answered().await? else {
            return Ok(Examined::Changed);
        };
        if stat.ephemeral_owner == self.session.id()
            && let Some((siblings, node)) = self.siblings
            && !siblings.take(node, self.session.client(), &target.path, stat.czxid)
        {
            return Ok(Examined::Siblings);
        }
        let registered = self.take_found(target, &stat, own).await?;
        Ok(registered.map_or(Examined::Changed, Examined::Own))
    }

    /// Makes the znode that has the name this node's if that may be. `None` if it is gone or has
    /// changed.
    async fn take_found(
        &mut self,
        target: &Target,
        stat: &Stat,
        own: &mut Origin,
    ) -> Result<Option<Registered>, NodeError> {
        let owner = stat.ephemeral_owner;
        let path = &target.path;
        if owner == self.session.id() && self.plan.is_ephemeral() {
            return self.adopt(path, stat, *own).await;
        }
        match (self.plan.is_ephemeral(), owner.is_none()) {
            (true, true) => Err(NodeError::WrongKind(path.clone())),
            (false, true) => self.adopt(path, stat, Origin::Adopted).await,
            (true, false) if self.may_replace(stat) => {
                *own = Origin::TakenOver(owner);
                self.replace(target, stat).await
            }
            (_, false) => {
                *self.others_version = Some(stat.version);
                Err(NodeError::Occupied { path: path.clone(), owner })
            }
        }
    }

    /// Whether this node may replace the ephemeral of another session. One that is newer than the last
    /// znode of this node is that of a node which took over: the two would replace each other for ever.
    fn may_replace(&self, found: &Stat) -> bool {
        let is_newer = self.last.is_some_and(|last| found.czxid > last);
        self.former.contains(&found.ephemeral_owner)
            || (self.plan.take_over == TakeOver::AtOnce && !is_newer)
    }

    /// Sets the data of a znode that fits.
    async fn adopt(
        &self,
        path: &str,
        seen: &Stat,
        origin: Origin,
    ) -> Result<Option<Registered>, NodeError> {
        let set = self.session.client().set(path, self.data.clone()).version(seen.version);
        let set = set.into_operation().in_session(self.session.id());
        match set.until_answered().await {
            Ok(stat) if stat.czxid == seen.czxid => {
                Ok(Some(Registered { path: path.to_owned(), czxid: stat.czxid, origin }))
            }
            // Another znode has the name by now, and is looked at next.
            Ok(_) => Ok(None),
            // So it may have, or others have set its data, or this, whose answer was lost.
            Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::BAD_VERSION) => {
                self.session.catch_up(path).await?;
                Ok(None)
            }
            // This attempt has created it with this data, and who may create may not be allowed to write.
            Err(error) if error.is(ErrorCode::NO_AUTH) && origin != Origin::Adopted => {
                Ok(Some(Registered { path: path.to_owned(), czxid: seen.czxid, origin }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the ephemeral of another session, in one transaction: no reader finds the znode
    /// missing. The version keeps a znode from being deleted whose data was set meanwhile.
    async fn replace(&self, target: &Target, seen: &Stat) -> Result<Option<Registered>, NodeError> {
        let delete = MultiOp::delete(target.path.as_str(), seen.version);
        let replace = |create: Vec<MultiOp>| {
            let ops = std::iter::once(delete.clone()).chain(create).collect();
            self.session.multi_with_zxid(ops).send()
        };
        let is_own = self.former.contains(&seen.ephemeral_owner);
        let mut replaced = match is_own {
            true => replace(vec![self.op(target, self.data)]).await,
            false => replace(self.ops_above(target, seen.version)).await,
        };
        if replaced.as_ref().is_err_and(|error| is_refused_set(error, 2)) {
            replaced = replace(vec![self.op(target, self.data)]).await;
        }
        match replaced {
            Ok((_, zxid)) => {
                let created = created_by_multi(&target.path, zxid);
                Ok(Some(registered(created, Origin::TakenOver(seen.ephemeral_owner))))
            }
            Err(client::Error::ConnectionLoss { .. }) => {
                self.session.catch_up(&target.path).await?;
                Ok(None)
            }
            Err(error)
                if error.is(ErrorCode::NO_NODE)
                    || error.is(ErrorCode::BAD_VERSION)
                    || error.is(ErrorCode::NODE_EXISTS) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn registered(created: Created, origin: Origin) -> Registered {
    Registered { path: created.path, czxid: created.stat.czxid, origin }
}

/// Whether a multi was refused because the program may not write what it may create. Its sets begin at
/// this index.
fn is_refused_set(error: &client::Error, sets_at: usize) -> bool {
    error.is(ErrorCode::NO_AUTH) && error.operation_index().is_some_and(|index| index >= sets_at)
}

/// A znode that a multi created, as far as the reply shows it.
fn created_by_multi(path: &str, zxid: Zxid) -> Created {
    let stat = Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ..Stat::default() };
    Created { path: path.to_owned(), stat }
}

/// Whether a name is the prefix and a number that a server appended.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|number| {
        number.len() == SEQUENCE_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_name_is_the_prefix_and_ten_digits() {
        assert!(is_numbered("a-0000000012", "a-"));
        assert!(is_numbered("0000000012", ""));
        assert!(!is_numbered("a-x-0000000012", "a-"));
        assert!(!is_numbered("a-12", "a-"));
        assert!(!is_numbered("b-0000000012", "a-"));
    }
}
