//! The file with the secret of session passwords.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zoolet_server::SessionKey;

/// The name of the file in the data directory.
const NAME: &str = "session-key";

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionKeyError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{} has not the 64 hexadecimal digits of a secret; put a good copy in its place, or delete it, \
         which ends all sessions",
        .0.display()
    )]
    Damaged(PathBuf),
    #[error("others can read {}, which must be secret; run chmod 600 on it", .0.display())]
    #[cfg_attr(not(unix), expect(dead_code, reason = "files have no mode there"))]
    NotSecret(PathBuf),
    #[error("the system gives no random numbers: {0}")]
    NoRandomNumbers(getrandom::Error),
}

/// The secret in the data directory, which is made if it is not there yet. Without a directory the
/// secret lives as long as the process, as the sessions do.
pub(super) fn session_key(data_dir: Option<&Path>) -> Result<SessionKey, SessionKeyError> {
    let Some(data_dir) = data_dir else { return new().map(SessionKey::from_random) };
    let path = data_dir.join(NAME);
    match read(&path) {
        Err(SessionKeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            create(data_dir, &path)?;
            read(&path)
        }
        read => read,
    }
}

fn new() -> Result<[u8; 32], SessionKeyError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(SessionKeyError::NoRandomNumbers)?;
    Ok(bytes)
}

fn read(path: &Path) -> Result<SessionKey, SessionKeyError> {
    let error = |source| SessionKeyError::Io { what: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(error)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if file.metadata().map_err(error)?.mode() & 0o077 != 0 {
            return Err(SessionKeyError::NotSecret(path.to_owned()));
        }
    }
    let mut text = String::new();
    // One byte more than the digits and the end of the line, so that a longer file is noticed.
    file.take(66).read_to_string(&mut text).map_err(error)?;
    let damaged = || SessionKeyError::Damaged(path.to_owned());
    let digits = text.strip_suffix('\n').unwrap_or(&text);
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(damaged());
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| damaged())?;
    }
    Ok(SessionKey::from_random(bytes))
}

/// Writes the file under another name first, so that a crash leaves none that is incomplete, and
/// gives it its name only if no other process has made one meanwhile.
fn create(data_dir: &Path, path: &Path) -> Result<(), SessionKeyError> {
    fs::create_dir_all(data_dir).map_err(io("create", data_dir))?;
    let digits: String = new()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = data_dir.join(format!("{NAME}.{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&unfinished)?;
        writeln!(file, "{digits}")?;
        file.sync_all()
    };
    write().map_err(io("write", &unfinished))?;
    let named = match fs::hard_link(&unfinished, path) {
        Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        named => named,
    };
    let _ = fs::remove_file(&unfinished);
    named.map_err(io("create", path))?;
    // The name survives a crash; systems that cannot open a directory need no such care.
    if let Ok(directory) = File::open(data_dir) {
        directory.sync_all().map_err(io("sync", data_dir))?;
    }
    Ok(())
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionKeyError {
    let path = path.to_owned();
    move |source| SessionKeyError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("zoolet-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn the_secret_is_made_once_and_only_the_user_can_read_it() {
        let data_dir = directory("session-key");
        let key = session_key(Some(&data_dir)).unwrap();
        assert_eq!(session_key(Some(&data_dir)).unwrap(), key);
        assert_ne!(session_key(None).unwrap(), key);
        let names: Vec<_> =
            fs::read_dir(&data_dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            let path = data_dir.join(NAME);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let error = session_key(Some(&data_dir)).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        fs::remove_dir_all(&data_dir).unwrap();
    }

    #[test]
    fn a_damaged_secret_is_not_replaced() {
        let data_dir = directory("damaged-session-key");
        session_key(Some(&data_dir)).unwrap();
        let path = data_dir.join(NAME);
        for damaged in ["", "00", &"0".repeat(63), &"g".repeat(64), &"0".repeat(66)] {
            fs::write(&path, damaged).unwrap();
            let error = session_key(Some(&data_dir)).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{damaged:?}: {error}");
        }
        fs::remove_dir_all(&data_dir).unwrap();
    }
}
