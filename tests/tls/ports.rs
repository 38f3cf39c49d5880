//! What each port speaks, to whom, and what the session notices.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use zoolet::client::tls::rustls::pki_types::CertificateDer;
use zoolet::client::tls::{ClientTls, Store};
use zoolet::client::{ConnectError, Error, FourLetterWord};
use zoolet::protocol::{Acl, ClientInfo, ConnectRequest, ErrorCode, Id, Permissions};
use zoolet::server::tls::{ClientAuth, ServerTls, ServerTlsOptions};
use zoolet::server::{Config, Settings, TlsConfig};
use zoolet_test_support::Tcp;

use crate::certificates::{Authority, builder, config, connect, metric, open, server, server_with};

/// The identities of a client, as `scheme:id`.
async fn identities(client: &zoolet::client::Client) -> Vec<String> {
    let who = client.who_am_i().await.unwrap();
    let text = |info: &ClientInfo| {
        format!("{}:{}", info.scheme.as_deref().unwrap(), info.user.as_deref().unwrap())
    };
    who.iter().map(text).collect()
}

#[tokio::test]
async fn who_has_a_certificate_has_its_name_and_who_has_none_is_admitted_as_told() {
    let ca = Authority::new();
    let (named, anonymous) = (ca.client("ann"), ca.anonymous());
    for (mode, has_name, admits_anonymous) in [
        (ClientAuth::None, false, true),
        (ClientAuth::Want, true, true),
        (ClientAuth::Need, true, false),
    ] {
        let server = server(ca.server_tls(mode)).await;
        let address = server.secure_addr().unwrap();
        let who = identities(&connect(address, &named).await).await;
        assert_eq!(who.contains(&"x509:CN=ann".to_owned()), has_name, "{mode}: {who:?}");
        let client = builder().tls(Arc::clone(&anonymous)).connect(address.to_string()).await;
        match client {
            Ok(client) => {
                assert!(admits_anonymous, "{mode}");
                let who = identities(&client).await;
                assert!(!who.iter().any(|it| it.starts_with("x509")), "{mode}: {who:?}");
            }
            Err(error) => {
                assert!(!admits_anonymous, "{mode}: {error}");
                assert!(matches!(error, Error::Unreachable(ConnectError::Tls(_))), "{error}");
                assert!(metric(&server, "unsuccessful_handshake").await >= 1.0);
                assert!(metric(&server, "auth_failed_count").await >= 1.0);
            }
        }
        assert_eq!(metric(&server, "outstanding_tls_handshake").await, 0.0);
    }
}

#[tokio::test]
async fn an_access_control_list_names_clients_by_their_certificates() {
    let ca = Authority::new();
    let settings = Settings { x509_super_user: Some("CN=admin".to_owned()), ..Settings::default() };
    let config = Config { settings, ..config() };
    let server = server_with(config, ca.server_tls(ClientAuth::Need)).await;
    let address = server.secure_addr().unwrap();
    let ann = connect(address, &ca.client("ann")).await;
    let acl = vec![Acl::new(Permissions::ALL, Id::new("x509", "CN=ann"))];
    ann.create("/hers").data("secret").acl(acl).await.unwrap();
    assert_eq!(ann.get("/hers").await.unwrap().0, "secret");
    let bob = connect(address, &ca.client("bob")).await;
    assert!(bob.get("/hers").await.unwrap_err().is(ErrorCode::NO_AUTH));
    let plain = builder().connect(server.local_addr().unwrap().to_string()).await.unwrap();
    assert!(plain.get("/hers").await.unwrap_err().is(ErrorCode::NO_AUTH));
    let admin = connect(address, &ca.client("admin")).await;
    assert_eq!(admin.get("/hers").await.unwrap().0, "secret");
}

#[tokio::test]
async fn a_unified_port_speaks_plaintext_and_tls() {
    let ca = Authority::new();
    let stores = ServerTls::load(ca.server_options()).unwrap();
    let server = server(TlsConfig::new(stores).port_unification()).await;
    assert_eq!(server.secure_addr(), None);
    let address = server.local_addr().unwrap();
    let secure = connect(address, &ca.client("ann")).await;
    let plain = builder().connect(address.to_string()).await.unwrap();
    secure.create("/a").await.unwrap();
    assert!(plain.exists("/a").await.unwrap().is_some());
    let ruok = FourLetterWord::new("ruok");
    assert_eq!(ruok.ask(&address.to_string()).await.unwrap(), "imok");
    let by_tls = ruok.tls(ca.client("ann"));
    assert_eq!(by_tls.ask(&address.to_string()).await.unwrap(), "imok");
    // The client, `ruok`, and `mntr` itself.
    assert_eq!(metric(&server, "non_mtls_local_conn_count").await, 3.0);
    assert_eq!(metric(&server, "non_mtls_remote_conn_count").await, 0.0);
}

#[tokio::test]
async fn four_letter_words_are_answered_over_tls_however_long_the_answer() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let address = server.secure_addr().unwrap();
    let tls = ca.client("ann");
    let client = connect(address, &tls).await;
    let names: Vec<_> = (0..2_000).map(|i| format!("/{}{i}", "a".repeat(100))).collect();
    let watchers = join_all(names.iter().map(|name| client.exists(name).and_watch())).await;
    assert!(watchers.iter().all(Result::is_ok));
    let ask = |word: &str| {
        let word = FourLetterWord::new(word).tls(Arc::clone(&tls));
        async move { word.ask(&address.to_string()).await.unwrap() }
    };
    let report = ask("wchp").await;
    assert!(names.iter().all(|name| report.contains(name.as_str())), "{} bytes", report.len());
    let port = format!("\nsecureClientPort={}\n", address.port());
    assert!(ask("conf").await.contains(&port));
    assert!(ask("isro").await == "rw");
}

#[tokio::test]
async fn long_data_arrives_whole_in_both_directions_also_when_the_client_reads_late() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let client = connect(server.secure_addr().unwrap(), &ca.client("ann")).await;
    let data: Bytes = (0..1_000_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
    client.create("/long").data(data.clone()).await.unwrap();
    // Thirty megabytes wait, which no socket takes at once.
    let reads: Vec<_> = (0..30).map(|_| client.get("/long").send()).collect();
    // The runtime has one thread: nothing is read meanwhile.
    #[expect(clippy::disallowed_methods, reason = "the client's task must not run")]
    std::thread::sleep(Duration::from_millis(300));
    for read in join_all(reads).await {
        assert!(read.unwrap().0 == data);
    }
}

#[tokio::test]
async fn a_session_moves_between_the_ports() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let (plain, secure) = (server.local_addr().unwrap(), server.secure_addr().unwrap());
    let tls = ca.client("ann");
    let (first, opened) = Tcp::connect(plain, ConnectRequest::new(30_000)).await;
    let again = ConnectRequest {
        session: opened.session,
        password: opened.password,
        ..ConnectRequest::new(30_000)
    };
    let mut second = Tcp::over(open(secure, &tls).await);
    assert_eq!(second.open_session(&again).await.session, opened.session);
    drop(first);
    let (_third, moved) = Tcp::connect(plain, again).await;
    assert_eq!(moved.session, opened.session);
    // The session has left the connection by TLS, which is closed.
    assert_eq!(second.receive().await, None);
}

/// The certificate that a server shows.
async fn shown(address: std::net::SocketAddr, tls: &ClientTls) -> CertificateDer<'static> {
    let stream = open(address, tls).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[cfg(unix)]
#[tokio::test]
async fn new_certificates_are_shown_to_new_connections_and_old_ones_stay_connected() {
    use std::os::unix::fs::symlink;

    let ca = Authority::new();
    // As Kubernetes does: a link to a directory, which another takes the place of.
    for version in ["one", "two", "bad"] {
        fs::create_dir(ca.path(version)).unwrap();
        let issued = ca.issue("server");
        fs::rename(issued, ca.path(version).join("server.pem")).unwrap();
    }
    let bad = ca.path("bad").join("server.pem");
    fs::write(&bad, &fs::read(&bad).unwrap()[..200]).unwrap();
    symlink(ca.path("one"), ca.path("data")).unwrap();
    let swap = |to: &str| {
        symlink(ca.path(to), ca.path("new")).unwrap();
        fs::rename(ca.path("new"), ca.path("data")).unwrap();
    };
    let options = ServerTlsOptions::new(Store::new(ca.path("data").join("server.pem")));
    let stores = ServerTls::load(options.trust_store(ca.trust())).unwrap();
    let tls = TlsConfig::new(stores).listen(crate::certificates::ANY.into());
    let stores = Arc::clone(&tls.stores);
    let server = server(tls).await;
    let (address, ann) = (server.secure_addr().unwrap(), ca.client("ann"));
    let client = connect(address, &ann).await;
    let session = client.session_id();
    let first = shown(address, &ann).await;
    assert!(!stores.reload_if_changed().unwrap());
    swap("two");
    assert!(stores.reload_if_changed().unwrap());
    let second = shown(address, &ann).await;
    assert_ne!(first, second);
    swap("bad");
    let error = stores.reload_if_changed().unwrap_err().to_string();
    assert!(error.contains("server.pem"), "{error}");
    assert_eq!(shown(address, &ann).await, second, "the last good one stays");
    client.create("/still-there").await.unwrap();
    assert_eq!(client.session_id(), session);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_looked_at_every_few_seconds_if_that_is_asked_for() {
    for is_asked_for in [false, true] {
        let ca = Authority::new();
        let mut tls = ca.server_tls(ClientAuth::Need);
        tls.certificate_reload = is_asked_for;
        let stores = Arc::clone(&tls.stores);
        let before = stores.config();
        let server = server(tls).await;
        ca.issue("server");
        tokio::time::sleep(Duration::from_secs(6)).await;
        let is_new = !Arc::ptr_eq(&before, &stores.config());
        assert_eq!(is_new, is_asked_for);
        server.shutdown().await;
    }
}
