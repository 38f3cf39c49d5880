//! What a client tells when TLS fails, and how soon.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use zoolet::client::tls::{ClientTls, ClientTlsOptions, HostnameVerification};
use zoolet::client::{Builder, ConnectError, Error, FourLetterWord, Hosts};
use zoolet::server::Server;
use zoolet::server::tls::ClientAuth;

use crate::certificates::{ANY, Authority, builder, server};

/// For what is known long before.
const LONG: Duration = Duration::from_secs(600);

/// Why a client does not connect. It must be known long before the connection timeout.
async fn failure(builder: Builder, target: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "how long a real handshake takes is measured")]
    let begin = Instant::now();
    let error = builder.connect(target).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(20), "{error}");
    let Error::Unreachable(ConnectError::Tls(text)) = error else { panic!("{error:?}") };
    assert!(text.starts_with(target), "{text}");
    text
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_trusted() {
    let (ca, other) = (Authority::new(), Authority::new());
    let server = server(ca.server_tls(ClientAuth::None)).await;
    let address = server.secure_addr().unwrap().to_string();
    let text = failure(builder().tls(other.anonymous()), &address).await;
    assert!(text.contains("certificate is not trusted"), "{text}");
    assert!(text.contains("trust store"), "{text}");
}

#[tokio::test]
async fn a_certificate_must_have_the_host_of_the_connection_string_unless_told() {
    let ca = Authority::new();
    let options = zoolet::server::tls::ServerTlsOptions::new(zoolet::client::tls::Store::new(
        ca.issue_for("elsewhere", &["zk.example.org"]),
    ));
    let stores = zoolet::server::tls::ServerTls::load(options.client_auth(ClientAuth::None));
    let tls = zoolet::server::TlsConfig::new(stores.unwrap()).listen(ANY.into());
    let server = server(tls).await;
    let address = server.secure_addr().unwrap().to_string();
    let text = failure(builder().tls(ca.anonymous()), &address).await;
    assert!(text.contains("zk.example.org") && text.contains("::server_name"), "{text}");
    let options = || ClientTlsOptions::new().trust_store(ca.trust());
    for told in [
        options().server_name("zk.example.org"),
        options().hostname_verification(HostnameVerification::Off),
    ] {
        let tls = ClientTls::load(told).unwrap();
        builder().tls(tls).connect(address.as_str()).await.unwrap();
    }
}

/// A builder with TLS never speaks plaintext: what it cannot secure it does not connect to.
#[tokio::test]
async fn parsed_hosts_have_their_own_tls_and_a_builder_with_tls_refuses_them() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::None).port_unification()).await;
    let plaintext: Hosts = server.local_addr().unwrap().to_string().parse().unwrap();
    let secured = builder().tls(ca.anonymous());
    let error = secured.clone().connect(plaintext.clone()).await.unwrap_err();
    assert!(matches!(&error, Error::Hosts(text) if text.contains("Hosts::tls")), "{error}");
    let error = secured.connect(server.dialer()).await.unwrap_err();
    assert!(matches!(error, Error::Hosts(_)), "{error}");
    builder().connect(plaintext.tls(ca.anonymous())).await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_is_told_of() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let address = server.secure_addr().unwrap().to_string();
    let text = failure(builder().tls(ca.anonymous()), &address).await;
    assert!(text.contains("wants a certificate of this client"), "{text}");
}

#[tokio::test]
async fn plaintext_to_a_port_that_speaks_tls_is_told_of() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let address = server.secure_addr().unwrap().to_string();
    let text = failure(builder(), &address).await;
    assert!(text.contains("the server speaks TLS on this port"), "{text}");
    // The port waits for more than a word.
    let error = FourLetterWord::new("srvr").timeout(LONG).ask(&address).await.unwrap_err();
    let ConnectError::Tls(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("the server speaks TLS on this port"), "{text}");
}

#[tokio::test]
async fn tls_to_a_plaintext_port_is_told_of() {
    // A server that answers with what is not TLS.
    let listener = TcpListener::bind(std::net::SocketAddr::from(ANY)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"This is not TLS").await;
            let _ = stream.shutdown().await;
        }
    });
    let ca = Authority::new();
    let text = failure(builder().tls(ca.anonymous()), &address).await;
    assert!(text.contains("does not speak TLS on this port"), "{text}");

    // A server of ZooKeeper just closes the connection, and then answers in plaintext.
    let server = Server::builder().listen(ANY.into()).start().await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let text = failure(builder().tls(ca.anonymous()), &address).await;
    assert!(text.contains("does not speak TLS on this port"), "{text}");
    let word = FourLetterWord::new("srvr").tls(ca.anonymous());
    let error = word.ask(&address).await.unwrap_err();
    let ConnectError::Tls(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("does not speak TLS on this port"), "{text}");
}

#[tokio::test]
async fn a_server_that_only_ends_connections_is_tried_again() {
    let listener = TcpListener::bind(std::net::SocketAddr::from(ANY)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let ca = Authority::new();
    let soon = || builder().connection_timeout(Duration::from_secs(1));
    for (client, expected) in [
        (soon().tls(ca.anonymous()), "does the server speak TLS on this port?"),
        (soon(), "ended before a session was opened"),
    ] {
        let error = client.connect(address.as_str()).await.unwrap_err();
        let Error::Unreachable(ConnectError::Closed(text)) = &error else { panic!("{error:?}") };
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn plaintext_to_a_port_for_tls_that_only_ends_the_connection_is_told_of() {
    // As Apache ZooKeeper's port for TLS: an alert answers a handshake, nothing answers plaintext.
    let listener = TcpListener::bind(std::net::SocketAddr::from(ANY)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut first = [0];
            if stream.read_exact(&mut first).await.is_ok() && first == [0x16] {
                let _ = stream.write_all(b"\x15\x03\x03\x00\x02\x02\x28").await;
            }
        }
    });
    let text = failure(builder(), &address).await;
    assert!(text.contains("the server speaks TLS on this port"), "{text}");
    let error = FourLetterWord::new("srvr").ask(&address).await.unwrap_err();
    let ConnectError::Tls(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("the server speaks TLS on this port"), "{text}");
}

#[tokio::test]
async fn a_client_that_is_connected_survives_a_server_that_shows_a_bad_certificate_for_a_while() {
    let (ca, other) = (Authority::new(), Authority::new());
    let good = ca.server_tls(ClientAuth::None);
    let server = server(good.clone()).await;
    let address = server.secure_addr().unwrap();
    let hosts = address.to_string();
    let client = builder().tls(ca.anonymous()).connect(hosts.as_str()).await.unwrap();
    server.shutdown().await;
    let bad = other.server_tls(ClientAuth::None).listen(address);
    let wrong = Server::builder().tls(bad).start().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!client.state().borrow().unwrap().is_connected());
    wrong.shutdown().await;
    let _right = Server::builder().tls(good.listen(address)).start().await.unwrap();
    let mut state = client.state();
    let connected = state.wait_for(|it| it.is_some_and(|it| it.is_connected()));
    tokio::time::timeout(Duration::from_secs(20), connected).await.unwrap().unwrap();
}
