//! The client against the server, the server against recorded clients, and the server against hostile
//! ones.

use std::sync::Arc;

use proptest::prelude::*;
use zoolet_sasl::limits::{RESPONSE_BYTES_MAX, USER_BYTES_MAX};
use zoolet_sasl::{
    ClientRefused, DigestMd5Client, DigestMd5Server, Nonce, Password, ServerRefused, Users,
};

fn server(user: &str, password: &str) -> DigestMd5Server {
    let users: Users = [(user.to_owned(), Password::from(password))].into_iter().collect();
    DigestMd5Server::new(Arc::new(users), Nonce::from_random([1; 30]))
}

fn client(user: &str, password: &str) -> DigestMd5Client {
    DigestMd5Client::new(user, Password::from(password), Nonce::from_random([2; 30]))
}

/// A response to the challenge of [`server`], as its client would send it.
fn response(server: &mut DigestMd5Server, user: &str, password: &str) -> String {
    let challenge = server.respond(b"").expect("the first token is ignored").token;
    let response = client(user, password).respond(&challenge).expect("the challenge is valid");
    String::from_utf8(response.expect("there is a response")).expect("it is a text")
}

proptest! {
    #[test]
    fn who_knows_the_password_is_that_user(user in "\\PC{1,40}", password in "\\PC{0,40}") {
        let (mut server, mut client) = (server(&user, &password), client(&user, &password));
        let challenge = server.respond(b"").unwrap();
        prop_assert_eq!(challenge.user, None);
        let response = client.respond(&challenge.token).unwrap().unwrap();
        let last = server.respond(&response).unwrap();
        prop_assert_eq!(last.user, Some(user));
        prop_assert_eq!(client.respond(&last.token), Ok(None));
    }

    #[test]
    fn who_does_not_know_it_is_nobody(password in "\\PC{0,9}", guess in "\\PC{0,9}") {
        prop_assume!(password != guess);
        let mut server = server("ann", &password);
        let response = response(&mut server, "ann", &guess);
        prop_assert_eq!(server.respond(response.as_bytes()), Err(ClientRefused::WrongPassword));
        prop_assert_eq!(server.respond(response.as_bytes()), Err(ClientRefused::Over));
    }

    /// A response of which a byte was changed, left out or added is refused, or is as good as it was.
    #[test]
    fn a_changed_response_makes_nobody_else(at in 0_usize..300, byte: u8, kind in 0..3) {
        let mut server = server("ann", "secret");
        let mut bytes = response(&mut server, "ann", "secret").into_bytes();
        let at = at.min(bytes.len() - 1);
        match kind {
            0 => bytes[at] = byte,
            1 => { bytes.remove(at); }
            _ => bytes.insert(at, byte),
        }
        if let Ok(answer) = server.respond(&bytes) {
            prop_assert_eq!(answer.user.as_deref(), Some("ann"));
        }
    }

    #[test]
    fn no_token_harms(first: Vec<u8>, second: Vec<u8>, third in ".{0,200}") {
        let mut server = server("ann", "secret");
        let _ = server.respond(&first);
        prop_assert!(server.respond(&second).is_err());
        prop_assert!(server.respond(third.as_bytes()).is_err());
        let mut client = client("ann", "secret");
        let _ = client.respond(third.as_bytes());
        prop_assert!(client.respond(&second).is_err());
    }
}

#[test]
fn each_changed_directive_is_refused_by_its_name() {
    let changes = [
        ("charset=utf-8", "charset=UTF-8", ClientRefused::Mismatch("charset")),
        ("maxbuf=65536", "maxbuf=many", ClientRefused::Mismatch("maxbuf")),
        ("username=\"ann\",", "", ClientRefused::Missing("username")),
        ("username=\"ann\"", "username=\"bob\"", ClientRefused::NoSuchUser("bob".to_owned())),
        ("realm=\"zk-sasl-md5\",", "", ClientRefused::Mismatch("realm")),
        ("realm=\"zk-sasl-md5\"", "realm=\"other\"", ClientRefused::Mismatch("realm")),
        (",nonce=\"", ",nonce=\"x", ClientRefused::Mismatch("nonce")),
        (",nonce=\"", ",xonce=\"", ClientRefused::Missing("nonce")),
        ("cnonce=\"", "dnonce=\"", ClientRefused::Missing("cnonce")),
        ("cnonce=\"", "cnonce=\"x", ClientRefused::WrongPassword),
        ("qop=auth", "qop=auth-int", ClientRefused::Mismatch("qop")),
        ("qop=auth", "nonce-count=00000002", ClientRefused::Mismatch("nonce-count")),
        ("digest-uri=\"zookeeper/zk-sasl-md5\",", "", ClientRefused::Missing("digest-uri")),
        ("zookeeper/zk-sasl-md5", "zookeeper/other", ClientRefused::Mismatch("digest-uri")),
        ("zookeeper/zk-sasl-md5", "ZooKeeper/zk-sasl-md5", ClientRefused::WrongPassword),
        ("response=", "request=", ClientRefused::Missing("response")),
        ("response=", "response=0", ClientRefused::WrongPassword),
        ("authzid=\"ann\"", "authzid=\"super\"", ClientRefused::WrongPassword),
    ];
    for (from, to, refused) in changes {
        let mut server = server("ann", "secret");
        let changed = response(&mut server, "ann", "secret").replacen(from, to, 1);
        assert_eq!(server.respond(changed.as_bytes()), Err(refused), "{from} -> {to}");
    }
    // Java looks for another name, so that the count is free.
    for (from, to) in [("nc=00000001", "nc=00000009"), ("qop=auth,", ""), ("maxbuf=65536,", "")] {
        let mut server = server("ann", "secret");
        let changed = response(&mut server, "ann", "secret").replacen(from, to, 1);
        assert!(server.respond(changed.as_bytes()).is_ok(), "{from} -> {to}");
    }
}

#[test]
fn a_client_that_claims_to_be_another_stays_itself() {
    let users = [("ann", "secret"), ("super", "other")];
    let users: Users =
        users.into_iter().map(|(user, password)| (user.to_owned(), password.into())).collect();
    let users = Arc::new(users);
    // A client that hashes the claim too, as the protocol requires.
    let mut server = DigestMd5Server::new(users, Nonce::from_random([1; 30]));
    let challenge = server.respond(b"").expect("the first token is ignored").token;
    let nonce = String::from_utf8_lossy(&challenge).split('"').nth(3).expect("a nonce").to_owned();
    let proof = claim(&nonce, "ann", "secret", "super");
    let token = format!(
        "username=\"ann\",realm=\"zk-sasl-md5\",nonce=\"{nonce}\",cnonce=\"c\",\
         digest-uri=\"zookeeper/zk-sasl-md5\",response={proof},authzid=\"super\""
    );
    let answer = server.respond(token.as_bytes()).expect("the password is right");
    assert_eq!(answer.user.as_deref(), Some("ann"));
}

/// The response of a client with an `authzid`, computed by the formula of RFC 2831.
fn claim(nonce: &str, user: &str, password: &str, authzid: &str) -> String {
    use md5::{Digest, Md5};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let secret = Md5::digest(format!("{user}:zk-sasl-md5:{password}"));
    let a1 = [&secret[..], format!(":{nonce}:c:{authzid}").as_bytes()].concat();
    let a2 = Md5::digest("AUTHENTICATE:zookeeper/zk-sasl-md5");
    let a1 = hex(&Md5::digest(a1));
    hex(&Md5::digest(format!("{a1}:{nonce}:00000001:c:auth:{}", hex(&a2))))
}

#[test]
fn tokens_have_a_limit() {
    let mut hostile = server("ann", "secret");
    let long = vec![b','; RESPONSE_BYTES_MAX + 1];
    assert_eq!(hostile.respond(&long), Err(ClientRefused::TooLong(RESPONSE_BYTES_MAX + 1)));
    let good = response(&mut hostile, "ann", "secret");
    let filled = format!("{good}{}", ",".repeat(RESPONSE_BYTES_MAX - good.len()));
    assert!(hostile.respond(filled.as_bytes()).is_ok(), "at the limit, after a token above it");

    let challenge = server("ann", "secret").respond(b"").expect("the first token is ignored").token;
    let long = "x".repeat(USER_BYTES_MAX + 1);
    let refused = client(&long, "secret").respond(&challenge);
    assert_eq!(refused, Err(ServerRefused::LongUser(USER_BYTES_MAX + 1)));
}

#[test]
fn a_server_that_does_not_know_the_password_is_found_out() {
    let challenge = server("ann", "secret").respond(b"").expect("the first token is ignored").token;
    for last in ["", "rspauth=00000000000000000000000000000000", "rspauth=", "x"] {
        let mut client = client("ann", "secret");
        client.respond(&challenge).expect("the challenge is valid");
        assert!(client.respond(last.as_bytes()).is_err(), "{last}");
        assert_eq!(client.respond(last.as_bytes()), Err(ServerRefused::Over));
    }
}

#[test]
fn challenges_that_offer_something_else_are_refused() {
    for (challenge, refused) in [
        ("", ServerRefused::Missing("algorithm")),
        ("algorithm=md5", ServerRefused::Unsupported("algorithm")),
        ("algorithm=md5-sess", ServerRefused::Missing("nonce")),
        ("algorithm=md5-sess,nonce=x,qop=\"auth-int\"", ServerRefused::Unsupported("qop")),
        ("algorithm=md5-sess,nonce=x,charset=latin", ServerRefused::Unsupported("charset")),
        ("algorithm=md5-sess,nonce=x", ServerRefused::NotLatin1),
    ] {
        assert_eq!(client("ann", "€").respond(challenge.as_bytes()), Err(refused), "{challenge}");
    }
    let challenge =
        "algorithm=md5-sess,nonce=x,qop=\"auth-int,auth\",realm=a,realm=b,charset=utf-8";
    let response = client("ann", "€").respond(challenge.as_bytes()).expect("it is valid");
    let response = String::from_utf8(response.expect("a response")).expect("it is a text");
    assert!(response.contains("realm=\"a\""), "{response}");
}
