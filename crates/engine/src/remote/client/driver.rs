//! The thread that has the connection: connects, and connects again.

use super::call::{Call, Command, Stream};
use super::feed::Feed;
use super::sent::Sent;
use super::session::{Over, Session};
use crate::remote::buffer::{Reader, Writer};
use crate::remote::codec::{self, End, HELLO_BYTES};
use crate::remote::endpoint::Endpoint;
use scalebricks_control::engine::{EngineError, ReadError};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::UnboundedReceiver;

/// How long the first attempt after a lost connection waits; the next ones twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// How long the server has to answer a hello.
const HELLO: Duration = Duration::from_secs(5);

/// A connection that lasted so long was a good one: the next attempt need not wait.
const GOOD: Duration = Duration::from_millis(500);

pub(super) struct Driver {
    pub endpoint: Endpoint,
    pub commands: UnboundedReceiver<Command>,
    pub is_connected: Arc<AtomicBool>,
    /// Calls that were not sent, in the order they came.
    pub waiting: VecDeque<Call>,
    /// In the order they were begun, in which a new connection begins them again.
    pub streams: BTreeMap<u64, Stream>,
    pub sent: Sent,
}

impl Driver {
    pub(super) fn new(
        endpoint: Endpoint,
        commands: UnboundedReceiver<Command>,
        is_connected: Arc<AtomicBool>,
    ) -> Self {
        let (waiting, streams) = (VecDeque::new(), BTreeMap::new());
        Self { endpoint, commands, is_connected, waiting, streams, sent: Sent::default() }
    }

    /// Runs until the client is dropped.
    pub(super) async fn run(mut self) {
        let mut pause = Duration::ZERO;
        while let Some((reader, writer)) = self.connect(pause).await {
            tracing::debug!(endpoint = %self.endpoint, "connected to the engine");
            let began = Instant::now();
            self.is_connected.store(true, Ordering::Relaxed);
            let over = Session::new(&mut self, reader, writer).run().await;
            self.is_connected.store(false, Ordering::Relaxed);
            match over {
                Over::Closed => break,
                Over::Lost(why) => {
                    tracing::warn!(endpoint = %self.endpoint, why, "the connection to the engine was lost");
                }
            }
            pause = if began.elapsed() >= GOOD { Duration::ZERO } else { FIRST_PAUSE };
        }
        for call in self.waiting.drain(..) {
            call.reply.unsent("the client was closed");
        }
        for stream in self.streams.into_values() {
            let why = "the client was closed".to_owned();
            let end = match stream.feed {
                Feed::Entries { .. } => End::Read(ReadError::Unavailable(why)),
                Feed::Records(_) => End::Engine(EngineError::Unavailable(why)),
                Feed::Messages { .. } => End::Closed,
            };
            stream.mailbox.end(end);
        }
    }

    /// Tries until there is a connection; meanwhile calls wait, or have waited long enough. `None`: the client was dropped.
    async fn connect(&mut self, mut pause: Duration) -> Option<(Reader, Writer)> {
        let mut why = "it has not answered yet".to_owned();
        let mut attempt = Box::pin(open(self.endpoint.clone(), pause));
        loop {
            let deadline = self.next_deadline();
            tokio::select! {
                biased;
                connected = &mut attempt => match connected {
                    Ok(connection) => return Some(connection),
                    Err(error) => {
                        tracing::debug!(endpoint = %self.endpoint, %error, "no connection to the engine");
                        why = error.to_string();
                        pause = (pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
                        attempt = Box::pin(open(self.endpoint.clone(), pause));
                    }
                },
                command = self.commands.recv() => match command? {
                    Command::Call(call) => self.waiting.push_back(call),
                    Command::Open { id, stream } => drop(self.streams.insert(id, stream)),
                    Command::Cancel(id) => drop(self.streams.remove(&id)),
                    Command::Credit(_) => {} // the next connection begins with what there is room for
                    Command::Close => return None,
                },
                () = until(deadline) => self.expire(&why),
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let opening = self.streams.values().filter_map(|stream| Some(stream.opened.as_ref()?.0)).min();
        // Calls come in about the order of their deadlines; those that overtook others wait a little longer.
        self.waiting.front().map(|call| call.deadline).into_iter().chain(opening).min()
    }

    /// Ends what has waited long enough for a connection.
    fn expire(&mut self, why: &str) {
        let now = Instant::now();
        let why = format!("there is no connection to the engine at {}: {why}", self.endpoint);
        while self.waiting.front().is_some_and(|call| call.deadline <= now)
            && let Some(mut call) = self.waiting.pop_front()
        {
            self.sent.mark(&mut call, false);
            call.reply.unsent(&why);
        }
        self.streams.retain(|_, stream| {
            let Some((_, tell)) = stream.opened.take_if(|(deadline, _)| *deadline <= now) else {
                return true;
            };
            drop(tell.send(Err(EngineError::Unavailable(why.clone()))));
            false
        });
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it closed the connection at once: it is stopping, or has too many")]
    Closed,
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    #[error("it did not answer in {} s", HELLO.as_secs())]
    Silent,
}

async fn open(endpoint: Endpoint, pause: Duration) -> Result<(Reader, Writer), OpenError> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    tokio::time::timeout(HELLO, connect(&endpoint)).await.unwrap_or(Err(OpenError::Silent))
}

async fn connect(endpoint: &Endpoint) -> Result<(Reader, Writer), OpenError> {
    let (mut reader, mut writer): (Reader, Writer) = match endpoint {
        Endpoint::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            (Box::new(reader), Box::new(writer))
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            (Box::new(reader), Box::new(writer))
        }
    };
    writer.write_all(&codec::hello()).await?;
    let mut said = [0; HELLO_BYTES];
    reader.read_exact(&mut said).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => OpenError::Closed,
        _ => error.into(),
    })?;
    codec::check_hello(&said)?;
    Ok((reader, writer))
}
