//! `zoolet certs`: an authority, a certificate for a server and one for a client, to try TLS with.

mod issue;
mod manual;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::complain;
use crate::server_options::values;

/// The command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Certs {
    /// The folder for the files; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// A name or an address by which clients reach the server, beside localhost; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// For how many days the certificates of server and client are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    #[arg(value_parser = values::number::<u16>(1..=3650))]
    days: u16,
}

impl Certs {
    /// Runs the command.
    pub(crate) fn run(&self) -> ExitCode {
        match self.make() {
            Ok(manual) => match crate::print(&manual) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    complain(&format!("stdout cannot be written: {error}"));
                    ExitCode::FAILURE
                }
            },
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }

    /// The files for servers and clients on this machine, in a folder that is there. They are valid for a
    /// day.
    pub(crate) fn for_this_machine(dir: &Path) -> Result<(), CertsError> {
        Self { dir: dir.to_owned(), hosts: Vec::new(), days: 1 }.make().map(|_manual| ())
    }

    fn make(&self) -> Result<String, CertsError> {
        if self.dir.exists() && !self.dir.is_dir() {
            return Err(CertsError::NoFolder(self.dir.clone()));
        }
        let issued = issue::issue(&self.hosts, self.days)?;
        fs::create_dir_all(&self.dir).map_err(|source| cannot_write(&self.dir, source))?;
        // Absolute, since servers and clients are started elsewhere.
        let dir = self.dir.canonicalize().map_err(|source| cannot_write(&self.dir, source))?;
        let files = issued.files();
        // None is written if one of them is there.
        if let Some((name, _)) = files.iter().find(|(name, _)| dir.join(name).exists()) {
            return Err(CertsError::Exists(dir.join(name)));
        }
        for (name, contents) in &files {
            let path = dir.join(name);
            write_new(&path, contents).map_err(|source| cannot_write(&path, source))?;
        }
        Ok(manual::text(&dir, &issued))
    }
}

fn cannot_write(path: &Path, source: io::Error) -> CertsError {
    CertsError::Write { path: path.to_owned(), source }
}

/// Writes a file that is not there yet. Only its owner may read it, unless it is public.
fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if !path.ends_with(issue::AUTHORITY_FILE) {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)?.write_all(contents)
}

const AFTER_HELP: &str = "\
It overwrites no file: if one of them is there, none is written.

Exit status: 0 if the files were written, 1 if they were not, 2 if the command line is wrong.

Examples:
  zoolet certs certs                        for servers and clients on this machine
  zoolet certs certs --host zk1.example --host 10.0.0.7 --days 30";

/// Why the certificates were not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertsError {
    #[error("{} is there already; choose another folder, or delete the file", .0.display())]
    Exists(PathBuf),
    #[error("{} is a file; name a folder, which is made if it is not there", .0.display())]
    NoFolder(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{name:?} can be in no certificate: a host name or an IP address is needed")]
    Host { name: String },
    #[error("the certificates cannot be made: {0}")]
    Issue(#[from] rcgen::Error),
    #[error("the system has no random numbers")]
    Random,
    #[error("the PKCS12 files cannot be made: {0}")]
    Pkcs12(#[from] p12_keystore::error::Error),
}

#[cfg(test)]
mod tests {
    use zoolet_tls::rustls::client::verify_server_name;
    use zoolet_tls::rustls::pki_types::pem::PemObject;
    use zoolet_tls::rustls::pki_types::{CertificateDer, ServerName};
    use zoolet_tls::rustls::server::ParsedCertificate;
    use zoolet_tls::{ClientTls, ClientTlsOptions, ServerTls, ServerTlsOptions, Store};

    use super::*;

    fn certs(dir: &Path, hosts: &[&str]) -> Certs {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        Certs { dir: dir.to_owned(), hosts, days: 30 }
    }

    /// What was made can be loaded, in PEM and PKCS12, with the password of its file.
    #[test]
    fn what_is_made_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new/certs");
        let manual = certs(&dir, &["zk1.example.org", "10.0.0.7"]).make().unwrap();
        assert!(manual.contains("ssl.keyStore.location="), "{manual}");
        let store = |name: &str| Store::new(dir.join(name)).password_file(dir.join("password"));
        for (own, trusted) in [("pem", "ca.pem"), ("p12", "truststore.p12")] {
            let options = ServerTlsOptions::new(store(&format!("server.{own}")));
            ServerTls::load(options.trust_store(store(trusted))).unwrap();
            let options = ClientTlsOptions::new().key_store(store(&format!("client.{own}")));
            ClientTls::load(options.trust_store(store(trusted))).unwrap();
        }
        let pem = fs::read(dir.join("server.pem")).unwrap();
        let der = CertificateDer::from_pem_slice(&pem).unwrap();
        let server = ParsedCertificate::try_from(&der).unwrap();
        let is_for = |name| verify_server_name(&server, &ServerName::try_from(name).unwrap());
        for name in ["localhost", "127.0.0.1", "::1", "zk1.example.org", "10.0.0.7"] {
            assert_eq!(is_for(name), Ok(()), "{name}");
        }
        assert!(is_for("zk2.example.org").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_keys_and_passwords() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        certs(folder.path(), &[]).make().unwrap();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let is_private = entry.metadata().unwrap().permissions().mode() & 0o777 == 0o600;
            assert!(is_private || entry.file_name() == "ca.pem", "{entry:?}");
        }
    }

    #[test]
    fn nothing_is_overwritten_or_half_made() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("client.pem"), "mine").unwrap();
        let error = certs(folder.path(), &[]).make().unwrap_err().to_string();
        assert!(error.contains("client.pem is there already"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read(folder.path().join("client.pem")).unwrap(), b"mine");
    }

    #[test]
    fn a_host_that_is_no_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "no host", "ü.example"] {
            let error = certs(folder.path(), &[name]).make().unwrap_err().to_string();
            assert!(error.contains("can be in no certificate"), "{error}");
        }
    }
}
