//! Numbers as Java prints them.

/// A double as `Double.toString` prints it: always with a point, and with an exponent from ten
/// million up and below a thousandth.
pub(crate) fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// An average, which ZooKeeper rounds to four places (`AvgMinMaxCounter.getAvg`).
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_java_does() {
        // As `jshell` prints them.
        let cases = [
            (0.0, "0.0"),
            (7.0, "7.0"),
            (-1.0, "-1.0"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.0, "1.2345678E7"),
            (1_795_276_234.266, "1.795276234266E9"),
            (9.223_372_036_854_776e18, "9.223372036854776E18"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn averages_are_rounded_as_java_does() {
        assert_eq!(java_double(rounded(0.0)), "0.0");
        assert_eq!(java_double(rounded(0.123_456)), "0.1235");
        assert_eq!(java_double(rounded(12.5)), "12.5");
    }
}
