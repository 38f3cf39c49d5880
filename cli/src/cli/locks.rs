//! `locks`: shows who holds a lock and who waits for it, by the znodes of the recipes.

use serde_json::{Value, json};
use zoolet_client::{Client, Error};
use zoolet_protocol::{ErrorCode, SessionId, Stat};

use super::answer::{Answer, time};
use super::output::visible;
use super::tree::child;
use crate::lock_names::{Marker, PERMITS, WAITING_FOR_PERMITS};

/// A znode of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contender {
    marker: Marker,
    number: i64,
    name: String,
    session: SessionId,
    /// When it was created, in milliseconds since 1970.
    ctime: i64,
    data: String,
}

/// The contenders of one recipe in their order, each with its state.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    recipe: &'static str,
    rows: Vec<(&'static str, Contender)>,
}

impl Group {
    fn json(&self) -> Value {
        let row = |(state, contender): &(&str, Contender)| {
            json!({
                "state": state,
                "ctime": time(contender.ctime),
                "ctime_ms": contender.ctime,
                "session": contender.session.to_string(),
                "znode": contender.name,
                "data": contender.data,
            })
        };
        json!({ "recipe": self.recipe, "contenders": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// How many characters of a znode's data are shown.
const DATA_CHARS_MAX: usize = 100;

/// Reports who holds the lock of a path and who waits for it.
pub(super) async fn report(client: &Client, path: &str) -> Result<Answer, Error> {
    let groups = groups(
        contenders(client, path).await?,
        contenders_or_none(client, &child(path, PERMITS)).await?,
        contenders_or_none(client, &child(path, WAITING_FOR_PERMITS)).await?,
    );
    let recipes: Vec<Value> = groups.iter().map(Group::json).collect();
    let answer = Answer::of("locks").at(path).with("recipes", recipes);
    if groups.is_empty() {
        return Ok(answer.line(&format!("nobody holds {path} or waits for it")));
    }
    Ok(groups.iter().fold(answer, |answer, group| answer.text(table(path, group).as_bytes())))
}

/// The contenders of a directory.
async fn contenders(client: &Client, directory: &str) -> Result<Vec<Contender>, Error> {
    let names = client.children(directory).await?;
    // All are sent before the first answer is awaited.
    let asked: Vec<_> = names
        .iter()
        .filter_map(|name| Some((Marker::read(name)?, name)))
        .map(|(read, name)| (read, name, client.get(&child(directory, name)).send()))
        .collect();
    let mut contenders = Vec::with_capacity(asked.len());
    for ((marker, number), name, answer) in asked {
        match answer.await {
            Ok((data, stat)) => contenders.push(contender(marker, number, name, &data, &stat)),
            // It was deleted in between.
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
    }
    contenders.sort_by(|a, b| (a.number, a.marker, &a.name).cmp(&(b.number, b.marker, &b.name)));
    Ok(contenders)
}

async fn contenders_or_none(client: &Client, directory: &str) -> Result<Vec<Contender>, Error> {
    match contenders(client, directory).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
        contenders => contenders,
    }
}

fn contender(marker: Marker, number: i64, name: &str, data: &[u8], stat: &Stat) -> Contender {
    let data = visible(&String::from_utf8_lossy(data)).chars().take(DATA_CHARS_MAX).collect();
    let (session, ctime) = (stat.ephemeral_owner, stat.ctime);
    Contender { marker, number, name: name.to_owned(), session, ctime, data }
}

/// The state of each contender, for each recipe that uses the path.
fn groups(line: Vec<Contender>, permits: Vec<Contender>, waiting: Vec<Contender>) -> Vec<Group> {
    let of = |markers: &[Marker]| -> Vec<Contender> {
        line.iter().filter(|contender| markers.contains(&contender.marker)).cloned().collect()
    };
    let first_holds =
        |contenders: Vec<Contender>, holds: &'static str| -> Vec<(&'static str, Contender)> {
            let stands = |index| if index == 0 { holds } else { "waits" };
            contenders
                .into_iter()
                .enumerate()
                .map(|(index, contender)| (stands(index), contender))
                .collect()
        };
    let has = permits.into_iter().filter(|contender| contender.marker == Marker::Permit);
    let waits = waiting.into_iter().filter(|contender| contender.marker == Marker::Mutex);
    let permits = has.map(|contender| ("has a permit", contender));
    let semaphore = permits.chain(waits.map(|contender| ("waits", contender))).collect();
    let groups = [
        Group { recipe: "mutex", rows: first_holds(of(&[Marker::Mutex]), "holds") },
        Group {
            recipe: "read-write lock",
            rows: readers_and_writers(of(&[Marker::Read, Marker::Write])),
        },
        Group { recipe: "semaphore", rows: semaphore },
        Group { recipe: "leader latch", rows: first_holds(of(&[Marker::Latch]), "leads") },
    ];
    groups.into_iter().filter(|group| !group.rows.is_empty()).collect()
}

/// A writer waits for every contender before it, a reader for the writers before it of other sessions.
fn readers_and_writers(contenders: Vec<Contender>) -> Vec<(&'static str, Contender)> {
    let stands = |contender: &Contender| {
        let mut before = contenders.iter().filter(|other| other.number < contender.number);
        match contender.marker {
            Marker::Write if before.next().is_none() => "writes",
            Marker::Write => "waits to write",
            _ => {
                let is_ahead = |other: &Contender| {
                    other.marker == Marker::Write && other.session != contender.session
                };
                if before.any(is_ahead) { "waits to read" } else { "reads" }
            }
        }
    };
    contenders.iter().map(|contender| (stands(contender), contender.clone())).collect()
}

fn table(path: &str, group: &Group) -> String {
    let header = ["WHO", "CAME", "SESSION", "ZNODE", "DATA"].map(str::to_owned);
    let rows = group.rows.iter().map(|(stands, contender)| {
        let Contender { name, session, ctime, data, .. } = contender;
        [(*stands).to_owned(), time(*ctime), session.to_string(), visible(name), data.clone()]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2, 3].map(|column| width(column).unwrap_or_default());
    let mut text = format!("{path}: {}\n", group.recipe);
    for [who, came, session, znode, data] in &rows {
        let [w0, w1, w2, w3] = widths;
        let row = format!("  {who:w0$}  {came:w1$}  {session:w2$}  {znode:w3$}  {data}");
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contenders with these names. The first letter of a name numbers its session.
    fn line(names: &[&str]) -> Vec<Contender> {
        let contender = |name: &&str| {
            let (marker, number) = Marker::read(name).unwrap();
            let session = SessionId(i64::from(name.as_bytes()[0]));
            let stat = Stat { ephemeral_owner: session, ..Stat::default() };
            contender(marker, number, name, b"", &stat)
        };
        names.iter().map(contender).collect()
    }

    fn stands(groups: &[Group]) -> Vec<(&str, Vec<&str>)> {
        let rows = |group: &Group| group.rows.iter().map(|(stands, _)| *stands).collect();
        groups.iter().map(|group| (group.recipe, rows(group))).collect()
    }

    #[test]
    fn the_first_holds_a_mutex_and_leads() {
        let contenders = line(&[
            "a-lock-0000000001",
            "b-latch-0000000002",
            "c-lock-0000000003",
            "d-latch-0000000004",
        ]);
        let groups = groups(contenders, Vec::new(), Vec::new());
        let expected =
            [("mutex", vec!["holds", "waits"]), ("leader latch", vec!["leads", "waits"])];
        assert_eq!(stands(&groups), expected);
    }

    #[test]
    fn readers_read_together_until_a_writer_stands_between() {
        let contenders = line(&[
            "a-__READ__0000000001",
            "b-__READ__0000000002",
            "c-__WRIT__0000000003",
            "d-__READ__0000000004",
            "e-__WRIT__0000000005",
        ]);
        let expected = ["reads", "reads", "waits to write", "waits to read", "waits to write"];
        assert_eq!(
            stands(&groups(contenders, vec![], vec![])),
            [("read-write lock", expected.to_vec())]
        );
    }

    #[test]
    fn who_writes_may_read_too() {
        for reading in ["a-__READ__0000000001", "a-__READ__0000000002"] {
            let contenders = line(&["a-__WRIT__0000000001", reading, "b-__READ__0000000003"]);
            let expected = vec!["writes", "reads", "waits to read"];
            assert_eq!(
                stands(&groups(contenders, vec![], vec![])),
                [("read-write lock", expected)]
            );
        }
    }

    #[test]
    fn permits_are_had_and_waited_for() {
        let permits = line(&["a-lease-0000000000", "b-lease-0000000004"]);
        let waiting = line(&["c-lock-0000000007"]);
        let expected = vec!["has a permit", "has a permit", "waits"];
        assert_eq!(stands(&groups(vec![], permits, waiting)), [("semaphore", expected)]);
    }
}
