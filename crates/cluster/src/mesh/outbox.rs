//! The queue of messages to one peer.

use super::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::sync::Notify;

/// Messages in sending order, limited in number and bytes.
pub(super) struct Outbox {
    messages: usize,
    bytes: usize,
    queue: Mutex<Queue>,
    came: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Outbox {
    pub(super) fn new(messages: usize, bytes: usize) -> Self {
        Self { messages, bytes, queue: Mutex::default(), came: Notify::new() }
    }

    /// Adds a message, if there is room. An empty queue takes any.
    #[must_use]
    pub(super) fn push(&self, message: Bytes) -> bool {
        let mut queue = lock(&self.queue);
        let is_full = queue.waiting.len() >= self.messages || queue.bytes + message.len() > self.bytes;
        if is_full && !queue.waiting.is_empty() {
            return false;
        }
        queue.bytes += message.len();
        queue.waiting.push_back(message);
        drop(queue);
        self.came.notify_one();
        true
    }

    /// Waits for a message. Only one task at a time may; cancelling loses nothing.
    pub(super) async fn pop(&self) -> Bytes {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.came.notified().await;
        }
    }

    fn take(&self) -> Option<Bytes> {
        let mut queue = lock(&self.queue);
        let message = queue.waiting.pop_front()?;
        queue.bytes -= message.len();
        Some(message)
    }

    /// Number of waiting messages.
    pub(super) fn len(&self) -> usize {
        lock(&self.queue).waiting.len()
    }

    /// Drops all waiting messages, and returns their number.
    pub(super) fn clear(&self) -> usize {
        let dropped = std::mem::take(&mut *lock(&self.queue));
        dropped.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_order_and_within_bounds() {
        let outbox = Outbox::new(3, 10);
        assert!(outbox.push(Bytes::from_static(&[1; 20])), "an empty queue takes any");
        assert!(!outbox.push(Bytes::from_static(&[2])));
        assert_eq!(outbox.take().unwrap().len(), 20);
        assert!(outbox.push(Bytes::from_static(&[1; 4])));
        assert!(outbox.push(Bytes::from_static(&[2; 4])));
        assert!(!outbox.push(Bytes::from_static(&[3; 4])), "too many bytes");
        assert!(outbox.push(Bytes::new()));
        assert!(!outbox.push(Bytes::new()), "too many");
        assert_eq!(outbox.take().unwrap()[0], 1);
        assert_eq!((outbox.len(), outbox.clear(), outbox.len()), (2, 2, 0));
        assert!(outbox.take().is_none());
        assert!(outbox.push(Bytes::from_static(&[1; 10])), "the bytes were given back");
    }
}
