//! What a session does for what is held in it, as a machine that is told the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use zoolet_protocol::{
    Delete, ErrorCode, Expect, MultiOp, MultiResult, OpCode, Read, ReplyHeader, Request, Response,
    SessionId, Write, Zxid, decode_request, encode_reply,
};

use super::super::opened::{SESSION, TIMEOUT, answer_handshake, options, shake_hands};
use super::super::{Options, Session, Submission};
use crate::call::Call;
use crate::clock::{Instant, SuspensionClock, now};
use crate::limits::JUTE_MAX_BUFFER_MIN;
use crate::proof::Servers;

/// How many seconds a machine was suspended.
#[derive(Clone, Default)]
struct Suspended(Arc<AtomicU64>);

impl Suspended {
    fn suspend(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

/// A session that is to be opened, on a machine that may be suspended.
fn new_session(at: Instant, suspended: &Suspended) -> Session {
    let suspended = suspended.clone();
    let suspension =
        SuspensionClock::new(move || Duration::from_secs(suspended.0.load(Ordering::SeqCst)));
    Session::new(options(TIMEOUT, suspension), at)
}

/// A session whose handshake was answered `at` this time, by a server of an ensemble.
fn session(at: Instant) -> Session {
    let mut session = new_session(at, &Suspended::default());
    shake_hands(&mut session, TIMEOUT, at);
    session
}

/// Lets time pass until `sent`, when the session sends one request, which is answered at `answered`.
fn exchange(session: &mut Session, op: OpCode, sent: Instant, answered: Instant) {
    session.handle_timeout(sent).expect("the server was heard of");
    answer(session, op, answered);
}

/// Lets time pass until `sent`, when the session sends a `sync`, and lets it check one znode after it.
/// Each is answered after ten milliseconds.
fn prove(session: &mut Session, sent: Instant) {
    exchange(session, OpCode::SYNC, sent, after(sent, 10));
    let check = after(sent, 10) + TIMEOUT / 24;
    exchange(session, OpCode::MULTI, check, after(check, 10));
}

/// Answers the next request, which is this one: a ping, a `sync`, the read of a
/// znode that is missing, or the check of one znode.
fn answer(session: &mut Session, op: OpCode, at: Instant) {
    let frame = session.poll_transmit().expect("it is sent");
    let (header, _) = decode_request(&frame).expect("it is legal");
    assert_eq!(header.op, op);
    let response = match op {
        OpCode::MULTI => Response::Multi(vec![MultiResult::Check]),
        OpCode::MULTI_READ => Response::Multi(vec![MultiResult::Error(ErrorCode::NO_NODE)]),
        _ => Response::Empty,
    };
    let header = ReplyHeader { xid: header.xid, zxid: Zxid(1), err: ErrorCode::OK };
    let mut reply = BytesMut::new();
    encode_reply(&header, &response, &mut reply);
    session.handle_frame(reply.freeze(), at).expect("it is an answer");
}

#[test]
fn a_claim_of_a_session_that_is_over_makes_no_check_due() {
    let start = now();
    let mut session = session(start);
    let (_, claimed) = session.claim(SessionId(6), "/a".into(), Expect::Any, start);
    assert!(claimed.is_gone(), "the server deleted it when its session ended");
    let due = session.poll_timeout().expect("it pings");
    assert!(due > start);
    session.handle_timeout(due).expect("the server was heard of");
    let next = session.poll_timeout().expect("it pings");
    assert!(next > due, "a timeout that does not move makes the driver spin");
}

#[test]
fn a_claim_ends_with_the_request_that_gives_it_up_and_no_other_does() {
    let start = now();
    let mut session = session(start);
    let mut claim = |path: &str| session.claim(SESSION, path.into(), Expect::Any, start);
    let ((first, _), (second, _)) = (claim("/a"), claim("/b"));
    let give_up = |session: &mut Session, claim, path: &str, at| {
        let delete = Delete { path: path.into(), version: Expect::Any };
        let request = Request::Write(Write::Op(MultiOp::Delete(delete)));
        let submission = Submission::new(request, Call::new(OpCode::DELETE));
        session.submit(Submission { ends: Some(claim), ..submission }, at);
        answer(session, OpCode::DELETE, at);
    };
    give_up(&mut session, first, "/a", after(start, 10));
    // The other one is checked.
    prove(&mut session, after(start, 5_000));
    give_up(&mut session, second, "/b", after(start, 5_600));
    // In place of a ping.
    exchange(&mut session, OpCode::SYNC, after(start, 10_000), after(start, 10_010));
}

/// A session of a client with the least limit of a request.
fn session_of_short_requests(at: Instant) -> Session {
    let suspension = SuspensionClock::new(|| Duration::ZERO);
    let options = options(TIMEOUT, suspension);
    let options = Options { jute_max_buffer: JUTE_MAX_BUFFER_MIN, ..options };
    let mut session = Session::new(options, at);
    shake_hands(&mut session, TIMEOUT, at);
    session
}

#[test]
fn the_check_of_many_znodes_with_short_paths_is_not_too_long() {
    let start = now();
    let mut session = session_of_short_requests(start);
    for _ in 0..30_000 {
        session.claim(SESSION, "/abcd".into(), Expect::Any, start);
    }
    exchange(&mut session, OpCode::SYNC, after(start, 5_000), after(start, 5_010));
    session.handle_timeout(after(start, 5_010) + TIMEOUT / 24).expect("the server was heard of");
    let check = session.poll_transmit().expect("it is sent");
    let (header, _) = decode_request(&check).expect("it is legal");
    assert_eq!(header.op, OpCode::MULTI);
    assert!(check.len() < JUTE_MAX_BUFFER_MIN, "{} bytes", check.len());
}

#[test]
fn the_reply_to_another_request_is_not_taken_for_that_to_a_check_that_was_too_long() {
    let start = now();
    let mut session = session_of_short_requests(start);
    let path = format!("/{}", "a".repeat(JUTE_MAX_BUFFER_MIN));
    let (_id, claimed) = session.claim(SESSION, path.into(), Expect::Any, start);
    exchange(&mut session, OpCode::SYNC, after(start, 5_000), after(start, 5_010));
    let check = after(start, 5_010) + TIMEOUT / 24;
    let read = Request::Read(Read::MultiRead(Vec::new()));
    session.submit(Submission::new(read, Call::new(OpCode::MULTI_READ)), check);
    session.handle_timeout(check).expect("the server was heard of");
    assert!(session.poll_timeout().is_some_and(|next| next > check), "it is tried again later");
    let until = session.proven_until();
    answer(&mut session, OpCode::MULTI_READ, after(check, 10));
    assert_eq!(session.proven_until(), until, "a follower answers reads, too");
    assert!(!claimed.is_gone(), "it was another znode that is missing");
    assert!(session.poll_transmit().is_none());
}

#[test]
fn checks_that_are_too_long_take_no_turns_of_others() {
    let start = now();
    let mut session = session_of_short_requests(start);
    for _ in 0..5 {
        let path = format!("/{}", "a".repeat(JUTE_MAX_BUFFER_MIN));
        session.claim(SESSION, path.into(), Expect::Any, start);
    }
    session.claim(SESSION, "/short".into(), Expect::Any, start);
    exchange(&mut session, OpCode::SYNC, after(start, 5_000), after(start, 5_010));
    let check = after(start, 5_010) + TIMEOUT / 24;
    // Each call tries one check. The next one is due at once.
    while session.poll_timeout().is_some_and(|next| next <= check) {
        session.handle_timeout(check).expect("the server was heard of");
    }
    answer(&mut session, OpCode::MULTI, after(check, 10));
    for round in 1..20 {
        assert!(session.is_proven(SESSION, after(check, round * 5_000)), "after {round}");
        let sync = after(check, round * 5_000);
        session.handle_timeout(sync).expect("the server was heard of");
        answer(&mut session, OpCode::SYNC, after(sync, 10));
        session.handle_timeout(after(sync, 10) + TIMEOUT / 24).expect("the server was heard of");
        answer(&mut session, OpCode::MULTI, after(sync, 20) + TIMEOUT / 24);
        assert!(session.poll_transmit().is_none());
    }
}

#[test]
fn a_handshake_that_shortens_the_proof_is_told() {
    let start = now();
    let mut session = session(start);
    session.take_proof_change();
    let before = session.proven_until();
    session.handle_disconnected();
    shake_hands(&mut session, TIMEOUT / 4, start);
    assert!(session.proven_until() < before);
    assert!(
        session.take_proof_change(),
        "who waits for the end of the proof waits for the old one"
    );
    // One that leaves it as it is says nothing new.
    session.handle_disconnected();
    shake_hands(&mut session, TIMEOUT, start);
    assert!(!session.take_proof_change());
}

/// A moment some milliseconds after another.
fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// For how long a leader that has just heard of a session keeps it, less what clocks differ.
const KEPT: Duration = Duration::from_millis(12_000 - 120);

#[test]
fn what_was_on_its_way_while_the_machine_was_suspended_is_as_old_as_it_is() {
    let (start, suspended) = (now(), Suspended::default());
    let mut session = new_session(start, &suspended);
    shake_hands(&mut session, TIMEOUT, start);
    session.handle_timeout(after(start, 4_000)).expect("the server was heard of");
    suspended.suspend(Duration::from_secs(5));
    // It is known that the machine was suspended before the answer comes.
    let (_id, _stake) = session.claim(SESSION, "/a".into(), Expect::Any, after(start, 4_010));
    session.handle_timeout(after(start, 4_020)).expect("the server was heard of");
    answer(&mut session, OpCode::PING, after(start, 4_030));
    exchange(&mut session, OpCode::PING, after(start, 8_490), after(start, 8_500));
    prove(&mut session, after(start, 8_500));
    // The leader may have heard of the ping before the suspension, and of nothing since.
    let until = after(start, 4_000) + KEPT - Duration::from_secs(5);
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
}

#[test]
fn what_was_answered_after_a_suspension_is_heard_of_by_the_leader_half_a_tick_later() {
    let (start, suspended) = (now(), Suspended::default());
    let mut session = new_session(start, &suspended);
    shake_hands(&mut session, TIMEOUT, start);
    exchange(&mut session, OpCode::PING, after(start, 4_000), after(start, 4_010));
    suspended.suspend(Duration::from_secs(3));
    exchange(&mut session, OpCode::PING, after(start, 8_000), after(start, 8_010));
    // Only now it is known that the machine was suspended.
    let (_id, _stake) = session.claim(SESSION, "/a".into(), Expect::Any, after(start, 9_490));
    prove(&mut session, after(start, 9_500));
    // The follower need not have told the leader of the second ping.
    let until = after(start, 4_000) + KEPT - Duration::from_secs(3);
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
}

#[test]
fn a_handshake_that_was_on_its_way_while_the_machine_was_suspended_is_as_old_as_it_is() {
    let (start, suspended) = (now(), Suspended::default());
    let mut session = new_session(start, &suspended);
    session.handle_connected(Servers::PerhapsEnsemble, start);
    suspended.suspend(Duration::from_secs(5));
    answer_handshake(&mut session, TIMEOUT, after(start, 10));
    let until = start + KEPT - Duration::from_secs(5);
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
}

#[test]
fn a_server_that_grants_a_longer_timeout_proves_no_more_than_the_first_one_granted() {
    // A leader that is elected goes by the timeout with which the session was created.
    let start = now();
    let mut session = new_session(start, &Suspended::default());
    shake_hands(&mut session, TIMEOUT / 2, start);
    session.handle_disconnected();
    shake_hands(&mut session, TIMEOUT, after(start, 1_000));
    let (_id, _stake) = session.claim(SESSION, "/a".into(), Expect::Any, after(start, 1_000));
    prove(&mut session, after(start, 5_000));
    let until = after(start, 1_000) + KEPT / 2;
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
}

/// What the session sends next, and when. Of a session whose server hears from it.
fn next(session: &mut Session, from: Instant) -> (OpCode, Instant) {
    let mut at = from;
    loop {
        session.handle_timeout(at).expect("the server was heard of");
        if let Some(frame) = session.poll_transmit() {
            let (header, _) = decode_request(&frame).expect("it is legal");
            session.outgoing.push_front(frame);
            return (header.op, at);
        }
        at = session.poll_timeout().expect("it pings").max(at);
    }
}

#[test]
fn a_write_that_waited_proves_no_more_than_what_was_reported_before_an_earlier_reply_of_the_leader()
{
    let start = now();
    let mut session = session(start);
    let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
    prove(&mut session, after(start, 3_500));
    // The leader stands still, and the follower goes on to answer pings.
    for at in [4_500, 5_500, 6_500] {
        session.proof.handle_answer(after(start, at), after(start, at + 10));
    }
    let until = after(start, 3_500) + KEPT;
    let write = after(start, 10_000);
    session.proof.prove(write, after(start, 11_000));
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
    session.proof.handle_answer_of_leader(write, after(start, 11_000));
    // So does one that is sent before the leader has pinged.
    session.proof.prove(after(start, 11_100), after(start, 11_110));
    assert!(session.proven_until() <= until, "{:?} too late", session.proven_until() - until);
    // It has by now.
    session.proof.prove(after(start, 11_500), after(start, 11_510));
    assert_eq!(session.proven_until(), after(start, 6_500) + KEPT);
}

#[test]
fn one_check_follows_another_before_half_of_its_proof_is_over() {
    let start = now();
    let mut session = session(start);
    let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
    let (mut at, mut checked) = (start, Vec::new());
    while checked.len() < 5 {
        let (op, sent) = next(&mut session, at);
        at = after(sent, 10);
        answer(&mut session, op, at);
        if op == OpCode::MULTI {
            checked.push(at);
            let left = session.proven_until() - at;
            assert!(left > TIMEOUT * 3 / 5, "{left:?}");
        }
    }
    let apart = (checked[4] - checked[0]) / 4;
    assert_eq!(apart, TIMEOUT / 3 + Duration::from_millis(20), "it needs two round trips");
}

#[test]
fn a_claim_stays_proved_up_to_a_round_trip_of_a_ninth_of_the_timeout() {
    for part in [1_000, 100, 40, 20, 9] {
        let (start, round_trip) = (now(), TIMEOUT / part);
        let mut session = session(start);
        let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
        let mut at = start;
        while at < after(start, 240_000) {
            let (op, sent) = next(&mut session, at);
            at = sent + round_trip;
            let left = session.proven_until().checked_duration_since(at);
            assert!(
                left.is_some(),
                "the proof ends before the reply, with a round trip of {round_trip:?}"
            );
            answer(&mut session, op, at);
        }
    }
}

#[test]
fn a_check_that_proves_nothing_is_not_repeated_at_once() {
    let start = now();
    let mut session = session(start);
    let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
    let (mut at, mut requests) = (start, 0);
    while at < start + 10 * TIMEOUT {
        let (op, sent) = next(&mut session, at);
        (at, requests) = (after(sent, 1), requests + 1);
        if op != OpCode::MULTI || at < start + 3 * TIMEOUT {
            answer(&mut session, op, at);
            continue;
        }
        let frame = session.poll_transmit().expect("it is sent");
        let (header, _) = decode_request(&frame).expect("it is legal");
        // As a server that has too much to do.
        super::super::opened::answer(&mut session, header.xid, ErrorCode::THROTTLED_OP, at);
    }
    assert!(requests < 10 * 30, "{requests} in ten session timeouts");
}

#[test]
fn a_check_beside_another_write_is_not_repeated_at_once() {
    let start = now();
    let mut session = session(start);
    let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, start);
    let (mut at, mut requests) = (start, 0);
    while at < start + 10 * TIMEOUT && requests < 1_000 {
        let (op, sent) = next(&mut session, at);
        (at, requests) = (sent, requests + 1);
        if op == OpCode::MULTI {
            // A write that proves less, since it was sent too soon after the last reply of the leader.
            session.proof.prove(sent - TIMEOUT / 100, at);
        }
        answer(&mut session, op, at);
    }
    assert!(requests < 10 * 30, "{requests} in ten session timeouts");
}

/// Lets a client that holds nothing keep its session alive until this time.
fn keep_alive(session: &mut Session, from: Instant, until: Instant) {
    let mut at = from;
    while session.poll_timeout().expect("it pings") < until {
        let (op, sent) = next(session, at);
        at = after(sent, 10);
        answer(session, op, at);
    }
}

/// A write of a client, and the claim of what it created.
fn create(session: &mut Session, sent: Instant) {
    session.proof.prove(sent, after(sent, 10));
    session.proof.handle_answer_of_leader(sent, after(sent, 10));
    session.proof.handle_answer(sent, after(sent, 10));
}

#[test]
fn the_first_claim_of_an_idle_client_is_proved_by_a_check_soon_after() {
    for ms in (60_000..72_000).step_by(500) {
        let start = now();
        let (mut session, sent) = (session(start), after(start, ms));
        keep_alive(&mut session, start, sent);
        create(&mut session, sent);
        let mut at = after(sent, 20);
        let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, at);
        while !session.is_proven(SESSION, at) {
            let (op, sent) = next(&mut session, at);
            at = after(sent, 10);
            answer(&mut session, op, at);
        }
        let taken = at - sent;
        assert!(taken <= TIMEOUT / 24 + Duration::from_millis(30), "{taken:?} after {ms} ms");
    }
}

#[test]
fn a_write_of_a_client_that_expects_claims_proves_its_session() {
    for ms in (60_000..72_000).step_by(500) {
        let start = now();
        let (mut session, sent) = (session(start), after(start, ms));
        session.expect_claims();
        keep_alive(&mut session, start, sent);
        create(&mut session, sent);
        let left = session.proven_until().checked_duration_since(after(sent, 10));
        let least = TIMEOUT * 7 / 24 - TIMEOUT / 100 - Duration::from_millis(50);
        assert!(left >= Some(least), "{left:?} is left after {ms} ms");
    }
}

#[test]
fn a_leader_that_answers_late_proves_the_session_all_the_same() {
    for part in [6, 5, 4, 3] {
        let (start, round_trip) = (now(), TIMEOUT * 39 / 40 / part);
        let mut session = session(start);
        let claimed = after(start, 60_000);
        let mut at = start;
        while at < claimed {
            let (op, sent) = next(&mut session, at);
            at = after(sent, 10);
            answer(&mut session, op, at);
        }
        let (_id, _claimed) = session.claim(SESSION, "/a".into(), Expect::Any, at);
        while !session.is_proven(SESSION, at) {
            assert!(at < claimed + TIMEOUT * 3, "not with a round trip of {round_trip:?}");
            let (op, sent) = next(&mut session, at);
            at = if op == OpCode::PING { after(sent, 10) } else { sent + round_trip };
            answer(&mut session, op, at);
        }
    }
}
