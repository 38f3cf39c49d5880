use zoolet::protocol::SessionId;

use super::{LOCK, connect, mutex, server};

#[tokio::test(start_paused = true)]
async fn the_watch_graph_of_a_mutex_shows_one_waiter_for_each_znode() {
    let server = server().await;
    let mut clients = Vec::new();
    let mut held = Vec::new();
    for index in 0..4 {
        let client = connect(&server).await;
        let mutex = mutex(&client);
        let session = client.session_id();
        clients.push(client);
        if index == 0 {
            held.push(mutex.acquire().await.unwrap());
            continue;
        }
        tokio::spawn(async move { mutex.acquire().await });
        server.wait_until(|stats| stats.session(session).watches > 0).await;
    }
    let graph = server.watch_graph();
    let line = graph.line(LOCK);
    let sessions: Vec<SessionId> = clients.iter().map(|client| client.session_id()).collect();
    let owners: Vec<_> = line.iter().map(|contender| contender.owner).collect();
    assert_eq!(owners, sessions);
    for (contender, next) in line.iter().zip(&sessions[1..]) {
        assert_eq!(contender.waiting, [*next], "{graph}");
        assert_eq!(
            contender.to_string(),
            format!("{} of {} <- {next}", contender.path, contender.owner)
        );
    }
    assert!(line[3].waiting.is_empty());
    let watched = graph.paths.iter().find(|watched| watched.path == line[0].path).unwrap();
    assert_eq!(watched.owner, Some(sessions[0]));
    assert!(graph.to_string().contains(&format!("{}, ephemeral of {}", line[0].path, sessions[0])));

    let dot = graph.dot();
    let waits = format!("  \"{}\" -> \"{}\" [label=\"data, child\"];\n", sessions[1], line[0].path);
    assert!(dot.contains(&waits), "{dot}");
    let owned = format!("  \"{}\" -> \"{}\" [style=dashed];\n", line[0].path, sessions[0]);
    assert!(dot.contains(&owned), "{dot}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_graph_names_the_most_watched_path() {
    let server = server().await;
    let mut watched = Vec::new();
    for _ in 0..5 {
        let client = connect(&server).await;
        let watching = client.exists("/gone").and_watch().await.unwrap();
        watched.push((client, watching));
    }
    let graph = server.watch_graph();
    assert_eq!(graph.most_watched(), Some(("/gone", 5)));
    let text = graph.to_string();
    assert!(text.starts_with("5 watches on 1 paths, at most 5 watchers on one: /gone\n"), "{text}");
    assert!(text.contains("/gone, missing\n"), "{text}");
    assert!(text.contains(&format!("{} (connection 1): exist\n", watched[0].0.session_id())));
    assert!(graph.dot().contains("  \"/gone\" [shape=box, style=dashed];\n"));
    assert!(graph.line("/").is_empty());
}
