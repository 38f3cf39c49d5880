//! A folder in which openssl and keytool make stores.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};

use libtest_mimic::Failed;
use tempfile::TempDir;
use zoolet_tls::{Secret, Store};

/// The password of all stores. It is ASCII, since Java takes no other for a PKCS12 file with AES.
pub(crate) const PASSWORD: &str = "pass $word";

/// A folder in which openssl and keytool work.
pub(crate) struct Workshop(TempDir);

/// Something that several tests use, made by the first of them.
pub(crate) struct Shared<T>(OnceLock<Result<T, String>>);

impl<T> Shared<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(OnceLock::new()))
    }

    pub(crate) fn get(&self, make: impl FnOnce() -> Result<T, Failed>) -> Result<&T, Failed> {
        let made = self.0.get_or_init(|| make().map_err(|failed| format!("{failed:?}")));
        made.as_ref().map_err(Failed::from)
    }
}

impl Workshop {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A folder of its own with the same files.
    pub(crate) fn copy(&self) -> Result<Self, Failed> {
        let copy = Self(tempfile::tempdir()?);
        for file in fs::read_dir(self.0.path())? {
            let file = file?;
            fs::copy(file.path(), copy.0.path().join(file.file_name()))?;
        }
        Ok(copy)
    }

    /// Runs a program with words that a shell would split so, in the folder.
    pub(crate) fn run(&self, line: &str) -> Result<Output, Failed> {
        let words = shell_words::split(&line.replace("PASSWORD", &format!("'{PASSWORD}'")))?;
        let (program, arguments) = words.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path());
        let output = command.output()?;
        if output.status.success() {
            return Ok(output);
        }
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        Err(format!("{line}\n{}", String::from_utf8_lossy(&said)).into())
    }

    /// An authority, and for each kind of key a certificate in PEM.
    pub(crate) fn new() -> Result<Self, Failed> {
        let workshop = Self(tempfile::tempdir()?);
        fs::write(workshop.path("extensions"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n")?;
        workshop.run(
            "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 30 \
             -subj '/O=Example/CN=Test CA'",
        )?;
        for (name, key) in [
            ("rsa", "rsa:2048"),
            ("ec", "ec -pkeyopt ec_paramgen_curve:P-256"),
            ("p384", "ec -pkeyopt ec_paramgen_curve:P-384"),
            ("ed25519", "ed25519"),
        ] {
            workshop.request(name, key)?;
            workshop.sign(name, 30)?;
        }
        Ok(workshop)
    }

    pub(crate) fn request(&self, name: &str, key: &str) -> Result<Output, Failed> {
        self.run(&format!(
            "openssl req -newkey {key} -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ))
    }

    pub(crate) fn sign(&self, name: &str, days: i32) -> Result<Output, Failed> {
        self.run(&format!(
            "openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
             -extfile extensions -out {name}.crt"
        ))
    }

    /// Writes some files one after the other.
    pub(crate) fn join(&self, files: &[&str], to: &str) -> Result<PathBuf, Failed> {
        let contents: Result<Vec<_>, _> =
            files.iter().map(|file| fs::read(self.path(file))).collect();
        fs::write(self.path(to), contents?.concat())?;
        Ok(self.path(to))
    }

    pub(crate) fn keystore(&self, from: &str, to: &str, options: &str) -> Result<Output, Failed> {
        self.run(&format!(
            "keytool -importkeystore -noprompt -srckeystore {from} -srcstoretype PKCS12 -srcstorepass \
             PASSWORD -destkeystore {to} -deststorepass PASSWORD {options}"
        ))
    }
}

/// A free port below those from which the system takes the ports of outgoing connections, so that none
/// of these takes it before a server does.
pub(crate) fn free_port() -> Result<u16, Failed> {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(12_000..32_000)).take(1_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    Ok(ports.find(is_free).ok_or("no port is free")?)
}

/// The store in a file.
pub(crate) fn store(path: &Path) -> Store {
    Store::new(path).password(Secret::from(PASSWORD))
}
