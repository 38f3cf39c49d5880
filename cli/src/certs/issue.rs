//! Makes the keys and certificates.

use jiff::{Timestamp, ToSpan, civil, tz::TimeZone};
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use zoolet_tls::rustls::crypto::ring;
use zoolet_tls::rustls::pki_types::ServerName;

use super::CertsError;

/// The file that everybody may read.
pub(super) const AUTHORITY_FILE: &str = "ca.pem";
/// For how many years the authority is valid.
const AUTHORITY_YEARS: i16 = 10;
/// The hosts of every server certificate.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The letters of a password, at most 64, and how many of them it has: 117 bits.
const PASSWORD_LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789";
const PASSWORD_LENGTH: usize = 20;

/// What was made.
pub(super) struct Issued {
    authority: CertifiedIssuer<'static, KeyPair>,
    authority_key: String,
    server: Pair,
    client: Pair,
    trust_store: Vec<u8>,
    password: String,
    /// The hosts of the server's certificate.
    pub(super) hosts: Vec<String>,
    /// The last day on which server and client are valid.
    pub(super) until: civil::Date,
}

/// A private key and its certificate.
struct Pair {
    pem: String,
    pkcs12: Vec<u8>,
}

impl Issued {
    /// The files by their names.
    pub(super) fn files(&self) -> [(&'static str, Vec<u8>); 8] {
        [
            (AUTHORITY_FILE, self.authority.pem().into_bytes()),
            ("ca-key.pem", self.authority_key.clone().into_bytes()),
            ("server.pem", self.server.pem.clone().into_bytes()),
            ("client.pem", self.client.pem.clone().into_bytes()),
            ("server.p12", self.server.pkcs12.clone()),
            ("client.p12", self.client.pkcs12.clone()),
            ("truststore.p12", self.trust_store.clone()),
            ("password", format!("{}\n", self.password).into_bytes()),
        ]
    }
}

/// Makes an authority, a server with these hosts beside the local ones, and a client.
pub(super) fn issue(hosts: &[String], days: u16) -> Result<Issued, CertsError> {
    let hosts: Vec<_> = LOCAL_HOSTS.map(str::to_owned).into_iter().chain(hosts.to_vec()).collect();
    if let Some(name) = hosts.iter().find(|host| ServerName::try_from(host.as_str()).is_err()) {
        return Err(CertsError::Host { name: name.clone() });
    }
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    // A clock that is a little behind must not find the certificates of the future.
    let from = today.saturating_sub(1.day());
    let until = today.saturating_add(i32::from(days).days());

    let mut params =
        params("zoolet CA", Vec::new(), from, today.saturating_add(AUTHORITY_YEARS.years()))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let authority_key = key.serialize_pem();
    let authority = CertifiedIssuer::self_signed(params, key)?;

    let password = password()?;
    let server =
        leaf("zoolet server", hosts.clone(), ExtendedKeyUsagePurpose::ServerAuth, from, until)?;
    let server = pair(server, &authority, &password)?;
    let client =
        leaf("zoolet client", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, from, until)?;
    let client = pair(client, &authority, &password)?;
    let mut trusted = KeyStore::new();
    let certificate = Certificate::from_der(authority.der())?;
    trusted.add_entry("zoolet CA", KeyStoreEntry::Certificate(certificate));
    let trust_store = trusted.writer(&password).write()?;
    Ok(Issued { authority, authority_key, server, client, trust_store, password, hosts, until })
}

fn leaf(
    name: &str,
    hosts: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
    from: civil::Date,
    until: civil::Date,
) -> Result<CertificateParams, CertsError> {
    let mut params = params(name, hosts, from, until)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(
    name: &str,
    hosts: Vec<String>,
    from: civil::Date,
    until: civil::Date,
) -> Result<CertificateParams, CertsError> {
    let day = |date: civil::Date| {
        date_time_ymd(
            i32::from(date.year()),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (day(from), day(until));
    Ok(params)
}

/// Makes a key and its certificate.
fn pair(
    params: CertificateParams,
    authority: &CertifiedIssuer<'static, KeyPair>,
    password: &str,
) -> Result<Pair, CertsError> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    let chain = [certificate.der(), authority.der()]
        .map(|der| Certificate::from_der(der))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let private_key = PrivateKey::from_der(&key.serialize_der())?;
    let mut store = KeyStore::new();
    let entry = PrivateKeyChain::new("zoolet", private_key, chain);
    store.add_entry("zoolet", KeyStoreEntry::PrivateKeyChain(entry));
    Ok(Pair {
        pem: [key.serialize_pem(), certificate.pem()].concat(),
        pkcs12: store.writer(password).write()?,
    })
}

/// A password for the PKCS12 files, from the system's randomness.
fn password() -> Result<String, CertsError> {
    let random = ring::default_provider().secure_random;
    let mut password = String::new();
    while password.len() < PASSWORD_LENGTH {
        let mut byte = [0];
        random.fill(&mut byte).map_err(|_| CertsError::Random)?;
        // A byte for which there is no letter is drawn again, so that all letters are as likely.
        let letter = PASSWORD_LETTERS.get(usize::from(byte[0] & 63));
        password.extend(letter.map(|letter| char::from(*letter)));
    }
    Ok(password)
}
