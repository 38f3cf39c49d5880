//! The code of `docs/queues.md`.

use bytes::Bytes;
use zoolet::recipes::queue::DistributedQueue;

use crate::{Outcome, check, stage};

/// Stands for what the reader's consumer does.
async fn work_on(items: Vec<Bytes>) -> Outcome {
    assert_eq!(items, ["a job"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_is_put_taken_and_done() -> Outcome {
    let (_server, client) = stage().await;
    // On the page:
    let queue = DistributedQueue::new(&client, "/jobs")?.with_lock_path("/job-locks")?;
    queue.put("a job").await?;
    let delivery = queue.take().await?; // leased to this session
    work_on(delivery.items()?).await?;
    delivery.done().await?; // deletes the item and the lease
    // Until here.
    for path in ["/jobs", "/job-locks"] {
        assert_eq!(client.children(path).await?.iter().count(), 0, "{path}");
    }
    Ok(())
}

#[test]
fn the_page_shows_what_runs() {
    check("queues.md", include_str!("queues.rs"));
}
