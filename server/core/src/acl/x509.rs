//! The x509 scheme: an identity is the name of a client certificate's subject, as Java's
//! `X500Principal.getName` writes it (`X509AuthenticationProvider`).

/// Whether the identity is an X.500 name: whether Java's `X500Principal` accepts it.
///
/// Java takes more than RFC 2253 allows, for the sake of RFC 1779: `;` between the parts, spaces
/// around them, values in quotes, and keywords of its own.
pub(super) fn is_valid(name: &str) -> bool {
    name.is_empty() || relative_names(name.as_bytes()).all(is_relative_name)
}

/// Cuts a name at each `,` and `;` that is neither escaped nor in quotes.
fn relative_names(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut start, mut searched, mut quotes) = (0, 0, 0);
    let mut is_done = false;
    std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        while let Some(end) = position(name, searched, |byte| matches!(byte, b',' | b';')) {
            quotes += count_quotes(&name[searched..end]);
            let is_separator = quotes != 1 && !is_escaped(name, end, searched);
            searched = end + 1;
            if is_separator {
                let part = &name[start..end];
                (start, quotes) = (end + 1, 0);
                return Some(part);
            }
        }
        is_done = true;
        Some(&name[start..])
    })
}

/// Whether a part between separators is `KEYWORD=value`, or several of these with `+` between.
fn is_relative_name(name: &[u8]) -> bool {
    let (mut start, mut searched, mut quotes) = (0, 0, 0);
    while let Some(plus) = position(name, searched, |byte| byte == b'+') {
        quotes += count_quotes(&name[searched..plus]);
        searched = plus + 1;
        if plus > 0 && name[plus - 1] != b'\\' && quotes != 1 {
            if !is_attribute(&name[start..plus]) {
                return false;
            }
            (start, quotes) = (plus + 1, 0);
        }
    }
    is_attribute(&name[start..])
}

fn is_attribute(attribute: &[u8]) -> bool {
    let Some(equals) = position(attribute, 0, |byte| byte == b'=') else { return false };
    let Ok(keyword) = std::str::from_utf8(&attribute[..equals]) else { return false };
    let Some(value) = position(attribute, equals + 1, |byte| !matches!(byte, b' ' | b'\n')) else {
        return is_keyword(keyword);
    };
    is_keyword(keyword)
        && match &attribute[value..] {
            [b'#', hex @ ..] => is_der_in_hex(hex),
            [b'"', quoted @ ..] => is_quoted_value(quoted),
            plain => is_plain_value(plain),
        }
}

/// The keywords that Java reads, though it writes only some of them.
const KEYWORDS: &str = "CN C L S ST O OU T IP STREET DC DNQUALIFIER DNQ SURNAME GIVENNAME INITIALS \
                        GENERATION EMAIL EMAILADDRESS UID SERIALNUMBER";

fn is_keyword(text: &str) -> bool {
    let upper = text.to_uppercase();
    let keyword = upper.trim_matches(|c| c <= ' ');
    KEYWORDS.split(' ').any(|known| known == keyword)
        || is_object_identifier(keyword.strip_prefix("OID.").unwrap_or(keyword))
}

/// At least two numbers with dots between, within the ranges of X.660.
fn is_object_identifier(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<_> = text.split('.').collect();
    let [first, second, ..] = parts[..] else { return false };
    let small = |part: &str| part.parse::<u32>().unwrap_or(u32::MAX);
    parts.iter().copied().all(is_number)
        && small(first) <= 2
        && (small(first) == 2 || small(second) <= 39)
}

/// A value of two hexadecimal digits for each byte of its DER encoding.
fn is_der_in_hex(hex: &[u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some(u8::try_from(digit(high)? * 16 + digit(low)?).unwrap_or(u8::MAX)),
        _ => None,
    };
    let digits = hex.split(|&byte| is_terminator(byte)).next().unwrap_or_default();
    let der: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    der.is_some_and(|der| is_one_der_value(&der))
}

/// Whether the length that a DER value begins with is that of the rest.
fn is_one_der_value(der: &[u8]) -> bool {
    match *der {
        [_tag, length @ 0..=0x7f, ref rest @ ..] => rest.len() == usize::from(length),
        [_tag, count @ 0x81..=0x84, ref rest @ ..] => {
            let Some((length, rest)) = rest.split_at_checked(usize::from(count & 0x7f)) else {
                return false;
            };
            let length = length.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
            length > 0x7f && rest.len() as u64 == length
        }
        _ => false,
    }
}

/// The text after an opening quote, up to the closing one, which only spaces may follow.
fn is_quoted_value(mut rest: &[u8]) -> bool {
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return rest.iter().all(|byte| matches!(byte, b'\n' | b' ')),
            [b'\\', high, low, rest @ ..] if high.is_ascii_hexdigit() => {
                if !low.is_ascii_hexdigit() {
                    return false;
                }
                rest
            }
            [b'\\', escaped, rest @ ..] if b",=\n+<>#;\\\"".contains(escaped) => rest,
            [b'\\', ..] | [] => return false,
            [_, rest @ ..] => rest,
        };
    }
}

/// A value ends at a separator, also where [`is_escaped`] takes that for a part of it.
fn is_plain_value(value: &[u8]) -> bool {
    let mut rest = value;
    loop {
        rest = match rest {
            [] => return true,
            [byte, ..] if is_terminator(*byte) => return rest.len() < value.len(),
            [b'\\', high, low, rest @ ..] if high.is_ascii_hexdigit() => {
                if !low.is_ascii_hexdigit() {
                    return false;
                }
                rest
            }
            [b'\\', escaped, rest @ ..] if b",=\n+<>#;\\\" ".contains(escaped) => rest,
            [b'\\', ..] => return false,
            [byte, ..] if b"<>\"".contains(byte) => return false,
            [_, rest @ ..] => rest,
        };
    }
}

fn is_terminator(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b'+')
}

fn position(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> Option<usize> {
    bytes[from..].iter().position(|&byte| is(byte)).map(|at| from + at)
}

fn count_quotes(bytes: &[u8]) -> usize {
    let is_quote = |(at, &byte): (usize, &u8)| byte == b'"' && (at == 0 || bytes[at - 1] != b'\\');
    bytes.iter().enumerate().filter(|&byte| is_quote(byte)).count()
}

/// Whether a backslash escapes the separator at `at`. Java counts all
/// backslashes since the last separator that it looked at.
fn is_escaped(name: &[u8], at: usize, searched: usize) -> bool {
    match &name[..at] {
        [.., b'\\', b'\\'] => {
            name[searched..at].iter().filter(|&&byte| byte == b'\\').count() % 2 == 1
        }
        [.., b'\\'] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was given to `new X500Principal` of OpenJDK 17.
    #[test]
    fn a_name_is_valid_if_java_accepts_it() {
        for name in [
            "",
            "CN=client",
            "cn=client",
            "CN=client,OU=Ops\\, Team,O=Example,C=DE",
            "CN=a, O=b; C=c",
            "CN=a+OU=b",
            "CN=",
            "CN= a ",
            "CN=\"a, b\"",
            "CN=\"a\" ",
            "CN=a=b",
            "OID.1.2.3=a",
            "1.2.840.113549.1.9.1=#16056140622e63",
            "CN=\\41\\c3\\a4",
            "CN=\\ a\\ ",
            "EMAILADDRESS=a@b.c",
            "serialNumber=1",
            "CN=ä",
            "CN=a\\\\,O=b",
            "CN=\\\"a\\\\,O=b",
        ] {
            assert!(is_valid(name), "{name}");
        }
        for name in [
            "client",
            "=a",
            "XY=a",
            "CN=a,",
            ",CN=a",
            "CN=a,,O=b",
            "CN=a+",
            "CN=a<b",
            "CN=a\"b",
            "CN=\"a",
            "CN=\"a\" b",
            "CN=\\x",
            "CN=a\\",
            "CN=\\4",
            "CN=\\4g",
            "CN=#",
            "CN=#1",
            "CN=#1g",
            "CN=#1601",
            "CN=#16056140622e6300",
            "1=a",
            "3.1=a",
            "1.40=a",
            "1..2=a",
        ] {
            assert!(!is_valid(name), "{name}");
        }
    }
}
