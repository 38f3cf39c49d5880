//! `zoolet data locks --holds` on the files of a server agrees with what processes of Curator, of kazoo and of ours
//! have written down while they took locks from each other: who held, in which order, and when. Some are killed
//! while they hold, and some close their session with the lock held.
//!
//! A process reads the clock before and after each call. The instant in the log is one at which the server decided
//! about the call, by the same clock in whole milliseconds: it lies in that interval, cut to milliseconds. There is
//! no further tolerance.
//!
//! `ZOOLET_FLEET_SECONDS` sets how long the fleets contend.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use zoolet_client::{Client, Parents};
use zoolet_conformance::fleet::recorded::{Attempt, Outcome, now_us};
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::process::{Implementation, Process, zoolet_binary};

use Library::{Curator, Kazoo, Zoolet};

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");

type Checked<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Longer than the sessions of the killed members last twice.
const DEFAULT_SECONDS: u64 = 24;

const PERMITS: u32 = 2;
const KAZOOS_SEMAPHORE: &str = "/past/kazoo-semaphore";

/// The session of a killed member, what a server may add to it, and what a busy machine may.
const EXPIRY_WITHIN_MS: i64 = 5_000 + 2 * 1_000 + 5_000;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("fleets_of_the_past", 1);
    let peers = [Peer::Curator, Peer::Kazoo, Peer::Apache];
    section.test(&peers[..2], "zoolet", || Ok(agree(Implementation::Zoolet)?));
    section.test(&peers, "apache", || Ok(agree(Implementation::Apache)?));
    section
}

/// A fleet, and what happens to its members: a member is told `keep` and killed, or told `leave`.
struct Plan {
    path: &'static str,
    recipe: &'static str,
    libraries: &'static [Library],
    /// How many may hold at a time, of those that do not exclude each other.
    capacity: u32,
    /// In the first and in the second half.
    fates: [&'static [(usize, &'static str)]; 2],
}

const PLANS: [Plan; 6] = [
    Plan {
        path: "/past/mutex",
        recipe: "recorded-mutex",
        libraries: &[Curator, Curator, Kazoo, Kazoo, Zoolet, Zoolet],
        capacity: 1,
        fates: [&[(0, "keep mutex")], &[(4, "leave mutex"), (2, "keep mutex")]],
    },
    Plan {
        path: "/past/stock",
        recipe: "recorded-stock-mutex",
        libraries: &[Kazoo, Kazoo],
        capacity: 1,
        fates: [&[(0, "leave mutex")], &[]],
    },
    Plan {
        path: "/past/read-write",
        recipe: "recorded-read-write",
        libraries: &[Curator, Curator, Zoolet, Zoolet],
        capacity: u32::MAX,
        fates: [&[(2, "keep write")], &[(0, "leave read")]],
    },
    Plan {
        path: "/past/kazoo-read-write",
        recipe: "recorded-read-write",
        libraries: &[Kazoo, Kazoo, Kazoo],
        capacity: u32::MAX,
        fates: [&[(0, "keep read")], &[(1, "leave write")]],
    },
    Plan {
        path: "/past/semaphore",
        recipe: "recorded-semaphore",
        libraries: &[Curator, Curator, Zoolet, Zoolet],
        capacity: PERMITS,
        fates: [&[(0, "keep permit")], &[(2, "leave permit")]],
    },
    Plan {
        path: KAZOOS_SEMAPHORE,
        recipe: "recorded-semaphore",
        libraries: &[Kazoo, Kazoo, Kazoo],
        capacity: PERMITS,
        fates: [&[(0, "keep permit")], &[(1, "leave permit")]],
    },
];

fn agree(implementation: Implementation) -> Checked<()> {
    let zoolet = zoolet_binary()?;
    let directory = tempfile::tempdir()?;
    let further: &[&str] = match implementation {
        // Some snapshots are written behind the first hold of each plan, however slow the fleets are.
        Implementation::Apache => &["-Dzookeeper.snapCount=1000"],
        Implementation::Zoolet => &["--autopurge-purge-interval", "0"],
    };
    let server = Process::start_with(implementation, directory.path(), 0, further)?;
    let address = server.address().to_string();
    create_kazoos_semaphore(&address)?;
    let recorded = contend(&address)?;
    // The server runs on.
    let told = holds(&zoolet, directory.path())?;
    for (plan, (attempts, killed)) in PLANS.iter().zip(&recorded) {
        let of_this: Vec<&Told> = told.iter().filter(|hold| hold.path == plan.path).collect();
        compare(plan, attempts, killed, &of_this)?;
    }
    assert!(told.iter().all(|hold| PLANS.iter().any(|plan| plan.path == hold.path)));
    drop(server);
    from_snapshots(&zoolet, directory.path(), &told)
}

/// Creates the directory of kazoo's semaphore with the number of its permits. The first client of kazoo sets the number
/// after it has created the directory, and another one may have had a permit by then, which nothing tells from another
/// znode.
fn create_kazoos_semaphore(address: &str) -> Checked<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let create = async {
        let client = Client::connect(address).await?;
        let create = client.create(KAZOOS_SEMAPHORE).parents(Parents::Persistent);
        create.data(PERMITS.to_string()).await?;
        client.close().await
    };
    Ok(runtime.block_on(create)?)
}

/// The attempts of a fleet, and when its members were killed, by their sessions.
type Recorded = (Vec<Attempt>, BTreeMap<String, i64>);

/// Has all fleets contend at the same time.
fn contend(address: &str) -> Checked<Vec<Recorded>> {
    let seconds = std::env::var("ZOOLET_FLEET_SECONDS");
    let seconds = seconds.map_or(Ok(DEFAULT_SECONDS), |text| text.parse())?;
    let half = Duration::from_secs(seconds) / 2;
    let start = |plan: &Plan| {
        let Plan { path, recipe: name, capacity, .. } = *plan;
        let recipe = FleetRecipe { name, address, path, capacity: capacity.min(1_000) };
        Fleet::start(recipe, Path::new(OURS), plan.libraries)
    };
    let mut fleets = PLANS.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for (plan, fleet) in PLANS.iter().zip(&mut fleets) {
        for member in 0..plan.libraries.len() {
            fleet.tell(member, "go")?;
        }
    }
    let mut killed = vec![BTreeMap::new(); fleets.len()];
    for part in 0..2 {
        fleets[0].hear_nothing(half / 4)?;
        for ((plan, fleet), killed) in PLANS.iter().zip(&mut fleets).zip(&mut killed) {
            for &(member, fate) in plan.fates[part] {
                fleet.tell(member, fate)?;
                let (heard, line) = fleet.hear()?;
                let expected = if fate.starts_with("keep") { "keeps" } else { "leaves" };
                assert_eq!((heard, line.as_str()), (member, expected), "{}", plan.path);
                let now = now_us();
                fleet.kill(member)?;
                if expected == "keeps" {
                    killed.insert(fleet.name(member).to_owned(), now);
                }
            }
        }
        fleets[0].hear_nothing(half / 4 * 3)?;
    }
    let mut recorded = Vec::new();
    for (fleet, killed) in fleets.iter_mut().zip(killed) {
        fleet.stop()?;
        recorded.push((Attempt::read_all(&fleet.written()?)?, killed));
    }
    Ok(recorded)
}

/// A hold as the files tell it. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    path: String,
    place: String,
    session: String,
    role: String,
    cause: String,
    next: Option<String>,
    asked: i64,
    since: Option<(i64, u64)>,
    until: (i64, u64),
}

fn holds(zoolet: &Path, directory: &Path) -> Checked<Vec<Told>> {
    let mut command = Command::new(zoolet);
    command.args(["data", "locks"]).arg(directory).args(["/past", "--holds", "--json"]);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    lines.lines().map(|line| Told::read(&serde_json::from_str(line)?)).collect()
}

impl Told {
    fn read(line: &Value) -> Checked<Self> {
        let text = |field: &str| {
            let text = line[field].as_str().map(str::to_owned);
            text.ok_or_else(|| format!("no {field} in {line}"))
        };
        let moment = |field: &str| -> Checked<(i64, u64)> {
            let zxid = text(&format!("{field}_zxid"))?;
            let zxid = u64::from_str_radix(zxid.trim_start_matches("0x"), 16)?;
            Ok((text(field)?.parse::<jiff::Timestamp>()?.as_millisecond(), zxid))
        };
        Ok(Self {
            path: text("path")?,
            place: text("place")?,
            session: text("session")?,
            role: text("role")?,
            cause: text("cause")?,
            next: text("next").ok(),
            asked: text("asked")?.parse::<jiff::Timestamp>()?.as_millisecond(),
            since: if line["since"].is_null() { None } else { Some(moment("since")?) },
            until: moment("until")?,
        })
    }

    /// The number at the end of its name; permits of kazoo have none.
    fn number(&self) -> Option<u64> {
        self.place.get(self.place.len().checked_sub(10)?..)?.parse().ok()
    }

    fn since(&self) -> (i64, u64) {
        self.since.unwrap_or_default()
    }

    /// Whether this is the hold of an attempt, or one of which the attempt that gave up did not learn.
    fn is_of(&self, attempt: &Attempt, killed: &BTreeMap<String, i64>) -> bool {
        let is_within = |ms: i64, from: i64, to: i64| (from / 1_000..=to / 1_000).contains(&ms);
        let (asked, since) = (self.asked, self.since().0);
        let (until, cause) = (self.until.0, self.cause.as_str());
        let has_asked = is_within(asked, attempt.asks, attempt.answered);
        let begins = has_asked && is_within(since, attempt.asks, attempt.answered);
        let is_it = match attempt.outcome {
            // Its request may arrive when it has given up, and its znode goes later still: perhaps with its session.
            Outcome::GaveUp => asked >= attempt.asks / 1_000,
            Outcome::Released(from, to) => {
                begins && cause == "released" && is_within(until, from, to)
            }
            Outcome::Closed(from, to) => {
                begins && cause == "session-closed" && is_within(until, from, to)
            }
            Outcome::Killed => killed.get(&attempt.who).is_some_and(|&at| {
                let to = at + EXPIRY_WITHIN_MS * 1_000;
                begins && cause == "session-ended-by-server" && is_within(until, at, to)
            }),
        };
        is_it && self.session == attempt.session
    }
}

/// Checks that the holds of a lock are those that its processes know of.
fn compare(
    plan: &Plan,
    attempts: &[Attempt],
    killed: &BTreeMap<String, i64>,
    told: &[&Told],
) -> Checked<()> {
    let path = plan.path;
    let mut of_sessions: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
    for hold in told {
        of_sessions.entry(&hold.session).or_default().push(hold);
    }
    let mut pairs: Vec<(&Attempt, &Told)> = Vec::new();
    let sessions: BTreeSet<_> = attempts.iter().map(|attempt| &*attempt.session).collect();
    assert_eq!(sessions.len(), plan.libraries.len(), "{path}: each member keeps its session");
    for session in &sessions {
        let of_this: Vec<_> = attempts.iter().filter(|it| it.session == *session).collect();
        let mut holds = of_sessions.remove(session).unwrap_or_default();
        // Not by their beginning: a place that was given up may be in the line while the next one is.
        holds.sort_by_key(|hold| (hold.asked, hold.number()));
        pairs.extend(matched(&of_this, &holds, killed).map_err(|why| format!("{path}: {why}"))?);
    }
    assert!(of_sessions.is_empty(), "{path}: nobody has written of {of_sessions:?}");
    let held = |attempt: &&Attempt| attempt.outcome != Outcome::GaveUp;
    let expected = attempts.iter().filter(held).count();
    let (known, unknown): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(it, _)| held(it));
    assert_eq!(known.len(), expected, "{path}");
    for library in plan.libraries {
        assert!(known.iter().any(|(it, _)| it.who.starts_with(library.name())), "{library:?}");
    }
    let given_up = attempts.len() - expected;
    println!(
        "{path}: {expected} holds agree; of {given_up} attempts that gave up, {} held",
        unknown.len()
    );
    in_order(plan, known)?;
    excluded(plan, told);
    Ok(())
}

/// The attempts of a session, one after the other, with their holds in the order of the log. An attempt that gave
/// up may have been in front for a moment.
fn matched<'a>(
    attempts: &[&'a Attempt],
    holds: &[&'a Told],
    killed: &BTreeMap<String, i64>,
) -> Result<Vec<(&'a Attempt, &'a Told)>, String> {
    // How many holds may belong to the attempts so far.
    let mut reached = vec![BTreeSet::from([0])];
    for attempt in attempts {
        let before = reached.last().cloned().unwrap_or_default();
        let mut after = BTreeSet::new();
        for count in before {
            if attempt.outcome == Outcome::GaveUp {
                after.insert(count);
            }
            if holds.get(count).is_some_and(|hold| hold.is_of(attempt, killed)) {
                after.insert(count + 1);
            }
        }
        if after.is_empty() {
            let count = reached.last().and_then(|before| before.last().copied()).unwrap_or(0);
            let near = &holds[count.saturating_sub(1)..holds.len().min(count + 2)];
            return Err(format!("{attempt:?} is not told; there is {near:#?}"));
        }
        reached.push(after);
    }
    let mut count = holds.len();
    if !reached.last().is_some_and(|all| all.contains(&count)) {
        let all = reached.last().and_then(|all| all.last().copied()).unwrap_or(0);
        return Err(format!("nobody has written of {:?}", holds.get(all)));
    }
    let mut pairs = Vec::new();
    for (attempt, before) in attempts.iter().zip(&reached).rev() {
        let is_skipped = attempt.outcome == Outcome::GaveUp && before.contains(&count);
        if !is_skipped {
            count -= 1;
            pairs.push((*attempt, holds[count]));
        }
    }
    pairs.reverse();
    Ok(pairs)
}

/// Checks that holds are told in the order in which processes had them, as far as their clocks tell it.
fn in_order(plan: &Plan, mut known: Vec<(&Attempt, &Told)>) -> Checked<()> {
    let zxid = |hold: &Told| hold.since().1;
    if plan.capacity == 1 {
        known.sort_by_key(|(attempt, _)| attempt.answered);
        for pair in known.windows(2) {
            let [(_, first), (_, next)] = pair else { return Err("windows are of two".into()) };
            assert!(first.until.1 <= zxid(next), "{pair:#?}");
            if first.until.1 == zxid(next) {
                assert_eq!(first.next.as_ref(), Some(&next.session), "{pair:#?}");
            }
        }
    }
    for (earlier, hold) in &known {
        for (later, other) in known.iter().filter(|(it, _)| it.asks > earlier.answered) {
            assert!(zxid(hold) < zxid(other), "{earlier:?} {hold:?}, {later:?} {other:?}");
        }
    }
    Ok(())
}

/// Checks that the holds exclude each other as the recipe does.
fn excluded(plan: &Plan, told: &[&Told]) {
    for hold in told {
        let (_, at) = hold.since();
        let with: Vec<_> =
            told.iter().filter(|it| (it.since().1..it.until.1).contains(&at)).collect();
        let are_many = with.len() > plan.capacity as usize;
        let is_writer = |it: &&&Told| it.role == "writes";
        // A reader may hold beside a writer of its own session.
        let has_writer =
            with.iter().any(is_writer) && with.iter().any(|it| it.session != with[0].session);
        assert!(!are_many && !has_writer, "{with:#?}");
    }
}

/// Without the logs before a snapshot, as a server that purges leaves the files, the rest is told alike.
fn from_snapshots(zoolet: &Path, directory: &Path, told: &[Told]) -> Checked<()> {
    let (snapshots, logs) = (files(directory, "snapshot")?, files(directory, "log")?);
    let log_of = |after: u64| logs.iter().rposition(|(zxid, _)| *zxid <= after + 1).unwrap_or(0);
    // Before its first permit, nothing tells a semaphore from a lock.
    let first_end = |plan: &Plan| {
        let of_plan = told.iter().filter(|hold| hold.path == plan.path);
        of_plan.map(|hold| hold.until.1).min()
    };
    let begun = PLANS.iter().filter_map(first_end).max().unwrap_or(0);
    // Those whose log begins with the first transaction are of no use for it.
    let bases = snapshots.iter().map(|(after, _)| (*after, log_of(*after)));
    let bases: Vec<(u64, usize)> =
        bases.filter(|(after, first)| *after >= begun && *first > 0).collect();
    assert!(!bases.is_empty(), "the server has written snapshots: {snapshots:?}");
    for (after, first) in bases {
        let copy = tempfile::tempdir()?;
        fs::create_dir(copy.path().join("version-2"))?;
        let newer = snapshots.iter().filter(|(zxid, _)| *zxid >= after);
        for (_, path) in newer.chain(&logs[first..]) {
            let name = path.file_name().unwrap_or_default();
            fs::copy(path, copy.path().join("version-2").join(name))?;
        }
        let again = holds(zoolet, copy.path())?;
        let expected: Vec<_> = told.iter().filter(|hold| hold.until.1 > after).collect();
        println!("after snapshot.{after:x} {} holds end, of {}", expected.len(), told.len());
        let key = |hold: &Told| (hold.path.clone(), hold.place.clone(), hold.until);
        let known: BTreeSet<_> = expected.iter().map(|hold| key(hold)).collect();
        let more: Vec<_> = again.iter().filter(|hold| !known.contains(&key(hold))).collect();
        assert!(more.is_empty(), "a snapshot makes them up: {more:#?}");
        assert_eq!(again.len(), expected.len());
        let later = told.iter().flat_map(|hold| hold.since.into_iter().chain([hold.until]));
        let goes_on = later.filter(|it| it.1 > after).map(|it| it.0).min().unwrap_or(i64::MAX);
        for (hold, expected) in again.iter().zip(expected) {
            assert_eq!(*hold, seen_from(after, goes_on, expected, hold));
        }
    }
    Ok(())
}

/// What is told of a hold without the transactions until `after`. The next one is not before `goes_on`.
fn seen_from(after: u64, goes_on: i64, expected: &Told, told: &Told) -> Told {
    let mut seen = expected.clone();
    seen.since = expected.since.filter(|since| since.1 > after);
    let is_older = seen.since.is_none();
    // The line in front of its permits is gone when a client has one, and may be while the snapshot is written.
    if is_older || expected.asked <= goes_on {
        seen.asked = told.asked;
    }
    // kazoo's Lock and WriteLock have one name. A reader tells them apart, which may have come and gone
    // before the snapshot, or be in the snapshot and come after the end of the hold.
    let may_be_either = |hold: &Told| ["holds", "writes"].contains(&hold.role.as_str());
    let has_one_name = is_older && expected.place.contains("__lock__");
    if has_one_name && may_be_either(told) && may_be_either(expected) {
        seen.role.clone_from(&told.role);
    }
    seen
}

/// The files of a data directory, with the zxids in their names.
fn files(directory: &Path, prefix: &str) -> Checked<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory.join("version-2"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(digits) = name.strip_prefix(prefix).and_then(|it| it.strip_prefix('.')) {
            files.push((u64::from_str_radix(digits, 16)?, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}
