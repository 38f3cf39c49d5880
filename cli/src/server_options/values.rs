//! Parses the values of settings, for files and flags alike.
//!
//! Numbers and booleans are parsed as ZooKeeper's classes parse them. Where those silently use a default
//! for a bad value, these return an error.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use zoolet_server::{DigestAlgorithm, SuperDigest};

use super::access::AuthProvider;

/// What a value must be, for the message about a bad one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadValue {
    #[error("must be a whole number from {} to {}", .0.start(), .0.end())]
    NotInRange(RangeInclusive<i64>),
    #[error("must be a whole number from {} to {}, or -1 for {}", .0.start(), .0.end(), .1)]
    NotInRangeNorMinusOne(RangeInclusive<i64>, &'static str),
    #[error("must be true or false")]
    NotBoolean,
    #[error("must be yes or no")]
    NotYesOrNo,
    #[error("must be {}", DIGEST_ALGORITHM_NAMES.join(" or "))]
    NotADigestAlgorithm,
    #[error(
        "must be USER:HASH, as `zoolet digest USER` prints it for the password on its standard \
         input"
    )]
    NotASuperDigest,
    #[error("must name four-letter words such as {}, or be *", FOUR_LETTER_WORDS.join(","))]
    NotFourLetterWords,
    #[error(
        "must be HOST:PORT with a port up to 65535, such as 127.0.0.1:2181 or, for all interfaces, \
         0.0.0.0:2181"
    )]
    NotAnAddress,
    #[error(
        "must be a host name or an IP address; two brackets stand around an IPv6 address, or none"
    )]
    NotAHost,
    #[error("must be a time such as 10s, 500ms, 1m30s, or a number of seconds")]
    NotATime,
    #[error(
        "must be an IP address and a port, such as 127.0.0.1:8181 or [::1]:8181, and no host name"
    )]
    NotAnIpAndPort,
    #[error("must be more than no time")]
    NoTime,
    #[error(
        "must be the class of a provider that zoolet has, {}; it cannot load classes of Java",
        AuthProvider::class_names()
    )]
    NotAnAuthProvider,
    #[error("must be {}, or the class of one of them", AuthProvider::scheme_names())]
    NotAnAuthScheme,
    #[error(
        "is about Kerberos, which zoolet does not have; remove it, and let clients authenticate by \
         certificates or by SASL DIGEST-MD5"
    )]
    Kerberos,
    #[error(
        "must be org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider or ZooKeeper's \
         DefaultMetricsProvider; zoolet cannot load classes of Java"
    )]
    NotAMetricsProvider,
    #[error("must be 3.9 or 3.10")]
    NotADialect,
    #[error(
        "asks for metrics over HTTPS, which zoolet does not have; set metricsProvider.httpHost to \
         127.0.0.1, and let a proxy on this machine speak TLS"
    )]
    NoHttps,
    #[error(
        "must be org.apache.zookeeper.audit.Slf4jAuditLogger, or left out; zoolet cannot load \
         classes of Java, and would write no audit log where this one is expected"
    )]
    NotAnAuditLogger,
    #[error("must be gz, snappy or nothing")]
    NotACompression,
    #[error("must be PEM, PKCS12 or JKS; BCFKS can be converted with keytool -importkeystore")]
    NotAStoreType,
    #[error("must be none, want or need")]
    NotAClientAuth,
    #[error("must name TLSv1.2, TLSv1.3 or both")]
    NotProtocols,
    #[error("names no cipher suite that zoolet supports; such are {}", cipher_suites())]
    NotCipherSuites,
    #[error("must be a number from 0 to 1, such as 0.02")]
    NotAShare,
    #[error("must not be empty")]
    Empty,
}

fn cipher_suites() -> String {
    zoolet_server::tls::cipher_suite_names().collect::<Vec<_>>().join(",")
}

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Without the brackets around an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for HostPort {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (host, port) = text.rsplit_once(':').ok_or(BadValue::NotAnAddress)?;
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(BadValue::NotAnAddress)?,
            // The last colon of an unbracketed IPv6 address would be taken for the one before the port.
            None if host.contains(':') => return Err(BadValue::NotAnAddress),
            None => host,
        };
        let is_host = !bare.is_empty() && !bare.contains(['/', '*', '@']);
        let port = port.parse().map_err(|_| BadValue::NotAnAddress)?;
        if is_host { Ok(Self { host: bare.to_owned(), port }) } else { Err(BadValue::NotAnAddress) }
    }
}

/// `Integer.parseInt`, within limits.
pub(super) fn whole(text: &str, limits: RangeInclusive<i64>) -> Result<i64, BadValue> {
    match text.parse() {
        Ok(number) if limits.contains(&number) => Ok(number),
        _ => Err(BadValue::NotInRange(limits)),
    }
}

/// `Integer.getInteger` and `Long.getLong`, within limits: hexadecimal after `0x` or `#`, octal
/// after `0`.
pub(super) fn decoded(text: &str, limits: RangeInclusive<i64>) -> Result<i64, BadValue> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (digits, radix) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        (None, _) => (digits, 10),
    };
    let is_number = digits.starts_with(|c: char| c.is_digit(radix));
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(number) if is_number && limits.contains(&number) => Ok(number),
        _ => Err(BadValue::NotInRange(limits)),
    }
}

pub(crate) fn port(text: &str) -> Result<u16, BadValue> {
    Ok(whole(text, 0..=u16::MAX.into())? as u16)
}

pub(crate) fn tick_time(text: &str) -> Result<u32, BadValue> {
    Ok(whole(text, 1..=INT_MAX)? as u32)
}

/// -1 for the default.
pub(crate) fn session_timeout(text: &str) -> Result<i32, BadValue> {
    match whole(text, -1..=INT_MAX) {
        Ok(timeout) => Ok(timeout as i32),
        Err(_) => Err(BadValue::NotInRangeNorMinusOne(0..=INT_MAX, "the default")),
    }
}

/// 0 for everything up to it, since `NIOServerCnxnFactory` limits nothing then.
pub(crate) fn connections_from_one_address(text: &str) -> Result<usize, BadValue> {
    match whole(text, INT_MIN..=INT_MAX) {
        Ok(count) => Ok(count.max(0) as usize),
        Err(_) => Err(BadValue::NotInRange(0..=INT_MAX)),
    }
}

/// 0 for everything up to it, as `ServerCnxnFactory.initMaxCnxns` has it.
pub(crate) fn connections(text: &str) -> Result<usize, BadValue> {
    match decoded(text, INT_MIN..=INT_MAX) {
        Ok(count) => Ok(count.max(0) as usize),
        Err(_) => Err(BadValue::NotInRange(0..=INT_MAX)),
    }
}

/// 0 for everything up to it, where Java takes a default of its own.
pub(crate) fn listen_backlog(text: &str) -> Result<u32, BadValue> {
    match whole(text, INT_MIN..=INT_MAX) {
        Ok(backlog) => Ok(backlog.max(0) as u32),
        Err(_) => Err(BadValue::NotInRangeNorMinusOne(1..=INT_MAX, "the system's default")),
    }
}

pub(crate) fn frame_bytes(text: &str) -> Result<usize, BadValue> {
    Ok(decoded(text, 1..=INT_MAX)? as usize)
}

pub(crate) fn check_interval(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(decoded(text, 1..=INT_MAX)? as u64))
}

pub(crate) fn per_minute(text: &str) -> Result<u32, BadValue> {
    Ok(decoded(text, 1..=INT_MAX)? as u32)
}

pub(crate) fn never_used_ms(text: &str) -> Result<i64, BadValue> {
    decoded(text, 0..=i64::MAX)
}

/// `true` or `false`, in any case.
pub(crate) fn boolean(text: &str) -> Result<bool, BadValue> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(BadValue::NotBoolean),
    }
}

/// `yes` or `no`, in lower case only: ZooKeeper takes all but `yes` for `no`.
pub(crate) fn yes_or_no(text: &str) -> Result<bool, BadValue> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(BadValue::NotYesOrNo),
    }
}

pub(crate) fn digest_algorithm(text: &str) -> Result<DigestAlgorithm, BadValue> {
    DigestAlgorithm::from_name(text).ok_or(BadValue::NotADigestAlgorithm)
}

/// A user and a hash of 20 or 32 bytes: a password put here by mistake would match nothing.
pub(crate) fn super_digest(text: &str) -> Result<SuperDigest, BadValue> {
    let (user, hash) = text.split_once(':').ok_or(BadValue::NotASuperDigest)?;
    let digits = hash.trim_end_matches('=');
    let is_base64 = digits.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    let has_length = matches!((digits.len(), hash.len()), (27, 28) | (43, 44));
    if user.is_empty() || !is_base64 || !has_length {
        return Err(BadValue::NotASuperDigest);
    }
    Ok(text.into())
}

/// The words of a whitelist, as it was written; `Err` if ZooKeeper has no such word.
pub(crate) fn four_letter_words(text: &str) -> Result<String, BadValue> {
    match unknown_four_letter_words(text).next() {
        None => Ok(text.to_owned()),
        Some(_) => Err(BadValue::NotFourLetterWords),
    }
}

/// The words of a whitelist that no ZooKeeper answers.
pub(crate) fn unknown_four_letter_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty() && *word != "*" && !FOUR_LETTER_WORDS.contains(word))
}

pub(crate) fn auth_schemes(text: &str) -> Result<String, BadValue> {
    if text.split(',').all(|scheme| scheme.trim().is_empty()) {
        return Err(BadValue::Empty);
    }
    Ok(text.to_owned())
}

pub(crate) fn some_text(text: &str) -> Result<String, BadValue> {
    if text.is_empty() { Err(BadValue::Empty) } else { Ok(text.to_owned()) }
}

pub(crate) fn host(text: &str) -> Result<String, BadValue> {
    let host = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match host {
        "" => Err(BadValue::Empty),
        _ if host.contains(['[', ']']) => Err(BadValue::NotAHost),
        _ => Ok(host.to_owned()),
    }
}

/// The address of a page: a host name could stand for several.
pub(crate) fn ip_and_port(text: &str) -> Result<SocketAddr, BadValue> {
    text.parse().map_err(|_| BadValue::NotAnIpAndPort)
}

/// A time with a unit, or a number of seconds.
pub(crate) fn time(text: &str) -> Result<Duration, BadValue> {
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let friendly = || Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok();
    seconds().or_else(friendly).ok_or(BadValue::NotATime)
}

/// As [`time`], but not zero.
pub(crate) fn some_time(text: &str) -> Result<Duration, BadValue> {
    match time(text)? {
        Duration::ZERO => Err(BadValue::NoTime),
        time => Ok(time),
    }
}

/// The parser of a whole number within limits.
pub(crate) fn number<T: TryFrom<i64>>(
    limits: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, BadValue> + Clone {
    move |text| {
        let number = whole(text, limits.clone())?;
        T::try_from(number).map_err(|_| BadValue::NotInRange(limits.clone()))
    }
}

/// A number that is not zero.
pub(crate) fn some(text: &str) -> Result<usize, BadValue> {
    Ok(whole(text, 1..=INT_MAX)? as usize)
}

pub(super) const INT_MIN: i64 = i32::MIN as i64;
pub(crate) const INT_MAX: i64 = i32::MAX as i64;
/// The largest number of an option that has no other limit.
pub(crate) const NUMBER_MAX: i64 = u32::MAX as i64;

const DIGEST_ALGORITHM_NAMES: [&str; 3] = ["SHA1", "SHA-256", "SHA3-256"];

/// The words of `FourLetterCommands`.
const FOUR_LETTER_WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst",
    "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, number) in [("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("007", 7)] {
            assert_eq!(whole(text, -9..=9), Ok(number), "{text}");
        }
        for text in ["", " 1", "1 ", "x", "0x1", "1.0", "1e1", "1_0", "10", "-10", "--1", "９"] {
            assert_eq!(whole(text, -9..=9), Err(BadValue::NotInRange(-9..=9)), "{text}");
        }
        let numbers = [("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("0x1F", 31)];
        for (text, number) in numbers.into_iter().chain([("#1f", 31), ("-0X10", -16), ("017", 15)])
        {
            assert_eq!(decoded(text, -99..=99), Ok(number), "{text}");
        }
        for text in ["", "x", "08", "0x", "#", "1M", "0x-1", "--1", "-+1", "0+1", "100", "1.0"] {
            assert_eq!(decoded(text, -99..=99), Err(BadValue::NotInRange(-99..=99)), "{text}");
        }
    }

    #[test]
    fn times() {
        let cases = [
            ("10s", 10_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("2h", 7_200_000),
            ("10", 10_000),
            ("0.5", 500),
            ("0", 0),
        ];
        for (text, ms) in cases {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "-1s", "10x", "1 2", "inf", "NaN", "1e30"] {
            assert_eq!(time(text), Err(BadValue::NotATime), "{text}");
        }
        assert_eq!(some_time("0s"), Err(BadValue::NoTime));
    }

    #[test]
    fn addresses() {
        let cases = [
            ("127.0.0.1:2181", "127.0.0.1", 2181),
            ("localhost:0", "localhost", 0),
            ("[::1]:2181", "::1", 2181),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
        ];
        for (text, host, port) in cases {
            assert_eq!(text.parse(), Ok(HostPort { host: host.to_owned(), port }), "{text}");
        }
        for text in [
            "",
            "2181",
            ":2181",
            "localhost",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "localhost:-1",
            "::1:2181",
            "::1",
            "[::1:2181",
            "[]:2181",
            "*:2181",
            "zk://host:2181",
            "host:2181/path",
        ] {
            assert_eq!(text.parse::<HostPort>(), Err(BadValue::NotAnAddress), "{text}");
        }
    }
}
