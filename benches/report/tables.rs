//! Measurements as tables.

use std::fmt::Write;

use crate::results::{Measured, Results};

/// The groups whose results are told as multiples, and their floors.
const FLOORS: [(&str, &str); 7] = [
    ("session: TCP", ROUND_TRIP),
    ("handoff: acquire and release", WAKE_UP),
    ("handoff: to the next, in process", WAKE_UP_IN_LINE),
    ("handoff: to the next, TCP", ROUND_TRIP),
    ("herd: in process", WAKE_UP),
    ("herd: TCP", ROUND_TRIP),
    ("session: in process", WAKE_UP),
];
const WAKE_UP: &str = "wake-up of a task";
/// A row of the group itself: each column has a floor of its own.
const WAKE_UP_IN_LINE: &str = "wake-up in this line";
const ROUND_TRIP: &str = "loopback TCP ping-pong";

/// What the results of a group are told as multiples of.
#[derive(Debug, Clone, Copy)]
struct Floor<'a> {
    name: &'a str,
    /// The results that may be it: those of one column, or one that stands for all.
    measured: &'a [&'a Measured],
}

impl Floor<'_> {
    fn of(&self, column: Option<&str>) -> Option<f64> {
        let of_column = |one: &&&Measured| one.column.is_none() || one.column.as_deref() == column;
        self.measured.iter().find(of_column).map(|one| one.nanoseconds)
    }
}

/// Renders a table for each group.
pub(crate) fn render(results: &Results) -> String {
    let mut text = String::new();
    for group in results.groups() {
        let floor = FLOORS.iter().find(|(of, _)| *of == group).map(|(_, name)| *name);
        let is_floor = |one: &&Measured| {
            Some(one.row.as_str()) == floor
                && (one.group.ends_with(": floor") || one.group == group)
        };
        let measured: Vec<_> = results.0.iter().filter(is_floor).collect();
        let floor = floor.map(|name| Floor { name, measured: &measured });
        let floor = floor.filter(|floor| !floor.measured.is_empty());
        table(&mut text, group, &results.of_group(group).collect::<Vec<_>>(), floor);
    }
    text
}

/// A number that a suite has told for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    title: String,
    row: String,
    column: String,
    value: String,
}

impl Cell {
    /// `TITLE | ROW | COLUMN | VALUE`
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(" | ").map(str::to_owned);
        let mut next = || fields.next();
        Some(Self { title: next()?, row: next()?, column: next()?, value: next()? })
    }
}

/// Renders a table for each title.
pub(crate) fn render_cells(cells: &[Cell]) -> String {
    let mut text = String::new();
    for title in unique(cells.iter().map(|cell| cell.title.as_str())) {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.title == title).collect();
        let columns = unique(cells.iter().map(|cell| cell.column.as_str()));
        head(&mut text, title, &columns);
        for row in unique(cells.iter().map(|cell| cell.row.as_str())) {
            let values = columns.iter().map(|column| {
                let is_it = |cell: &&&Cell| cell.row == row && cell.column == *column;
                cells.iter().find(is_it).map_or("", |cell| cell.value.as_str())
            });
            let _ = writeln!(text, "| {row} | {} |", values.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

/// The values without repetitions, in their order.
fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for value in values {
        if !unique.contains(&value) {
            unique.push(value);
        }
    }
    unique
}

fn head(text: &mut String, title: &str, columns: &[&str]) {
    let _ = writeln!(text, "\n| {title} | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.len()));
}

fn table(text: &mut String, group: &str, measured: &[&Measured], floor: Option<Floor<'_>>) {
    let rows = unique(measured.iter().map(|one| one.row.as_str()));
    let columns = unique(measured.iter().map(|one| one.column.as_deref()));
    let title = group.split_once(": ").map_or(group, |(_, title)| title);
    let multiple = floor.map_or(String::new(), |floor| format!(" (× {})", floor.name));
    let heads: Vec<_> = columns.iter().map(|column| column.unwrap_or("median")).collect();
    head(text, &format!("{title}{multiple}"), &heads);
    for row in rows {
        let cells = columns.iter().map(|column| {
            let is_it = |one: &&&Measured| one.row == row && one.column.as_deref() == *column;
            let floor = floor.and_then(|floor| floor.of(*column));
            measured.iter().find(is_it).map_or(String::new(), |one| cell(one.nanoseconds, floor))
        });
        let _ = writeln!(text, "| {row} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn cell(nanoseconds: f64, floor: Option<f64>) -> String {
    let time = time(nanoseconds);
    match floor {
        Some(floor) => format!("{time} ({})", three_digits(nanoseconds / floor)),
        None => time,
    }
}

/// A time in the unit in which it has one to three digits before the point.
fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ..1e3 => (nanoseconds, "ns"),
        ..1e6 => (nanoseconds / 1e3, "µs"),
        ..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// The number with three significant digits at most.
fn three_digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Measured, Results, render, render_cells, time};

    fn measured(group: &str, row: &str, column: Option<&str>, nanoseconds: f64) -> Measured {
        let column = column.map(str::to_owned);
        Measured { group: group.to_owned(), row: row.to_owned(), column, nanoseconds }
    }

    #[test]
    fn rows_and_columns_are_in_their_order_and_multiples_are_of_the_floor() {
        let results = Results(vec![
            measured("handoff: floor", "loopback TCP ping-pong", None, 5_000.0),
            measured("handoff: to the next, TCP", "mutex", Some("2"), 10_000.0),
            measured("handoff: to the next, TCP", "mutex", Some("10"), 15_000.0),
            measured("handoff: to the next, TCP", "semaphore", Some("10"), 1.5e6),
        ]);
        assert_eq!(
            render(&results),
            "\n| floor | median |\n|---|---:|\n| loopback TCP ping-pong | 5.00 µs |\n\
             \n| to the next, TCP (× loopback TCP ping-pong) | 2 | 10 |\n|---|---:|---:|\n\
             | mutex | 10.0 µs (2.00) | 15.0 µs (3.00) |\n\
             | semaphore |  | 1.50 ms (300) |\n"
        );
    }

    #[test]
    fn a_group_with_a_floor_for_each_column_has_multiples_of_it() {
        let group = "handoff: to the next, in process";
        let results = Results(vec![
            measured(group, "mutex", Some("2"), 4_000.0),
            measured(group, "wake-up in this line", Some("2"), 200.0),
            measured(group, "mutex", Some("1000"), 9_000.0),
            measured(group, "wake-up in this line", Some("1000"), 300.0),
        ]);
        assert_eq!(
            render(&results),
            "\n| to the next, in process (× wake-up in this line) | 2 | 1000 |\n|---|---:|---:|\n\
             | mutex | 4.00 µs (20.0) | 9.00 µs (30.0) |\n\
             | wake-up in this line | 200 ns (1.00) | 300 ns (1.00) |\n"
        );
    }

    #[test]
    fn cells_with_one_title_are_one_table() {
        let lines =
            ["get | alone | kazoo | 3 µs", "get | alone | ours | 1 µs", "get | both | ours | 2 µs"];
        let cells = lines.map(|line| Cell::parse(line).unwrap());
        assert_eq!(
            render_cells(&cells),
            "\n| get | kazoo | ours |\n|---|---:|---:|\n| alone | 3 µs | 1 µs |\n| both |  | 2 µs |\n"
        );
        assert_eq!(Cell::parse("no cell"), None);
    }

    #[test]
    fn times_have_three_digits() {
        let times = [0.5, 12.34, 999.0, 1e3, 123_456.0, 2e9].map(time);
        assert_eq!(times, ["0.50 ns", "12.3 ns", "999 ns", "1.00 µs", "123 µs", "2.00 s"]);
    }
}
