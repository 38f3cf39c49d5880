//! Reading files of a limited size, and the errors that name them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use crate::limits::{CRL_BYTES_MAX, PASSWORD_BYTES_MAX, STORE_BYTES_MAX};
use crate::{FileProblem, Secret, TlsError, TlsFile};

/// Reads a file, if it is not longer than what it is for allows.
pub(crate) fn read(file: TlsFile, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let limit = match file {
        TlsFile::KeyStore | TlsFile::PrivateKey | TlsFile::TrustStore => STORE_BYTES_MAX,
        TlsFile::PasswordFile => PASSWORD_BYTES_MAX,
        TlsFile::RevocationList => CRL_BYTES_MAX,
    };
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path)
        // One byte more shows that the file is longer; its length need not be what the system says.
        .and_then(|opened| opened.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|source| TlsError::Io { file, path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(problem(file, path, FileProblem::TooLarge { limit }));
    }
    Ok(bytes)
}

/// Reads a password: all text of the file but the end of its last line, as ZooKeeper does.
pub(crate) fn read_password(path: &Path) -> Result<Secret, TlsError> {
    let bytes = read(TlsFile::PasswordFile, path)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| problem(TlsFile::PasswordFile, path, FileProblem::NotText))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Secret::from(text.strip_suffix('\r').unwrap_or(text)))
}

pub(crate) fn problem(file: TlsFile, path: &Path, problem: FileProblem) -> TlsError {
    TlsError::File { file, path: path.to_owned(), problem }
}
