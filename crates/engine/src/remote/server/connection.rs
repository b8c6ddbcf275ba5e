//! One connection: requests under way, streams, and what waits for the socket, turned by one task.
//!
//! Everything that could grow is bounded, and each bound pushes back: answers are taken from requests and streams only
//! while the socket takes them, and requests are read only while few enough are under way. A stream without credit is
//! not asked for more.

use super::streams::{self, Source};
use super::{Shared, add};
use crate::remote::buffer::{Incoming, Outgoing, Reader, Writer};
use crate::remote::codec::{CHUNK_BYTES, CodecError, End, Level, Request, Response};
use crate::remote::stream_cost;
use futures_core::future::BoxFuture;
use futures_util::future::{AbortHandle, Abortable, Aborted, abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{BoxStream, EngineError, Entry, MAX_BATCH_BYTES, ReadError, Snapshot};
use scalebricks_types::{PartitionId, Position};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Bytes of entries that one read is answered with, whatever it asks for; and an entry.
const READ_BYTES: u32 = 1 << 20;

/// Snapshots of one connection that are being put, and being got, at one time.
const SNAPSHOTS: usize = 2;

/// What a request counts for besides its payload.
const REQUEST_BYTES: usize = 256;

/// After so many events the socket is looked at, whatever else there is to do.
const FAIR: u32 = 64;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it sent {0}")]
    Codec(#[from] CodecError),
    #[error("it used the number {0} twice")]
    Twice(u64),
    #[error("it sent more of a snapshot than it announced")]
    Overlong,
}

impl ConnectionError {
    /// Whether the other side did what no client does.
    pub(super) const fn is_hostile(&self) -> bool {
        !matches!(self, Self::Io(_))
    }
}

/// What a request came to.
enum Answer {
    One(Response),
    Entries(Result<Vec<Entry>, ReadError>),
    Snapshot(Result<Option<Snapshot>, EngineError>, Option<OwnedSemaphorePermit>),
    Subscribed(Result<BoxStream<Arc<[u8]>>, EngineError>),
}

/// A request that is done: its id, and the bytes it counted for.
type Done = (u64, usize, Answer);

/// A stream.
struct Stream {
    /// Bytes it may still send; below 0, if the last was more than that.
    credit: i64,
    state: StreamState,
}

enum StreamState {
    /// The engine was asked for messages, and has not answered.
    Opening,
    /// There is no credit.
    Parked(Source),
    /// It is asked for its next.
    Asked(AbortHandle),
}

type Item = (u64, Source, Option<Response>);

/// A snapshot on its way in.
struct Upload {
    partition: PartitionId,
    position: Position,
    len: u64,
    bytes: Vec<u8>,
}

/// A snapshot on its way out.
struct Download {
    id: u64,
    bytes: Arc<[u8]>,
    at: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

enum Event {
    Done(Done),
    Item(Result<Item, Aborted>),
    Written,
    Read(bool),
    Stop,
}

pub(super) struct Connection {
    shared: Arc<Shared>,
    reader: Reader,
    writer: Writer,
    /// What the client knows.
    level: Level,
    stopped: watch::Receiver<bool>,
    is_stopping: bool,
    events: u32,
    incoming: Incoming,
    outgoing: Outgoing,
    requests: FuturesUnordered<BoxFuture<'static, Done>>,
    request_bytes: usize,
    items: FuturesUnordered<Abortable<BoxFuture<'static, Item>>>,
    streams: HashMap<u64, Stream>,
    uploads: HashMap<u64, Upload>,
    downloads: VecDeque<Download>,
    download_permits: Arc<Semaphore>,
}

impl Connection {
    pub(super) fn new(
        reader: Reader,
        writer: Writer,
        level: Level,
        shared: Arc<Shared>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            shared,
            reader,
            writer,
            level,
            stopped,
            is_stopping: false,
            events: 0,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            requests: FuturesUnordered::new(),
            request_bytes: 0,
            items: FuturesUnordered::new(),
            streams: HashMap::new(),
            uploads: HashMap::new(),
            downloads: VecDeque::new(),
            download_permits: Arc::new(Semaphore::new(SNAPSHOTS)),
        }
    }

    /// Serves until the other side closes, or the server stops.
    pub(super) async fn run(mut self) -> Result<(), ConnectionError> {
        loop {
            self.send_pieces();
            while self.may_read()
                && let Some((id, request, len)) = self.incoming.next::<Request>()?
            {
                self.request(id, request, len)?;
            }
            if self.is_stopping && self.requests.is_empty() && self.outgoing.is_empty() {
                return Ok(());
            }
            match self.event().await? {
                Event::Done((id, bytes, answer)) => {
                    self.request_bytes -= bytes;
                    self.answer(id, answer);
                }
                Event::Item(Ok((id, source, response))) => self.item(id, source, response),
                Event::Item(Err(Aborted)) | Event::Written | Event::Read(true) => {}
                Event::Read(false) => return Ok(()),
                Event::Stop => {
                    self.is_stopping = true;
                    self.streams.clear();
                    self.items.clear();
                }
            }
        }
    }

    fn may_read(&self) -> bool {
        let options = &self.shared.options;
        !self.is_stopping
            && !self.outgoing.is_full()
            && self.requests.len() < options.requests
            && self.request_bytes < options.request_bytes
    }

    /// Waits for whatever comes first, in this order: what is there to be sent, sending it, and then more to do.
    async fn event(&mut self) -> io::Result<Event> {
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(FAIR)
            && self.may_read()
            && let Some(read) = self.incoming.fill(&mut self.reader).now_or_never()
        {
            return read.map(Event::Read);
        }
        let (may_send, may_read) = (!self.outgoing.is_full(), self.may_read());
        tokio::select! {
            biased;
            Some(done) = self.requests.next(), if may_send && !self.requests.is_empty() => Ok(Event::Done(done)),
            Some(item) = self.items.next(), if may_send && !self.items.is_empty() => Ok(Event::Item(item)),
            written = self.outgoing.write(&mut self.writer), if !self.outgoing.is_empty() => {
                written.map(|()| Event::Written)
            }
            read = self.incoming.fill(&mut self.reader), if may_read => read.map(Event::Read),
            _ = self.stopped.changed(), if !self.is_stopping => Ok(Event::Stop),
        }
    }

    /// Sends pieces of snapshots while there is room, in turn.
    fn send_pieces(&mut self) {
        while !self.outgoing.is_full()
            && let Some(mut download) = self.downloads.pop_front()
        {
            let end = download.bytes.len().min(download.at + CHUNK_BYTES);
            let bytes = download.bytes.get(download.at..end).unwrap_or_default().into();
            self.outgoing.push(download.id, &Response::Chunk { bytes });
            download.at = end;
            if end < download.bytes.len() {
                self.downloads.push_back(download);
            }
        }
    }

    fn start(&mut self, id: u64, bytes: usize, work: impl Future<Output = Answer> + Send + 'static) {
        self.request_bytes += bytes;
        self.requests.push(Box::pin(async move { (id, bytes, work.await) }));
    }

    fn request(&mut self, id: u64, request: Request, len: usize) -> Result<(), ConnectionError> {
        if !matches!(request, Request::Chunk { .. } | Request::Credit { .. } | Request::Cancel {}) {
            add(&self.shared.counters.requests, 1);
        }
        let engine = Arc::clone(&self.shared.engine);
        let bytes = len + REQUEST_BYTES;
        match request {
            Request::Append { partition, batch } => {
                let (shared, payload) = (Arc::clone(&self.shared), batch.payload.len() as u64);
                self.start(id, bytes, async move {
                    let result = engine.append(partition, batch).await;
                    let counters = &shared.counters;
                    add(if result.is_ok() { &counters.appended } else { &counters.failed }, 1);
                    add(&counters.appended_bytes, if result.is_ok() { payload } else { 0 });
                    Answer::One(Response::Appended { result })
                });
            }
            Request::Last { partition } => self.start(id, bytes, async move {
                Answer::One(Response::Last { result: engine.last(partition).await })
            }),
            Request::Read { partition, from, max_bytes } => {
                let max_bytes = max_bytes.min(READ_BYTES) as usize;
                self.start(id, bytes + max_bytes + MAX_BATCH_BYTES, async move {
                    Answer::Entries(engine.read(partition, from, max_bytes).await)
                });
            }
            Request::Trim { partition, below } => self.start(id, bytes, async move {
                Answer::One(Response::Done { result: engine.trim(partition, below).await })
            }),
            Request::PutSnapshot { partition, position, len } => {
                return self.begin_upload(id, Upload { partition, position, len, bytes: Vec::new() });
            }
            Request::Chunk { bytes } => return self.upload(id, &bytes),
            Request::Snapshot { partition } => {
                let permits = Arc::clone(&self.download_permits);
                self.start(id, bytes, async move {
                    let permit = permits.acquire_owned().await.ok();
                    Answer::Snapshot(engine.snapshot(partition).await, permit)
                });
            }
            Request::Record { key } => self.start(id, bytes, async move {
                Answer::One(Response::Found { result: engine.record(&key).await })
            }),
            Request::Swap { key, expected, value } => self.start(id, bytes, async move {
                Answer::One(Response::Swapped { result: engine.swap(&key, expected, value).await })
            }),
            Request::Publish { topic, message } => self.start(id, bytes, async move {
                Answer::One(Response::Done { result: engine.publish(&topic, message).await })
            }),
            Request::Watch { partition, from, credit } => {
                if self.has_room(id)? {
                    let source = streams::entries(engine.as_ref(), partition, from);
                    self.open(id, credit, Some(source));
                } else {
                    let end = End::Read(ReadError::Unavailable(self.too_many()));
                    self.outgoing.push(id, &Response::End { end });
                }
            }
            Request::WatchRecords { prefix, after, credit } => {
                if self.has_room(id)? {
                    let source = streams::records(engine.as_ref(), &prefix, after);
                    self.open(id, credit, Some(source));
                } else {
                    let end = End::Engine(EngineError::Unavailable(self.too_many()));
                    self.outgoing.push(id, &Response::End { end });
                }
            }
            Request::Subscribe { topic, credit } => {
                if self.has_room(id)? {
                    self.open(id, credit, None);
                    let work = async move { Answer::Subscribed(engine.subscribe(&topic).await) };
                    self.start(id, bytes, work);
                } else {
                    let result = Err(EngineError::Unavailable(self.too_many()));
                    self.outgoing.push(id, &Response::Done { result });
                }
            }
            Request::Credit { bytes } => self.credit(id, bytes),
            Request::Cancel {} => {
                if let Some(Stream { state: StreamState::Asked(handle), .. }) = self.streams.remove(&id) {
                    handle.abort();
                }
            }
        }
        Ok(())
    }

    fn too_many(&self) -> String {
        format!("a connection has at most {} streams", self.shared.options.streams)
    }

    fn has_room(&self, id: u64) -> Result<bool, ConnectionError> {
        if self.streams.contains_key(&id) {
            return Err(ConnectionError::Twice(id));
        }
        Ok(self.streams.len() < self.shared.options.streams)
    }

    fn open(&mut self, id: u64, credit: u32, source: Option<Source>) {
        let state = source.map_or(StreamState::Opening, StreamState::Parked);
        self.streams.insert(id, Stream { credit: credit.into(), state });
        self.ask(id);
    }

    /// Asks a stream for its next, if it may send it.
    fn ask(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.credit > 0) else { return };
        match std::mem::replace(&mut stream.state, StreamState::Opening) {
            StreamState::Parked(mut source) => {
                let next = async move {
                    let response = source.next().await;
                    (id, source, response)
                };
                let (next, handle) = abortable(Box::pin(next) as BoxFuture<'static, Item>);
                stream.state = StreamState::Asked(handle);
                self.items.push(next);
            }
            state => stream.state = state,
        }
    }

    fn credit(&mut self, id: u64, bytes: u32) {
        // A stream that has just ended is gone already.
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.credit = stream.credit.saturating_add(bytes.into());
            self.ask(id);
        }
    }

    /// A stream has something to send.
    fn item(&mut self, id: u64, source: Source, response: Option<Response>) {
        // A stream that was cancelled meanwhile is gone.
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let response = match response.unwrap_or(Response::End { end: End::Closed }) {
            Response::End { end: End::Read(error) } => {
                Response::End { end: End::Read(self.level.error(error)) }
            }
            response => response,
        };
        let len = self.outgoing.push(id, &response);
        if matches!(response, Response::End { .. }) {
            self.streams.remove(&id);
            return;
        }
        let cost = stream_cost(&response, len);
        stream.credit -= cost;
        stream.state = StreamState::Parked(source);
        add(&self.shared.counters.streamed, u64::from(cost > 0));
        self.ask(id);
    }

    fn begin_upload(&mut self, id: u64, upload: Upload) -> Result<(), ConnectionError> {
        if self.uploads.contains_key(&id) {
            return Err(ConnectionError::Twice(id));
        }
        let limit = self.shared.options.snapshot_bytes;
        let problem = if upload.len > limit {
            EngineError::Refused(format!("a snapshot of {} bytes is over the limit of {limit}", upload.len))
        } else if self.uploads.len() >= SNAPSHOTS {
            EngineError::Unavailable("two snapshots are on their way already".to_owned())
        } else {
            self.uploads.insert(id, upload);
            return self.upload(id, &[]);
        };
        self.outgoing.push(id, &Response::Done { result: Err(problem) });
        Ok(())
    }

    /// Takes in a piece of a snapshot, and stores it when it was the last. Those of one that was refused are dropped.
    fn upload(&mut self, id: u64, piece: &[u8]) -> Result<(), ConnectionError> {
        let Some(upload) = self.uploads.get_mut(&id) else { return Ok(()) };
        upload.bytes.extend_from_slice(piece);
        if (upload.bytes.len() as u64) < upload.len {
            return Ok(());
        }
        if upload.bytes.len() as u64 > upload.len {
            return Err(ConnectionError::Overlong);
        }
        let Some(Upload { partition, position, bytes, .. }) = self.uploads.remove(&id) else { return Ok(()) };
        let engine = Arc::clone(&self.shared.engine);
        let snapshot = Snapshot { position, bytes: bytes.into() };
        // Counts as much as it holds: no other request is read before it is stored, if it is large.
        self.start(id, REQUEST_BYTES + snapshot.bytes.len(), async move {
            Answer::One(Response::Done { result: engine.put_snapshot(partition, snapshot).await })
        });
        Ok(())
    }

    /// A request is done.
    fn answer(&mut self, id: u64, answer: Answer) {
        match answer {
            Answer::One(response) => {
                self.outgoing.push(id, &response);
            }
            Answer::Entries(result) => {
                let result = result.map_err(|error| self.level.error(error)).map(|entries| {
                    for Entry { position, batch } in entries {
                        self.outgoing.push(id, &Response::Entry { position, batch });
                    }
                });
                self.outgoing.push(id, &Response::ReadDone { result });
            }
            Answer::Snapshot(result, permit) => {
                let head = match &result {
                    Ok(snapshot) => Ok(snapshot.as_ref().map(|s| (s.position, s.bytes.len() as u64))),
                    Err(error) => Err(error.clone()),
                };
                self.outgoing.push(id, &Response::Snapshot { result: head });
                if let Ok(Some(Snapshot { bytes, .. })) = result
                    && !bytes.is_empty()
                {
                    self.downloads.push_back(Download { id, bytes, at: 0, _permit: permit });
                }
            }
            Answer::Subscribed(result) => {
                // It may have been cancelled meanwhile.
                let Some(stream) = self.streams.get_mut(&id) else { return };
                match result {
                    Ok(messages) => {
                        stream.state = StreamState::Parked(streams::messages(messages));
                        self.outgoing.push(id, &Response::Done { result: Ok(()) });
                        self.ask(id);
                    }
                    Err(error) => {
                        self.streams.remove(&id);
                        self.outgoing.push(id, &Response::Done { result: Err(error) });
                    }
                }
            }
        }
    }
}
