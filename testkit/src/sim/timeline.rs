//! The timeline of a run as SVG: a lane for each machine and the server, with bars for critical
//! sections, bands for faults that last, and marks for everything else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use zoolet_protocol::ErrorCode;

use super::html::escaped;
use super::record::{Entry, Lane, What};
use super::story;

/// In units of the drawing.
const WIDTH: f64 = 1_200.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 42.0;
const LANE: f64 = 74.0;
/// The longest name that fits to the left of a lane, in characters.
const NAME_MAX: usize = 13;
/// About this many times are written at the axis.
const TIMES: u64 = 10;
/// The most marks of requests and events of one drawing: more could not be told apart, and would make
/// the page slow.
const MARKS_MAX: usize = 4_000;
/// About as wide as half a time at the axis, and as the words about the violation.
const TIME_HALF: f64 = 36.0;
const VIOLATION: f64 = 160.0;

pub(super) const LEGEND: &str = r#"<ul class="legend">
<li><svg viewBox="0 0 22 16"><rect class="section" x="1" y="2" width="20" height="12" rx="3"/></svg> in a critical section</li>
<li><svg viewBox="0 0 22 16"><rect class="section open" x="1" y="2" width="20" height="12" rx="3"/></svg> in it at the violation</li>
<li><svg viewBox="0 0 22 16"><rect class="fault" x="1" y="5" width="20" height="7"/></svg> fault that lasts</li>
<li><svg viewBox="0 0 22 16"><path class="mark" d="M6 2h10l-5 9z"/></svg> fault</li>
<li><svg viewBox="0 0 22 16"><path class="write" d="M11 1v14"/></svg> write</li>
<li><svg viewBox="0 0 22 16"><path class="read" d="M11 5v10"/></svg> read</li>
<li><svg viewBox="0 0 22 16"><path class="refused" d="M11 5v10"/></svg> refused</li>
<li><svg viewBox="0 0 22 16"><circle class="event" cx="11" cy="8" r="3.4"/></svg> event of a watch</li>
<li><svg viewBox="0 0 22 16"><path class="session" d="M11 2l6 6-6 6-6-6z"/></svg> session begins</li>
<li><svg viewBox="0 0 22 16"><path class="over" d="M6 3l10 10M16 3L6 13"/></svg> learns that it has expired</li>
<li><svg viewBox="0 0 22 16"><circle class="note" cx="11" cy="8" r="3"/></svg> note</li>
</ul>
"#;

/// A part of a run, as wide as the drawing.
struct Timeline<'a> {
    entries: &'a [Entry],
    names: &'a [String],
    span_ms: RangeInclusive<u64>,
    lanes: Vec<Lane>,
    svg: String,
    /// What is said about marks that are left out.
    left_out: Option<String>,
}

/// Draws the events of a span of time.
pub(super) fn draw(entries: &[Entry], names: &[String], span_ms: RangeInclusive<u64>) -> String {
    // Machines that were left out have no lane.
    let has_lane = |lane: &Lane| entries.iter().any(|entry| entry.lane == *lane);
    let machines = (0..names.len()).map(Lane::Machine).filter(has_lane);
    let lanes: Vec<_> = std::iter::once(Lane::Server).chain(machines).collect();
    let mut timeline =
        Timeline { entries, names, span_ms, lanes, svg: String::new(), left_out: None };
    let height = TOP + LANE * timeline.lanes.len() as f64 + 8.0;
    let _ = writeln!(timeline.svg, r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    timeline.lanes();
    timeline.bands();
    timeline.sections();
    timeline.marks();
    timeline.violation(height);
    timeline.svg.push_str("</svg>");
    if let Some(text) = &timeline.left_out {
        let _ = write!(timeline.svg, "\n<p class=\"left-out\">{text}</p>");
    }
    timeline.svg
}

/// Whether there may be so many of these that the last ones only are drawn.
fn is_frequent(what: &What) -> bool {
    matches!(what, What::Request { .. } | What::Reply { .. } | What::Event { .. })
}

impl Timeline<'_> {
    fn x(&self, ms: u64) -> f64 {
        let (start, end) = (*self.span_ms.start(), *self.span_ms.end());
        let ms = ms.clamp(start, end);
        let length = (end - start).max(1) as f64;
        LEFT + (WIDTH - LEFT - RIGHT) * (ms - start) as f64 / length
    }

    /// The middle of a lane.
    fn y(&self, lane: Lane) -> Option<f64> {
        let index = self.lanes.iter().position(|other| *other == lane)?;
        Some(TOP + LANE * (index as f64 + 0.5))
    }

    /// The lanes with their names, and the times.
    fn lanes(&mut self) {
        for (index, lane) in self.lanes.clone().into_iter().enumerate() {
            let (top, width) = (TOP + LANE * index as f64, WIDTH - RIGHT - LEFT);
            let (middle, name) = (top + LANE / 2.0, story::name(lane, self.names));
            let mut shown: String = name.chars().take(NAME_MAX).collect();
            if shown.len() < name.len() {
                shown.push('…');
            }
            let (name, shown) = (escaped(name), escaped(&shown));
            let (band, height) = (top + 3.0, LANE - 6.0);
            let _ = writeln!(
                self.svg,
                "<rect class=\"band\" x=\"{LEFT}\" y=\"{band}\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>\
                 <text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\"><title>{name}</title>{shown}</text>",
                LEFT - 10.0,
                middle + 4.0,
            );
        }
        let (start, end) = (*self.span_ms.start(), *self.span_ms.end());
        let step = round_step((end - start) / TIMES);
        let bottom = TOP + LANE * self.lanes.len() as f64;
        let mut ms = start.next_multiple_of(step);
        while ms <= end {
            let x = self.x(ms);
            // The last one would not fit into the drawing.
            let text_x = x.min(WIDTH - TIME_HALF);
            let _ = writeln!(
                self.svg,
                "<path class=\"axis\" d=\"M{x:.1} {TOP}V{bottom}\"/>\
                 <text class=\"faint\" x=\"{text_x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{ms} ms</text>",
                TOP - 27.0,
            );
            ms += step;
        }
    }

    /// Faults that last.
    fn bands(&mut self) {
        for entry in self.entries {
            let What::Fault { text, for_ms: Some(for_ms) } = &entry.what else { continue };
            let Some(y) = self.y(entry.lane) else { continue };
            if entry.ms > *self.span_ms.end() || entry.ms + for_ms < *self.span_ms.start() {
                continue;
            }
            let (from, to) = (self.x(entry.ms), self.x(entry.ms + for_ms));
            let (width, top) = ((to - from).max(2.0), y - LANE / 2.0 + 5.0);
            let _ = writeln!(
                self.svg,
                "<g><title>{} ms: {}</title><rect class=\"fault\" x=\"{from:.1}\" y=\"{top:.1}\" \
                 width=\"{width:.1}\" height=\"14\" rx=\"2\"/>",
                entry.ms,
                escaped(text),
            );
            if width > 150.0 {
                let shown: String = text.chars().take((width / 6.2) as usize).collect();
                let (x, y) = (from + 5.0, top + 11.0);
                let _ =
                    write!(self.svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&shown));
            }
            self.svg.push_str("</g>\n");
        }
    }

    fn sections(&mut self) {
        let mut ends = BTreeMap::new();
        for entry in self.entries {
            if let What::Left { number, .. } = entry.what {
                ends.insert(number, entry.ms);
            }
        }
        for entry in self.entries {
            let What::Entered { section, number, token } = &entry.what else { continue };
            let Some(y) = self.y(entry.lane) else { continue };
            let end = ends.get(number).copied();
            let is_out = end.is_some_and(|end| end < *self.span_ms.start());
            if is_out || entry.ms > *self.span_ms.end() {
                continue;
            }
            let class = if end.is_some() { "section" } else { "section open" };
            let (from, to) = (self.x(entry.ms), self.x(end.unwrap_or(u64::MAX)));
            let (width, top) = ((to - from).max(2.5), y - 12.0);
            let token = token.map_or_else(String::new, |token| format!(", token {token:#x}"));
            let until = end.map_or_else(|| "the violation".to_owned(), |end| format!("{end} ms"));
            let section = escaped(section);
            let _ = writeln!(
                self.svg,
                "<g><title>in {section} from {} ms to {until}{token}</title><rect class=\"{class}\" \
                 x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"22\" rx=\"4\"/>",
                entry.ms,
            );
            if width > 9.0 * section.len() as f64 {
                let (x, y) = (from + width / 2.0, top + 15.0);
                let _ = write!(
                    self.svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{section}</text>"
                );
            }
            self.svg.push_str("</g>\n");
        }
    }

    fn marks(&mut self) {
        let shown = self.entries.iter().filter(|entry| self.span_ms.contains(&entry.ms));
        let shown: Vec<_> = shown.collect();
        let mut left_out = shown.iter().filter(|entry| is_frequent(&entry.what)).count();
        left_out = left_out.saturating_sub(MARKS_MAX);
        let all_left_out = left_out;
        for entry in shown {
            if left_out > 0 && is_frequent(&entry.what) {
                left_out -= 1;
                if left_out == 0 {
                    self.tell_left_out(all_left_out, entry.ms);
                }
                continue;
            }
            let Some(y) = self.y(entry.lane) else { continue };
            let (x, low, high) = (self.x(entry.ms), y + LANE / 2.0 - 5.0, y - LANE / 2.0 + 4.0);
            let tick = |class: &str, height: f64| {
                format!("<path class=\"{class}\" d=\"M{x:.1} {low:.1}v-{height}\"/>")
            };
            let shape = match &entry.what {
                What::Request { op, text } if op.is_create() || story::is_write(text) => {
                    tick("write", 17.0)
                }
                What::Request { .. } => tick("read", 10.0),
                What::Reply { code, .. } if *code != ErrorCode::OK => tick("refused", 10.0),
                What::Event { .. } => {
                    format!(
                        "<circle class=\"event\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.4\"/>",
                        low - 9.0
                    )
                }
                What::Session { is_new: true, .. } => {
                    format!(
                        "<path class=\"session\" d=\"M{x:.1} {:.1}l5 5-5 5-5-5z\"/>",
                        high + 2.0
                    )
                }
                What::SessionOver => {
                    let (x, y) = (x - 4.5, high + 3.0);
                    format!("<path class=\"over\" d=\"M{x:.1} {y:.1}l9 9m0-9l-9 9\"/>")
                }
                What::Fault { for_ms: None, .. } => {
                    format!("<path class=\"mark\" d=\"M{:.1} {high:.1}h12l-6 11z\"/>", x - 6.0)
                }
                What::Note(_) | What::State(_) => {
                    format!(
                        "<circle class=\"note\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                        low - 9.0
                    )
                }
                _ => continue,
            };
            let text = escaped(&story::text(&entry.what));
            let _ = writeln!(self.svg, "<g><title>{} ms: {text}</title>{shape}</g>", entry.ms);
        }
    }

    /// Says up to when marks are left out.
    fn tell_left_out(&mut self, count: usize, ms: u64) {
        self.left_out = Some(format!(
            "Up to {ms} ms the marks of {count} requests, replies and events are left out: only the \
             last {MARKS_MAX} are drawn."
        ));
        let (x, bottom) = (self.x(ms), TOP + LANE * self.lanes.len() as f64);
        let (width, height) = (x - LEFT, bottom - TOP);
        let _ = writeln!(
            self.svg,
            "<rect class=\"left-out\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>"
        );
    }

    fn violation(&mut self, height: f64) {
        let violation = self.entries.iter().find(|entry| matches!(entry.what, What::Violation(_)));
        let Some(Entry { ms, .. }) = violation else { return };
        let (x, top) = (self.x(*ms), TOP - 12.0);
        let (text_x, anchor) = if x < VIOLATION { (x + 5.0, "start") } else { (x - 5.0, "end") };
        let _ = writeln!(
            self.svg,
            "<path class=\"wrong\" d=\"M{x:.1} {top}V{height}\"/>\
             <text class=\"what\" x=\"{text_x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">violation at {ms} ms</text>",
            TOP - 5.0,
        );
    }
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn round_step(least: u64) -> u64 {
    let mut power = 1;
    loop {
        for step in [power, 2 * power, 5 * power] {
            if step >= least {
                return step;
            }
        }
        power *= 10;
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::OpCode;

    use super::*;

    #[test]
    fn a_long_run_says_which_marks_are_left_out_and_has_all_faults() {
        let of = |ms, what| Entry { ms, lane: Lane::Machine(0), what };
        let fault = What::Fault { text: "its connection is cut".to_owned(), for_ms: None };
        let mut entries = vec![of(1, fault)];
        for ms in 2..5_002 {
            let what = What::Request { op: OpCode::CREATE, text: format!("create /{ms}") };
            entries.push(of(ms, what));
        }
        entries.push(of(5_002, What::Violation("it is wrong".to_owned())));
        let names = ["worker-0".to_owned()];
        let whole = draw(&entries, &names, 0..=5_002);
        assert!(whole.contains("Up to 1001 ms the marks of 1000 requests"), "{whole}");
        assert!(whole.contains("its connection is cut") && !whole.contains("create /1001<"));
        assert!(whole.contains("create /1002<"));
        let end = draw(&entries, &names, 4_000..=5_002);
        assert!(!end.contains("left out"));
    }

    #[test]
    fn steps_are_round() {
        let steps = [0, 1, 3, 17, 60, 501].map(round_step);
        assert_eq!(steps, [1, 1, 5, 20, 100, 1_000]);
    }
}
