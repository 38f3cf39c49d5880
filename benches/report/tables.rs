//! Measurements as tables.

use std::fmt::Write;

use crate::results::{Measured, Results};

/// The groups whose results are told as multiples, and their floors.
const FLOORS: [(&str, &str); 7] = [
    ("session: TCP", ROUND_TRIP),
    ("handoff: acquire and release", WAKE_UP),
    ("handoff: to the next, in process", WAKE_UP),
    ("handoff: to the next, TCP", ROUND_TRIP),
    ("herd: in process", WAKE_UP),
    ("herd: TCP", ROUND_TRIP),
    ("session: in process", WAKE_UP),
];
const WAKE_UP: &str = "wake-up of a task";
const ROUND_TRIP: &str = "loopback TCP ping-pong";

/// Renders a table for each group.
pub(crate) fn render(results: &Results) -> String {
    let mut text = String::new();
    for group in results.groups() {
        let floor = FLOORS.iter().find(|(of, _)| *of == group).and_then(|(_, name)| {
            let floor = results
                .0
                .iter()
                .find(|measured| measured.group.ends_with(": floor") && measured.row == *name)?;
            Some((*name, floor.nanoseconds))
        });
        table(&mut text, group, &results.of_group(group).collect::<Vec<_>>(), floor);
    }
    text
}

fn table(text: &mut String, group: &str, measured: &[&Measured], floor: Option<(&str, f64)>) {
    let (mut rows, mut columns): (Vec<&str>, Vec<Option<&str>>) = (Vec::new(), Vec::new());
    for measured in measured {
        let (row, column) = (measured.row.as_str(), measured.column.as_deref());
        if !rows.contains(&row) {
            rows.push(row);
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let title = group.split_once(": ").map_or(group, |(_, title)| title);
    let multiple = floor.map_or(String::new(), |(name, _)| format!(" (× {name})"));
    let heads: Vec<_> = columns.iter().map(|column| column.unwrap_or("median")).collect();
    let _ = writeln!(text, "\n| {title}{multiple} | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.len()));
    for row in rows {
        let cells = columns.iter().map(|column| {
            let is_it = |one: &&&Measured| one.row == row && one.column.as_deref() == *column;
            measured.iter().find(is_it).map_or(String::new(), |one| cell(one.nanoseconds, floor))
        });
        let _ = writeln!(text, "| {row} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn cell(nanoseconds: f64, floor: Option<(&str, f64)>) -> String {
    let time = time(nanoseconds);
    match floor {
        Some((_, floor)) => format!("{time} ({})", three_digits(nanoseconds / floor)),
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
    use super::{Measured, Results, render, time};

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
    fn times_have_three_digits() {
        let times = [0.5, 12.34, 999.0, 1e3, 123_456.0, 2e9].map(time);
        assert_eq!(times, ["0.50 ns", "12.3 ns", "999 ns", "1.00 µs", "123 µs", "2.00 s"]);
    }
}
