//! What a session sends and answers while it closes, against a fake server.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Auth, ErrorCode, Expect, Lookup, OpCode, Read, Request, Watch, Xid, decode_request,
};

use super::super::opened::{SESSION, TIMEOUT, answer, connected};
use super::super::{Session, Submission, WatchRegistration};
use crate::call::{Call, Outcome};
use crate::clock::{Instant, now};
use crate::watches::{EventQueue, WatchKind, WatchUpdate};

/// Asks for something, and returns where its outcome comes.
fn exists(session: &mut Session, at: Instant) -> Arc<Call> {
    let call = Call::new(OpCode::EXISTS);
    let request = Request::Read(Read::Lookup(Lookup::Exists("/a".into())));
    session.submit(Submission::new(request, Arc::clone(&call)), at);
    call
}

fn close(session: &mut Session, at: Instant) -> Arc<Call> {
    let call = Call::new(OpCode::CLOSE_SESSION);
    session.close(Arc::clone(&call), at);
    call
}

/// The operations of the frames that the session sends.
fn sent(session: &mut Session) -> Vec<(OpCode, Xid)> {
    let next = || session.poll_transmit();
    let header = |frame: Bytes| decode_request(&frame).expect("it is legal").0;
    std::iter::from_fn(next).map(header).map(|header| (header.op, header.xid)).collect()
}

fn is_answered(call: &Arc<Call>) -> bool {
    matches!(call.outcome(), Some(Outcome::Answered(..)))
}

fn is_closed(call: &Arc<Call>) -> bool {
    matches!(call.outcome(), Some(Outcome::Closed))
}

#[test]
fn nothing_is_sent_after_the_close_and_what_came_before_is_answered() {
    let start = now();
    let mut session = connected(start);
    let before = exists(&mut session, start);
    let closing = close(&mut session, start);
    let after = exists(&mut session, start);
    assert!(is_closed(&after), "it is not sent, and says so at once");
    let auth = Call::new(OpCode::AUTH);
    let credentials =
        Auth { auth_type: 0, scheme: Some("digest".into()), auth: Some("a:b".into()) };
    session.authenticate(credentials, Arc::clone(&auth), start);
    assert!(is_closed(&auth));

    let frames = sent(&mut session);
    let operations: Vec<_> = frames.iter().map(|(op, _)| *op).collect();
    assert_eq!(operations, [OpCode::EXISTS, OpCode::CLOSE_SESSION]);
    // No ping and no check of a claim either, for as long as the server may be silent.
    let (_, claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
    session.handle_timeout(start + TIMEOUT / 2).expect("the server may still answer");
    assert_eq!(sent(&mut session), []);
    drop(claimed);

    assert!(before.outcome().is_none() && closing.outcome().is_none());
    answer(&mut session, frames[0].1, ErrorCode::NO_NODE, start);
    assert!(is_answered(&before));
    answer(&mut session, frames[1].1, ErrorCode::OK, start);
    assert!(is_answered(&closing) && session.is_closed());
}

#[test]
fn a_second_close_waits_for_the_first_and_sends_nothing() {
    let start = now();
    let mut session = connected(start);
    let (first, second) = (close(&mut session, start), close(&mut session, start));
    let frames = sent(&mut session);
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(second.outcome().is_none());
    answer(&mut session, frames[0].1, ErrorCode::OK, start);
    assert!(is_answered(&first) && is_closed(&second));
}

#[test]
fn a_connection_lost_while_the_session_closes_is_told_to_each_that_closes_it() {
    let start = now();
    let mut session = connected(start);
    let (first, second) = (close(&mut session, start), close(&mut session, start));
    session.handle_timeout(start + TIMEOUT * 2 / 3).expect_err("the server said nothing in time");
    session.handle_disconnected();
    for call in [first, second] {
        assert!(matches!(call.outcome(), Some(Outcome::ConnectionLoss)));
    }
    assert!(session.is_closed(), "it does not connect again");
}

#[test]
fn a_watch_that_ends_while_the_session_closes_is_not_removed() {
    let start = now();
    let mut session = connected(start);
    let (queue, call) = (Arc::new(EventQueue::default()), Call::new(OpCode::EXISTS));
    let request = Request::Watch(Watch::Lookup(Lookup::Exists("/a".into())));
    let (path, kind) = ("/a".into(), WatchKind::Data);
    let watch = WatchRegistration { path, kind, queue: Arc::clone(&queue) };
    let submission = Submission::new(request, Arc::clone(&call));
    session.submit(Submission { watch: Some(watch), ..submission }, start);
    let closing = close(&mut session, start);
    let frames = sent(&mut session);
    // Its request is in flight: the watch is examined when the reply comes.
    session.unwatch("/a", WatchKind::Data, &queue, start);
    answer(&mut session, frames[0].1, ErrorCode::NO_NODE, start);
    assert!(is_answered(&call));
    assert_eq!(sent(&mut session), [], "a removal would follow the close");
    answer(&mut session, frames[1].1, ErrorCode::OK, start);
    assert!(is_answered(&closing));
}

/// A session that has lost its connection, and a watch that waits for the next one: its queue and its call.
fn with_queued_watch(start: Instant) -> (Session, Instant, Arc<EventQueue>, Arc<Call>) {
    let mut session = connected(start);
    session.handle_disconnected();
    let lost_at = session.poll_timeout().expect("the session expires");
    let (queue, call) = (Arc::new(EventQueue::default()), Call::new(OpCode::SET_WATCHES));
    let request = Request::Read(Read::Lookup(Lookup::Exists("/a".into())));
    let submission = Submission::new(request, Arc::clone(&call));
    let (path, kind) = ("/a".into(), WatchKind::Child);
    let watches = vec![WatchRegistration { path, kind, queue: Arc::clone(&queue) }];
    let submission = Submission { watches, bound: Some(SESSION), ..submission };
    session.submit(submission, lost_at - TIMEOUT / 100);
    assert_eq!(queue.try_next(), None);
    (session, lost_at, queue, call)
}

#[test]
fn who_waits_for_a_watch_that_was_never_sent_hears_of_the_close() {
    let start = now();
    let (mut session, _, queue, call) = with_queued_watch(start);
    close(&mut session, start);
    assert!(is_closed(&call));
    assert_eq!(queue.try_next(), Some(WatchUpdate::Closed));
}

#[test]
fn who_waits_for_a_watch_that_was_never_sent_hears_of_the_expiry() {
    let (mut session, lost_at, queue, call) = with_queued_watch(now());
    session.handle_timeout(lost_at).expect_err("the session has expired");
    assert!(matches!(call.outcome(), Some(Outcome::SessionExpired)));
    assert_eq!(queue.try_next(), Some(WatchUpdate::SessionExpired));
}

#[test]
fn a_queue_without_a_watch_hears_of_the_end_of_the_session() {
    let start = now();
    let queues: [_; 3] = std::array::from_fn(|_| Arc::new(EventQueue::default()));
    let [told, forgotten, late] = &queues;
    let mut session = connected(start);
    session.tell_of_end(told);
    session.tell_of_end(forgotten);
    session.forget_one_shots(forgotten);
    session.end();
    session.tell_of_end(late);
    let updates = [told, forgotten, late].map(|queue| queue.try_next());
    assert_eq!(updates, [Some(WatchUpdate::Closed), None, Some(WatchUpdate::Closed)]);
}
