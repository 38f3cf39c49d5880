//! The names of certificates, beside those that Java gives them.

use std::io::Write;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;
use zoolet_conformance::peers::conformance_folder;
use zoolet_tls::distinguished_name;

/// Certificates with random subjects: all attributes with a name and some without, all types of text and
/// some that are none, letters that are escaped, bytes that are no UTF-8, several values in one part.
const CERTIFICATES: usize = 2_000;
const SEED: u64 = 13;

pub(crate) fn are_those_of_java() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let certificates: Vec<_> = (0..CERTIFICATES).map(|_| certificate(&mut random)).collect();
    let names = names_of_java(&certificates)?;
    assert_eq!(names.len(), certificates.len());
    let mut compared = 0;
    for (certificate, java) in certificates.iter().zip(names) {
        // What Java refuses is no concern of names.
        let Some(java) = java else { continue };
        let ours = distinguished_name(certificate)
            .map_err(|error| format!("{error}: Java reads {java:?} in {}", hex(certificate)))?;
        if ours != java {
            return Err(format!("{ours:?} is {java:?} in Java: {}", hex(certificate)).into());
        }
        compared += 1;
    }
    // Else nothing was compared.
    assert!(compared > CERTIFICATES / 2, "Java read {compared} of {CERTIFICATES}");
    Ok(())
}

fn names_of_java(certificates: &[Vec<u8>]) -> Result<Vec<Option<String>>, Failed> {
    let mut java = Command::new("java");
    java.arg(conformance_folder().join("foreign/Subjects.java"));
    let mut process = java.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = process.stdin.take().ok_or("stdin is piped")?;
    let lines: String = certificates.iter().map(|der| hex(der) + "\n").collect();
    // Java prints while it reads, so both pipes have to move.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = process.wait_with_output()?;
    writer.join().map_err(|_| "the thread that writes panicked")??;
    let name = |line: &str| match line {
        "-" => Ok(None),
        hex => Ok(Some(String::from_utf8(bytes(hex)?)?)),
    };
    String::from_utf8(output.stdout)?.lines().map(name).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>, Failed> {
    let pairs = (0..hex.len() / 2).map(|index| &hex[2 * index..2 * index + 2]);
    Ok(pairs.map(|pair| u8::from_str_radix(pair, 16)).collect::<Result<_, _>>()?)
}

/// A certificate with a random subject. Its key and signature are those of nobody, which does not matter
/// to names.
fn certificate(random: &mut fastrand::Rng) -> Vec<u8> {
    let algorithm = der(0x30, &[der(0x06, &[vec![0x2b, 0x65, 0x70]])]);
    let time = |text: &str| der(0x17, &[text.into()]);
    let key = der(0x30, &[algorithm.clone(), der(0x03, &[vec![0; 33]])]);
    // Java refuses an issuer without a name.
    let country = der(0x30, &[der(0x06, &[vec![0x55, 4, 6]]), der(0x13, &[b"DE".to_vec()])]);
    let issuer = der(0x30, &[der(0x31, &[country])]);
    let contents = der(
        0x30,
        &[
            der(0xa0, &[der(0x02, &[vec![2]])]),
            der(0x02, &[vec![1]]),
            algorithm.clone(),
            issuer,
            der(0x30, &[time("200101000000Z"), time("490101000000Z")]),
            subject(random),
            key,
        ],
    );
    der(0x30, &[contents, algorithm, der(0x03, &[vec![0; 65]])])
}

fn subject(random: &mut fastrand::Rng) -> Vec<u8> {
    let parts: Vec<_> = (0..random.usize(..5))
        .map(|_| {
            let values = if random.u8(..4) == 0 { random.usize(1..4) } else { 1 };
            let mut values: Vec<_> = (0..values).map(|_| attribute(random)).collect();
            // DER sorts a set, but nobody checks that.
            if random.bool() {
                values.sort();
            }
            der(0x31, &values)
        })
        .collect();
    der(0x30, &parts)
}

fn attribute(random: &mut fastrand::Rng) -> Vec<u8> {
    let kinds: [&[u8]; 16] = [
        // CN, C, L, ST, O, OU, STREET, serialNumber, T, SURNAME, GIVENNAME
        &[0x55, 4, 3],
        &[0x55, 4, 6],
        &[0x55, 4, 7],
        &[0x55, 4, 8],
        &[0x55, 4, 10],
        &[0x55, 4, 11],
        &[0x55, 4, 9],
        &[0x55, 4, 5],
        &[0x55, 4, 12],
        &[0x55, 4, 4],
        &[0x55, 4, 42],
        // DC, UID, emailAddress
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        // Of nobody.
        &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0xff, 0xff, 0xff, 0x7f],
        &[0x88, 0x37, 3],
    ];
    let kind = der(0x06, &[kinds[random.usize(..kinds.len())].to_vec()]);
    // UTF8String, PrintableString, TeletexString, IA5String, GeneralString, BMPString; then
    // UniversalString, NumericString, VisibleString, INTEGER, OCTET STRING.
    let tags = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e, 0x1c, 0x12, 0x1a, 0x02, 0x04];
    let tag = if random.bool() { 0x0c } else { tags[random.usize(..tags.len())] };
    der(0x30, &[kind, der(tag, &[text(random)])])
}

fn text(random: &mut fastrand::Rng) -> Vec<u8> {
    let letters = [
        "a", "B", "7", " ", "  ", ",", "=", "+", "<", ">", "#", ";", "\"", "\\", "\0", "\r", "\n",
        "/", "'", "ü", "€", "😀", "\u{feff}", "\t",
    ];
    let most = if random.u8(..20) == 0 { 200 } else { 8 };
    let length = random.usize(..most);
    let mut text = Vec::new();
    for _ in 0..length {
        match random.u8(..40) {
            // Perhaps not UTF-8.
            0 => text.push(random.u8(..)),
            _ => text.extend_from_slice(letters[random.usize(..letters.len())].as_bytes()),
        }
    }
    text
}

/// A value in DER.
fn der(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let contents = parts.concat();
    let length = match contents.len() {
        short @ 0..0x80 => vec![short as u8],
        middle @ 0x80..0x100 => vec![0x81, middle as u8],
        long => vec![0x82, (long >> 8) as u8, long as u8],
    };
    [vec![tag], length, contents].concat()
}
