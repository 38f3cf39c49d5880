//! Bar charts.

use maud::{Markup, html};

use super::{Bars, Story, caption};
use crate::bench::outcome::{Outcome, Row};
use crate::bench::values::Label;

/// The bars of all servers, on one scale.
pub(super) fn draw(outcome: &Outcome, story: &Story, bars: &Bars) -> Markup {
    let values = outcome.rows.iter().filter_map(|row| row.value(bars.metric));
    let greatest = values.fold(0.0, f64::max);
    html! {
        section {
            h2 { (bars.title) }
            p.about { (bars.about) }
            div.panels {
                @for (index, server) in outcome.servers.iter().enumerate() {
                    figure {
                        (caption(server))
                        div.bars {
                            @for row in outcome.rows.iter().filter(|row| row.server == index) {
                                (bar(story, bars, row, greatest))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn bar(story: &Story, bars: &Bars, row: &Row, greatest: f64) -> Markup {
    let name = row.label(bars.label).map(Label::to_string).unwrap_or_default();
    let colour = story.legend.iter().position(|(other, _)| *other == name);
    let class = colour.map_or_else(String::new, |colour| format!("line-{colour}"));
    html! {
        @if let Some(value) = row.value(bars.metric) {
            @let percent = if greatest > 0.0 { value / greatest * 100.0 } else { 0.0 };
            span class={ "bar-name " (class) } { (name) }
            span.track {
                span class={ "bar " (class) } style={ "width: " (format!("{percent:.1}")) "%" } {}
            }
            span.number { (bars.metric.unit.text(value)) }
        }
    }
}
