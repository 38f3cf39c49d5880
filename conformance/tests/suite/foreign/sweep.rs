//! `zoolet sweep` on small tests of kazoo's and Curator's recipes: it finds the defects that those
//! recipes are known to have, and none in a test that uses them as their authors advise. Pages of
//! `docs` that show such a test show the file, and what the sweep prints.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, iter, panic, thread};

use libtest_mimic::Failed;
use serde_json::Value;
use tempfile::NamedTempFile;
use zoolet_conformance::peers;
use zoolet_conformance::process::zoolet_binary;

/// A test of `examples/sweep`, and the faults that break it.
struct Subject {
    test: &'static str,
    /// The only kinds of faults that are tried.
    kinds: &'static str,
    /// The only requests at which they are tried.
    path: &'static str,
    /// Kinds and operations, with the n-th.
    broken_by: &'static [(&'static str, &'static str, u64)],
}

const fn subject(
    test: &'static str,
    kinds: &'static str,
    path: &'static str,
    broken_by: &'static [(&'static str, &'static str, u64)],
) -> Subject {
    Subject { test, kinds, path, broken_by }
}

const WRITES: &str = "request-lost,reply-lost";

/// Of kazoo 2.11.
const KAZOO: [Subject; 9] = [
    // It adds again after a lost reply.
    subject(
        "counter.py",
        WRITES,
        "/counter",
        &[("reply-lost", "setData", 1), ("reply-lost", "setData", 2)],
    ),
    subject("counter_once.py", "reply-lost", "/counter/*", &[]),
    // It takes the next item after a lost reply to the delete of the first one.
    subject("queue_get.py", WRITES, "/queue/*", QUEUE),
    // The znode of who tried in vain stays when its delete is lost.
    subject("try_lock.py", WRITES, "/lock/*", &[("request-lost", "delete", 1)]),
    subject("try_lock_clean.py", "request-lost", "/lock/*", &[]),
    // The number of leases is never written when its setData is lost.
    subject("semaphore.py", WRITES, "/semaphore", SEMAPHORE),
    // It takes its own mark for that of another consumer.
    subject("locking_queue.py", WRITES, "/queue/taken/*", &[("reply-lost", "create", 1)]),
    subject("locked_writes.py", "request-lost,reply-lost,expire-after", "/", &[]),
    // It looks for its znode without a sync, creates another one, and waits for itself.
    subject("lock.py", "stale", "/lock/*", &[("stale", "create", 1)]),
];

const QUEUE: &[(&str, &str, u64)] = &[("reply-lost", "delete", 1), ("reply-lost", "delete", 2)];

const SEMAPHORE: &[(&str, &str, u64)] =
    &[("reply-lost", "create", 1), ("request-lost", "setData", 1), ("request-lost", "getData", 1)];

/// Of Curator 5.4.
const CURATOR: [Subject; 5] = [
    // It adds again after a lost reply, also to the create that wrote the first number.
    subject(
        "counter",
        WRITES,
        "/counter",
        &[("reply-lost", "create2", 1), ("reply-lost", "setData", 1)],
    ),
    // It takes the next item after a lost reply to the delete of the first one.
    subject("queue-take", WRITES, "/queue/*", QUEUE),
    // It puts the item in again. The first create finds no parent.
    subject("queue-offer", WRITES, "/queue/*", &[("reply-lost", "create2", 2)]),
    // It takes its own znode for that of another member, and misses it when it has deleted it.
    subject(
        "double-barrier",
        WRITES,
        "/barrier/*",
        &[("reply-lost", "create2", 2), ("reply-lost", "delete", 1)],
    ),
    subject("locked-writes", WRITES, "/", &[]),
];

/// The pages that show a test of kazoo, with the tests that they show.
const PAGES: [(&str, &[&str]); 3] = [
    ("testing", &["try_lock.py"]),
    ("bugs/counted-twice", &["counter.py", "counter_once.py"]),
    ("bugs/left-in-line", &["try_lock.py", "try_lock_clean.py"]),
];

/// How many sweeps run at a time. Their tests wait most of the time, some until a time limit.
const SWEEPS_AT_ONCE: usize = 5;

/// Checks all subjects, several at a time.
fn check_all(
    subjects: &[Subject],
    check: impl Fn(&Subject) -> Result<(), Failed> + Sync,
) -> Result<(), Failed> {
    let next = AtomicUsize::new(0);
    let work = || {
        iter::from_fn(|| subjects.get(next.fetch_add(1, Ordering::Relaxed))).try_for_each(&check)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..SWEEPS_AT_ONCE).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(checked) => checked,
            Err(panic) => panic::resume_unwind(panic),
        })
    })
}

/// kazoo's recipes.
pub(crate) fn finds_the_defects_of_kazoo() -> Result<(), Failed> {
    check_all(&KAZOO, |subject| {
        let report = NamedTempFile::new()?;
        let mut run = sweep(subject, &report)?;
        let folder = peers::conformance_folder().join("../examples/sweep/kazoo");
        run.arg(peers::kazoo_python()).arg(folder.join(subject.test));
        run.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = subject.check(run, &report)?;
        let pages = PAGES.iter().filter(|(_, tests)| tests.contains(&subject.test));
        pages.into_iter().try_for_each(|(page, _)| subject.check_page(page, &output))
    })
}

/// Curator's recipes.
pub(crate) fn finds_the_defects_of_curator() -> Result<(), Failed> {
    check_all(&CURATOR, |subject| {
        let report = NamedTempFile::new()?;
        let mut run = sweep(subject, &report)?;
        let folder = peers::conformance_folder().join("../examples/sweep/curator");
        run.arg(folder.join("run")).arg(subject.test);
        subject.check(run, &report).map(drop)
    })
}

/// A sweep whose report goes to a file.
fn sweep(subject: &Subject, report: &NamedTempFile) -> Result<Command, Failed> {
    let mut run = Command::new(zoolet_binary()?);
    run.args(["sweep", "--only", subject.kinds, "--path", subject.path, "--timeout", "60s"]);
    run.arg("--json").arg(report.path()).arg("--");
    Ok(run)
}

impl Subject {
    fn check(&self, mut run: Command, report: &NamedTempFile) -> Result<Output, Failed> {
        let output = run.output()?;
        let unexpected = |what: &str| {
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            Failed::from(format!("{}: {what}\n{}", self.test, String::from_utf8_lossy(&said)))
        };
        let code = if self.broken_by.is_empty() { 0 } else { 1 };
        if output.status.code() != Some(code) {
            return Err(unexpected(&output.status.to_string()));
        }
        let report: Value = serde_json::from_reader(report.reopen()?)?;
        let runs = report["runs"].as_array().ok_or_else(|| unexpected("there are no runs"))?;
        let broken = runs.iter().filter(|run| run["outcome"] == "broke").map(|run| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let nth = run["point"]["nth"].as_u64().unwrap_or_default();
            (text(&run["kind"]), text(&run["point"]["operation"]), nth)
        });
        let broken: BTreeSet<_> = broken.collect();
        let expected = self
            .broken_by
            .iter()
            .map(|(kind, operation, nth)| ((*kind).to_owned(), (*operation).to_owned(), *nth));
        match broken == expected.collect() {
            true => Ok(output),
            false => Err(unexpected(&format!("broken by {broken:?}"))),
        }
    }

    /// The page shows the file of the test, and only lines that the sweep has printed.
    fn check_page(&self, page: &str, output: &Output) -> Result<(), Failed> {
        let (test, folder) = (self.test, peers::conformance_folder());
        let text = fs::read_to_string(folder.join(format!("../docs/{page}.md")))?;
        let wrong = |what: &str| Failed::from(format!("docs/{page}.md, {test}: {what}"));
        let file = block(&text, &format!("file: {test}")).ok_or_else(|| wrong("is not shown"))?;
        let folder = folder.join("../examples/sweep/kazoo");
        if file.join("\n").trim_end() != fs::read_to_string(folder.join(test))?.trim_end() {
            return Err(wrong("the page shows another file"));
        }
        let Some(shown) = block(&text, &format!("sweep: {test}")) else {
            return if self.broken_by.is_empty() { Ok(()) } else { Err(wrong("no sweep")) };
        };
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8_lossy(&printed)
            .replace(&*peers::kazoo_python().to_string_lossy(), "python3")
            .replace(&format!("{}/", folder.display()), "")
            // The page has the default limit.
            .replace(" --timeout 60 -- ", " -- ");
        let printed: Vec<_> = printed.lines().map(without_times).collect();
        let path =
            if self.path.contains('*') { format!("'{}'", self.path) } else { self.path.into() };
        let command =
            format!("$ zoolet sweep --only {} --path {path} -- python3 {test}", self.kinds);
        let mut shown = shown.into_iter();
        if shown.next() != Some(&*command) {
            return Err(wrong(&format!("the page shows another command than {command}")));
        }
        match shown.find(|line| !printed.contains(&without_times(line))) {
            None => Ok(()),
            Some(line) => Err(wrong(&format!("{line:?} is not in:\n{}", printed.join("\n")))),
        }
    }
}

/// The lines of the block below a line `<!-- NAME -->`.
fn block<'a>(page: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let marker = format!("<!-- {name} -->");
    let mut lines = page.lines().skip_while(|line| *line != marker).skip(1);
    lines.next().filter(|fence| fence.starts_with("```"))?;
    Some(lines.take_while(|line| *line != "```").collect())
}

/// A line without what differs between runs and machines: times, and how many ran at a time.
fn without_times(line: &str) -> String {
    let line =
        line.strip_suffix(" at a time").and_then(|it| it.rsplit_once(", ")).map_or(line, |it| it.0);
    let is_time = |word: &&str| {
        let number = word.trim_matches(['(', ')']);
        number.contains('.') && number.parse::<f64>().is_ok()
    };
    line.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}
