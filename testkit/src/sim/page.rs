//! The page about a run that fails: its violation, its timeline, its story.

use std::fmt::Write as _;

use super::failure::Failure;
use super::html::escaped;
use super::record::{Entry, What};
use super::timeline;

/// How many events the enlarged end of a timeline shows.
const END_ENTRIES: usize = 40;

/// The page, which needs no other file.
pub(super) fn of(failure: &Failure) -> String {
    let outcome = &failure.0.outcome;
    let (entries, names) = (&outcome.entries, &outcome.names);
    let mut page = String::new();
    let title = format!("Seed {} fails", failure.seed());
    let text = outcome.violation.as_ref().map_or("", |violation| &violation.text);
    let end_ms = end_ms(entries);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"violation\">{}</p>\n",
        escaped(text),
    );
    let _ = writeln!(
        page,
        "<p>This is {}. Again: <code>ZOOLET_SIM_REPLAY={}</code>, hash <code>{:016x}</code>.</p>",
        failure.which_run(),
        failure.schedule(),
        outcome.hash,
    );
    let _ =
        writeln!(page, "<h2>The whole run</h2>\n{}", timeline::draw(entries, names, 0..=end_ms));
    let from_ms = start_of_end(entries);
    if from_ms > end_ms / 5 {
        let end = timeline::draw(entries, names, from_ms..=end_ms);
        let _ = writeln!(page, "<h2>The end, enlarged</h2>\n{end}");
    }
    page.push_str(timeline::LEGEND);
    let story = failure.told();
    let _ = write!(page, "<h2>What happened{}</h2>\n<pre>", story.share());
    for line in story.lines {
        let class = match () {
            () if line.contains("VIOLATION: ") => " class=\"violation\"",
            () if line.contains("FAULT: ") => " class=\"fault\"",
            () if line.contains("ENTERS ") => " class=\"enters\"",
            () => "",
        };
        let _ = writeln!(page, "<span{class}>{}</span>", escaped(&line));
    }
    page.push_str("</pre>\n</body>\n</html>\n");
    page
}

fn end_ms(entries: &[Entry]) -> u64 {
    let violation = entries.iter().find(|entry| matches!(entry.what, What::Violation(_)));
    violation.or_else(|| entries.last()).map_or(0, |entry| entry.ms)
}

/// When the last events began.
fn start_of_end(entries: &[Entry]) -> u64 {
    entries.iter().rev().nth(END_ENTRIES).map_or(0, |entry| entry.ms)
}

const STYLE: &str = "
:root { --ink: #1d2733; --faint: #68778a; --line: #cdd5de; --paper: #ffffff; --band: #f3f5f8;
  --section: #2f7d5b; --section-fill: #bfe5d0; --fault: #b35c00; --fault-fill: #ffd9a8;
  --down: #8a93a0; --wrong: #c8102e; --read: #7d93ad; --write: #2456a6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --faint: #93a1b2; --line: #3c4754; --paper: #14191f; --band: #1c232b;
    --section: #7fd6a8; --section-fill: #1f5a41; --fault: #ffb35c; --fault-fill: #5c3a10;
    --down: #59636f; --wrong: #ff5d73; --read: #7d93ad; --write: #82b1ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1240px; margin: 2em auto; padding: 0 1em; }
h1 { margin-bottom: 0; } h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
p.violation { color: var(--wrong); font-size: 1.15em; font-weight: 600; margin-top: .2em; }
code, pre { font: 13px/1.55 ui-monospace, Menlo, Consolas, monospace; }
pre { background: var(--band); padding: .8em 1em; border-radius: 8px; overflow-x: auto; }
pre .violation { color: var(--wrong); font-weight: 700; } pre .fault { color: var(--fault); }
pre .enters { color: var(--section); }
svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .name { font-weight: 600; } svg .faint { fill: var(--faint); }
svg .band { fill: var(--band); } svg .axis { stroke: var(--line); }
svg .section { fill: var(--section-fill); stroke: var(--section); stroke-width: 1.5; }
svg .open { stroke: var(--wrong); stroke-width: 2.5; }
svg .fault { fill: var(--fault-fill); stroke: var(--fault); } svg .mark { fill: var(--fault); }
svg .down { fill: var(--down); opacity: .45; }
svg .read { stroke: var(--read); stroke-width: 1.4; } svg .write { stroke: var(--write); stroke-width: 1.6; }
svg .refused { stroke: var(--wrong); stroke-width: 1.6; } svg .event { fill: var(--write); }
svg .session { fill: var(--section); } svg .over { stroke: var(--wrong); stroke-width: 2; }
svg .note { fill: var(--faint); } svg .wrong { stroke: var(--wrong); stroke-width: 2; }
svg .left-out { fill: var(--down); opacity: .3; }
p.left-out { color: var(--faint); margin: .2em 0; }
svg .what { fill: var(--wrong); font-weight: 700; }
.legend { display: flex; flex-wrap: wrap; gap: .2em 1.6em; color: var(--faint); font-size: 13px;
  padding: 0; list-style: none; align-items: center; }
.legend svg { width: 22px; height: 16px; display: inline-block; vertical-align: -3px; }
";
