//! Configuration of a mesh, and errors of its start.

use crate::secret;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Configuration of a mesh.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// The cluster's name: nodes of clusters with other names reject each other, even with the same key.
    pub cluster: String,
    /// This node.
    pub node: NodeId,
    /// Where it listens, by TCP and by UDP. With port 0 one is chosen.
    pub listen: SocketAddr,
    /// Addresses of the other nodes. The node's own entry is ignored.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// The secret of the cluster's nodes.
    pub key: ClusterKey,
    /// How much room and time others get.
    pub limits: MeshLimits,
}

/// How much room and time others get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshLimits {
    /// Bytes of the largest message.
    pub message_bytes: usize,
    /// Messages that wait for a peer, in each direction.
    pub queue_messages: usize,
    /// Bytes that wait for a peer, in each direction. An empty queue takes any message.
    pub queue_bytes: usize,
    /// Connections at once that have not shown yet whose they are. With one more the oldest is closed.
    pub unknown_connections: usize,
    /// Time limit for a connection and its handshake.
    pub handshake_time: Duration,
    /// A connection without received or acknowledged data for this time is closed. The sender sends something four times in it.
    pub silence: Duration,
    /// Time to wait after the first failed connection to a peer. It doubles with each further one.
    pub first_retry: Duration,
    /// The longest time to wait.
    pub last_retry: Duration,
}

impl Default for MeshLimits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            queue_messages: 4096,
            queue_bytes: 64 << 20,
            unknown_connections: 64,
            handshake_time: Duration::from_secs(1),
            silence: Duration::from_secs(4),
            first_retry: Duration::from_millis(50),
            last_retry: Duration::from_secs(1),
        }
    }
}

/// A secret that all nodes of a cluster share. A holder can speak for any node. Never printed.
#[derive(Clone)]
pub struct ClusterKey(Box<[u8]>);

impl ClusterKey {
    /// Fewest bytes of a key.
    pub const SHORTEST: usize = 32;
    /// Most bytes of a key.
    pub const LONGEST: usize = 4096;

    /// A key of these bytes, which must be hard to guess; `None` if there are too few or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (Self::SHORTEST..=Self::LONGEST).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The bytes of a file, without line ends behind them. `openssl rand -hex 32` makes a good one.
    ///
    /// # Errors
    /// [`MeshError::Key`] if the file cannot be read, everybody may read it, or its length is not that of a key.
    pub fn read(path: &Path) -> Result<Self, MeshError> {
        let bad = |what: String| MeshError::Key { path: path.to_owned(), what };
        let bytes = secret::read(path, Self::LONGEST).map_err(bad)?;
        let size = format!("a key has {} to {} bytes", Self::SHORTEST, Self::LONGEST);
        Self::new(&bytes).ok_or_else(|| bad(size))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(secret)")
    }
}

/// Why a mesh could not start.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The file of the key.
    #[error("{}: {what}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The address could not be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// A limit that nothing could pass.
    #[error("mesh limits: {0}")]
    Limit(&'static str),
    /// The system gave no random numbers.
    #[error("the system provides no random numbers")]
    Random,
    /// It was not started inside a runtime.
    #[error("a mesh needs a tokio runtime with its network and its clock")]
    NoRuntime,
}

impl MeshLimits {
    /// # Errors
    /// [`MeshError::Limit`] for limits under which nothing would work.
    pub(super) fn check(&self) -> Result<(), MeshError> {
        if self.message_bytes == 0 || u32::try_from(self.message_bytes).is_err() {
            return Err(MeshError::Limit("a message has 1 to 4,294,967,295 bytes"));
        }
        if self.queue_messages == 0 || self.unknown_connections == 0 {
            return Err(MeshError::Limit(
                "a queue holds one message, and one connection may be unknown, at least",
            ));
        }
        let times = [self.handshake_time, self.silence, self.first_retry, self.last_retry];
        if times.iter().any(|time| *time < Duration::from_millis(1)) {
            return Err(MeshError::Limit("a time has one millisecond at least"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn key_file(bytes: &[u8], mode: u32) -> Result<ClusterKey, MeshError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        ClusterKey::read(&path)
    }

    #[test]
    fn a_key_is_long_and_private() {
        assert_eq!(key_file(&[7; 32], 0o600).unwrap().bytes(), [7; 32]);
        assert_eq!(key_file(&[&[7; 32][..], b"\r\n"].concat(), 0o640).unwrap().bytes(), [7; 32]);
        assert!(key_file(&[7; 32], 0o604).unwrap_err().to_string().contains("chmod"));
        assert!(key_file(&[&[7; 31][..], b"\n"].concat(), 0o600).is_err());
        assert!(key_file(&[7; 4099], 0o600).is_err());
        assert!(key_file(b"", 0o600).is_err());
        assert!(ClusterKey::read(Path::new("/no/such/file")).is_err());
        let shown = format!("{:?}", ClusterKey::new(&[b'x'; 32]).unwrap());
        assert!(!shown.contains('x') && !shown.contains("120"), "{shown}");
    }

    #[test]
    fn limits_that_nothing_could_pass_are_refused() {
        MeshLimits::default().check().unwrap();
        assert!(MeshLimits { message_bytes: 0, ..MeshLimits::default() }.check().is_err());
        assert!(MeshLimits { message_bytes: 1 << 33, ..MeshLimits::default() }.check().is_err());
        assert!(MeshLimits { queue_messages: 0, ..MeshLimits::default() }.check().is_err());
        assert!(MeshLimits { silence: Duration::ZERO, ..MeshLimits::default() }.check().is_err());
    }
}
