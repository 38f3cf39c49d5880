//! The code of `docs/migrations.md`.

use zoolet::protocol::CreateMode;
use zoolet::recipes::migration::{Migration, MigrationManager, MigrationSet};

use crate::{Outcome, check, stage};

#[tokio::test(start_paused = true)]
async fn a_second_release_appends_a_migration() -> Outcome {
    let (_server, client) = stage().await;
    // On the page:
    let first: Migration = client
        .transaction()
        .create("/app", "", CreateMode::Persistent)
        .create("/app/limit", "100", CreateMode::Persistent)
        .into();
    let manager = MigrationManager::new(&client, "/migrations/locks", "/migrations/metadata");
    manager.migrate(&MigrationSet::new("app", vec![first.clone()])).await?;
    // Until here.
    assert_eq!(client.get("/app/limit").await?.0, "100");
    // On the page:
    let second: Migration = client.transaction().set("/app/limit", "200", 0).into();
    let set = MigrationSet::new("app", vec![first, second]);
    println!("{} migrations were missing", manager.migrate(&set).await?);
    // Until here.
    assert_eq!(manager.migrate(&set).await?, 0);
    assert_eq!(client.get("/app/limit").await?.0, "200");
    assert_eq!(client.children("/migrations/metadata/app").await?.iter().count(), 2);
    Ok(())
}

#[test]
fn the_page_shows_what_runs() {
    check("migrations.md", include_str!("migrations.rs"));
}
