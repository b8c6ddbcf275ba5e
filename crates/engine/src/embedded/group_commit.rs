//! Group commit: builds the next group of the log from queued requests. Decides each request by the durable state and
//! the requests before it in the group.

use super::frame::{Frame, GroupBuilder};
use super::queue::Request;
use super::state::{FAR, PartitionLog, State};
use super::tail::WriteError;
use crate::writers::Memory;
use futures_channel::oneshot::Sender;
use scalebricks_control::engine::{AppendError, Batch, BatchId, EngineError, Revision, SwapError};
use scalebricks_types::{PartitionId, Position};
use std::collections::HashMap;
use std::sync::Arc;

/// A reply that is sent when the group is durable.
#[derive(Debug)]
enum Reply {
    /// `is_new`: no earlier attempt can be in the log.
    Append {
        reply: Sender<Result<Position, AppendError>>,
        position: Position,
        is_new: bool,
    },
    Swap {
        reply: Sender<Result<Revision, SwapError>>,
        result: Result<Revision, SwapError>,
    },
    Trim {
        reply: Sender<Result<(), EngineError>>,
    },
}

/// A group and the replies to its requests.
#[derive(Debug)]
pub(super) struct GroupCommit {
    pub builder: GroupBuilder,
    /// The next position of each partition.
    next: HashMap<PartitionId, u64>,
    ids: HashMap<(PartitionId, BatchId), Position>,
    /// The revisions of changed records; `None`: deleted.
    records: HashMap<String, Option<Revision>>,
    newest: Option<Revision>,
    replies: Vec<Reply>,
    pub has_trim: bool,
}

// Fails only if the caller is gone.
fn send_reply<T>(reply: Sender<T>, answer: T) {
    drop(reply.send(answer));
}

impl GroupCommit {
    pub(super) fn new(builder: GroupBuilder) -> Self {
        Self {
            builder,
            next: HashMap::new(),
            ids: HashMap::new(),
            records: HashMap::new(),
            newest: None,
            replies: Vec::new(),
            has_trim: false,
        }
    }

    /// Adds one request. A request that needs no write is answered at once.
    pub(super) fn add(&mut self, request: Request, state: &State) {
        match request {
            Request::Append { partition, batch, reply } => self.append(partition, &batch, reply, state),
            Request::Swap { key, expected, value, reply } => self.swap(key, expected, value, reply, state),
            Request::Trim { partition, below, reply } => {
                self.builder.push(&Frame::Trim { partition, below });
                self.has_trim = true;
                self.replies.push(Reply::Trim { reply });
            }
        }
    }

    fn append(
        &mut self,
        partition: PartitionId,
        batch: &Batch,
        reply: Sender<Result<Position, AppendError>>,
        state: &State,
    ) {
        let log = state.partitions.get(&partition);
        let memory = log.map_or(Memory::New, |log| log.writers.find(batch.id));
        if let Memory::Known(position) = memory {
            return send_reply(reply, Ok(position));
        }
        let is_new = memory == Memory::New;
        if let Some(&position) = self.ids.get(&(partition, batch.id)) {
            return self.replies.push(Reply::Append { reply, position, is_new });
        }
        let next = self.next.entry(partition).or_insert_with(|| log.map_or(1, PartitionLog::next));
        let position = Position(*next);
        if position.0 >= FAR {
            return send_reply(reply, Err(AppendError::Refused("there are no more positions".to_owned())));
        }
        *next += 1;
        self.ids.insert((partition, batch.id), position);
        self.builder.push(&Frame::Entry { partition, position, id: batch.id, payload: &batch.payload });
        self.replies.push(Reply::Append { reply, position, is_new });
    }

    fn swap(
        &mut self,
        key: String,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
        reply: Sender<Result<Revision, SwapError>>,
        state: &State,
    ) {
        let pending = self.records.get(&key).copied();
        let current = pending.unwrap_or_else(|| state.records.revision(&key));
        if current != expected {
            let result = Err(SwapError::Conflict(current));
            // A conflict with a change that is not durable yet holds only if that change succeeds.
            return match pending {
                Some(_) => self.replies.push(Reply::Swap { reply, result }),
                None => send_reply(reply, result),
            };
        }
        let newest = self.newest.unwrap_or_else(|| state.records.newest());
        let revision = Revision(newest.0 + 1);
        if revision.0 >= FAR {
            return send_reply(reply, Err(SwapError::Invalid("there are no more revisions")));
        }
        self.newest = Some(revision);
        self.builder.push(&Frame::Record { key: &key, revision, value: value.as_deref() });
        self.records.insert(key, value.map(|_| revision));
        self.replies.push(Reply::Swap { reply, result: Ok(revision) });
    }

    /// The group to write, and the replies to send.
    pub(super) fn into_parts(self) -> (GroupBuilder, Replies) {
        (self.builder, Replies(self.replies))
    }
}

/// The replies to the requests of a group.
#[derive(Debug)]
pub(super) struct Replies(Vec<Reply>);

impl Replies {
    /// Sends the results: the group is durable.
    pub(super) fn accept(self) {
        for reply in self.0 {
            match reply {
                Reply::Append { reply, position, .. } => send_reply(reply, Ok(position)),
                Reply::Swap { reply, result } => send_reply(reply, result),
                Reply::Trim { reply } => send_reply(reply, Ok(())),
            }
        }
    }

    /// Sends the error: the group was not written, or its outcome is unknown.
    pub(super) fn fail(self, error: &WriteError) {
        let (WriteError::Refused(why) | WriteError::Broken(why)) = error;
        let is_refused = matches!(error, WriteError::Refused(_));
        for reply in self.0 {
            match reply {
                Reply::Append { reply, is_new: true, .. } if is_refused => {
                    send_reply(reply, Err(AppendError::Refused(why.clone())));
                }
                Reply::Append { reply, .. } => send_reply(reply, Err(AppendError::Unknown(why.clone()))),
                Reply::Swap { reply, .. } => send_reply(reply, Err(SwapError::Unknown(why.clone()))),
                Reply::Trim { reply } => send_reply(reply, Err(EngineError::Unavailable(why.clone()))),
            }
        }
    }
}

/// Replies to a request that will never be written, since the writer has stopped. An earlier attempt may be in the log,
/// so the outcome is unknown and not refused.
pub(super) fn reply_stopped(request: Request, why: &str) {
    match request {
        Request::Append { reply, .. } => send_reply(reply, Err(AppendError::Unknown(why.to_owned()))),
        Request::Swap { reply, .. } => send_reply(reply, Err(SwapError::Unknown(why.to_owned()))),
        Request::Trim { reply, .. } => send_reply(reply, Err(EngineError::Unavailable(why.to_owned()))),
    }
}
