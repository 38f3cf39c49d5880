//! Four-letter words, by which programs look for the leader.

use std::net::SocketAddr;

use zoolet_test_support::Tcp;

use super::TransportKind;

async fn ask(address: SocketAddr, word: &str) -> String {
    let mut tcp = Tcp::open(address).await;
    tcp.send_bytes(word.as_bytes()).await;
    tcp.text().await
}

#[tokio::test]
async fn words_tell_who_leads() {
    let ensemble = TransportKind::Tcp.start().await;
    let address = |server| ensemble.server(server).address().unwrap();
    let client = TransportKind::Tcp.connect(&ensemble, 1).await;
    let _watch = client.exists("/watched").and_watch().await.unwrap();
    for (server, mode) in [(0, "leader"), (1, "follower"), (2, "follower")] {
        for word in ["srvr", "stat"] {
            let said = ask(address(server), word).await;
            assert!(said.starts_with("Zookeeper version: 3."), "{said}");
            assert!(said.contains(&format!("\nMode: {mode}\nNode count: 5\n")), "{said}");
        }
        let said = ask(address(server), "mntr").await;
        assert!(said.contains(&format!("zk_server_state\t{mode}\n")), "{said}");
        assert_eq!(said.contains("zk_synced_followers\t2\n"), mode == "leader", "{said}");
        assert_eq!(ask(address(server), "ruok").await, "imok");
        assert_eq!(ask(address(server), "isro").await, "rw");
        let said = ask(address(server), "envi").await;
        assert!(said.starts_with("Environment:\nzookeeper.version=3."), "{said}");
        let watched = if server == 1 { "/watched\n" } else { "" };
        assert!(ask(address(server), "wchp").await.starts_with(watched));
    }
    let said = ask(address(1), "dump").await;
    assert_eq!(said, "dump is not executed because it is not in the whitelist.\n");
}

#[tokio::test]
async fn a_server_without_a_leader_says_so() {
    let builder = zoolet::testing::TestEnsemble::builder().elect_by_hand();
    let ensemble = TransportKind::Tcp.start_with(builder).await;
    let lost = ensemble.lose_leader().unwrap();
    let address = |server| ensemble.server(server).address().unwrap();
    let not_serving = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(ask(address(1), "srvr").await, not_serving);
    assert_eq!(ask(address(1), "isro").await, "null");
    assert_eq!(ask(address(lost), "ruok").await, "", "a stopped server answers nothing");
}
