//! The results as a table.

use std::io;
use std::ops::Range;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use terminal_size::{Width, terminal_size_of};

use super::failure::Failure;
use super::outcome::{Outcome, Row};
use super::values::Label;

/// The style of tables: a line below the headings.
pub(crate) const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// Prints the results.
///
/// # Errors
///
/// [`Failure::Report`] if they cannot be written.
pub(super) fn tell(outcome: &Outcome, json: bool) -> Result<(), Failure> {
    let printed = crate::print(&if json {
        let text = serde_json::to_string_pretty(outcome).expect("it has only names for keys");
        text + "\n"
    } else {
        text(outcome, terminal_width())
    });
    printed.map_err(|error| Failure::Report { path: "stdout".into(), error })
}

/// How many characters a line of stdout has, if that is a terminal.
fn terminal_width() -> Option<usize> {
    let (Width(width), _) = terminal_size_of(io::stdout())?;
    Some(width.into())
}

/// The table and its notes. A table that is wider than `width` becomes several, one below the other.
fn text(outcome: &Outcome, width: Option<usize>) -> String {
    let mut text = String::new();
    for server in &outcome.servers {
        let version =
            server.version.as_deref().unwrap_or("a server that does not tell its version");
        let at = server.address.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        text.push_str(&format!("{}: {version}{at}\n", server.name));
    }
    text.push_str(&tables(outcome, width.unwrap_or(usize::MAX)).join("\n"));
    let rounds = outcome.rounds;
    if rounds > 1 {
        text.push_str(&format!(
            "Each number is the median of {rounds} rounds, or of fewer if it ended early.\n"
        ));
    }
    for note in &outcome.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

/// All values in as few tables as fit into the width; each has the labels, and one value at least.
fn tables(outcome: &Outcome, width: usize) -> Vec<String> {
    let count = outcome.rows.first().map_or(0, |row| row.values.len());
    let mut tables = Vec::new();
    let mut first = 0;
    while first < count {
        let mut end = first + 1;
        let mut fitting = table(outcome, first..end);
        while end < count {
            let wider = table(outcome, first..end + 1);
            if wider.lines().any(|line| line.trim_end().chars().count() > width) {
                break;
            }
            (end, fitting) = (end + 1, wider);
        }
        tables.push(fitting);
        first = end;
    }
    tables
}

/// The table of these values.
fn table(outcome: &Outcome, values: Range<usize>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    let has_servers = outcome.servers.len() > 1;
    if let Some(first) = outcome.rows.first() {
        table.set_header(headings(first, has_servers, values.clone()));
    }
    for row in &outcome.rows {
        let server = has_servers.then(|| Cell::new(&outcome.servers[row.server].name));
        let labels = row.labels.iter().map(|(_, label)| match label {
            Label::Text(text) => Cell::new(text),
            number => right(number.to_string()),
        });
        // A row may have fewer values than the first.
        let values =
            row.values.iter().take(values.end).skip(values.start).map(|(metric, value)| {
                right(value.map_or("-".to_owned(), |value| metric.unit.text(value)))
            });
        table.add_row(labels.chain(server).chain(values));
    }
    format!("{table}\n")
}

fn headings(row: &Row, has_servers: bool, values: Range<usize>) -> Vec<Cell> {
    let labels = row.labels.iter().map(|(name, label)| match label {
        Label::Text(_) => Cell::new(name),
        Label::Number(_) => right((*name).to_owned()),
    });
    let server = has_servers.then(|| Cell::new("server"));
    let values = row.values[values].iter().map(|(metric, _)| right(metric.heading.to_owned()));
    labels.chain(server).chain(values).collect()
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::environment::Machine;
    use crate::bench::outcome::ServerFacts;
    use crate::bench::values::{Metric, Part, Unit};

    fn outcome() -> Outcome {
        let metric = |key| Metric { key, heading: key, unit: Unit::Count };
        let values = |keys: &[&'static str]| {
            keys.iter().map(|&key| (metric(key), Some(1_234.0))).collect::<Vec<_>>()
        };
        let part = |lock, values| Part { labels: vec![("lock", Label::Text(lock))], values };
        let rows = [
            part("exists-herd", values(&["first", "second", "third", "fourth"])),
            part("predecessor", values(&["first", "second", "third"])),
        ];
        Outcome {
            bench: "herd",
            command: String::new(),
            date: String::new(),
            machine: Machine::look(),
            rounds: 1,
            servers: vec![ServerFacts { name: "a".to_owned(), address: None, version: None }],
            notes: Vec::new(),
            rows: rows.map(|part| Row::of_rounds(0, vec![part])).into(),
        }
    }

    #[test]
    fn a_table_fits_into_the_terminal() {
        let outcome = outcome();
        assert_eq!(tables(&outcome, usize::MAX).len(), 1);
        for width in [30, 40, 45] {
            let tables = tables(&outcome, width);
            assert!(tables.len() > 1, "{width}");
            for table in &tables {
                let longest = table.lines().map(|line| line.trim_end().chars().count()).max();
                assert!(longest <= Some(width), "{width}: {table}");
                assert!(table.contains("exists-herd") && table.contains("predecessor"), "{table}");
            }
            for heading in ["first", "second", "third", "fourth"] {
                let count = tables.iter().filter(|table| table.contains(heading)).count();
                assert_eq!(count, 1, "{heading}");
            }
        }
        // No terminal is so narrow that a value is left out.
        assert_eq!(tables(&outcome, 1).len(), 4);
    }
}
