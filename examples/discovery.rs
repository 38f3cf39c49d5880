//! Service discovery: an instance registers itself, a client chooses one for each request, and leaves
//! out what fails or is disabled.
//!
//! Run it with `cargo run --example discovery`.

use std::error::Error;

use serde::{Deserialize, Serialize};
use zoolet::client::Client;
use zoolet::recipes::discovery::{JsonInstanceSerializer, ServiceDiscovery, UriSpec};
use zoolet::server::Server;

/// What the users of the service must know. Java programs have a class of this name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "@class", rename = "com.example.Shard")]
struct Shard {
    first: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let server = Server::builder().start().await?;
    let discovery = |client: &Client| {
        ServiceDiscovery::<Shard>::builder(client, "/services")
            .serializer(JsonInstanceSerializer::with_enabled())
            .start()
    };

    // Two instances, each with a client of its own, as in two processes.
    let mut registrations = Vec::new();
    for port in [8081, 8082] {
        let client = Client::connect(server.dialer()).await?;
        let discovery = discovery(&client)?;
        let instance = discovery
            .new_instance("orders")
            .address("10.0.0.7")
            .port(port)
            .uri_spec(UriSpec::parse("{scheme}://{address}:{port}")?)
            .payload(Shard { first: 0 });
        registrations.push(discovery.register(instance).await?);
    }

    // A user of the service. From here on each choice is made in memory.
    let client = Client::connect(server.dialer()).await?;
    let provider = discovery(&client)?.service_provider("orders").start()?;
    provider.initialized().await?;
    let chosen = || provider.instance().map(|it| it.build_uri(&[])).unwrap_or_default();
    let mut first = [chosen(), chosen()];
    first.sort();
    let mut told = vec![format!("in turn: {} and {}", first[0], first[1])];

    // An instance is disabled before it stops, so that nobody sends it another request.
    let mut changes = provider.cache().changes();
    registrations[0].disable().await?;
    changes.changed().await?;
    told.push(format!("only: {}", chosen()));

    // The other one fails twice.
    if let Some(failed) = provider.instance() {
        provider.note_error(&failed);
        provider.note_error(&failed);
    }
    told.push(format!("left: {} instances", provider.instances().len()));
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_choice_leaves_out_what_is_disabled_or_down() {
        let told = run().await.unwrap();
        assert_eq!(
            told,
            [
                "in turn: http://10.0.0.7:8081 and http://10.0.0.7:8082",
                "only: http://10.0.0.7:8082",
                "left: 0 instances",
            ],
        );
    }
}
