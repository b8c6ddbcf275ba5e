//! The server: a thread that accepts connections and serves each.

mod connection;
mod streams;

use super::buffer::{Reader, Writer};
use super::codec::{self, HELLO_BYTES};
use super::listener::{Listener, Socket};
use connection::Connection;
use scalebricks_control::engine::Engine;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long connections have to end when the server stops.
const GRACE: Duration = Duration::from_secs(1);

/// How long nobody is accepted after the system refused to: mostly, as there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much a server lets others ask of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Connections at one time; more are closed at once.
    pub connections: usize,
    /// Requests of one connection that are under way at one time; more are not read from the socket.
    pub requests: usize,
    /// Bytes of them.
    pub request_bytes: usize,
    /// Streams of one connection.
    pub streams: usize,
    /// Bytes of a snapshot; a larger one is refused. A connection may put two and get two at one time.
    pub snapshot_bytes: u64,
    /// How long a connection has to say what it speaks.
    pub hello: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 4096,
            request_bytes: 16 << 20,
            streams: 2048,
            snapshot_bytes: 256 << 20,
            hello: Duration::from_secs(5),
        }
    }
}

/// What a server has counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that are served now.
    pub open: u64,
    /// Connections that said a good hello.
    pub connections: u64,
    /// Connections closed as there were too many, or for their hello.
    pub refused: u64,
    /// Connections closed as they sent what is no request.
    pub hostile: u64,
    /// Requests, streams included.
    pub requests: u64,
    /// Batches appended.
    pub appended: u64,
    /// Bytes of them.
    pub appended_bytes: u64,
    /// Batches that were not, or nobody knows.
    pub failed: u64,
    /// Entries, records and messages sent by streams.
    pub streamed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    open: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
    hostile: AtomicU64,
    requests: AtomicU64,
    appended: AtomicU64,
    appended_bytes: AtomicU64,
    failed: AtomicU64,
    streamed: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// What connections share.
#[derive(Debug)]
struct Shared {
    engine: Arc<dyn Engine>,
    options: ServerOptions,
    counters: Counters,
}

/// A server that runs. Dropping it ends it: connections finish what is under way, for a second at the most, and the
/// engine is let go.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// Serves an engine to all who connect, from a thread of its own.
///
/// What is asked of the engine besides its promises: that [`Engine::watch_records`] has all records that exist ready at
/// once. A client that was cut off takes the first pause for the end of them, and those it knew and was not told of for
/// deleted.
///
/// # Errors
/// Those of the operating system, if it gives no thread or no events.
pub fn serve(engine: Arc<dyn Engine>, listener: Listener, options: ServerOptions) -> io::Result<Server> {
    let shared = Arc::new(Shared { engine, options, counters: Counters::default() });
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("engine-server".to_owned())
            .spawn(move || runtime.block_on(accept_all(listener, &shared, stopped)))?
    };
    Ok(Server { stop, thread: Some(thread), shared })
}

impl Server {
    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            open: get(&counters.open),
            connections: get(&counters.connections),
            refused: get(&counters.refused),
            hostile: get(&counters.hostile),
            requests: get(&counters.requests),
            appended: get(&counters.appended),
            appended_bytes: get(&counters.appended_bytes),
            failed: get(&counters.failed),
            streamed: get(&counters.streamed),
        }
    }

    /// Whether it still serves: it ends by itself only if something broke.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join()); // if it panicked, that was told already
        }
    }
}

enum Accepting {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
}

impl Accepting {
    async fn accept(&self) -> io::Result<(Reader, Writer)> {
        match self {
            Self::Unix(listener) => {
                let (reader, writer) = listener.accept().await?.0.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
        }
    }
}

async fn accept_all(listener: Listener, shared: &Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let Listener { socket, endpoint, _file: file } = listener;
    let accepting = match socket {
        Socket::Unix(listener) => tokio::net::UnixListener::from_std(listener).map(Accepting::Unix),
        Socket::Tcp(listener) => tokio::net::TcpListener::from_std(listener).map(Accepting::Tcp),
    };
    let accepting = match accepting {
        Ok(accepting) => accepting,
        Err(error) => return tracing::error!(%endpoint, %error, "cannot accept connections"),
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accepting.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = stopped.changed() => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(_) if connections.len() >= shared.options.connections => {
                add(&shared.counters.refused, 1);
                tracing::warn!(limit = shared.options.connections, "too many connections: one was closed");
            }
            Ok((reader, writer)) => {
                let (shared, stopped) = (Arc::clone(shared), stopped.clone());
                connections.spawn(async move { attend(reader, writer, shared, stopped).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Nobody new from here on.
    drop((accepting, file));
    let ended = timeout(GRACE, async { while connections.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!(connections = connections.len(), "connections that did not end in time were closed");
    }
}

/// One connection, from its hello to its end.
async fn attend(mut reader: Reader, mut writer: Writer, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let counters = &shared.counters;
    let hello = timeout(shared.options.hello, async {
        // Told first, so that a client of another version can say what is wrong.
        writer.write_all(&codec::hello()).await?;
        let mut said = [0; HELLO_BYTES];
        reader.read_exact(&mut said).await.map(|_| said)
    });
    let level = match hello.await {
        Ok(Ok(said)) => codec::check_hello(&said).map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it said nothing in time".to_owned()),
    };
    let level = match level {
        Ok(level) => level,
        Err(why) => {
            add(&counters.refused, 1);
            return tracing::debug!(why, "a connection without a hello was closed");
        }
    };
    add(&counters.connections, 1);
    add(&counters.open, 1);
    let open = Open(Arc::clone(&shared));
    if let Err(error) = Connection::new(reader, writer, level, Arc::clone(&shared), stopped).run().await {
        if error.is_hostile() {
            add(&counters.hostile, 1);
            tracing::warn!(%error, "a connection was closed");
        } else {
            tracing::debug!(%error, "a connection ended");
        }
    }
    drop(open);
}

/// Counts as open until dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}
