//! A place in a line: an ephemeral sequential znode, from the moment it is asked for until it is
//! gone. All lock recipes stand on this.
//!
//! Promises:
//!
//! - A place belongs to one session. When that is over the place is [`LockError::PlaceLost`], and never
//!   becomes a lock.
//! - A place that is dropped is left: its znode is deleted in the background, also when the answer
//!   to its creation has not come yet, until it is gone or the session is over.
//! - A short disconnect does not cost the place.
//!
//! What entering and waiting cost, in requests: the znode and the list go out together; who must
//! wait leaves all its watches with one request more. When the one ahead goes and was known to be
//! first, nobody is asked: numbers only grow, so whoever stood behind the first is first now.

mod leaving;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Check, Create, CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect, MultiOp,
    MultiResult, Names, SessionId, ZPath, Zxid,
};

use crate::client::recipe::{Claim, WaiterId, WatchFor, ZnodeWatch, protected_path};
use crate::client::{self, Client, Created};
use crate::error::LockError;
use crate::line::entering::Entering;
use crate::line::order::{self, Kind, Turn};
use crate::line::unreadable::{self, Unheard};
use crate::local_address::local_address;
use crate::lock::owner::LineId;
use crate::tries::Tries;

/// A line: a directory, and what the names of its places look like.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) directory: Arc<str>,
    pub(crate) id: LineId,
    pub(crate) kind: &'static Kind,
    pub(crate) data: Bytes,
    pub(crate) acl: Arc<[Acl]>,
}

/// A place in a line.
#[derive(Debug)]
pub(crate) struct Place {
    client: Client,
    session: SessionId,
    path: String,
    /// Where the name begins in the path.
    name_at: usize,
    czxid: Zxid,
    /// The fencing token: its own czxid, or that of the place beside which it is.
    token: Zxid,
    /// Whether, when it is left, it is told that nobody stood before it: whoever came while it was
    /// waited in does not know that.
    tells_its_end: bool,
    /// What is heard of its own znode.
    own: Option<ZnodeWatch>,
    /// Whether that was that it is gone.
    is_gone: AtomicBool,
    /// While it is held.
    claim: Option<Claim>,
    /// Whether the watch on the own znode could not be left.
    is_unwatched: AtomicBool,
    is_left: bool,
    /// Whether others have a znode of the same name at other times.
    shares_its_name: bool,
}

/// What is heard while one waits.
enum Heard {
    Event(Result<(Zxid, EventType), LockError>),
    /// The watches are not there.
    Unregistered,
}

/// What is known of a place ahead that is gone.
struct Gone {
    /// The connection over which it was told, as the last of so many.
    connections: u64,
    /// Whether it was told by which change: if not, a reconnect may lead behind it.
    has_zxid: bool,
    /// Whether nothing can have happened before it that is told after it.
    is_in_order: bool,
    /// Whether it said, when it was left, that nobody stood before it.
    was_in_front: bool,
}

impl Gone {
    /// Nothing was heard.
    fn unheard(connections: u64) -> Self {
        Self { connections, has_zxid: false, is_in_order: false, was_in_front: false }
    }
}

/// What the znode of a place that is left says last. Whoever watches it hears of this change and of
/// the deletion under one zxid, and knows by that that nobody stood before it.
const LEFT_IN_FRONT: &[u8] = b"released";

impl Line {
    /// The line of a directory, open to everyone, with this machine's address as data, as in
    /// Curator.
    pub(crate) fn new(
        client: &Client,
        directory: &str,
        kind: &'static Kind,
    ) -> Result<Self, LockError> {
        ZPath::check(directory).map_err(client::Error::from)?;
        let id = LineId::new(client, directory);
        let directory = directory.into();
        let acl = [Acl::open()].into();
        Ok(Self { client: client.clone(), directory, id, kind, data: local_address(), acl })
    }

    /// Takes a place at the end of the line, and tells where that is.
    pub(crate) async fn enter(&self) -> Result<(Place, Standing), LockError> {
        let mut tries = Tries::new();
        loop {
            let session = self.client.connected_session().await?.id();
            match self.try_enter(session).await {
                Ok(entered) => return Ok(entered),
                // The directory went away, somebody else made it, the session changed, or the
                // connection went before anything was sent: again, with a new place.
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// The operation of a multi that creates a place at a path without its number.
    pub(crate) fn create_op(&self, path: &str) -> MultiOp {
        MultiOp::Create(self.create(path))
    }

    fn create(&self, path: &str) -> Create {
        Create {
            kind: CreateKind::Create,
            path: path.into(),
            data: Some(self.data.clone()),
            acl: Some(self.acl.to_vec()),
            flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
        }
    }

    /// The path of a znode in the directory.
    pub(crate) fn child(&self, name: &str) -> String {
        match &*self.directory {
            "/" => format!("/{name}"),
            directory => format!("{directory}/{name}"),
        }
    }

    /// The znodes of all who stand in line under a marker, the first first.
    pub(crate) async fn participants(&self, marker: &str) -> Result<Vec<String>, LockError> {
        match self.client.children(&self.directory).await {
            Ok(names) => Ok(order::contenders(&names, marker)
                .iter()
                .map(|contender| self.child(contender.name))
                .collect()),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// The path of a new place without its number, which no other znode has.
    pub(crate) fn new_path(&self) -> String {
        protected_path(&self.child(self.kind.marker))
    }

    /// Takes a place beside another of the same owner, with its number and its token: nobody stands
    /// between the two.
    pub(crate) async fn enter_beside(
        &self,
        (name, session): &(String, SessionId),
        token: Zxid,
    ) -> Result<Place, LockError> {
        let digits_at = name.len().saturating_sub(order::NUMBER_DIGITS);
        let without_number = self.new_path();
        let path = format!("{without_number}{}", &name[digits_at..]);
        let check = Check { path: self.child(name).as_str().into(), version: Expect::Any };
        let create = Create { flags: CreateFlags::EPHEMERAL, ..self.create(&path) };
        let ops = vec![MultiOp::Check(check), MultiOp::Create(create)];
        let mut entering = Entering::by_multi(self, *session, without_number, ops);
        let created = entering.created().await.map_err(|error| match error {
            // The place beside which it was to be is gone, and the lock with it.
            LockError::Client(error) if error.is(ErrorCode::NO_NODE) => LockError::Lost,
            error => error,
        })?;
        let mut place = entering.into_place(created)?;
        place.token = token;
        Ok(place)
    }

    /// Takes a place with the number and the token of another of the same owner, which is left in
    /// the same moment: nobody comes in between.
    pub(crate) async fn enter_instead(&self, other: Place) -> Result<Place, LockError> {
        let digits_at = other.name().len().saturating_sub(order::NUMBER_DIGITS);
        let mut tries = Tries::new();
        loop {
            let without_number = self.new_path();
            let path = format!("{without_number}{}", &other.name()[digits_at..]);
            let delete = Delete { path: other.path().into(), version: Expect::Any };
            let create = Create { flags: CreateFlags::EPHEMERAL, ..self.create(&path) };
            let ops = vec![MultiOp::Delete(delete), MultiOp::Create(create)];
            let mut entering = Entering::by_multi(self, other.session, without_number, ops);
            match entering.created().await {
                Ok(created) => {
                    let mut place = entering.into_place(created)?;
                    place.token = other.token;
                    other.was_left();
                    return Ok(place);
                }
                Err(error) => tries.after(error).await?,
            }
            if !other.is_still_there().await.map_err(LockError::of_held)? {
                return Err(LockError::Lost);
            }
        }
    }

    async fn try_enter(&self, session: SessionId) -> Result<(Place, Standing), LockError> {
        let mut entering = Entering::begin(self, session);
        // The list takes its place right behind the create, so it holds the new znode.
        let list = self.client.children_with_zxid(&self.directory).send();
        match entering.created().await {
            Ok(created) => {
                let place = entering.into_place(created)?;
                let (names, seen) = match list.await {
                    Ok(list) => list,
                    Err(error) if error.is_retryable() => place.list(self).await?,
                    Err(error) => return Err(error.into()),
                };
                let turn = place.turn(self, &names);
                Ok((place, Standing { turn, seen }))
            }
            Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                drop(list);
                self.enter_new_directory(entering).await
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the directory, with all that is missing above it, and the first place in it, all in
    /// one: being there with the directory proves that nobody is ahead.
    async fn enter_new_directory(
        &self,
        mut entering: Entering,
    ) -> Result<(Place, Standing), LockError> {
        let mut ops = self.client.missing_containers(&self.directory, &self.acl).await?;
        let is_new = !ops.is_empty();
        ops.push(self.create_op(entering.path()));
        entering.send_multi(ops);
        let created = entering.created().await?;
        let place = entering.into_place(created)?;
        if is_new {
            return Ok((place, Standing { turn: Turn::Mine, seen: Zxid::ZERO }));
        }
        let standing = place.look(self).await?;
        Ok((place, standing))
    }
}

/// Where a place stands, as of a zxid.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) turn: Turn,
    pub(crate) seen: Zxid,
}

impl Place {
    /// The place of a znode whose number begins at `digits_at` of its path.
    pub(crate) fn new(
        client: &Client,
        session: SessionId,
        created: Created,
        digits_at: usize,
    ) -> Result<Self, LockError> {
        let place = Self::unordered(client, session, created.path, created.stat.czxid);
        let number = place.path.get(digits_at..).and_then(|digits| digits.parse().ok());
        if !number.is_some_and(order::is_certain) {
            let directory = place.path[..place.name_at.saturating_sub(1)].to_owned();
            return Err(LockError::NumbersExhausted(directory));
        }
        Ok(place)
    }

    /// The place of a znode whose number does not matter.
    pub(crate) fn unordered(
        client: &Client,
        session: SessionId,
        path: String,
        czxid: Zxid,
    ) -> Self {
        Self {
            client: client.clone(),
            session,
            name_at: path.rfind('/').map_or(0, |slash| slash + 1),
            path,
            czxid,
            token: czxid,
            tells_its_end: false,
            own: None,
            is_gone: AtomicBool::new(false),
            claim: None,
            is_unwatched: AtomicBool::new(false),
            is_left: false,
            shares_its_name: false,
        }
    }

    /// The place of a znode whose name others have at other times: theirs is not deleted for it.
    pub(crate) fn of_shared_name(
        client: &Client,
        session: SessionId,
        path: String,
        czxid: Zxid,
    ) -> Self {
        let mut place = Self::unordered(client, session, path, czxid);
        place.shares_its_name = true;
        place
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        &self.path[self.name_at..]
    }

    /// The change that created it, or the place beside which it is: whoever comes later has a later
    /// one, whatever becomes of the numbers.
    pub(crate) fn token(&self) -> Zxid {
        self.token
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Does not tell, when it is left, that it was held.
    pub(crate) fn end_silently(&mut self) {
        self.tells_its_end = false;
    }

    /// Where it stands among these.
    pub(crate) fn turn(&self, line: &Line, names: &Names) -> Turn {
        order::turn(names, line.kind, self.name())
    }

    /// Who stands in the line, asked until it is answered or the session is over.
    async fn list(&self, line: &Line) -> Result<(Names, Zxid), LockError> {
        let list = self.client.children_with_zxid(&line.directory).in_session(self.session);
        Ok(list.until_answered().await?)
    }

    /// Where it stands.
    pub(crate) async fn look(&self, line: &Line) -> Result<Standing, LockError> {
        let (names, seen) = self.list(line).await?;
        Ok(Standing { turn: self.turn(line, &names), seen })
    }

    /// Where places stand in their lines, all asked for in one flight.
    pub(crate) async fn look_at_all(
        places: &[Self],
        lines: &[Line],
    ) -> Result<Vec<Standing>, LockError> {
        let list = |(place, line): (&Self, &Line)| {
            place.client.children_with_zxid(&line.directory).in_session(place.session).send()
        };
        let lists: Vec<_> = places.iter().zip(lines).map(list).collect();
        let mut standings = Vec::with_capacity(lists.len());
        for ((place, line), list) in places.iter().zip(lines).zip(lists) {
            let (names, seen) = match list.await {
                Ok(list) => list,
                Err(error) if error.is_retryable() => place.list(line).await?,
                Err(error) => return Err(error.into()),
            };
            standings.push(Standing { turn: place.turn(line, &names), seen });
        }
        Ok(standings)
    }

    /// Waits until nobody is ahead.
    pub(crate) async fn wait(&mut self, line: &Line, at: Standing) -> Result<(), LockError> {
        let Standing { mut turn, mut seen } = at;
        let mut was_waited_in = false;
        let mut is_in_front = false;
        let mut look_after = unreadable::look_after(&self.client);
        loop {
            match turn {
                Turn::Mine => break,
                Turn::Gone => return Err(LockError::PlaceLost),
                Turn::Behind { ahead, is_first, is_next } => {
                    was_waited_in = true;
                    let gone = self.wait_behind(line, &ahead, seen, &mut look_after).await?;
                    let proves = gone.is_in_order
                        && (is_first || gone.was_in_front)
                        && unreadable::hears_of_own(line);
                    if proves && (gone.has_zxid || self.is_covered(gone.connections).await?) {
                        is_in_front = gone.was_in_front && is_next;
                        break;
                    }
                }
            }
            let (names, at) = self.list(line).await?;
            turn = self.turn(line, &names);
            seen = at;
        }
        self.come_to_the_front(line, was_waited_in);
        // Who shares the lock may have others before it, unless it knows better.
        self.tells_its_end |= is_in_front;
        Ok(())
    }

    /// Whether the zxid of a reply covers what was heard over a connection.
    async fn is_covered(&self, connections: u64) -> Result<bool, LockError> {
        Ok(self.client.in_session(self.session).confirms_event(&self.path, connections).await?)
    }

    /// Notes that it is held from now on. Only what is held, and held in front, tells its end: whoever
    /// hears it takes it for the proof that nobody else is ahead.
    pub(crate) fn come_to_the_front(&mut self, line: &Line, was_waited_in: bool) {
        let is_looked_for = was_waited_in || line.kind.must_tell_its_end();
        self.tells_its_end = line.kind.is_exclusive && is_looked_for;
    }

    /// Waits until the znode ahead is gone or changed, and tells what is known of that. When nothing
    /// was heard for `look_after`, it is seen whether anything can be.
    async fn wait_behind(
        &mut self,
        line: &Line,
        ahead: &str,
        seen: Zxid,
        look_after: &mut Duration,
    ) -> Result<Gone, LockError> {
        let connections = self.client.connection_count();
        let path = line.child(ahead);
        let znodes = [
            (path.as_str(), WatchFor::ChangeAndDeletion),
            (self.path.as_str(), WatchFor::Deletion),
        ];
        let ([watch, own], sent) = self.client.in_session(self.session).watch_znodes(znodes, seen);
        // One watch on the own znode is enough; this one is told all that the last one is.
        self.own = Some(own);
        self.is_unwatched.store(false, Ordering::Release);
        let mut registering = Some(sent);
        let mut last_change = None;
        loop {
            let heard = self.hear_ahead(&watch, &mut registering);
            let (zxid, event_type) = match tokio::time::timeout(*look_after, heard).await {
                Err(_) => match unreadable::look(self, line, &path, look_after).await? {
                    Unheard::Waiting => continue,
                    Unheard::Gone => return Ok(Gone::unheard(connections)),
                },
                Ok(Heard::Event(event)) => event?,
                // Not registered, so that nothing would ever be heard: look again.
                Ok(Heard::Unregistered) => {
                    self.own = None;
                    return Ok(Gone::unheard(connections));
                }
            };
            let has_zxid = zxid > Zxid::ZERO;
            if event_type == EventType::NODE_DELETED {
                return Ok(Gone {
                    connections,
                    has_zxid,
                    // What is told after a reconnect, or before the watches are there, is not in
                    // the order in which it happened.
                    is_in_order: registering.is_none()
                        && self.client.connection_count() == connections,
                    was_in_front: last_change == Some(zxid) && has_zxid,
                });
            }
            last_change = Some(zxid);
        }
    }

    /// What happens next to the one ahead, or that the watches could not be left.
    async fn hear_ahead(
        &self,
        ahead: &ZnodeWatch,
        registering: &mut Option<client::Sent<()>>,
    ) -> Heard {
        std::future::poll_fn(|context| {
            // What comes before the answer is heard before it.
            match self.poll_ahead(ahead, context) {
                Poll::Ready(Err(LockError::Client(error))) if error.is_retryable() => {
                    return Poll::Ready(Heard::Unregistered);
                }
                Poll::Ready(event) => return Poll::Ready(Heard::Event(event)),
                Poll::Pending => {}
            }
            let Some(sent) = registering else { return Poll::Pending };
            match std::task::ready!(Pin::new(sent).poll(context)) {
                Ok(()) => {
                    *registering = None;
                    Poll::Pending
                }
                Err(error) if error.is_retryable() => Poll::Ready(Heard::Unregistered),
                Err(error) => Poll::Ready(Heard::Event(Err(error.into()))),
            }
        })
        .await
    }

    /// What is heard of the one ahead, unless the own znode is gone first.
    fn poll_ahead(
        &self,
        ahead: &ZnodeWatch,
        context: &Context<'_>,
    ) -> Poll<Result<(Zxid, EventType), LockError>> {
        if let Poll::Ready(lost) = self.poll_lost(WaiterId::ONLY, context) {
            return Poll::Ready(Err(lost));
        }
        ahead.poll_event(WaiterId::ONLY, context).map_err(LockError::from)
    }

    /// Waits until the own znode is known to be gone, as far as it is watched.
    pub(crate) fn poll_lost(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<LockError> {
        while !self.is_known_to_be_gone() {
            let Some(own) = &self.own else { return Poll::Pending };
            let event = std::task::ready!(own.poll_event(waiter, context));
            self.hear(event);
        }
        Poll::Ready(LockError::PlaceLost)
    }

    /// Someone does not wait any more for that.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        if let Some(own) = &self.own {
            own.forget_waiter(waiter);
        }
    }

    /// Whether the own znode is known to be gone, as far as it is watched.
    pub(crate) fn is_lost(&self) -> bool {
        while let Some(event) = self.own.as_ref().and_then(ZnodeWatch::take_event) {
            self.hear(event);
        }
        self.is_known_to_be_gone()
    }

    /// Notes what is heard of the own znode: once gone it stays so.
    fn hear(&self, event: Result<(Zxid, EventType), client::Error>) {
        match event {
            Err(error) if error.is_retryable() => self.is_unwatched.store(true, Ordering::Release),
            Ok((_, EventType::NODE_DELETED)) | Err(_) => self.note_gone(),
            Ok(_) => {}
        }
    }

    /// Notes that the znode is known to be gone.
    pub(crate) fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Whether nothing is heard of the own znode until it is watched anew.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.own.is_none() || self.is_unwatched.load(Ordering::Acquire)
    }

    fn is_known_to_be_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire) || self.claim.as_ref().is_some_and(Claim::is_gone)
    }

    /// Has it looked at now and then, from now on until it is left.
    pub(crate) fn claim(&mut self) {
        self.claim.get_or_insert_with(|| self.client.in_session(self.session).claim(&self.path));
    }

    /// Watches the own znode from now on, if it is not watched yet.
    pub(crate) fn watch_own(&mut self) -> Option<client::Sent<()>> {
        if !self.is_unwatched() {
            return None;
        }
        self.is_unwatched.store(false, Ordering::Release);
        let own = [(self.path.as_str(), WatchFor::Deletion)];
        let ([own], sent) = self.client.in_session(self.session).watch_znodes(own, self.czxid);
        self.own = Some(own);
        Some(sent)
    }

    /// Watches the own znode from now on, and returns when its end is sure to be heard.
    pub(crate) async fn have_own_watched(&mut self) -> Result<(), LockError> {
        while let Some(sent) = self.watch_own() {
            match sent.await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => self.unwatch_own(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The watch on the own znode could not be left.
    pub(crate) fn unwatch_own(&mut self) {
        self.own = None;
    }

    /// Whether its znode is there, asked until it is answered.
    pub(crate) async fn is_still_there(&self) -> Result<bool, LockError> {
        let exists = self.client.exists(&self.path).in_session(self.session).until_answered().await;
        Ok(exists?.is_some())
    }

    /// Carries writes out only if all these places of a session are there then.
    pub(crate) async fn transaction(
        client: &Client,
        session: SessionId,
        paths: impl Iterator<Item = &str>,
        ops: Vec<MultiOp>,
    ) -> Result<Vec<MultiResult>, LockError> {
        let check = |path: &str| MultiOp::Check(Check { path: path.into(), version: Expect::Any });
        let mut all: Vec<_> = paths.map(check).collect();
        let checks = all.len();
        all.extend(ops);
        match client.in_session(session).multi(all).await {
            Ok(results) => Ok(results.into_iter().skip(checks).collect()),
            Err(error) if error.operation_index().is_some_and(|index| index < checks) => {
                Err(LockError::Lost)
            }
            Err(error) => Err(LockError::from(error).of_held()),
        }
    }
}
