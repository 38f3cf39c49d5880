//! How clients prove who they are: SASL, certificates' schemes, the ensemble's name; and what those
//! get who do not.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use zoolet::client::sasl::DigestMd5 as ClientDigestMd5;
use zoolet::client::{Client, ConnectionState, Error};
use zoolet::protocol::{
    Acl, Auth, ConnectRequest, ErrorCode, Id, Permissions, Request, Response, SessionRequest, Xid,
};
use zoolet::server::sasl::{DigestMd5, Password, Sasl, Users};
use zoolet::server::storage::StorageConfig;
use zoolet::server::{Config, EnforceAuth, Server, SessionKey, Settings};
use zoolet_test_support::{Local, Tcp, exists, listening_server};

fn users() -> Users {
    let users = [("ann", "secret"), ("bob", "pässwört€"), ("super", "root")];
    users.into_iter().map(|(user, password)| (user.to_owned(), Password::from(password))).collect()
}

/// A server with users, and with access control lists that may name them.
fn config() -> Config {
    Config {
        sasl: Some(Sasl::new(DigestMd5::new(users()))),
        settings: Settings { sasl_scheme: true, ..Settings::default() },
        ..Config::default()
    }
}

async fn client(address: SocketAddr, user: &str, password: &str) -> Result<Client, Error> {
    let mechanism = ClientDigestMd5::new(user, Password::from(password));
    let builder = Client::builder().connection_timeout(Duration::from_secs(5)).sasl(mechanism);
    builder.connect(address.to_string()).await
}

fn entry(scheme: &'static str, id: &'static str) -> Acl {
    Acl { permissions: Permissions::ALL, id: Id::new(scheme, id) }
}

async fn schemes(client: &Client) -> Vec<String> {
    let infos = client.who_am_i().await.expect("the server answers");
    infos.into_iter().map(|info| info.scheme.unwrap_or_default().to_string()).collect()
}

#[tokio::test]
async fn a_user_has_what_lists_give_to_the_user() {
    let (_server, address) = listening_server(config()).await;
    let ann = client(address, "ann", "secret").await.unwrap();
    let bob = client(address, "bob", "pässwört€").await.unwrap();
    ann.create("/ann").acl(vec![entry("auth", "")]).await.unwrap();
    assert_eq!(ann.acl("/ann").await.unwrap().0, [entry("sasl", "ann")]);
    assert!(bob.get("/ann").await.unwrap_err().is(ErrorCode::NO_AUTH));
    bob.create("/bob").acl(vec![entry("sasl", "ann"), entry("sasl", "bob")]).await.unwrap();
    ann.get("/bob").await.unwrap();
    // The user `super` matches each entry of the scheme, and is no superuser.
    let root = client(address, "super", "root").await.unwrap();
    root.get("/ann").await.unwrap();
    ann.create("/digest").acl(vec![entry("digest", "a:b")]).await.unwrap();
    assert!(root.get("/digest").await.unwrap_err().is(ErrorCode::NO_AUTH));
    assert_eq!(schemes(&root).await, ["ip", "sasl"]);
}

#[tokio::test]
async fn in_one_process_a_client_authenticates_too() {
    let mut config = config();
    config.settings.sasl_super_users = ["ann".to_owned()].into();
    let server = Server::builder().config(config).start().await.unwrap();
    let mechanism = ClientDigestMd5::new("ann", Password::from("secret"));
    let ann = Client::builder().sasl(mechanism).connect(server.dialer()).await.unwrap();
    assert_eq!(schemes(&ann).await, ["ip", "super", "sasl"]);
    ann.create("/digest").acl(vec![entry("digest", "a:b")]).await.unwrap();
    ann.get("/digest").await.unwrap();
}

#[tokio::test]
async fn who_cannot_authenticate_fails_and_does_not_go_on_as_nobody() {
    let mut lenient = config();
    lenient.sasl.as_mut().unwrap().allow_failed_clients = true;
    let strict = Config { enforce_auth: EnforceAuth::Schemes(vec!["sasl".to_owned()]), ..config() };
    for config in [config(), lenient, strict, Config::default()] {
        let has_sasl = config.sasl.is_some();
        let (server, address) = listening_server(config).await;
        for (user, password) in [("ann", "Secret"), ("ann", ""), ("eve", "secret"), ("", "")] {
            let failed = client(address, user, password).await.map(drop);
            assert_eq!(failed, Err(Error::AuthFailed), "{user}");
        }
        if !has_sasl {
            assert_eq!(client(address, "ann", "secret").await.map(drop), Err(Error::AuthFailed));
        }
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_authenticates_again_when_it_reconnects() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { storage: Some(StorageConfig::at(directory.path())), ..config() };
    let (server, address) = listening_server(config.clone()).await;
    let ann = client(address, "ann", "secret").await.unwrap();
    ann.create("/ann").acl(vec![entry("auth", "")]).await.unwrap();
    let mut state = ann.state();
    server.shutdown().await;
    state.wait_for(|state| *state == Some(ConnectionState::Suspended)).await.unwrap();
    let again = Server::builder().config(config).listen(address);
    let _server = again.start().await.unwrap();
    state.wait_for(|state| state.is_some_and(ConnectionState::is_connected)).await.unwrap();
    ann.get("/ann").await.unwrap();
    assert_eq!(schemes(&ann).await, ["ip", "sasl"]);
}

/// A request with a token.
fn sasl(token: Option<&[u8]>) -> Request {
    Request::Session(SessionRequest::Sasl(token.map(Bytes::copy_from_slice)))
}

async fn raw(address: SocketAddr) -> Tcp {
    Tcp::connect(address, ConnectRequest::new(30_000)).await.0
}

#[tokio::test]
async fn each_failure_is_answered_as_by_zookeeper() {
    let mut lenient = config();
    lenient.sasl.as_mut().unwrap().allow_failed_clients = true;
    let strict = Config {
        enforce_auth: EnforceAuth::Schemes(vec!["ip".to_owned(), "sasl".to_owned()]),
        ..lenient.clone()
    };
    let cases = [
        (config(), ErrorCode::AUTH_FAILED),
        (lenient, ErrorCode::OK),
        (strict, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH),
    ];
    for (config, code) in cases {
        let (_server, address) = listening_server(config).await;
        let mut client = raw(address).await;
        let (header, challenge) = client.call(&sasl(Some(b""))).await;
        assert_eq!((header.err, header.zxid.0), (ErrorCode::OK, 0));
        let Response::Token(Some(challenge)) = challenge else { panic!("{challenge:?}") };
        assert!(challenge.starts_with(b"realm=\"zk-sasl-md5\",nonce=\""), "{challenge:?}");
        assert!(challenge.ends_with(b"\",charset=utf-8,algorithm=md5-sess"), "{challenge:?}");
        let (header, token) = client.call(&sasl(Some(b"username=\"ann\""))).await;
        assert_eq!((header.err, header.zxid.0, token), (code, 0, Response::Token(None)));
        if code.is_ok() {
            // The exchange is over, and the connection is nobody's.
            let (header, token) = client.call(&sasl(Some(b""))).await;
            assert_eq!((header.err, token), (ErrorCode::OK, Response::Token(None)));
            let (_, who) = client.call(&Request::Session(SessionRequest::WhoAmI)).await;
            let Response::WhoAmI(who) = who else { panic!("{who:?}") };
            assert_eq!(who.len(), 1, "{who:?}");
        } else {
            assert_eq!(client.receive().await, None, "the connection is closed");
        }
    }
}

#[tokio::test]
async fn hostile_exchanges_end_their_connection_and_no_other() {
    let (_server, address) = listening_server(config()).await;
    let mut witness = raw(address).await;
    let long = vec![b','; 4097];
    let exchanges: [&[&[u8]]; 6] = [
        &[&long],
        &[b"", &long],
        &[b"", b""],
        &[b"", b"username=\"ann\",username=\"ann\""],
        &[b"", b"\xff\xfe=\"\0"],
        &[b"username=\"ann\"", b"username=\"ann\""],
    ];
    for tokens in exchanges {
        let mut client = raw(address).await;
        let mut last = ErrorCode::OK;
        for token in tokens {
            last = client.call(&sasl(Some(token))).await.0.err;
        }
        assert_eq!(last, ErrorCode::AUTH_FAILED, "{tokens:?}");
        assert_eq!(client.receive().await, None, "{tokens:?}");
    }
    let mut client = raw(address).await;
    client.send(&zoolet::protocol::encode_request(Xid(1), &sasl(None))).await;
    assert_eq!(client.receive().await, None, "a null token");
    assert_eq!(witness.call(&exists("/")).await.0.err, ErrorCode::OK);
    assert_eq!(witness.call(&sasl(Some(b""))).await.0.err, ErrorCode::OK);
}

#[tokio::test]
async fn the_responses_of_another_exchange_are_refused() {
    let (_server, address) = listening_server(config()).await;
    let (response, mut first) = good_response(address).await;
    // It is good for the connection whose challenge it answers, once.
    let mut other = raw(address).await;
    other.call(&sasl(Some(b""))).await;
    assert_eq!(other.call(&sasl(Some(&response))).await.0.err, ErrorCode::AUTH_FAILED);
    assert_eq!(first.call(&sasl(Some(&response))).await.0.err, ErrorCode::OK);
    assert_eq!(first.call(&sasl(Some(&response))).await.0.err, ErrorCode::AUTH_FAILED);
}

/// A good response of ann's, and the connection that it is for.
async fn good_response(address: SocketAddr) -> (Vec<u8>, Tcp) {
    use zoolet::client::sasl::Mechanism;

    let (token, mut exchange) = ClientDigestMd5::new("ann", Password::from("secret")).begin();
    let mut client = raw(address).await;
    let (_, challenge) = client.call(&sasl(Some(&token))).await;
    let Response::Token(Some(challenge)) = challenge else { panic!("{challenge:?}") };
    let response =
        exchange.respond(&challenge).expect("the challenge is one").expect("there is a response");
    (response, client)
}

fn auth(scheme: &'static str, name: &'static [u8]) -> Request {
    let auth = Bytes::from_static(name);
    let auth = Auth { auth_type: 0, scheme: Some(scheme.into()), auth: Some(auth) };
    Request::Session(SessionRequest::Auth(auth))
}

#[tokio::test]
async fn a_client_that_means_another_ensemble_is_cut_off_without_an_answer() {
    let settings = Settings {
        ensemble_scheme: true,
        ensemble_names: Some(["blue".to_owned(), "azure".to_owned()].into()),
        ..Settings::default()
    };
    let config =
        Config { settings, four_letter_words: "mntr".parse().unwrap(), ..Config::default() };
    let (_server, address) = listening_server(config).await;
    let mut client = raw(address).await;
    for name in [&b"blue"[..], b"azure", b""] {
        assert_eq!(client.call(&auth("ensemble", name)).await.0.err, ErrorCode::OK);
    }
    client.send(&zoolet::protocol::encode_request(Xid::AUTH, &auth("ensemble", b"green"))).await;
    assert_eq!(client.receive().await, None);
    let mut word = Tcp::open(address).await;
    word.send_bytes(b"mntr").await;
    let text = word.text().await;
    for line in ["ensemble_auth_success\t2", "ensemble_auth_fail\t1", "ensemble_auth_skip\t1"] {
        assert!(text.contains(&format!("zk_{line}\n")), "{text}");
    }
    // Without the provider the scheme is unknown.
    let (_server, address) = listening_server(Config::default()).await;
    let mut client = raw(address).await;
    assert_eq!(client.call(&auth("ensemble", b"green")).await.0.err, ErrorCode::AUTH_FAILED);
}

#[tokio::test]
async fn a_request_auth_gives_no_identity_of_sasl_or_of_a_certificate() {
    let mut config = config();
    config.settings.x509_scheme = true;
    let (_server, address) = listening_server(config).await;
    for scheme in ["sasl", "x509"] {
        let mut client = raw(address).await;
        let (header, _) = client.call(&auth(scheme, b"ann")).await;
        assert_eq!(header.err, ErrorCode::AUTH_FAILED, "{scheme}");
        assert_eq!(client.receive().await, None, "{scheme}");
    }
}

#[tokio::test]
async fn with_enforced_sasl_a_client_must_authenticate_first() {
    let enforce_auth = EnforceAuth::Schemes(vec!["sasl".to_owned()]);
    let (_server, address) = listening_server(Config { enforce_auth, ..config() }).await;
    let ann = client(address, "ann", "secret").await.unwrap();
    ann.exists("/").await.unwrap();
    let mut stranger = raw(address).await;
    let (header, _) = stranger.call(&exists("/")).await;
    assert_eq!(header.err, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH);
    assert_eq!(stranger.receive().await, None);
}

#[tokio::test]
async fn with_a_session_key_the_public_password_takes_over_nothing() {
    let key = SessionKey::from_random([7; 32]);
    let config = Config { session_key: Some(key), ..Config::default() };
    let server = Server::builder().config(config).start().await.unwrap();
    let (_first, granted) = Local::connect(&server, 30_000).await;
    let resume = |password| ConnectRequest {
        session: granted.session,
        password,
        ..ConnectRequest::new(30_000)
    };
    let public = zoolet::protocol::Password::of(granted.session);
    assert_ne!(granted.password, public);
    let (_, refused) = Local::connect_with(&server, resume(public)).await;
    assert!(refused.is_refused());
    let (_second, resumed) = Local::connect_with(&server, resume(granted.password.clone())).await;
    assert_eq!(resumed.session, granted.session);
}
