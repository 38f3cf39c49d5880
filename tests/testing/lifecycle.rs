//! Servers for tests begin, end and begin again.

use zoolet::testing::{FaultError, Scope, TestServer};
use zoolet::{Client, protocol::SessionId};

#[tokio::test(start_paused = true)]
async fn a_restarted_server_has_its_data_and_its_clients_again() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    client.create("/kept").ephemeral().await.unwrap();
    let session = client.session_id();
    server.restart().await.unwrap();
    assert!(client.exists("/kept").await.unwrap().is_some());
    assert_eq!(client.session_id(), session);
}

#[tokio::test]
async fn over_tcp_the_port_stays() {
    let server = TestServer::builder().tcp().start().await.unwrap();
    let address = server.connect_string().unwrap();
    let client = Client::connect(address.as_str()).await.unwrap();
    client.create("/kept").await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(server.connect_string().unwrap(), address);
    assert!(client.exists("/kept").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_fault_for_nobody_names_those_who_are_there() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let error = server.session(SessionId(7)).expire().unwrap_err();
    assert!(error.to_string().contains(&client.session_id().to_string()), "{error}");
    server.stop().await;
    assert_eq!(server.at(Scope::Server).cut(), Err(FaultError::Stopped));
}
