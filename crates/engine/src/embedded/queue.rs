//! The queue of requests for the writer thread, bounded in bytes.

use super::frame::FRAME_OVERHEAD_BYTES;
use futures_channel::oneshot::Sender;
use scalebricks_control::engine::{AppendError, Batch, BatchId, EngineError, Revision, SwapError};
use scalebricks_types::{PartitionId, Position};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something to write, and where to send the result.
#[derive(Debug)]
pub(super) enum Request {
    Append {
        partition: PartitionId,
        batch: Batch,
        reply: Sender<Result<Position, AppendError>>,
    },
    Swap {
        key: String,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
        reply: Sender<Result<Revision, SwapError>>,
    },
    Trim {
        partition: PartitionId,
        below: Position,
        reply: Sender<Result<(), EngineError>>,
    },
}

impl Request {
    fn bytes(&self) -> usize {
        FRAME_OVERHEAD_BYTES
            + match self {
                Self::Append { batch, .. } => batch.payload.len(),
                Self::Swap { value, .. } => value.as_ref().map_or(0, |value| value.len()),
                Self::Trim { .. } => 0,
            }
    }

    fn id(&self) -> Option<(PartitionId, BatchId)> {
        match self {
            Self::Append { partition, batch, .. } => Some((*partition, batch.id)),
            _ => None,
        }
    }
}

/// Why the log is no longer written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The engine was closed.
    Closed,
    /// The disk or the writer thread failed.
    Broken(String),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the log is closed"),
            Self::Broken(why) => write!(f, "the log must be opened again: {why}"),
        }
    }
}

/// Why a request is not queued.
#[derive(Debug)]
pub(super) enum Rejected {
    /// The queue is full. `is_waiting`: the same batch is already queued.
    Full { is_waiting: bool },
    /// The log is no longer written.
    Stopped(Stop),
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Request>,
    /// Bytes of requests that wait or are being written.
    bytes: usize,
    /// How often each batch waits or is being written.
    ids: HashMap<(PartitionId, BatchId), u32>,
    stop: Option<Stop>,
}

/// The requests of one group.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub list: Vec<Request>,
    bytes: usize,
    ids: Vec<(PartitionId, BatchId)>,
}

/// The queue between callers and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    limit_bytes: usize,
}

impl Queue {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { inner: Mutex::default(), wake: Condvar::new(), limit_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request for the next group.
    pub(super) fn push(&self, request: Request) -> Result<(), Rejected> {
        let bytes = request.bytes();
        let mut inner = self.lock();
        if let Some(stop) = &inner.stop {
            return Err(Rejected::Stopped(stop.clone()));
        }
        if inner.bytes + bytes > self.limit_bytes {
            let is_waiting = request.id().is_some_and(|id| inner.ids.contains_key(&id));
            return Err(Rejected::Full { is_waiting });
        }
        inner.bytes += bytes;
        if let Some(id) = request.id() {
            *inner.ids.entry(id).or_default() += 1;
        }
        inner.waiting.push_back(request);
        drop(inner);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for requests, and takes about `group_bytes` of them; `None` when the log is no longer written.
    pub(super) fn take(&self, group_bytes: usize) -> Option<Requests> {
        let mut inner = self.lock();
        while inner.waiting.is_empty() {
            if inner.stop.is_some() {
                return None;
            }
            inner = self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let mut requests = Requests::default();
        while requests.bytes < group_bytes.max(1)
            && let Some(request) = inner.waiting.pop_front()
        {
            requests.bytes += request.bytes();
            requests.ids.extend(request.id());
            requests.list.push(request);
        }
        Some(requests)
    }

    /// Releases the space of requests that were taken.
    pub(super) fn done(&self, bytes: usize, ids: &[(PartitionId, BatchId)]) {
        let mut inner = self.lock();
        inner.bytes = inner.bytes.saturating_sub(bytes);
        for id in ids {
            if let Some(count) = inner.ids.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    inner.ids.remove(id);
                }
            }
        }
    }

    /// Rejects new requests. Those that wait are still written; if the log is broken they are returned.
    pub(super) fn stop(&self, stop: Stop) -> Vec<Request> {
        let mut inner = self.lock();
        let mut left = Vec::new();
        if matches!(stop, Stop::Broken(_)) {
            left = inner.waiting.drain(..).collect();
        }
        if !matches!(inner.stop, Some(Stop::Broken(_))) {
            inner.stop = Some(stop);
        }
        drop(inner);
        self.wake.notify_all();
        left
    }

    /// Maximum number of bytes that wait.
    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Why the log is no longer written; `None`: it is written.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.lock().stop.clone()
    }
}

impl Requests {
    /// The arguments for [`Queue::done`].
    pub(super) fn receipt(&mut self) -> (usize, Vec<(PartitionId, BatchId)>) {
        (self.bytes, std::mem::take(&mut self.ids))
    }
}
