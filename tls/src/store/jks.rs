//! Stores in Java's older format: `sun.security.provider.JavaKeyStore`.
//!
//! Numbers are big-endian: magic, version, number of entries; for each entry a kind, an alias, a
//! time, and either an encrypted private key with a chain of certificates or a certificate; and a
//! SHA-1 of the password and of all before it.

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sha1::{Digest, Sha1};
use x509_parser::asn1_rs::{FromDer, OctetString, Sequence};
use x509_parser::x509::AlgorithmIdentifier;
use zeroize::Zeroizing;

use crate::private_key::KeyEntry;
use crate::{FileProblem, Secret};

/// The first bytes of a store.
pub(super) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
/// The first bytes of a store of type JCEKS, which is not read.
pub(super) const JCEKS_MAGIC: [u8; 4] = [0xce; 4];

/// What Java mixes into the digest of a store.
const WHITENER: &[u8] = b"Mighty Aphrodite";
const DIGEST_BYTES: usize = 20;
/// The algorithm by which Java encrypts keys in this format.
const KEY_PROTECTOR: &str = "1.3.6.1.4.1.42.2.17.1.1";

/// The first private key and its certificates.
pub(super) fn key_entry(bytes: &[u8], password: Option<&Secret>) -> Result<KeyEntry, FileProblem> {
    let password = password.ok_or(FileProblem::NoPassword)?;
    for entry in read(bytes, Some(password))? {
        if let Entry::Key { encrypted, chain } = entry {
            let key = decrypt(encrypted, password)?;
            let chain = chain.into_iter().map(owned).collect();
            return Ok(KeyEntry { key: PrivatePkcs8KeyDer::from(key.to_vec()).into(), chain });
        }
    }
    Err(FileProblem::NoPrivateKey)
}

/// The trusted certificates, and those of private keys.
pub(super) fn trusted(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let trusted = read(bytes, password)?.into_iter().filter_map(|entry| match entry {
        Entry::Trusted(certificate) => Some(certificate),
        Entry::Key { chain, .. } => chain.first().copied(),
    });
    Ok(trusted.map(owned).collect())
}

fn owned(der: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from(der.to_vec())
}

enum Entry<'a> {
    Key { encrypted: &'a [u8], chain: Vec<&'a [u8]> },
    Trusted(&'a [u8]),
}

fn read<'a>(bytes: &'a [u8], password: Option<&Secret>) -> Result<Vec<Entry<'a>>, FileProblem> {
    let mut reader = Reader(bytes);
    reader.take(MAGIC.len())?;
    let version = reader.number()?;
    if !(1..=2).contains(&version) {
        return Err(FileProblem::Damaged(format!("version {version} of JKS is unknown")));
    }
    let count = reader.number()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(reader.entry(version)?);
    }
    let signed = &bytes[..bytes.len() - reader.0.len()];
    let digest = reader.take(DIGEST_BYTES)?;
    let mut expected = Sha1::new();
    expected.update(encoded(password.map_or("", Secret::expose)));
    expected.update(WHITENER);
    expected.update(signed);
    match (expected.finalize()[..] == *digest, password) {
        (true, _) => Ok(entries),
        (false, Some(_)) => Err(FileProblem::WrongPassword),
        (false, None) => Err(FileProblem::NoPassword),
    }
}

/// Reads values from the front of a slice. No length is trusted before so many bytes are there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], FileProblem> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(FileProblem::Damaged("it ends too early".to_owned()));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, FileProblem> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Bytes after a length of four bytes.
    fn bytes(&mut self) -> Result<&'a [u8], FileProblem> {
        let length = self.number()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Text after a length of two bytes.
    fn text(&mut self) -> Result<&'a [u8], FileProblem> {
        let length = self.take(2)?;
        self.take(usize::from(length[0]) << 8 | usize::from(length[1]))
    }

    fn entry(&mut self, version: u32) -> Result<Entry<'a>, FileProblem> {
        let kind = self.number()?;
        let (_alias, _time) = (self.text()?, self.take(8)?);
        match kind {
            1 => {
                let encrypted = self.bytes()?;
                let mut chain = Vec::new();
                for _ in 0..self.number()? {
                    chain.push(self.certificate(version)?);
                }
                Ok(Entry::Key { encrypted, chain })
            }
            2 => Ok(Entry::Trusted(self.certificate(version)?)),
            kind => Err(FileProblem::Damaged(format!("entries of kind {kind} are unknown"))),
        }
    }

    fn certificate(&mut self, version: u32) -> Result<&'a [u8], FileProblem> {
        if version == 2 {
            let kind = self.text()?;
            if kind != b"X.509" {
                return Err(FileProblem::Damaged("a certificate is not X.509".to_owned()));
            }
        }
        self.bytes()
    }
}

/// Decrypts a private key: `sun.security.provider.KeyProtector`.
fn decrypt(der: &[u8], password: &Secret) -> Result<Zeroizing<Vec<u8>>, FileProblem> {
    let damaged = || FileProblem::Damaged("its private key cannot be read".to_owned());
    let (_, info) = Sequence::from_der(der).map_err(|_| damaged())?;
    let (rest, algorithm) = AlgorithmIdentifier::from_der(&info.content).map_err(|_| damaged())?;
    if algorithm.algorithm.to_id_string() != KEY_PROTECTOR {
        return Err(FileProblem::Encryption("Java's own algorithm for JKS is".to_owned()));
    }
    let (_, data) = OctetString::from_der(rest).map_err(|_| damaged())?;
    let data: &[u8] = data.as_ref();
    let (salt, rest) = data.split_at_checked(DIGEST_BYTES).ok_or_else(damaged)?;
    let length = rest.len().checked_sub(DIGEST_BYTES).ok_or_else(damaged)?;
    let (encrypted, check) = rest.split_at(length);

    let password = encoded(password.expose());
    let mut key = Zeroizing::new(Vec::with_capacity(length));
    let mut pad = digest(&password, salt);
    for block in encrypted.chunks(DIGEST_BYTES) {
        key.extend(block.iter().zip(&pad).map(|(byte, pad)| byte ^ pad));
        pad = digest(&password, &pad);
    }
    // The key may have a password of its own, which ZooKeeper cannot be told either.
    if digest(&password, &key) != check { Err(FileProblem::WrongPassword) } else { Ok(key) }
}

fn digest(password: &[u8], data: &[u8]) -> Vec<u8> {
    let mut digest = Sha1::new();
    digest.update(password);
    digest.update(data);
    digest.finalize().to_vec()
}

/// A password as Java mixes it into digests: each of its UTF-16 units, the higher byte first.
fn encoded(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().flat_map(u16::to_be_bytes).collect())
}
