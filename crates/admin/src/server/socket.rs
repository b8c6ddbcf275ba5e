//! The file of the unix socket: accessible only to its owner, replaced only if no process answers.

use super::ServerError;
use rustix::fs::Access;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket file of this process. Dropping it removes the file, unless another process has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced it.
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

/// Listens on a unix socket of mode 0600.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ServerError> {
    check_free(path)?;
    let made = make(path);
    made.map_err(|error| ServerError::Socket { path: path.to_owned(), error })
}

/// Checks that [`bind`] could listen here, and creates nothing. Returns whether a process listens there.
pub(super) fn check(path: &Path) -> Result<bool, ServerError> {
    let failed = |error| ServerError::Socket { path: path.to_owned(), error };
    match check_free(path) {
        Err(ServerError::InUse(_)) => return Ok(true),
        other => other?,
    }
    // Missing directories would be created in the nearest existing one.
    let mut parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    while let Err(error) = fs::metadata(parent) {
        match parent.parent() {
            Some(above) if error.kind() == ErrorKind::NotFound => parent = above,
            _ => return Err(failed(error)),
        }
        if parent.as_os_str().is_empty() {
            parent = Path::new(".");
        }
    }
    if !fs::metadata(parent).map_err(failed)?.is_dir() {
        return Err(failed(ErrorKind::NotADirectory.into()));
    }
    rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| failed(error.into()))?;
    Ok(false)
}

/// Checks that the path is free: it does not exist, or is a socket that no process answers on.
fn check_free(path: &Path) -> Result<(), ServerError> {
    let failed = |error| ServerError::Socket { path: path.to_owned(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(ServerError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServerError::InUse(path.to_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Creates the socket in a private directory, and moves it to its place. So no other user can ever connect, and the
/// move replaces an old file atomically. Creates missing directories.
fn make(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    let room = parent.join(format!(".sb{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&room)?;
    let hidden = room.join("s");
    let made = (|| {
        let listener = UnixListener::bind(&hidden)?;
        fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let file = fs::symlink_metadata(&hidden)?;
        fs::rename(&hidden, path)?;
        Ok((listener, SocketFile { path: path.to_owned(), identity: (file.dev(), file.ino()) }))
    })();
    drop(fs::remove_file(&hidden)); // exists only if it was not moved
    fs::remove_dir(&room)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_and_removed_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        assert!(UnixStream::connect(&path).is_ok());
        assert!(matches!(bind(&path), Err(ServerError::InUse(_))));
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn check_finds_what_bind_would_refuse() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/such/folder/admin.sock");
        assert!(!check(&path).unwrap());
        assert!(!folder.path().join("no").exists(), "nothing is made");
        let (_listener, _file) = bind(&path).unwrap();
        assert!(check(&path).unwrap(), "a process listens");
        let file = folder.path().join("file");
        fs::write(&file, "something").unwrap();
        assert!(matches!(check(&file), Err(ServerError::NotASocket(_))));
        assert!(matches!(check(&file.join("admin.sock")), Err(ServerError::Socket { .. })));
        assert!(matches!(check(&file.join("no/admin.sock")), Err(ServerError::Socket { .. })));
    }

    #[test]
    fn only_the_socket_of_a_dead_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_listener, file) = bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        // Replaced by another's: not removed with the first.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "something").unwrap();
        drop(file);
        assert!(path.exists());
        assert!(matches!(bind(&path), Err(ServerError::NotASocket(_))));
        let under_a_file = path.join("admin.sock");
        assert!(matches!(bind(&under_a_file), Err(ServerError::Socket { .. })));
        let far = folder.path().join("no/such/folder/admin.sock");
        assert!(bind(&far).is_ok());
        assert!(UnixStream::connect(&far).is_err(), "gone with its owner");
    }
}
