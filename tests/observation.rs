//! What a test sees of a server: what was asked and told, by session and by path, who watches what,
//! and a wait for it.

#[path = "observation/graph.rs"]
mod graph;
#[path = "observation/stats.rs"]
mod stats;

use zoolet::{Client, InterProcessMutex, Server};

const LOCK: &str = "/locks/stock";

async fn server() -> Server {
    Server::builder().start().await.expect("a server in memory starts")
}

async fn connect(server: &Server) -> Client {
    Client::connect(server.dialer()).await.expect("the server is there")
}

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, LOCK).expect("a path")
}
