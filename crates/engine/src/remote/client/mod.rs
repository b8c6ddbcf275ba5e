//! The client: an engine whose log is kept by another process.

mod call;
mod driver;
mod feed;
mod mailbox;
mod records;
mod sent;
mod session;
mod told;

use super::codec::Request;
use super::endpoint::{Endpoint, EndpointError};
use crate::keys::{NO_KEY, is_key};
use call::{Call, Command, Reply, Stream};
use driver::Driver;
use feed::Feed;
use futures_core::future::BoxFuture;
use mailbox::{Following, Mailbox};
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, MAX_BATCH_BYTES, MAX_MESSAGE_BYTES,
    MAX_RECORD_BYTES, ReadError, Record, Revision, Snapshot, SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use told::Told;

/// Bytes of entries fetched at once; a read of more is several.
const PIECE_BYTES: usize = 1 << 20;

/// What a call counts for besides its payload.
const CALL_BYTES: usize = 512;

/// Why a call without an answer has none.
const GONE: &str = "the client has ended";

/// How a client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a call waits while there is no connection.
    pub wait: Duration,
    /// Bytes of a stream that may wait for its reader; an item more may come on top.
    pub window_bytes: u32,
    /// Bytes of calls that may be under way or wait for a connection; who comes with more waits.
    pub call_bytes: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { wait: Duration::from_secs(5), window_bytes: 1 << 20, call_bytes: 64 << 20 }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not a place for an engine process.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The operating system gives no thread, or no events.
    #[error("cannot start the client of an engine: {0}")]
    Io(#[from] io::Error),
}

/// An engine in another process, over a socket. A thread has the connection, so any executor can run its futures.
///
/// Dropping it ends its streams, as an engine that is closed does.
#[derive(Debug)]
pub struct RemoteEngine {
    commands: UnboundedSender<Command>,
    ids: AtomicU64,
    room: Arc<Semaphore>,
    options: ClientOptions,
    endpoint: Endpoint,
    is_connected: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RemoteEngine {
    /// A client of the engine at this place, which need not be there yet.
    ///
    /// # Errors
    /// [`ConnectError`]. That nobody answers is none: calls wait for that, and say so.
    pub fn connect(endpoint: Endpoint, options: ClientOptions) -> Result<Self, ConnectError> {
        endpoint.check()?;
        let (commands, receiver) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_connected = Arc::new(AtomicBool::new(false));
        let driver = Driver::new(endpoint.clone(), receiver, Arc::clone(&is_connected));
        let thread = std::thread::Builder::new()
            .name("engine-client".to_owned())
            .spawn(move || runtime.block_on(driver.run()))?;
        Ok(Self {
            commands,
            ids: AtomicU64::new(1),
            room: Arc::new(Semaphore::new(options.call_bytes.clamp(CALL_BYTES, Semaphore::MAX_PERMITS))),
            options,
            endpoint,
            is_connected,
            thread: Some(thread),
        })
    }

    /// Where it connects to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request and waits for its answer. `None`: the thread is gone.
    async fn call<T>(
        &self,
        request: Request,
        payload: usize,
        bytes: Option<Arc<[u8]>>,
        reply: impl FnOnce(oneshot::Sender<T>) -> Reply,
    ) -> Option<T> {
        let deadline = Instant::now() + self.options.wait;
        let limit = self.options.call_bytes.max(CALL_BYTES);
        let count = u32::try_from((payload + CALL_BYTES).min(limit)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(count).await.ok();
        let (tell, answer) = oneshot::channel();
        let call = Call { id: self.id(), request, bytes, reply: reply(tell), deadline, permit };
        self.commands.send(Command::Call(call)).ok()?;
        answer.await.ok()
    }

    async fn done(&self, request: Request, payload: usize) -> Result<(), EngineError> {
        self.call(request, payload, None, Reply::Done).await.unwrap_or_else(|| Err(unavailable()))
    }

    fn follow<T: Told>(
        &self,
        feed: Feed,
        opened: Option<(Instant, oneshot::Sender<Result<(), EngineError>>)>,
    ) -> Following<T> {
        let (id, mailbox) = (self.id(), Arc::new(Mailbox::new(self.options.window_bytes)));
        let following = Following::new(id, Arc::clone(&mailbox), self.commands.clone());
        let stream = Stream { feed, mailbox: Arc::clone(&mailbox), opened };
        if self.commands.send(Command::Open { id, stream }).is_err() {
            mailbox.end(super::codec::End::Closed);
        }
        following
    }

    /// Entries, fetched in pieces, so that neither side holds more than one for the other.
    async fn read_pieces(
        &self,
        partition: PartitionId,
        from: Position,
        mut left: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let (mut all, mut next) = (Vec::<Entry>::new(), from.0.max(1));
        loop {
            let max_bytes = left.min(PIECE_BYTES);
            let request = Request::Read { partition, from: Position(next), max_bytes: max_bytes as u32 };
            let reply = |tell| Reply::Read { tell, entries: Vec::new(), bytes: 0 };
            let entries = self.call(request, 0, None, reply).await;
            let entries = match entries.unwrap_or_else(|| Err(ReadError::Unavailable(GONE.to_owned()))) {
                Ok(entries) => entries,
                // What came before is good, and the next read will begin here.
                Err(_) if !all.is_empty() => return Ok(all),
                Err(error) => return Err(error),
            };
            let Some(last) = entries.last() else { return Ok(all) };
            next = last.position.0.saturating_add(1);
            let bytes: usize = entries.iter().map(|entry| entry.batch.payload.len().max(1)).sum();
            all.extend(entries);
            if max_bytes == left || bytes >= left {
                return Ok(all);
            }
            left -= bytes;
        }
    }
}

impl Drop for RemoteEngine {
    fn drop(&mut self) {
        drop(self.commands.send(Command::Close)); // it is gone already, if nobody hears
        // An executor that runs its tasks where it is woken may be on that thread.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other) {
            drop(thread.join()); // if it panicked, that was told already
        }
    }
}

fn unavailable() -> EngineError {
    EngineError::Unavailable(GONE.to_owned())
}

fn check_topic(topic: &str) -> Result<(), EngineError> {
    if is_key(topic) { Ok(()) } else { Err(EngineError::Refused(format!("no topic: {NO_KEY}"))) }
}

impl Engine for RemoteEngine {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(async move {
            let len = batch.payload.len();
            if len > MAX_BATCH_BYTES {
                return Err(AppendError::TooLarge(len));
            }
            let reply = |tell| Reply::Append { tell, is_repeat: false };
            let answer = self.call(Request::Append { partition, batch }, len, None, reply).await;
            answer.unwrap_or_else(|| Err(AppendError::Unknown(GONE.to_owned())))
        })
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move {
            let answer = self.call(Request::Last { partition }, 0, None, Reply::Last).await;
            answer.unwrap_or_else(|| Err(ReadError::Unavailable(GONE.to_owned())))
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(self.read_pieces(partition, from, max_bytes))
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        let feed = Feed::Entries { partition, next: from.0.max(1) };
        Box::pin(self.follow(feed, None))
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.done(Request::Trim { partition, below }, 0))
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let Snapshot { position, bytes } = snapshot;
            let request = Request::PutSnapshot { partition, position, len: bytes.len() as u64 };
            let answer = self.call(request, bytes.len(), Some(bytes), Reply::Done).await;
            answer.unwrap_or_else(|| Err(unavailable()))
        })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move {
            let reply = |tell| Reply::Snapshot { tell, begun: None };
            let answer = self.call(Request::Snapshot { partition }, 0, None, reply).await;
            answer.unwrap_or_else(|| Err(unavailable()))
        })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        Box::pin(async move {
            if !is_key(key) {
                return Err(EngineError::Refused(NO_KEY.to_owned()));
            }
            let answer = self.call(Request::Record { key: key.to_owned() }, 0, None, Reply::Found).await;
            answer.unwrap_or_else(|| Err(unavailable()))
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        Box::pin(async move {
            let len = value.as_ref().map_or(0, |value| value.len());
            if !is_key(key) {
                return Err(SwapError::Invalid(NO_KEY));
            }
            if len > MAX_RECORD_BYTES {
                return Err(SwapError::Invalid("the value is longer than 64 KiB"));
            }
            let request = Request::Swap { key: key.to_owned(), expected, value };
            let answer = self.call(request, len, None, Reply::Swapped).await;
            answer.unwrap_or_else(|| Err(SwapError::Unknown(GONE.to_owned())))
        })
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        Box::pin(self.follow(Feed::Records(records::Records::new(prefix)), None))
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            check_topic(topic)?;
            let len = message.len();
            if len > MAX_MESSAGE_BYTES {
                return Err(EngineError::Refused(format!("a message of {len} bytes is over the limit")));
            }
            self.done(Request::Publish { topic: topic.to_owned(), message }, len).await
        })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move {
            check_topic(&topic)?;
            let (tell, opened) = oneshot::channel();
            let opening = Some((Instant::now() + self.options.wait, tell));
            let messages = self.follow(Feed::Messages { topic }, opening);
            opened.await.unwrap_or_else(|_| Err(unavailable()))?;
            Ok(Box::pin(messages) as BoxStream<Arc<[u8]>>)
        })
    }
}
