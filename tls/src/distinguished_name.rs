//! The subject of a certificate as Java writes it.

use x509_parser::asn1_rs::{Any, Oid, Tag, ToDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use crate::TlsError;

/// The subject of an X.509 certificate in DER, in the form of Java's `X500Principal.getName()`. This
/// is the id of ZooKeeper's scheme `x509`, which is compared letter by letter.
///
/// The form is that of RFC 2253: the last part comes first, there is no space after a comma, and
/// `,+"\<>;=#` are escaped. `CN`, `C`, `L`, `ST`, `O`, `OU`, `STREET`, `DC` and `UID` have names. Other
/// attributes are written by their numbers, with the DER of their value in hexadecimal.
///
/// # Errors
///
/// [`TlsError::Certificate`] if it is no certificate.
///
/// ```
/// # fn example(client_certificate: &[u8]) -> Result<(), zoolet_tls::TlsError> {
/// let name = zoolet_tls::distinguished_name(client_certificate)?;
/// assert_eq!(name, r"CN=client,OU=Ops\, Team,O=Example,C=DE");
/// # Ok(())
/// # }
/// ```
pub fn distinguished_name(certificate: &[u8]) -> Result<String, TlsError> {
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let mut parts = Vec::new();
    for part in certificate.subject().iter() {
        let values = part.iter().map(attribute).collect::<Result<Vec<_>, _>>()?;
        parts.push(values.join("+"));
    }
    parts.reverse();
    Ok(parts.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Result<String, TlsError> {
    let value = attribute.attr_value();
    let number = number(attribute.attr_type())?;
    match keyword(&number) {
        Some(keyword) if is_string(value.tag()) => Ok(format!("{keyword}={}", escaped(value))),
        Some(keyword) => Ok(format!("{keyword}=#{}", hex(value)?)),
        None => Ok(format!("{number}=#{}", hex(value)?)),
    }
}

/// The keywords of RFC 2253. Java knows more, and uses them in other forms of a name.
fn keyword(number: &str) -> Option<&'static str> {
    let keywords = [
        ("2.5.4.3", "CN"),
        ("2.5.4.6", "C"),
        ("2.5.4.7", "L"),
        ("2.5.4.8", "ST"),
        ("2.5.4.10", "O"),
        ("2.5.4.11", "OU"),
        ("2.5.4.9", "STREET"),
        ("0.9.2342.19200300.100.1.25", "DC"),
        ("0.9.2342.19200300.100.1.1", "UID"),
    ];
    keywords.into_iter().find(|(known, _)| *known == number).map(|(_, keyword)| keyword)
}

/// The numbers of an object identifier. `Oid` itself takes 2.999 for 3.16.55.
fn number(oid: &Oid<'_>) -> Result<String, TlsError> {
    let wrong = || TlsError::Certificate("an object identifier in its subject".to_owned());
    let (mut arcs, mut arc) = (Vec::new(), 0_u128);
    for byte in oid.as_bytes() {
        // A number of 128 bits is a UUID. There are no longer ones.
        arc = arc.checked_mul(1 << 7).ok_or_else(wrong)? | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            arcs.push(std::mem::take(&mut arc));
        }
    }
    // The first two numbers are one in DER.
    let (first, others) = arcs.split_first().ok_or_else(wrong)?;
    let root = (*first / 40).min(2);
    let numbers = [root, *first - root * 40].into_iter().chain(others.iter().copied());
    Ok(numbers.map(|number| number.to_string()).collect::<Vec<_>>().join("."))
}

/// The types of which Java writes the text. It writes the others in hexadecimal.
fn is_string(tag: Tag) -> bool {
    [
        Tag::PrintableString,
        Tag::T61String,
        Tag::Ia5String,
        Tag::GeneralString,
        Tag::BmpString,
        Tag::Utf8String,
    ]
    .contains(&tag)
}

/// The text, with escapes as in Java's `AVA.toRFC2253String`. Java reads the bytes as UTF-8 whatever
/// the type says, so each ASCII letter of a BMPString comes with a zero.
fn escaped(value: &Any<'_>) -> String {
    let text = String::from_utf8_lossy(value.data);
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => escaped.extend(['\\', letter]),
            '\0' => escaped.push_str("\\00"),
            _ => escaped.push(letter),
        }
    }
    let blank = |letter| letter == ' ' || letter == '\r';
    let middle = escaped.trim_start_matches(blank);
    let leading = &escaped[..escaped.len() - middle.len()];
    let middle_trimmed = middle.trim_end_matches(blank);
    let trailing = &middle[middle_trimmed.len()..];
    let with_escapes =
        |blanks: &str| blanks.chars().flat_map(|letter| ['\\', letter]).collect::<String>();
    [&with_escapes(leading), middle_trimmed, &with_escapes(trailing)].concat()
}

/// The whole value with its type and length.
fn hex(value: &Any<'_>) -> Result<String, TlsError> {
    let der = value.to_der_vec().map_err(|error| TlsError::Certificate(error.to_string()))?;
    Ok(der.iter().map(|byte| format!("{byte:02x}")).collect())
}
