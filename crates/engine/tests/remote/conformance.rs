//! The suite for all engines.

use super::{connect, socket, start};
use scalebricks_engine::conformance::Lab;
use scalebricks_engine::remote::{Endpoint, RemoteEngine, Server};
use std::sync::Mutex;
use tempfile::TempDir;

/// A log in a directory, whose process begins anew with each client.
struct Served {
    directory: TempDir,
    server: Mutex<Option<Server>>,
    endpoint: Endpoint,
}

impl Served {
    fn over_unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = socket(directory.path());
        Self { directory, server: Mutex::default(), endpoint }
    }

    fn over_tcp() -> Self {
        Self { endpoint: "tcp:127.0.0.1:0".parse().unwrap(), ..Self::over_unix() }
    }
}

impl Lab for Served {
    type Engine = RemoteEngine;

    async fn open(&self) -> RemoteEngine {
        let mut server = self.server.lock().unwrap();
        drop(server.take());
        let (started, endpoint) = start(self.directory.path(), &self.endpoint);
        *server = Some(started);
        connect(&endpoint)
    }
}

mod over_a_unix_socket {
    scalebricks_engine::conformance_tests!(super::Served::over_unix(), pollster::block_on);
}

mod over_tcp {
    scalebricks_engine::conformance_tests!(super::Served::over_tcp(), pollster::block_on);
}
