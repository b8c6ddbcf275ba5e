//! Finds the socket of the only node, switch, router or graph that runs on this machine.

use super::{ClientError, Target};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The default directory of the sockets of nodes and switches.
pub const RUNTIME_DIRECTORY: &str = "/run/scalebricks";

/// The environment variable that names another directory.
pub const RUNTIME_DIRECTORY_VARIABLE: &str = "SCALEBRICKS_RUNTIME_DIR";

/// A kind of process with a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// A gateway node: `node*.sock`.
    Node,
    /// A switch: `switch*.sock`.
    Switch,
    /// A node of a cluster router: `router*.sock`.
    Router,
    /// A process that runs a graph of elements: `graph*.sock`, or a socket of one of the others.
    Graph,
}

impl Daemon {
    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Switch => "switch",
            Self::Router => "router",
            Self::Graph => "graph",
        }
    }

    /// The prefixes of its socket's name.
    pub const fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["node"],
            Self::Switch => &["switch"],
            Self::Router => &["router"],
            Self::Graph => &["graph", "node", "router", "switch"],
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Switch => "switches",
            Self::Router => "routers",
            Self::Graph => "graphs",
        }
    }
}

/// The socket of the only node, switch or graph that answers in the runtime directory.
///
/// # Errors
/// [`ClientError::NotFound`] if none or several answer, with the sockets found; [`ClientError::Forbidden`] if the only
/// one belongs to another user.
pub fn only_socket(daemon: Daemon) -> Result<PathBuf, ClientError> {
    only_socket_in(&runtime_directory(), daemon)
}

/// The directory of the sockets: the default, or the one of [`RUNTIME_DIRECTORY_VARIABLE`].
pub fn runtime_directory() -> PathBuf {
    let directory = env::var_os(RUNTIME_DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty());
    directory.map_or_else(|| PathBuf::from(RUNTIME_DIRECTORY), PathBuf::from)
}

fn only_socket_in(directory: &Path, daemon: Daemon) -> Result<PathBuf, ClientError> {
    let (mut alive, mut forbidden, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for path in all_sockets(directory, daemon)? {
        match UnixStream::connect(&path) {
            Ok(_) => alive.push(path),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden.push(path),
            Err(_) => dead.push(path),
        }
    }
    let choose = "name its socket with --socket PATH, or its address with --tcp HOST:PORT";
    let list = |paths: &[PathBuf], note: &str| {
        let lines =
            paths.iter().flat_map(|path| ["\n  ".to_owned(), path.display().to_string(), note.to_owned()]);
        lines.collect::<String>()
    };
    let what = match (alive.len(), forbidden.len()) {
        (1, 0) => return Ok(alive.remove(0)),
        (0, 1) => return Err(ClientError::Forbidden(Target::Unix(forbidden.remove(0)))),
        (0, 0) => format!(
            "no {} answers in {}; {choose}{}",
            daemon.name(),
            directory.display(),
            list(&dead, " (no answer)")
        ),
        _ => format!(
            "several {} answer in {}; choose one with --socket PATH{}{}",
            daemon.plural(),
            directory.display(),
            list(&alive, ""),
            list(&forbidden, " (permission denied)")
        ),
    };
    Err(ClientError::NotFound(what))
}

/// The sockets of a kind of process in a directory, by name; none if the directory does not exist.
pub(crate) fn all_sockets(directory: &Path, daemon: Daemon) -> Result<Vec<PathBuf>, ClientError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let what = format!("cannot look for sockets in {}: {error}", directory.display());
            return Err(ClientError::NotFound(what));
        }
    };
    let is_wanted = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        let is_named = daemon.prefixes().iter().any(|prefix| name.starts_with(prefix));
        is_socket && is_named && name.ends_with(".sock")
    };
    let mut found: Vec<PathBuf> =
        entries.filter_map(Result::ok).filter(is_wanted).map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_only_answering_socket_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let find = |daemon| only_socket_in(folder.path(), daemon).map_err(|error| error.to_string());
        let none = find(Daemon::Node).unwrap_err();
        assert!(none.starts_with("no node answers in /") && none.contains("--socket PATH"), "{none}");
        drop(UnixListener::bind(path("node7.sock")).unwrap());
        fs::write(path("node8.sock"), "no socket").unwrap();
        let none = find(Daemon::Node).unwrap_err();
        assert!(none.contains("node7.sock (no answer)") && !none.contains("node8"), "{none}");
        let _node = UnixListener::bind(path("node2.sock")).unwrap();
        let _switch = UnixListener::bind(path("switch.sock")).unwrap();
        let _engine = UnixListener::bind(path("engine.sock")).unwrap();
        assert_eq!(find(Daemon::Node), Ok(path("node2.sock")));
        assert_eq!(find(Daemon::Switch), Ok(path("switch.sock")));
        let several = find(Daemon::Graph).unwrap_err();
        assert!(several.contains("/node2.sock") && several.contains("/switch.sock"), "{several}");
        assert!(!several.contains("engine"), "{several}");
        let _other = UnixListener::bind(path("node11.sock")).unwrap();
        let several = find(Daemon::Node).unwrap_err();
        assert!(several.starts_with("several nodes answer in /"), "{several}");
        assert!(several.contains("/node2.sock") && several.contains("/node11.sock"), "{several}");
        assert!(!several.contains("node7"), "{several}");
        let elsewhere = only_socket_in(&path("no/such"), Daemon::Switch).unwrap_err().to_string();
        assert!(elsewhere.starts_with("no switch answers in "), "{elsewhere}");
    }
}
