//! A socket that listens: for its owner only, and in place of another only if nobody serves that.

use super::endpoint::{Endpoint, EndpointError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why nobody can be listened to.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A place where nothing listens.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Somebody listens there.
    #[error("{0} is served by another process: stop that one, or listen at another place")]
    InUse(Endpoint),
    /// Something stands there that no engine left.
    #[error("{} is no socket, so it is not replaced: move it away, or listen at another place", .0.display())]
    NotASocket(PathBuf),
    /// The operating system refused.
    #[error("cannot listen at {endpoint}: {error}")]
    Io {
        /// Where.
        endpoint: Endpoint,
        /// What it says.
        error: io::Error,
    },
}

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A socket that listens. Dropping it takes the file of a unix socket away.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Socket,
    pub(super) endpoint: Endpoint,
    pub(super) _file: Option<SocketFile>,
}

impl Listener {
    /// Listens.
    ///
    /// A unix socket is of mode 0600; what a dead process left in its place is removed. Beside it there is a file
    /// `PATH.lock`, held while it is served, so that of two processes that begin at once one is refused.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(endpoint: &Endpoint) -> Result<Self, BindError> {
        endpoint.check()?;
        match endpoint {
            Endpoint::Unix(path) => {
                let (listener, file) = bind_unix(path)?;
                Ok(Self { socket: Socket::Unix(listener), endpoint: endpoint.clone(), _file: Some(file) })
            }
            Endpoint::Tcp(address) => {
                let bound = TcpListener::bind(address).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    Ok((listener.local_addr()?, listener))
                });
                let (address, listener) = bound.map_err(|error| match error.kind() {
                    ErrorKind::AddrInUse => BindError::InUse(endpoint.clone()),
                    _ => BindError::Io { endpoint: endpoint.clone(), error },
                })?;
                let endpoint = Endpoint::Tcp(address);
                Ok(Self { socket: Socket::Tcp(listener), endpoint, _file: None })
            }
        }
    }

    /// Where it listens; for port 0, the port that was given.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// A socket file that this process made. Dropping it removes the file, if it is still the same.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "socket file not removed");
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile), BindError> {
    let endpoint = Endpoint::Unix(path.to_owned());
    let failed = |error| BindError::Io { endpoint: endpoint.clone(), error };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(beside(path, ".lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(BindError::InUse(endpoint)),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    check_free(path, &endpoint)?;
    let (listener, identity) = make(path).map_err(failed)?;
    Ok((listener, SocketFile { path: path.to_owned(), identity, _lock: lock }))
}

/// Whether the path may be taken: nothing is there, or a socket nobody answers on.
fn check_free(path: &Path, endpoint: &Endpoint) -> Result<(), BindError> {
    let failed = |error| BindError::Io { endpoint: endpoint.clone(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(BindError::InUse(endpoint.clone())),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Makes the socket in a directory that nobody else may enter, and moves it to its place: at no time can another user
/// connect, and a left-over file is replaced in one step.
fn make(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let room = beside(path, &format!(".{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&room)?;
    let hidden = room.join("s");
    let made = (|| {
        let listener = UnixListener::bind(&hidden)?;
        fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let file = fs::symlink_metadata(&hidden)?;
        fs::rename(&hidden, path)?;
        Ok((listener, (file.dev(), file.ino())))
    })();
    drop(fs::remove_file(&hidden)); // there only if it was not moved
    fs::remove_dir(&room)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/engine.sock");
        let endpoint = Endpoint::Unix(path.clone());
        let listener = Listener::bind(&endpoint).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&endpoint), Err(BindError::InUse(_))));
        drop(listener);
        assert!(!path.exists());
        assert!(Listener::bind(&endpoint).is_ok(), "the lock went with it");
    }

    #[test]
    fn what_a_dead_process_left_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let endpoint = Endpoint::Unix(path.clone());
        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(Listener::bind(&endpoint), Err(BindError::InUse(_))), "served without a lock");
        drop(other);
        assert!(path.exists());
        let listener = Listener::bind(&endpoint).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "something").unwrap();
        drop(listener);
        assert!(path.exists(), "it was another's");
        assert!(matches!(Listener::bind(&endpoint), Err(BindError::NotASocket(_))));
    }

    #[test]
    fn a_port_is_held_by_one() {
        let first = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(matches!(Listener::bind(first.endpoint()), Err(BindError::InUse(_))));
        let far = Endpoint::Tcp("192.0.2.1:7".parse().unwrap());
        assert!(matches!(Listener::bind(&far), Err(BindError::Endpoint(EndpointError::NotLoopback(_)))));
    }
}
