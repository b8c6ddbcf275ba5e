//! A group being put together: what each request comes to, given what is durable and what stands before it in the group.

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

/// An answer that waits for the group.
#[derive(Debug)]
enum Reply {
    /// `is_new`: an earlier attempt cannot be in the log.
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

/// What was decided for the requests of one group.
#[derive(Debug)]
pub(super) struct Draft {
    pub builder: GroupBuilder,
    /// Positions given out, by partition: the next one.
    next: HashMap<PartitionId, u64>,
    ids: HashMap<(PartitionId, BatchId), Position>,
    /// Records changed: at which revision they exist.
    records: HashMap<String, Option<Revision>>,
    newest: Option<Revision>,
    replies: Vec<Reply>,
    pub has_trim: bool,
}

// A caller that is gone does not want the answer.
fn tell<T>(reply: Sender<T>, answer: T) {
    drop(reply.send(answer));
}

impl Draft {
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

    /// Decides one request. What needs nothing written is answered at once.
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
            return tell(reply, Ok(position));
        }
        let is_new = memory == Memory::New;
        if let Some(&position) = self.ids.get(&(partition, batch.id)) {
            return self.replies.push(Reply::Append { reply, position, is_new });
        }
        let next = self.next.entry(partition).or_insert_with(|| log.map_or(1, PartitionLog::next));
        let position = Position(*next);
        if position.0 >= FAR {
            return tell(reply, Err(AppendError::Refused("there are no more positions".to_owned())));
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
            // A conflict with what is not durable yet is none if that fails.
            return match pending {
                Some(_) => self.replies.push(Reply::Swap { reply, result }),
                None => tell(reply, result),
            };
        }
        let newest = self.newest.unwrap_or_else(|| state.records.newest());
        let revision = Revision(newest.0 + 1);
        if revision.0 >= FAR {
            return tell(reply, Err(SwapError::Invalid("there are no more revisions")));
        }
        self.newest = Some(revision);
        self.builder.push(&Frame::Record { key: &key, revision, value: value.as_deref() });
        self.records.insert(key, value.map(|_| revision));
        self.replies.push(Reply::Swap { reply, result: Ok(revision) });
    }

    /// Takes out what is to be written, and leaves who is to be told.
    pub(super) fn split(self) -> (GroupBuilder, Answers) {
        (self.builder, Answers(self.replies))
    }
}

/// Who is to be told what became of a group.
#[derive(Debug)]
pub(super) struct Answers(Vec<Reply>);

impl Answers {
    /// The group is durable.
    pub(super) fn accept(self) {
        for reply in self.0 {
            match reply {
                Reply::Append { reply, position, .. } => tell(reply, Ok(position)),
                Reply::Swap { reply, result } => tell(reply, result),
                Reply::Trim { reply } => tell(reply, Ok(())),
            }
        }
    }

    /// The group was not written, or nobody knows.
    pub(super) fn fail(self, error: &WriteError) {
        let (WriteError::Refused(why) | WriteError::Broken(why)) = error;
        let is_refused = matches!(error, WriteError::Refused(_));
        for reply in self.0 {
            match reply {
                Reply::Append { reply, is_new: true, .. } if is_refused => {
                    tell(reply, Err(AppendError::Refused(why.clone())));
                }
                Reply::Append { reply, .. } => tell(reply, Err(AppendError::Unknown(why.clone()))),
                Reply::Swap { reply, .. } => tell(reply, Err(SwapError::Unknown(why.clone()))),
                Reply::Trim { reply } => tell(reply, Err(EngineError::Unavailable(why.clone()))),
            }
        }
    }
}

/// Answers a request that will never be written, as the writer has stopped. An earlier attempt at the same batch may have
/// been, so this is not a refusal.
pub(super) fn give_up(request: Request, why: &str) {
    match request {
        Request::Append { reply, .. } => tell(reply, Err(AppendError::Unknown(why.to_owned()))),
        Request::Swap { reply, .. } => tell(reply, Err(SwapError::Unknown(why.to_owned()))),
        Request::Trim { reply, .. } => tell(reply, Err(EngineError::Unavailable(why.to_owned()))),
    }
}
