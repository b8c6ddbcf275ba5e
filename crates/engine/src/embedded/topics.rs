//! Messages that may be lost: handed over within the process.

use futures_core::Stream;
use futures_util::task::AtomicWaker;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

/// Messages, and bytes of them, that wait for one reader. Of more, the oldest are lost.
const LIMIT: usize = 1024;
const LIMIT_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Mailbox {
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

/// Who listens to what.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<HashMap<String, Vec<Weak<Mailbox>>>>);

impl Topics {
    /// Hands a message to all who subscribe now.
    pub(super) fn publish(&self, topic: &str, message: &Arc<[u8]>) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = topics.get_mut(topic) else { return };
        list.retain(|mailbox| mailbox.upgrade().is_some_and(|mailbox| mailbox.put(message)));
        if list.is_empty() {
            topics.remove(topic);
        }
    }

    /// The messages from now on.
    pub(super) fn subscribe(&self, topic: &str) -> Subscription {
        let mailbox = Arc::new(Mailbox::default());
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = topics.entry(topic.to_owned()).or_default();
        list.retain(|mailbox| mailbox.strong_count() > 0);
        list.push(Arc::downgrade(&mailbox));
        Subscription(mailbox)
    }

    /// There will be no more messages.
    pub(super) fn close(&self) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for mailbox in topics.drain().flat_map(|(_, list)| list).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
            mailbox.waker.wake();
        }
    }
}

impl Mailbox {
    fn put(&self, message: &Arc<[u8]>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += message.len();
        waiting.messages.push_back(Arc::clone(message));
        while waiting.messages.len() > LIMIT || waiting.bytes > LIMIT_BYTES {
            let Some(lost) = waiting.messages.pop_front() else { break };
            waiting.bytes -= lost.len();
        }
        drop(waiting);
        self.waker.wake();
        true
    }
}

/// One reader of a topic.
#[derive(Debug)]
pub(super) struct Subscription(Arc<Mailbox>);

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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, StreamExt};

    #[test]
    fn a_slow_reader_loses_the_oldest() {
        let topics = Topics::default();
        let mut reader = topics.subscribe("a");
        for n in 0..LIMIT + 10 {
            topics.publish("a", &Arc::from(n.to_le_bytes()));
        }
        let first = reader.next().now_or_never().flatten().unwrap();
        assert_eq!(*first, 10usize.to_le_bytes());
        let large: Arc<[u8]> = Arc::from(vec![0; 1 << 20]);
        (0..9).for_each(|_| topics.publish("a", &large));
        topics.close();
        let rest: Vec<_> = reader.collect().now_or_never().unwrap();
        assert_eq!(rest.len(), 4);
    }
}
