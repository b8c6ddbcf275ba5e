//! The connection: requests with an end in time, and many of them at once.
//!
//! The client's own requests keep a place for an answer that never comes, for ever; so answers are handed out here.

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

/// The unit in which bytes that wait are counted, so that their number fits.
const UNIT_BYTES: usize = 1024;

/// What a message takes beside its body, in units.
const HEAD_UNITS: usize = 4;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request was not sent.
    NotSent(String),
    /// Nobody listens to its subject.
    NoResponders,
    /// It was sent, and nothing came back.
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
enum Place {
    One(oneshot::Sender<Message>),
    Many(mpsc::UnboundedSender<Message>),
}

/// Who waits for which answer.
#[derive(Debug, Default)]
struct Desk(Mutex<(u64, HashMap<u64, Place>)>);

impl Desk {
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Place>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, place: Place) -> Ticket<'_> {
        let mut desk = self.lock();
        desk.0 += 1;
        let number = desk.0;
        desk.1.insert(number, place);
        Ticket { desk: self, number }
    }

    fn hand_out(&self, message: Message) {
        let number = message.subject.rsplit('.').next().and_then(|token| token.parse().ok());
        let Some(number) = number else { return };
        let mut desk = self.lock();
        // Whoever went away in the meantime took his place along.
        match desk.1.remove(&number) {
            Some(Place::One(sender)) => drop(sender.send(message)),
            Some(Place::Many(sender)) => {
                drop(sender.send(message));
                desk.1.insert(number, Place::Many(sender));
            }
            None => {}
        }
    }
}

/// A place that is kept until this is dropped.
struct Ticket<'a> {
    desk: &'a Desk,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.desk.lock().1.remove(&self.number);
    }
}

/// A body and its share of what may wait; the client drops it when it is on its way.
struct Waiting {
    bytes: Arc<[u8]>,
    _share: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The connection to the servers.
#[derive(Debug)]
pub(super) struct Link {
    pub client: Client,
    inbox: String,
    desk: Arc<Desk>,
    room: Arc<Semaphore>,
    reader: AbortHandle,
    /// Changes when the connection was made anew, so that messages may have been missed.
    connections: watch::Receiver<u64>,
}

impl Link {
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
        let desk = Arc::new(Desk::default());
        let clerk = Arc::clone(&desk);
        let reader = runtime.spawn(async move {
            while let Some(message) = answers.next().await {
                clerk.hand_out(message);
            }
        });
        let room = Arc::new(Semaphore::new(options.in_flight_bytes / UNIT_BYTES));
        Ok(Self { client, inbox, desk, room, reader: reader.abort_handle(), connections })
    }

    /// Tells of new connections.
    pub(super) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.clone()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// A share of what may wait for the servers, as soon as there is one.
    pub(super) async fn share(
        &self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Arc<OwnedSemaphorePermit>, Failure> {
        let units = (bytes / UNIT_BYTES + HEAD_UNITS) as u32; // a message has 1 MiB
        let permit = Arc::clone(&self.room).acquire_many_owned(units);
        match timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => Ok(Arc::new(permit)),
            _ => Err(Failure::NotSent("too much waits for the servers already".to_owned())),
        }
    }

    /// A share if there is one now.
    pub(super) fn try_share(&self, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
        let units = (bytes / UNIT_BYTES + HEAD_UNITS) as u32; // a message has 1 MiB
        Arc::clone(&self.room).try_acquire_many_owned(units).ok().map(Arc::new)
    }

    /// A body that keeps its share until it was sent.
    pub(super) fn body(bytes: &Arc<[u8]>, share: &Arc<OwnedSemaphorePermit>) -> Bytes {
        Bytes::from_owner(Waiting { bytes: Arc::clone(bytes), _share: Arc::clone(share) })
    }

    async fn send(
        &self,
        subject: String,
        number: u64,
        headers: Option<HeaderMap>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(), Failure> {
        // What is handed to a client without a connection waits there, and is sent much later.
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
        let ticket = self.desk.register(Place::One(sender));
        self.send(subject, ticket.number, headers, body, deadline).await?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(message)) if is_no_responders(&message) => Err(Failure::NoResponders),
            Ok(Ok(message)) => Ok(message),
            _ => Err(Failure::NoAnswer),
        }
    }

    /// Sends a request that has many answers, and gives each to `take` until that says that it was the last.
    pub(super) async fn request_many(
        &self,
        subject: String,
        body: Bytes,
        deadline: Instant,
        mut take: impl FnMut(Message) -> bool,
    ) -> Result<(), Failure> {
        let (sender, mut answers) = mpsc::unbounded_channel();
        let ticket = self.desk.register(Place::Many(sender));
        self.send(subject, ticket.number, None, body, deadline).await?;
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

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn is_no_responders(message: &Message) -> bool {
    message.status.is_some_and(|status| status.as_u16() == 503) && message.payload.is_empty()
}

/// Tries again, a little later each time, until something else than `None` comes or the time is over.
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
