//! Line plots with logarithmic axes, as SVG in the colours of the page.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Across, Plot};
use crate::bench::latency::QUANTILES;
use crate::bench::outcome::Row;
use crate::bench::values::{Label, Metric, grouped};

/// The size of a panel, and the margins for numbers and names.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 310.0;
const LEFT_MIN: f64 = 62.0;
const RIGHT: f64 = 112.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 44.0;

/// The greatest width of a character of a number.
const CHARACTER_WIDTH: f64 = 7.5;

/// The least distance between the names of lines.
const NAME_HEIGHT: f64 = 30.0;

/// The least distance between numbers below the axis.
const NUMBER_GAP: f64 = 8.0;

/// The lines of one server.
#[derive(Debug)]
pub(super) struct Panel {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    name: String,
    colour: usize,
    is_dashed: bool,
    is_of_quantiles: bool,
    metric: Metric,
    points: Vec<Point>,
}

/// A value, and its text below the axis.
#[derive(Debug, Clone)]
struct Point {
    across: f64,
    up: f64,
    below: String,
}

impl Point {
    /// The values of a row, each with whether it is on the dashed line.
    fn of_row(plot: &Plot, row: &Row) -> Vec<(Self, Metric, bool)> {
        let point = |across, below, metric: Metric, is_dashed| {
            let up = row.value(metric).filter(|&up| up > 0.0)?;
            Some((Self { across, up, below }, metric, is_dashed))
        };
        match plot.across {
            Across::Label(name) => {
                let Some(&Label::Number(number)) = row.label(name) else { return Vec::new() };
                let of = |metric, is_dashed| {
                    let number = number as f64;
                    point(number, grouped(number), metric, is_dashed)
                };
                let dashed = plot.dashed.and_then(|metric| of(metric, true));
                of(plot.metric, false).into_iter().chain(dashed).collect()
            }
            Across::Quantiles => {
                let of = |&(metric, share): &(Metric, f64)| {
                    // One of this many took longer.
                    let one_of = (1.0 / (1.0 - share)).min(ONE_OF_MAX);
                    point(one_of, metric.heading.to_owned(), metric, false)
                };
                QUANTILES.iter().filter_map(of).collect()
            }
        }
    }
}

/// The position of the longest time among the quantiles.
const ONE_OF_MAX: f64 = 10_000.0;

/// The scales that fit all panels.
pub(super) fn scales(panels: &[Panel]) -> (Option<Scale>, Option<Scale>) {
    let points = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    (Scale::tight(points().map(|point| point.across)), Scale::wide(points().map(|point| point.up)))
}

impl Panel {
    pub(super) fn new(plot: &Plot, rows: &[&Row], colours: &[&str]) -> Self {
        let text_of = |row: &Row, name: &str| row.label(name).map(Label::to_string);
        let is_in = |row: &&&Row| {
            let has = |(name, text): (&str, &str)| text_of(row, name).as_deref() == Some(text);
            plot.only.is_none_or(has) && !plot.without.is_some_and(has)
        };
        let mut lines: Vec<Line> = Vec::new();
        for row in rows.iter().filter(is_in) {
            let name = plot.lines.and_then(|lines| text_of(row, lines)).unwrap_or_default();
            for (point, metric, is_dashed) in Point::of_row(plot, row) {
                let is_this = |line: &&mut Line| line.name == name && line.is_dashed == is_dashed;
                match lines.iter_mut().find(is_this) {
                    Some(line) => line.points.push(point),
                    None => {
                        let colour = colours.iter().position(|other| *other == name).unwrap_or(0);
                        let (name, points) = (name.clone(), vec![point]);
                        let is_of_quantiles = matches!(plot.across, Across::Quantiles);
                        lines.push(Line {
                            name,
                            colour,
                            is_dashed,
                            is_of_quantiles,
                            metric,
                            points,
                        });
                    }
                }
            }
        }
        Self { lines }
    }

    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The picture.
    pub(super) fn draw(&self, plot: &Plot, across: &Scale, up: &Scale) -> Markup {
        let left = left_of_lines(plot.metric, up);
        let across = across.between(left + 8.0, WIDTH - RIGHT);
        let up = up.between(HEIGHT - BOTTOM, TOP);
        html! {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(plot.title) {
                (upward_axis(plot.metric, left, &up))
                (self.across_axis(plot, left, &across))
                @for line in &self.lines { (line.draw(&across, &up)) }
                (self.names(&across, &up))
            }
        }
    }

    fn across_axis(&self, plot: &Plot, left: f64, across: &Scale) -> Markup {
        let mut points: Vec<&Point> = self.lines.iter().flat_map(|line| &line.points).collect();
        points.sort_by(|one, other| one.across.total_cmp(&other.across));
        // The greatest value matters most.
        let mut shown: Vec<&Point> = Vec::new();
        for point in points.into_iter().rev() {
            let place = across.at(point.across);
            let half = |point: &Point| text_width(&point.below) / 2.0;
            let has_room = |last: &&Point| {
                across.at(last.across) - place > half(last) + half(point) + NUMBER_GAP
            };
            if shown.last().is_none_or(has_room) {
                shown.push(point);
            }
        }
        let name = match plot.across {
            Across::Label(name) => name,
            Across::Quantiles => "percentile",
        };
        html! {
            @for point in shown {
                text.number x=(round(across.at(point.across))) y=(HEIGHT - BOTTOM + 18.0)
                    text-anchor="middle" { (point.below) }
            }
            text.axis x=(round((left + WIDTH - RIGHT) / 2.0)) y=(HEIGHT - 8.0)
                text-anchor="middle" { (name) }
        }
    }

    /// The name and the last number of each line, beside its end, without overlap.
    fn names(&self, across: &Scale, up: &Scale) -> Markup {
        let mut names: Vec<(f64, f64, &Line, f64)> = self
            .lines
            .iter()
            .filter(|line| !line.is_dashed)
            .filter_map(|line| {
                let point = line.points.last()?;
                Some((across.at(point.across) + 10.0, up.at(point.up), line, point.up))
            })
            .collect();
        names.sort_by(|one, other| one.1.total_cmp(&other.1));
        // Placed from the lowest upwards, and pushed down again where they do not fit.
        let lowest = HEIGHT - BOTTOM - NAME_HEIGHT / 2.0;
        let mut below = lowest + NAME_HEIGHT;
        for (_, y, ..) in names.iter_mut().rev() {
            *y = y.min(below - NAME_HEIGHT);
            below = *y;
        }
        let mut above = TOP - NAME_HEIGHT;
        for (_, y, ..) in &mut names {
            *y = y.max(above + NAME_HEIGHT);
            above = *y;
        }
        html! {
            @for (x, y, line, value) in names {
                text class={ "name line-" (line.colour) } x=(round(x)) y=(round(y)) {
                    (line.name)
                    // A single line has its number where a name would be.
                    @let down = if line.name.is_empty() { 4 } else { 14 };
                    tspan.value x=(round(x)) dy=(down) { (line.metric.unit.text(value)) }
                }
            }
        }
    }
}

/// Where the lines begin: to the right of the longest number at the axis.
fn left_of_lines(metric: Metric, up: &Scale) -> f64 {
    let widths = up.powers().into_iter().map(|power| text_width(&power_text(metric, power)));
    widths.fold(LEFT_MIN, |left, width| left.max(width + 12.0))
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER_WIDTH
}

fn upward_axis(metric: Metric, left: f64, up: &Scale) -> Markup {
    html! {
        @for power in up.powers() {
            @let y = round(up.at(power));
            line.grid x1=(left) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
            text.number x=(left - 8.0) y=(round(up.at(power) + 4.0)) text-anchor="end" {
                (power_text(metric, power))
            }
        }
    }
}

/// A power of ten without insignificant digits.
fn power_text(metric: Metric, power: f64) -> String {
    let text = metric.unit.text(power);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

impl Line {
    fn draw(&self, across: &Scale, up: &Scale) -> Markup {
        let place = |point: &Point| (round(across.at(point.across)), round(up.at(point.up)));
        let places: Vec<String> =
            self.points.iter().map(place).map(|(x, y)| format!("{x},{y}")).collect();
        let class = if self.is_dashed { "path dashed" } else { "path" };
        html! {
            polyline class={ (class) " line-" (self.colour) } points=(places.join(" ")) {}
            @for point in &self.points {
                @let (x, y) = place(point);
                g class={ "dot line-" (self.colour) } {
                    circle cx=(x) cy=(y) r=(if self.is_dashed { 2.0 } else { 3.5 }) {}
                    circle.hit cx=(x) cy=(y) r="10" { title { (self.told(point)) } }
                }
            }
        }
    }

    /// The text of a point under the mouse.
    fn told(&self, Point { up, below, .. }: &Point) -> String {
        let Metric { heading, unit, .. } = self.metric;
        // A quantile is named by its position.
        let heading = if self.is_of_quantiles { String::new() } else { format!("{heading} ") };
        format!("{} {below}: {heading}{}", self.name, unit.text(*up)).trim_start().to_owned()
    }
}

/// Rounded to tenths of a pixel.
fn round(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::values::Unit;

    #[test]
    fn the_longest_number_at_the_axis_is_left_of_the_lines() {
        let metric = Metric { key: "n", heading: "n", unit: Unit::Count };
        let few = Scale::wide([1.0, 900.0].into_iter()).expect("there are numbers");
        let many = Scale::wide([1.0, 9_000_000.0].into_iter()).expect("there are numbers");
        assert_eq!(left_of_lines(metric, &few), LEFT_MIN);
        let longest = power_text(metric, 1e7);
        assert_eq!(longest, "10,000,000");
        assert!(left_of_lines(metric, &many) - 8.0 >= text_width(&longest));
    }
}
