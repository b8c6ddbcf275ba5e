//! A bounded mailbox: messages for one reader, the oldest of which are dropped when it is full.

use futures_core::Stream;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Maximum number and bytes of waiting messages; beyond it the oldest are dropped.
pub(crate) const LIMIT: usize = 1024;
const LIMIT_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
    is_closed: bool,
}

/// The waiting messages.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

impl Mailbox {
    /// Adds a message; drops the oldest if the mailbox is full.
    pub(crate) fn put(&self, message: Arc<[u8]>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += message.len();
        waiting.messages.push_back(message);
        while waiting.messages.len() > LIMIT || waiting.bytes > LIMIT_BYTES {
            let Some(lost) = waiting.messages.pop_front() else { break };
            waiting.bytes -= lost.len();
        }
        drop(waiting);
        self.waker.wake();
    }

    /// Ends the stream after the waiting messages.
    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.waker.wake();
    }
}

/// One reader of a topic.
#[derive(Debug)]
pub(crate) struct Subscription(Arc<Mailbox>);

impl Subscription {
    /// Reads a mailbox.
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        Self(mailbox)
    }
}

impl Stream for Subscription {
    type Item = Arc<[u8]>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.waker.register(context.waker());
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.messages.pop_front() {
            Some(message) => {
                waiting.bytes -= message.len();
                Poll::Ready(Some(message))
            }
            None if waiting.is_closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
