//! What callers ask of the thread that has the connection, and how they are answered.

use super::feed::Feed;
use super::mailbox::Mailbox;
use crate::remote::codec::{Request, Response};
use scalebricks_control::engine::{
    AppendError, EngineError, Entry, ReadError, Record, Revision, Snapshot, SwapError,
};
use scalebricks_types::Position;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::oneshot::Sender;

/// What the thread is asked to do.
pub(super) enum Command {
    Call(Call),
    /// Begin a stream.
    Open {
        id: u64,
        stream: Stream,
    },
    /// The reader of a stream has room again.
    Credit(u64),
    /// The reader of a stream is gone.
    Cancel(u64),
    /// End.
    Close,
}

/// A request, and whom to tell.
pub(super) struct Call {
    pub id: u64,
    pub request: Request,
    /// A snapshot's bytes, which follow the request.
    pub bytes: Option<Arc<[u8]>>,
    pub reply: Reply,
    /// How long it waits for a connection.
    pub deadline: Instant,
    pub permit: Option<OwnedSemaphorePermit>,
}

/// A stream, for as long as somebody reads it.
pub(super) struct Stream {
    pub feed: Feed,
    pub mailbox: Arc<Mailbox>,
    /// Who waits for it to begin, and for how long.
    pub opened: Option<(Instant, Sender<Result<(), EngineError>>)>,
}

/// Whom to tell what.
pub(super) enum Reply {
    Append {
        tell: Sender<Result<Position, AppendError>>,
        /// An earlier attempt may be in the log.
        is_repeat: bool,
    },
    Last(Sender<Result<Position, ReadError>>),
    Read {
        tell: Sender<Result<Vec<Entry>, ReadError>>,
        entries: Vec<Entry>,
        bytes: usize,
    },
    Done(Sender<Result<(), EngineError>>),
    Snapshot {
        tell: Sender<Result<Option<Snapshot>, EngineError>>,
        /// What was announced, and what is there of it.
        begun: Option<(Position, u64, Vec<u8>)>,
    },
    Found(Sender<Result<Option<Record>, EngineError>>),
    Swapped(Sender<Result<Revision, SwapError>>),
}

/// The server answered what was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mismatch;

/// Bytes of entries that one read may be answered with: what a server sends at the most, and room for one that counts
/// otherwise.
const MAX_READ_BYTES: usize = 8 << 20;

/// Bytes of a snapshot that a server may send.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 30;

// A caller that is gone does not want the answer.
fn tell<T>(to: Sender<T>, answer: T) {
    drop(to.send(answer));
}

impl Reply {
    /// Takes an answer in. `Some`: there is more to come.
    pub(super) fn take(self, response: Response) -> Result<Option<Self>, Mismatch> {
        match (self, response) {
            (Self::Append { tell: to, is_repeat }, Response::Appended { result }) => tell(
                to,
                match result {
                    // The attempt that is refused is not in the log; an earlier one may be.
                    Err(AppendError::Refused(why)) if is_repeat => Err(AppendError::Unknown(why)),
                    result => result,
                },
            ),
            (Self::Last(to), Response::Last { result }) => tell(to, result),
            (Self::Read { tell, mut entries, bytes }, Response::Entry { position, batch }) => {
                let bytes = bytes + batch.payload.len();
                entries.push(Entry { position, batch });
                let is_bounded = bytes <= MAX_READ_BYTES && entries.len() <= MAX_READ_BYTES / 16;
                return is_bounded.then_some(Some(Self::Read { tell, entries, bytes })).ok_or(Mismatch);
            }
            (Self::Read { tell: to, entries, .. }, Response::ReadDone { result }) => {
                tell(to, result.map(|()| entries));
            }
            (Self::Done(to), Response::Done { result }) => tell(to, result),
            (Self::Snapshot { tell: to, begun: None }, Response::Snapshot { result }) => match result {
                Err(error) => tell(to, Err(error)),
                Ok(None) => tell(to, Ok(None)),
                Ok(Some((position, 0))) => {
                    tell(to, Ok(Some(Snapshot { position, bytes: Arc::from([]) })));
                }
                Ok(Some((_, len))) if len > MAX_SNAPSHOT_BYTES => return Err(Mismatch),
                Ok(Some((position, len))) => {
                    return Ok(Some(Self::Snapshot { tell: to, begun: Some((position, len, Vec::new())) }));
                }
            },
            (
                Self::Snapshot { tell: to, begun: Some((position, len, mut all)) },
                Response::Chunk { bytes },
            ) => {
                all.extend_from_slice(&bytes);
                match len.checked_sub(all.len() as u64).filter(|_| !bytes.is_empty()).ok_or(Mismatch)? {
                    0 => tell(to, Ok(Some(Snapshot { position, bytes: all.into() }))),
                    _ => return Ok(Some(Self::Snapshot { tell: to, begun: Some((position, len, all)) })),
                }
            }
            (Self::Found(to), Response::Found { result }) => tell(to, result),
            (Self::Swapped(to), Response::Swapped { result }) => tell(to, result),
            _ => return Err(Mismatch),
        }
        Ok(None)
    }

    /// Nobody knows what became of it.
    pub(super) fn lost(self, why: &str) {
        let why = why.to_owned();
        match self {
            Self::Append { tell: to, .. } => tell(to, Err(AppendError::Unknown(why))),
            Self::Last(to) => tell(to, Err(ReadError::Unavailable(why))),
            Self::Read { tell: to, .. } => tell(to, Err(ReadError::Unavailable(why))),
            Self::Done(to) => tell(to, Err(EngineError::Unavailable(why))),
            Self::Snapshot { tell: to, .. } => tell(to, Err(EngineError::Unavailable(why))),
            Self::Found(to) => tell(to, Err(EngineError::Unavailable(why))),
            Self::Swapped(to) => tell(to, Err(SwapError::Unknown(why))),
        }
    }

    /// It was never sent.
    pub(super) fn unsent(self, why: &str) {
        match self {
            Self::Append { tell: to, is_repeat: false } => {
                tell(to, Err(AppendError::Refused(why.to_owned())));
            }
            other => other.lost(why),
        }
    }
}
