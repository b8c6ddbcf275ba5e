//! An engine behind a socket keeps the promises of the interface, through lost connections, slow readers and hostile peers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod hostile;
mod resume;
mod streams;

use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::remote::{
    ClientOptions, Endpoint, Listener, RemoteEngine, Server, ServerOptions, serve,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves the log of a directory.
fn start(directory: &Path, endpoint: &Endpoint) -> (Server, Endpoint) {
    let log = EmbeddedLog::open(&directory.join("log"), Options::default()).unwrap();
    start_with(Arc::new(log), endpoint, ServerOptions::default())
}

fn start_with(engine: Arc<dyn Engine>, endpoint: &Endpoint, options: ServerOptions) -> (Server, Endpoint) {
    let listener = Listener::bind(endpoint).unwrap();
    let endpoint = listener.endpoint().clone();
    (serve(engine, listener, options).unwrap(), endpoint)
}

fn socket(directory: &Path) -> Endpoint {
    Endpoint::Unix(directory.join("engine.sock"))
}

fn connect(endpoint: &Endpoint) -> RemoteEngine {
    RemoteEngine::connect(endpoint.clone(), ClientOptions::default()).unwrap()
}

fn batch(writer: u64, number: u64, payload: &[u8]) -> Batch {
    Batch { id: BatchId { writer: WriterId(writer), number }, payload: Arc::from(payload) }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
