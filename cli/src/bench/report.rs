//! The results as a page for a browser: one file without scripts, which needs no network.

mod bars;
mod plot;
mod scale;

use std::fs;
use std::path::Path;

use maud::{Markup, html};

use self::plot::Panel;
use super::environment::{Machine, ZOOLET};
use super::failure::Failure;
use super::outcome::{Outcome, Row, ServerFacts};
use super::values::{Label, Metric, Unit};
use crate::report_file;

/// A row of plots, one for each server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plot {
    pub(super) title: &'static str,
    /// The text below the title.
    pub(super) about: &'static str,
    /// The horizontal axis.
    pub(super) across: Across,
    /// The label whose texts have a line each, if there is one.
    pub(super) lines: Option<&'static str>,
    /// The vertical axis, drawn as a line; for quantiles, the metric whose unit they have.
    pub(super) metric: Metric,
    /// A metric that is drawn as a dashed line of the same colour.
    pub(super) dashed: Option<Metric>,
    /// Only rows with this label are drawn.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// Rows with this label are not drawn.
    pub(super) without: Option<(&'static str, &'static str)>,
}

impl Plot {
    /// A plot of a metric by the numbers of a label, with one line.
    pub(super) const fn of(
        title: &'static str,
        about: &'static str,
        label: &'static str,
        metric: Metric,
    ) -> Self {
        let across = Across::Label(label);
        Self { title, about, across, lines: None, metric, dashed: None, only: None, without: None }
    }
}

/// The horizontal axis of a plot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Across {
    /// The numbers of a label.
    Label(&'static str),
    /// The quantiles of the times, each at the share of times that are longer.
    Quantiles,
}

/// A row of bars for each server, one for each text of a label.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bars {
    pub(super) title: &'static str,
    /// The text below the title.
    pub(super) about: &'static str,
    pub(super) label: &'static str,
    pub(super) metric: Metric,
}

/// What a bench concludes, beside its table.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// The sentence that comes first.
    pub(super) first: String,
    /// The sentences about each server.
    pub(super) more: Vec<String>,
    /// Bars, which are drawn before the plots.
    pub(super) bars: Vec<Bars>,
    pub(super) plots: Vec<Plot>,
    /// The texts of lines, and what each means.
    pub(super) legend: Vec<(&'static str, &'static str)>,
}

impl Story {
    /// Adds the first sentence.
    pub(super) fn of_sentences(mut sentences: Vec<String>) -> Self {
        let more = sentences.split_off(sentences.len().min(1));
        let first = sentences.pop().unwrap_or_else(|| "Nothing was measured.".to_owned());
        Self { first, more, ..Self::default() }
    }

    /// Adds a sentence about each server, where there is one.
    pub(super) fn of_servers(
        outcome: &Outcome,
        sentence: impl Fn(usize) -> Option<String>,
    ) -> Self {
        Self::of_sentences((0..outcome.servers.len()).filter_map(sentence).collect())
    }
}

/// Checks that the page can be written, without changing a file.
///
/// # Errors
///
/// [`Failure::Report`] if it cannot be written.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    report_file::check(path).map_err(|error| Failure::Report { path: path.to_owned(), error })
}

/// Writes the page.
///
/// # Errors
///
/// [`Failure::Report`] if it cannot be written.
pub(super) fn write(path: &Path, outcome: &Outcome, story: &Story) -> Result<(), Failure> {
    let page = page(outcome, story).into_string();
    fs::write(path, page).map_err(|error| Failure::Report { path: path.to_owned(), error })
}

fn page(outcome: &Outcome, story: &Story) -> Markup {
    let title = format!("zoolet bench {}", outcome.bench);
    let body = html! {
        header {
            p.eyebrow { (title) }
            h1 { (story.first) }
            @for sentence in &story.more { p.lead { (sentence) } }
            (legend(story))
        }
        main {
            @for bars in &story.bars { (bars::draw(outcome, story, bars)) }
            @for plot in &story.plots { (plots(outcome, story, plot)) }
            section {
                h2 { "All numbers" }
                (table(outcome))
                @for note in &outcome.notes { p.note { (note) } }
            }
            section {
                h2 { "How it was measured" }
                (facts(outcome))
            }
        }
    };
    crate::page::page(&title, include_str!("report/style.css"), &body)
}

fn legend(story: &Story) -> Markup {
    // Lines without a meaning have their colour beside their name in each picture.
    let is_told = |(_, (_, meaning)): &(usize, &(&str, &str))| !meaning.is_empty();
    let told: Vec<_> = story.legend.iter().enumerate().filter(is_told).collect();
    html! {
        @if !told.is_empty() {
            ul.legend {
                @for (index, (name, meaning)) in told {
                    li {
                        span class={ "key line-" (index) } {}
                        b { (name) } ": " (meaning)
                    }
                }
            }
        }
    }
}

/// Why there is no line.
fn untold(outcome: &Outcome, server: usize, metric: Metric) -> &'static str {
    let mut rows = outcome.rows.iter().filter(|row| row.server == server);
    if rows.any(|row| row.value(metric) == Some(0.0)) {
        "0, for which a logarithmic axis has no place."
    } else {
        "Not known of this server."
    }
}

fn plots(outcome: &Outcome, story: &Story, plot: &Plot) -> Markup {
    let colours: Vec<&str> = story.legend.iter().map(|(name, _)| *name).collect();
    let of_server = |server| {
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.server == server).collect();
        Panel::new(plot, &rows, &colours)
    };
    let panels: Vec<Panel> = (0..outcome.servers.len()).map(of_server).collect();
    let (across, up) = plot::scales(&panels);
    html! {
        section {
            h2 { (plot.title) }
            p.about { (plot.about) }
            div.panels {
                @for (index, (panel, server)) in panels.iter().zip(&outcome.servers).enumerate() {
                    figure {
                        (caption(server))
                        @match (&across, &up) {
                            (Some(across), Some(up)) if !panel.is_empty() => {
                                (panel.draw(plot, across, up))
                            }
                            _ => p.note { (untold(outcome, index, plot.metric)) },
                        }
                    }
                }
            }
        }
    }
}

/// The caption of a picture: its server.
fn caption(server: &ServerFacts) -> Markup {
    html! {
        figcaption {
            b { (server.name) }
            @if let Some(version) = &server.version { " " (version) }
        }
    }
}

fn table(outcome: &Outcome) -> Markup {
    let Some(first) = outcome.rows.first() else {
        return html! { p.note { "Nothing was measured." } };
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (name, label) in &first.labels {
                            th class=[is_number(label).then_some("number")] { (name) }
                        }
                        th { "server" }
                        @for (metric, _) in &first.values { th.number { (metric.heading) } }
                    }
                }
                tbody {
                    @for row in &outcome.rows {
                        tr {
                            @for (_, label) in &row.labels {
                                td class=[is_number(label).then_some("number")] {
                                    (label.to_string())
                                }
                            }
                            td { (outcome.servers[row.server].name) }
                            @for (metric, value) in &row.values {
                                td.number { (text_of(*metric, *value)) }
                            }
                            @for _ in row.values.len()..first.values.len() { td {} }
                        }
                    }
                }
            }
        }
    }
}

fn text_of(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| metric.unit.text(value))
}

fn is_number(label: &Label) -> bool {
    matches!(label, Label::Number(_))
}

fn facts(outcome: &Outcome) -> Markup {
    let rounds = match outcome.rounds {
        1 => "once".to_owned(),
        rounds => format!("{rounds} times, the servers by turns; each number is the median"),
    };
    html! {
        dl {
            dt { "Command" }
            dd { code { (outcome.command) } }
            dt { "Measured" }
            dd { (rounds) }
            @for server in &outcome.servers {
                dt { (server.name) }
                dd {
                    (server.version.as_deref().unwrap_or("does not tell its version"))
                    @if let Some(address) = &server.address { ", at " (address) }
                }
            }
            dt { "Clients" }
            dd { (ZOOLET) ", " (build()) }
            dt { "Machine" }
            dd { (machine(&outcome.machine)) }
            dt { "Date" }
            dd { (outcome.date) }
        }
    }
}

/// How this program was compiled.
fn build() -> &'static str {
    if cfg!(debug_assertions) { "a debug build, which is slow" } else { "a release build" }
}

fn machine(machine: &Machine) -> String {
    let processor = machine.processor.as_deref().unwrap_or("an unknown processor");
    let mut text = format!("{processor}, {} cores", machine.cores);
    if let Some(bytes) = machine.memory_bytes {
        text.push_str(&format!(", {}", Unit::Bytes.text(bytes as f64)));
    }
    text.push_str(&format!(", {}", machine.system));
    if let Some(load) = machine.load {
        text.push_str(&format!("; load average {load} at the begin"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::values::Part;

    #[test]
    fn a_number_that_is_zero_is_told_from_one_that_is_not_known() {
        let metric = |key| Metric { key, heading: key, unit: Unit::Count };
        let values = vec![(metric("zero"), Some(0.0)), (metric("unknown"), None)];
        let rows = vec![Row::of_rounds(0, vec![Part { labels: Vec::new(), values }])];
        let outcome = Outcome {
            bench: "sessions",
            command: String::new(),
            date: String::new(),
            machine: Machine::look(),
            rounds: 1,
            servers: Vec::new(),
            notes: Vec::new(),
            rows,
        };
        assert!(untold(&outcome, 0, metric("zero")).starts_with("0,"));
        assert!(untold(&outcome, 0, metric("unknown")).starts_with("Not known"));
    }
}
