//! The data of the znode that says who has a lease, and until when: kazoo's text, byte for byte.
//!
//! The text is one flat JSON object, as Python's `json.dumps` writes it, and times are UTC in whole
//! seconds. Nested values are refused, so that no text makes the reader call itself.

use std::fmt::Write as _;
use std::str::Chars;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolet_protocol::Zxid;

use super::error::LeaseError;

/// The version of the text.
const VERSION: i64 = 1;

/// The longest identifier: host names have 253 bytes at most, and a note may follow.
pub(super) const IDENTIFIER_BYTES_MAX: usize = 1024;

/// The longest text that is read: the longest identifier takes six times its bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

const DAY: u64 = 24 * 60 * 60;

/// Who has a lease, or had it last.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use zoolet_recipes::LeaseHolder;
/// use zoolet_recipes::protocol::Zxid;
///
/// let ends_at = UNIX_EPOCH + Duration::from_secs(100);
/// let holder = LeaseHolder { identifier: "host-1".into(), ends_at, token: Zxid(7) };
/// assert!(holder.is_over_at(UNIX_EPOCH + Duration::from_secs(100)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The identifier of the client.
    pub identifier: String,
    /// When the lease ends, in whole seconds, by the clock of the client.
    pub ends_at: SystemTime,
    /// The fencing token: the czxid of the znode. Each later lease has a greater one.
    pub token: Zxid,
}

impl LeaseHolder {
    /// Whether the lease is over at a time.
    #[must_use]
    pub fn is_over_at(&self, now: SystemTime) -> bool {
        now >= self.ends_at
    }

    /// Reads the data of a znode.
    pub(super) fn parse(path: &str, data: &[u8], token: Zxid) -> Result<Self, LeaseError> {
        let unreadable = |reason: &str| LeaseError::Unreadable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        if data.len() > TEXT_BYTES_MAX {
            return Err(unreadable("longer than 16 KiB"));
        }
        let text = std::str::from_utf8(data).map_err(|_| unreadable("not UTF-8"))?;
        let fields = FlatObject::read(text).ok_or_else(|| unreadable("not a flat JSON object"))?;
        match fields.value("version") {
            Some(Scalar::Integer(VERSION)) => {}
            Some(Scalar::Integer(version)) => {
                return Err(LeaseError::Version { path: path.to_owned(), version: *version });
            }
            _ => return Err(unreadable("it has no version")),
        }
        let (Some(Scalar::Text(holder)), Some(Scalar::Text(end))) =
            (fields.value("holder"), fields.value("end"))
        else {
            return Err(unreadable("it has no holder or no end"));
        };
        let ends_at = parse_time(end).ok_or_else(|| unreadable("its end is not a time"))?;
        Ok(Self { identifier: holder.clone(), ends_at, token })
    }
}

/// The text of a lease.
///
/// # Errors
///
/// [`LeaseError::TooLong`] if it ends after the year 9999.
pub(super) fn text_of(
    identifier: &str,
    ends_at: SystemTime,
    duration: Duration,
) -> Result<String, LeaseError> {
    let end = format_time(ends_at).ok_or(LeaseError::TooLong(duration))?;
    let mut text = format!("{{\"version\": {VERSION}, \"holder\": \"");
    for char in identifier.chars() {
        push_escaped(&mut text, char);
    }
    let _ = write!(text, "\", \"end\": \"{end}\"}}");
    Ok(text)
}

/// The time without what is below a second, as the text of a lease expresses it.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(since_epoch(time))
}

/// Appends a character as Python does: everything but printable ASCII is escaped.
fn push_escaped(text: &mut String, char: char) {
    match char {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\u{8}' => text.push_str("\\b"),
        '\u{c}' => text.push_str("\\f"),
        ' '..='~' => text.push(char),
        _ => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time as `YYYY-MM-DDTHH:MM:SS` in UTC, cut to seconds; `None` after the year 9999.
fn format_time(time: SystemTime) -> Option<String> {
    let seconds = since_epoch(time);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date_of(i64::try_from(days).ok()?);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    (year <= 9999)
        .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
}

/// The time of such a text. Times before 1970 are over as much as 1970 is.
fn parse_time(text: &str) -> Option<SystemTime> {
    let is_shaped = text.len() == 19
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            _ => byte.is_ascii_digit(),
        });
    if !is_shaped {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days_of(year, month, day);
    let is_valid = date_of(days) == (year, month, day) && hour < 24 && minute < 60 && second < 60;
    if !is_valid {
        return None;
    }
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// The days from 1970-01-01 to a date of the Gregorian calendar. A year counts from March here, so
/// that the leap day is its last, and 400 years have the same number of days always.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_OF_ERA + day_of_era - DAYS_TO_1970
}

/// The date that is so many days after 1970-01-01: year, month and day.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let era = days.div_euclid(DAYS_OF_ERA);
    let day_of_era = days.rem_euclid(DAYS_OF_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// The days of 400 years.
const DAYS_OF_ERA: i64 = 146_097;
/// The days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// A value of a JSON object that contains no others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scalar {
    Text(String),
    Integer(i64),
    /// Another number, `true`, `false` or `null`.
    Other,
}

/// A JSON object whose values contain no others.
#[derive(Debug, PartialEq, Eq)]
struct FlatObject(Vec<(String, Scalar)>);

impl FlatObject {
    /// The value of a key, of the last one if there are several, as in Python.
    fn value(&self, key: &str) -> Option<&Scalar> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn read(text: &str) -> Option<Self> {
        let mut reader = Reader(text.chars());
        let mut fields = Vec::new();
        reader.expect('{')?;
        if reader.take('}') {
            return reader.is_at_end().then_some(Self(fields));
        }
        loop {
            reader.expect('"')?;
            let key = reader.string()?;
            reader.expect(':')?;
            fields.push((key, reader.scalar()?));
            if reader.take('}') {
                return reader.is_at_end().then_some(Self(fields));
            }
            reader.expect(',')?;
        }
    }
}

/// What is left of the text.
struct Reader<'a>(Chars<'a>);

impl Reader<'_> {
    fn skip_space(&mut self) {
        let rest = self.0.as_str();
        self.0 = rest.trim_start_matches([' ', '\t', '\n', '\r']).chars();
    }

    /// Takes this character if it is the next one after white space.
    fn take(&mut self, char: char) -> bool {
        self.skip_space();
        let is_next = self.0.as_str().starts_with(char);
        if is_next {
            self.0.next();
        }
        is_next
    }

    fn expect(&mut self, char: char) -> Option<()> {
        self.take(char).then_some(())
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.0.as_str().is_empty()
    }

    fn scalar(&mut self) -> Option<Scalar> {
        if self.take('"') {
            return self.string().map(Scalar::Text);
        }
        let rest = self.0.as_str();
        let end = rest.find([',', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest.chars();
        match word {
            "true" | "false" | "null" => Some(Scalar::Other),
            _ => match word.parse::<i64>() {
                Ok(number) => Some(Scalar::Integer(number)),
                Err(_) => word.parse::<f64>().ok().map(|_| Scalar::Other),
            },
        }
    }

    /// The rest of a string, after its first quotation mark.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.0.next()? {
                '"' => return Some(text),
                '\\' => text.push(self.escaped()?),
                char if char < ' ' => return None,
                char => text.push(char),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.0.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            char @ ('"' | '\\' | '/') => char,
            'u' => return self.unicode(),
            _ => return None,
        })
    }

    /// A character by its number, or by two numbers of UTF-16.
    fn unicode(&mut self) -> Option<char> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first.into());
        }
        if (self.0.next()?, self.0.next()?) != ('\\', 'u') {
            return None;
        }
        char::decode_utf16([first, self.unit()?]).next()?.ok()
    }

    fn unit(&mut self) -> Option<u16> {
        let rest = self.0.as_str();
        let digits = rest.get(..4).filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
        let unit = u16::from_str_radix(digits?, 16).ok();
        self.0 = rest[4..].chars();
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_text_is_kazoos() {
        // As `json.dumps` of Python 3 writes it.
        let text = text_of("häst \"1\" \u{1f600}\n\u{7f}", at(1_600_000_000), HOUR).unwrap();
        assert_eq!(
            text,
            "{\"version\": 1, \"holder\": \"h\\u00e4st \\\"1\\\" \\ud83d\\ude00\\n\\u007f\", \
             \"end\": \"2020-09-13T12:26:40\"}"
        );
        let holder = LeaseHolder::parse("/a", text.as_bytes(), Zxid(3)).unwrap();
        assert_eq!(holder.identifier, "häst \"1\" \u{1f600}\n\u{7f}");
        assert_eq!((holder.ends_at, holder.token), (at(1_600_000_000), Zxid(3)));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let times = [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ];
        for (seconds, text) in times {
            assert_eq!(format_time(at(seconds)).as_deref(), Some(text));
            assert_eq!(parse_time(text), Some(at(seconds)));
        }
        assert_eq!(format_time(at(253_402_300_800)), None);
        for day in 0..200_000 {
            let (year, month, date) = date_of(day);
            assert_eq!(days_of(year, month, date), day);
        }
        for wrong in ["2023-02-29T00:00:00", "2024-13-01T00:00:00", "2024-01-01 00:00:00", "", "x"]
        {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_a_lease_is_an_error() {
        let unreadable = [
            "",
            "{}",
            "[1]",
            "{\"version\": 1}",
            "{\"version\": 1, \"holder\": \"a\", \"end\": \"soon\"}",
            "{\"version\": 1, \"holder\": [], \"end\": \"2020-09-13T12:26:40\"}",
            "{\"version\": 1, \"holder\": \"\\ud83d\", \"end\": \"2020-09-13T12:26:40\"}",
            "{\"version\": 1, \"holder\": \"a\", \"end\": \"2020-09-13T12:26:40\"} x",
        ];
        for text in unreadable {
            let parsed = LeaseHolder::parse("/a", text.as_bytes(), Zxid(3));
            assert!(matches!(parsed, Err(LeaseError::Unreadable { .. })), "{text}");
        }
        let later = b"{\"version\": 2, \"holder\": 7}";
        let version = LeaseError::Version { path: "/a".into(), version: 2 };
        assert_eq!(LeaseHolder::parse("/a", later, Zxid(3)), Err(version));
        let long = vec![b' '; TEXT_BYTES_MAX + 1];
        assert!(LeaseHolder::parse("/a", &long, Zxid(3)).is_err());
        let spaced =
            b" {\"x\": null,\"version\":1 ,\n\"end\":\"2020-09-13T12:26:40\",\"holder\":\"a\"} ";
        assert_eq!(LeaseHolder::parse("/a", spaced, Zxid(3)).unwrap().identifier, "a");
    }
}
