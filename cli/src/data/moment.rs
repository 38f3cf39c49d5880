//! Moments of the past, as options name them.

use clap::Args;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use zoolet_protocol::Zxid;
use zoolet_server::storage::history::Until;

/// One of them is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct When {
    /// After this transaction, in hexadecimal digits with 0x, or in decimal ones
    #[arg(long, value_name = "ZXID", value_parser = zxid)]
    zxid: Option<Zxid>,

    /// At this time, such as 2026-07-01T14:03:00Z, or 2026-07-01 14:03 for UTC; or in milliseconds since
    /// 1970
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<i64>,
}

impl When {
    pub(super) fn until(&self) -> Until {
        match (self.zxid, self.time) {
            (Some(zxid), _) => Until::Zxid(zxid),
            (None, Some(time_ms)) => Until::Time(time_ms),
            (None, None) => unreachable!("one of them is required"),
        }
    }
}

/// Reads a zxid.
pub(super) fn zxid(text: &str) -> Result<Zxid, &'static str> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with(['+', '-']) => i64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    match number {
        Ok(number) if number >= 0 => Ok(Zxid(number)),
        _ => Err("must be a zxid such as 0x1f, or 31: the number of a transaction. `zoolet data \
                 history` and `dump-log` print them; the names of files have them without 0x"),
    }
}

/// Reads a time, as milliseconds since 1970.
pub(super) fn time(text: &str) -> Result<i64, &'static str> {
    let is_number = text.len() >= MS_DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    // The name of a zone in brackets would be ignored.
    if text.contains('[') {
        return Err("has a zone in brackets; write it as an offset, such as +02:00, or Z for UTC");
    }
    let civil = text.parse::<DateTime>().and_then(|civil| civil.to_zoned(TimeZone::UTC));
    civil.map(|zoned| zoned.timestamp().as_millisecond()).map_err(|_| {
        "must be a time such as 2026-07-01T14:03:00Z or 2026-07-01T16:03:00+02:00, without a zone for UTC, \
         or at least 12 digits: milliseconds since 1970"
    })
}

/// Fewer digits are not milliseconds of this century, but seconds or a year.
const MS_DIGITS_MIN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxids_are_read_as_they_are_printed() {
        assert_eq!(zxid("0x1f"), Ok(Zxid(31)));
        assert_eq!(zxid("31"), Ok(Zxid(31)));
        assert_eq!(zxid(&Zxid(i64::MAX).to_string()), Ok(Zxid(i64::MAX)));
        for bad in ["", "1f", "-1", "0x", "0x-1", "0x+1", "0xffffffffffffffff", "latest"] {
            assert!(zxid(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let expected = Ok(1_782_914_580_000);
        for text in [
            "2026-07-01T14:03:00Z",
            "2026-07-01T16:03:00+02:00",
            "2026-07-01T14:03:00",
            "2026-07-01 14:03",
            "1782914580000",
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
        assert_eq!(time("2026-07-01"), Ok(1_782_864_000_000));
        for bad in
            ["", "yesterday", "1782914580", "14:03", "2026-13-01", "2026-07-01 14:03[Europe/Paris]"]
        {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
