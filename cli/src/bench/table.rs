//! The results as a table.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::outcome::{Outcome, Row};
use super::values::Label;

/// The style of tables: a line below the headings.
pub(crate) const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// Prints the results.
pub(super) fn tell(outcome: &Outcome, json: bool) {
    let mut stdout = io::stdout().lock();
    // A reader that closed stdout does not want the rest.
    let _ = if json {
        let text = serde_json::to_string_pretty(outcome).expect("it has only names for keys");
        writeln!(stdout, "{text}")
    } else {
        write!(stdout, "{}", text(outcome))
    };
}

/// The table and its notes.
fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for server in &outcome.servers {
        let version =
            server.version.as_deref().unwrap_or("a server that does not tell its version");
        let at = server.address.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        text.push_str(&format!("{}: {version}{at}\n", server.name));
    }
    text.push_str(&format!("{}\n", table(outcome)));
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

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let Some(first) = outcome.rows.first() else { return table };
    let has_servers = outcome.servers.len() > 1;
    table.set_header(headings(first, has_servers));
    for row in &outcome.rows {
        let server = has_servers.then(|| Cell::new(&outcome.servers[row.server].name));
        let labels = row.labels.iter().map(|(_, label)| match label {
            Label::Text(text) => Cell::new(text),
            number => right(number.to_string()),
        });
        let values = row.values.iter().map(|(metric, value)| {
            right(value.map_or("-".to_owned(), |value| metric.unit.text(value)))
        });
        table.add_row(labels.chain(server).chain(values));
    }
    table
}

fn headings(row: &Row, has_servers: bool) -> Vec<Cell> {
    let labels = row.labels.iter().map(|(name, label)| match label {
        Label::Text(_) => Cell::new(name),
        Label::Number(_) => right((*name).to_owned()),
    });
    let server = has_servers.then(|| Cell::new("server"));
    let values = row.values.iter().map(|(metric, _)| right(metric.heading.to_owned()));
    labels.chain(server).chain(values).collect()
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
