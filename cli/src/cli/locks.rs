//! `locks`: shows who holds a lock and who waits for it, by the znodes of the recipes.

use std::collections::HashMap;

use serde_json::{Value, json};
use zoolet_client::{Client, Error};
use zoolet_layouts::{Directory, Name, Queue, Recipe, Row, Site, Znode, semaphore};
use zoolet_protocol::ErrorCode;

use super::answer::{Answer, time};
use super::output::visible;
use super::tree::child;

/// How many characters of a znode's data are shown.
const DATA_CHARS_MAX: usize = 100;

/// A directory of a lock, and the data of its znodes by their names.
#[derive(Debug, Default)]
struct Lock {
    directory: Directory,
    data: HashMap<String, String>,
}

/// Reports who holds the lock of a path and who waits for it.
pub(super) async fn report(client: &Client, path: &str) -> Result<Answer, Error> {
    let mut line = read(client, path).await?;
    // A semaphore of kazoo has the number of its permits here. Who may not read that sees no semaphore.
    if let Ok((data, _)) = client.get(path).await {
        line.directory.set_data(&data);
    }
    let permits = read_or_none(client, &child(path, Site::PERMITS)).await?;
    let curators_gate = read_or_none(client, &child(path, Site::GATE)).await?;
    let kazoos_gate = match line.directory.permits() {
        Some(_) => read_or_none(client, &format!("{path}-__lock__")).await?,
        None => Lock::default(),
    };

    let mut queues: Vec<Queue<'_>> = line.directory.queues();
    queues.retain(|queue| is_shown(queue.recipe) && queue.recipe != Recipe::KazooSemaphore);
    queues.push(semaphore(&permits.directory, &curators_gate.directory));
    queues.push(semaphore(&line.directory, &kazoos_gate.directory));
    queues.retain(|queue| !queue.rows.is_empty());
    queues.sort_by_key(|queue| queue.recipe);

    let locks = [&line, &permits, &curators_gate, &kazoos_gate];
    let data = |row: &Row<'_>| -> String {
        let of = |lock: &&Lock| lock.directory.place(&row.place.name) == Some(row.place);
        let data =
            locks.iter().find(|lock| of(lock)).and_then(|lock| lock.data.get(&row.place.name));
        data.cloned().unwrap_or_default()
    };
    let recipes: Vec<Value> = queues.iter().map(|queue| to_json(queue, &data)).collect();
    let answer = Answer::of("locks").at(path).with("recipes", recipes);
    if queues.is_empty() {
        return Ok(answer.line(&format!("nobody holds {path} or waits for it")));
    }
    Ok(queues
        .iter()
        .fold(answer, |answer, queue| answer.text(table(path, queue, &data).as_bytes())))
}

/// Whether the znodes of a recipe tell who holds something.
fn is_shown(recipe: Recipe) -> bool {
    recipe.excludes() || recipe == Recipe::Lease
}

/// The children of a directory that tell who holds or waits.
async fn read(client: &Client, directory: &str) -> Result<Lock, Error> {
    let names = client.children(directory).await?;
    let is_read = |name: &&str| Name::read(name).is_some_and(|name| is_shown(name.style.recipe()));
    // All are sent before the first answer is awaited.
    let asked: Vec<_> = names
        .iter()
        .filter(is_read)
        .map(|name| (name, client.get(&child(directory, name)).send()))
        .collect();
    let mut lock = Lock::default();
    for (name, answer) in asked {
        match answer.await {
            Ok((data, stat)) => {
                lock.directory.insert(name, Znode::from(&stat));
                let text = visible(&String::from_utf8_lossy(&data));
                lock.data.insert(name.to_owned(), text.chars().take(DATA_CHARS_MAX).collect());
            }
            // It was deleted in between.
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lock)
}

async fn read_or_none(client: &Client, directory: &str) -> Result<Lock, Error> {
    match read(client, directory).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Lock::default()),
        lock => lock,
    }
}

fn to_json(queue: &Queue<'_>, data: &impl Fn(&Row<'_>) -> String) -> Value {
    let row = |row: &Row<'_>| {
        json!({
            "state": row.role.text(),
            "ctime": time(row.place.znode.ctime),
            "ctime_ms": row.place.znode.ctime,
            "session": row.place.znode.session.to_string(),
            "znode": row.place.name,
            "data": data(row),
        })
    };
    let contenders: Vec<Value> = queue.rows.iter().map(row).collect();
    json!({ "recipe": queue.recipe.text(), "contenders": contenders })
}

fn table(path: &str, queue: &Queue<'_>, data: &impl Fn(&Row<'_>) -> String) -> String {
    let header = ["WHO", "CAME", "SESSION", "ZNODE", "DATA"].map(str::to_owned);
    let rows = queue.rows.iter().map(|row| {
        let znode = row.place.znode;
        let who = row.role.text().to_owned();
        let (came, session) = (time(znode.ctime), znode.session.to_string());
        [who, came, session, visible(&row.place.name), data(row)]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2, 3].map(|column| width(column).unwrap_or_default());
    let mut text = format!("{path}: {}\n", queue.recipe.text());
    for [who, came, session, znode, data] in &rows {
        let [w0, w1, w2, w3] = widths;
        let row = format!("  {who:w0$}  {came:w1$}  {session:w2$}  {znode:w3$}  {data}");
        text += row.trim_end();
        text.push('\n');
    }
    text
}
