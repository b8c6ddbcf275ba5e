//! The connection: concurrent requests with deadlines.
//!
//! The client's own requests keep state forever if no answer comes, so answers are assigned to requests here.

use super::options::OpenError;
use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Message};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Unit of the limit on waiting bytes, so that their number fits into a semaphore.
const UNIT_BYTES: usize = 1024;

/// Units of a message besides its body.
const HEAD_UNITS: usize = 4;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request was not sent.
    NotSent(String),
    /// No one subscribes to its subject.
    NoResponders,
    /// It was sent, and no answer came in time.
    NoAnswer,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(why) => f.write_str(why),
            Self::NoResponders => f.write_str("no server has the stream, or it has no leader now"),
            Self::NoAnswer => f.write_str("no answer came in time"),
        }
    }
}

#[derive(Debug)]
enum ReplyTo {
    One(oneshot::Sender<Message>),
    Many(mpsc::UnboundedSender<Message>),
}

/// Requests that wait for answers, by number.
#[derive(Debug, Default)]
struct PendingReplies(Mutex<(u64, HashMap<u64, ReplyTo>)>);

impl PendingReplies {
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, ReplyTo>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, reply_to: ReplyTo) -> Registration<'_> {
        let mut pending = self.lock();
        pending.0 += 1;
        let number = pending.0;
        pending.1.insert(number, reply_to);
        Registration { pending: self, number }
    }

    fn deliver(&self, message: Message) {
        let number = message.subject.rsplit('.').next().and_then(|token| token.parse().ok());
        let Some(number) = number else { return };
        let mut pending = self.lock();
        // A request that was dropped meanwhile is no longer registered.
        match pending.1.remove(&number) {
            Some(ReplyTo::One(sender)) => drop(sender.send(message)),
            Some(ReplyTo::Many(sender)) => {
                drop(sender.send(message));
                pending.1.insert(number, ReplyTo::Many(sender));
            }
            None => {}
        }
    }
}

/// Registers a request until dropped.
struct Registration<'a> {
    pending: &'a PendingReplies,
    number: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.pending.lock().1.remove(&self.number);
    }
}

/// A body and its permit; the client drops both when the body is sent.
struct Waiting {
    bytes: Arc<[u8]>,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The connection to the servers.
#[derive(Debug)]
pub(super) struct Connection {
    pub client: Client,
    inbox: String,
    pending: Arc<PendingReplies>,
    budget: Arc<Semaphore>,
    reader: AbortHandle,
    /// Number of connections so far: after a change, messages may have been missed.
    connections: watch::Receiver<u64>,
}

impl Connection {
    pub(super) async fn connect(
        options: &super::Options,
        runtime: &Handle,
        deadline: Instant,
    ) -> Result<Self, OpenError> {
        let (count, connections) = watch::channel(0);
        let count = Arc::new(count);
        let client_options = options.for_client()?.event_callback(move |event| {
            if matches!(event, async_nats::Event::Connected) {
                count.send_modify(|count| *count += 1);
            }
            std::future::ready(())
        });
        let connect = client_options.connect(options.servers.clone());
        let failed = |why: String| OpenError::Connect(format!("{}: {why}", options.servers.join(", ")));
        let client = timeout_at(deadline, connect)
            .await
            .map_err(|_| failed("no answer came in time".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        let inbox = client.new_inbox();
        let mut answers =
            client.subscribe(format!("{inbox}.*")).await.map_err(|error| failed(error.to_string()))?;
        let pending = Arc::new(PendingReplies::default());
        let deliverer = Arc::clone(&pending);
        let reader = runtime.spawn(async move {
            while let Some(message) = answers.next().await {
                deliverer.deliver(message);
            }
        });
        let budget = Arc::new(Semaphore::new(options.in_flight_bytes / UNIT_BYTES));
        Ok(Self { client, inbox, pending, budget, reader: reader.abort_handle(), connections })
    }

    /// Notifies of new connections.
    pub(super) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.clone()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits for permission to send so many bytes.
    pub(super) async fn reserve(
        &self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Arc<OwnedSemaphorePermit>, Failure> {
        let units = (bytes / UNIT_BYTES + HEAD_UNITS) as u32; // a message has at most 1 MiB
        let permit = Arc::clone(&self.budget).acquire_many_owned(units);
        match timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => Ok(Arc::new(permit)),
            _ => Err(Failure::NotSent("too many bytes wait for the servers".to_owned())),
        }
    }

    /// Permission to send so many bytes, if there is room now.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
        let units = (bytes / UNIT_BYTES + HEAD_UNITS) as u32; // a message has at most 1 MiB
        Arc::clone(&self.budget).try_acquire_many_owned(units).ok().map(Arc::new)
    }

    /// A body that keeps its permit until it is sent.
    pub(super) fn body(bytes: &Arc<[u8]>, permit: &Arc<OwnedSemaphorePermit>) -> Bytes {
        Bytes::from_owner(Waiting { bytes: Arc::clone(bytes), _permit: Arc::clone(permit) })
    }

    async fn send(
        &self,
        subject: String,
        number: u64,
        headers: Option<HeaderMap>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(), Failure> {
        // Without a connection the client would keep the message and send it much later.
        while !self.is_connected() {
            if Instant::now() >= deadline {
                return Err(Failure::NotSent("no connection to the servers".to_owned()));
            }
            sleep_until(deadline.min(Instant::now() + Duration::from_millis(20))).await;
        }
        let reply = format!("{}.{number}", self.inbox);
        let publish = async {
            match headers {
                Some(headers) => {
                    self.client.publish_with_reply_and_headers(subject, reply, headers, body).await
                }
                None => self.client.publish_with_reply(subject, reply, body).await,
            }
        };
        match timeout_at(deadline, publish).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::NotSent(error.to_string())),
            Err(_) => Err(Failure::NotSent("the connection does not keep up".to_owned())),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Message, Failure> {
        let (sender, answer) = oneshot::channel();
        let registration = self.pending.register(ReplyTo::One(sender));
        self.send(subject, registration.number, headers, body, deadline).await?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(message)) if is_no_responders(&message) => Err(Failure::NoResponders),
            Ok(Ok(message)) => Ok(message),
            _ => Err(Failure::NoAnswer),
        }
    }

    /// Sends a request with many answers, and passes each to `take` until that returns true for the last.
    pub(super) async fn request_many(
        &self,
        subject: String,
        body: Bytes,
        deadline: Instant,
        mut take: impl FnMut(Message) -> bool,
    ) -> Result<(), Failure> {
        let (sender, mut answers) = mpsc::unbounded_channel();
        let registration = self.pending.register(ReplyTo::Many(sender));
        self.send(subject, registration.number, None, body, deadline).await?;
        loop {
            match timeout_at(deadline, answers.recv()).await {
                Ok(Some(message)) if is_no_responders(&message) => return Err(Failure::NoResponders),
                Ok(Some(message)) => {
                    if take(message) {
                        return Ok(());
                    }
                }
                _ => return Err(Failure::NoAnswer),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn is_no_responders(message: &Message) -> bool {
    message.status.is_some_and(|status| status.as_u16() == 503) && message.payload.is_empty()
}

/// Repeats an attempt with growing pauses until it returns `Some`, or until the deadline.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Option<T> {
    let mut pause = Duration::from_millis(5);
    loop {
        if let Some(result) = attempt().await {
            return Some(result);
        }
        if Instant::now() + pause >= deadline {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}
