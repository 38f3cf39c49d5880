//! The same workers over TCP, in real time.

use tokio::net::{TcpListener, TcpStream};
use zoolet::client::{Client, StreamDialer};
use zoolet::server::Server;
use zoolet_example_turmoil::{Result, Store, Worker, serve};

#[tokio::test]
async fn a_worker_that_has_released_the_lock_writes_nothing_after_the_next_one() -> Result<()> {
    let coordinator = TcpListener::bind("127.0.0.1:0").await?;
    let stores = TcpListener::bind("127.0.0.1:0").await?;
    let (servers, store_address) = (coordinator.local_addr()?.to_string(), stores.local_addr()?);
    let (server, store) = (Server::builder().start().await?, Store::default());

    let work = async {
        let worker = async || -> Result<Worker<TcpStream>> {
            let dialer = StreamDialer::new(&servers, TcpStream::connect::<String>)?;
            let client = Client::connect(dialer).await?;
            Ok(Worker::new(client, TcpStream::connect(store_address).await?))
        };
        let (mut owner, mut heir) = (worker().await?, worker().await?);
        let guard = owner.acquire().await?;
        assert!(owner.write(guard.fencing_token(), "of the owner").await?);
        let old_token = guard.fencing_token();
        guard.release().await?;
        let next = heir.acquire().await?;
        assert!(heir.write(next.fencing_token(), "of the heir").await?);
        assert!(!owner.write(old_token, "late").await?, "the store checks fencing tokens");
        next.release().await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    tokio::select! {
        served = serve(&server, async || coordinator.accept().await) => served?,
        served = store.serve(async || stores.accept().await) => served?,
        worked = work => worked?,
    }
    assert_eq!(store.value(), "of the heir");
    Ok(())
}
