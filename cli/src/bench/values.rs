//! Numbers and their names, for tables, JSON and reports.

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Its name in JSON, which does not change.
    pub(crate) key: &'static str,
    /// The heading of its column.
    pub(crate) heading: &'static str,
    pub(crate) unit: Unit,
}

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    Count,
    PerSecond,
    Bytes,
}

/// A number; `None` where it is not known.
pub(crate) type Value = (Metric, Option<f64>);

/// The label of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Label {
    Text(&'static str),
    Number(usize),
}

/// The name of a label in JSON and above its column, and the label.
pub(crate) type Named = (&'static str, Label);

/// The measurements of one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) labels: Vec<Named>,
    pub(crate) values: Vec<Value>,
}

impl Unit {
    /// The number with a unit, for people.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Microseconds => time_text(value),
            Self::Count if value >= 100.0 => grouped(value),
            Self::Count => rounded(value),
            Self::PerSecond => format!("{}/s", grouped(value)),
            Self::Bytes => bytes_text(value),
        }
    }
}

/// The number with one decimal place where that is significant.
fn rounded(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A whole number with commas.
pub(crate) fn grouped(value: f64) -> String {
    indicatif::HumanCount(value.round() as u64).to_string()
}

fn time_text(microseconds: f64) -> String {
    match microseconds {
        ..1e3 => three_digits(microseconds, "µs"),
        ..1e6 => three_digits(microseconds / 1e3, "ms"),
        _ => three_digits(microseconds / 1e6, "s"),
    }
}

fn bytes_text(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => three_digits(bytes / 1e3, "kB"),
        ..1e9 => three_digits(bytes / 1e6, "MB"),
        _ => three_digits(bytes / 1e9, "GB"),
    }
}

fn three_digits(value: f64, unit: &str) -> String {
    let places = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$} {unit}")
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => f.write_str(&grouped(*number as f64)),
        }
    }
}

/// The median of the known values.
pub(crate) fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut known: Vec<f64> = values.flatten().collect();
    known.sort_by(f64::total_cmp);
    let middle = known.len() / 2;
    match known.len() {
        0 => None,
        count if count % 2 == 1 => Some(known[middle]),
        _ => Some(known[middle - 1].midpoint(known[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (unit, value, text) in [
            (Unit::Microseconds, 0.5, "0.50 µs"),
            (Unit::Microseconds, 12.34, "12.3 µs"),
            (Unit::Microseconds, 999.9, "1000 µs"),
            (Unit::Microseconds, 1234.0, "1.23 ms"),
            (Unit::Microseconds, 12_345_678.0, "12.3 s"),
            (Unit::Count, 4.0, "4"),
            (Unit::Count, 4.25, "4.2"),
            (Unit::Count, 1234.5, "1,235"),
            (Unit::PerSecond, 1234.5, "1,235/s"),
            (Unit::Bytes, 12.4, "12 B"),
            (Unit::Bytes, 2048.0, "2.05 kB"),
        ] {
            assert_eq!(unit.text(value), text);
        }
    }

    #[test]
    fn medians() {
        let median = |values: &[Option<f64>]| median(values.iter().copied());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[None]), None);
        assert_eq!(median(&[Some(3.0), None, Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median(&[Some(3.0), Some(1.0)]), Some(2.0));
    }
}
