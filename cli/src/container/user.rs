//! Gives up the rights of root, as the entry point of the official image does.

use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;

use nix::unistd::{Uid, User, setgid, setgroups, setuid};

use super::ContainerError;
use super::image::Image;

/// The user of the official image, and of ours.
pub(super) const NAME: &str = "zookeeper";

/// If this process is root's: gives the image's directories to the user of the image, and becomes that
/// user. It is called before the first thread is started.
pub(super) fn leave_root(image: &Image) -> Result<(), ContainerError> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let named =
        User::from_name(NAME).map_err(|error| ContainerError::User { source: error.into() })?;
    let Some(user) = named else {
        tracing::warn!("there is no user {NAME} to become: the server runs as root");
        return Ok(());
    };
    for directory in &image.own_dirs {
        give(directory, user.uid.as_raw(), user.gid.as_raw())
            .map_err(|source| ContainerError::Owner { path: directory.clone(), source })?;
    }
    let left = setgroups(&[]).and_then(|()| setgid(user.gid)).and_then(|()| setuid(user.uid));
    left.map_err(|error| ContainerError::User { source: error.into() })
}

/// Gives a directory with all that is in it to a user. It follows no symbolic link.
fn give(path: &Path, user: u32, group: u32) -> io::Result<()> {
    let kind = match path.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    lchown(path, Some(user), Some(group))?;
    if kind.is_dir() {
        for entry in path.read_dir()? {
            give(&entry?.path(), user, group)?;
        }
    }
    Ok(())
}
