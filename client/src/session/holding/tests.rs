//! What a session does for what is held in it, as a machine that is told the time.

use std::time::Duration;

use zoolet_protocol::{ConnectResponse, Password, SessionId};

use super::super::{Options, Session, encoded};
use crate::clock::{Instant, SuspensionClock, now};
use crate::proof::Servers;

const TIMEOUT: Duration = Duration::from_secs(12);
const SESSION: SessionId = SessionId(7);

/// A session whose handshake was answered `at` this time, by a server of an ensemble.
fn session(at: Instant) -> Session {
    let options = Options {
        timeout: TIMEOUT,
        read_only: false,
        connection_timeout: TIMEOUT,
        attempt: TIMEOUT / 3,
        proven_ahead: Duration::ZERO,
        suspension: SuspensionClock::new(|| Duration::ZERO),
    };
    let mut session = Session::new(options, at);
    shake_hands(&mut session, TIMEOUT, at);
    session
}

fn shake_hands(session: &mut Session, timeout: Duration, at: Instant) {
    session.handle_connected(Servers::PerhapsEnsemble, at);
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: i32::try_from(timeout.as_millis()).expect("it is short"),
        session: SESSION,
        password: Password::zero(),
        read_only: Some(false),
    };
    session.handle_frame(&encoded(&response), at).expect("it is a handshake");
    while session.poll_transmit().is_some() {}
}

#[test]
fn a_claim_of_a_session_that_is_over_makes_no_check_due() {
    let start = now();
    let mut session = session(start);
    let (_, claimed) = session.claim(SessionId(6), "/a".to_owned(), start);
    assert!(claimed.is_gone(), "the server deleted it when its session ended");
    let due = session.poll_timeout().expect("it pings");
    assert!(due > start);
    session.handle_timeout(due).expect("the server was heard of");
    let next = session.poll_timeout().expect("it pings");
    assert!(next > due, "a timeout that does not move makes the driver spin");
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
